"""Which checks there are, how severe a failure is, and their thresholds. The ``checks`` section of an experiment file.

No stage depends on any of it: a changed threshold changes verdicts and rebuilds nothing.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from contextgrid.core.errors import ConfigError
from contextgrid.generate.judging import RUBRIC_PREFIX
from contextgrid.settings import Strict

Severity = Literal["warn", "error"]
_Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
_Score = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


class Check(Strict):
    """One check; ``null`` in its place switches it off."""

    severity: Severity = "error"

    @model_validator(mode="before")
    @classmethod
    def _has_keys(cls, written: Any) -> Any:
        if not isinstance(written, dict | cls):
            raise ValueError(f"write its keys, as {{{', '.join(cls.model_fields)}: ...}}, or null to switch it off")
        return written


class ShareCheck(Check):
    """A check that passes if at least ``min_share`` of what is counted is as it should be, from 0 to 1."""

    min_share: _Share = 1.0


class IndexNotEmpty(Check):
    min_passages: Annotated[int, Field(strict=True, ge=1)] = 1


class JudgeCoverage(ShareCheck):
    min_share: _Share = 0.9


class UnanswerableDeclined(ShareCheck):
    severity: Severity = "warn"
    min_share: _Share = 0.8


class CitationsValid(ShareCheck):
    min_share: _Share = 0.95


class AnchorsResolved(ShareCheck):
    severity: Severity = "warn"


class AnswerRegression(Check):
    """Passes unless the fall of the answer metric's mean is shown to be larger than ``max_drop``, in its units."""

    max_drop: _Score = 0.0


class AnswerFloor(Check):
    """Passes unless the answer metric's mean is shown to be below ``min_mean``, in the metric's units."""

    min_mean: _Score


class CheckSettings(Strict):
    """The ``checks`` section: one key for each check, ``null`` for one that is switched off."""

    index_not_empty: IndexNotEmpty | None = Field(
        default=IndexNotEmpty(), description="The index holds at least min_passages passages"
    )
    anchors_resolved: AnchorsResolved | None = Field(
        default=AnchorsResolved(),
        description="Share of the questions with evidence all of which was found in the parsed documents",
    )
    questions_answered: ShareCheck | None = Field(
        default=ShareCheck(),
        description="Share of the questions that have an answer: failed and skipped ones have none",
    )
    unanswerable_declined: UnanswerableDeclined | None = Field(
        default=UnanswerableDeclined(), description="Share of the answers to unanswerable questions that decline"
    )
    citations_valid: CitationsValid | None = Field(
        default=CitationsValid(), description="Share of the citations that point at a passage which was shown"
    )
    judge_coverage: JudgeCoverage | None = Field(
        default=JudgeCoverage(),
        description="For each judged metric, share of the answers with something to judge that got a score",
    )
    answer_regression: AnswerRegression | None = Field(
        default=AnswerRegression(),
        description="The answer metric did not fall by more than max_drop since the last materialisation, beyond noise",
    )
    answer_floor: AnswerFloor | None = Field(
        default=None, description="The mean of the answer metric is not below min_mean, beyond noise"
    )

    def describe(self, name: str) -> str:
        """What a check means, and its thresholds here."""
        thresholds = ", ".join(f"{key} {value}" for key, value in getattr(self, name).model_dump().items())
        return f"{type(self).model_fields[name].description} ({thresholds})."

    def refuse_impossible(self, answer_metric: str) -> None:
        """Make sure that thresholds are within the answer metric's range.

        Raises:
            ConfigError: naming the key, for a floor that no score can reach or a drop that none can have.
        """
        low, high = (1, 5) if answer_metric.startswith(RUBRIC_PREFIX) else (0, 1)
        floor, drop = self.answer_floor, self.answer_regression
        asked = {
            "answer_floor.min_mean": (floor.min_mean if floor else 0, high),
            "answer_regression.max_drop": (drop.max_drop if drop else 0, high - low),
        }
        for key, (value, most) in asked.items():
            if value > most:
                raise ConfigError(
                    f"checks.{key}: {answer_metric} lies between {low} and {high}, so use at most {most}; got {value:g}"
                )


# The model behind each key, for messages about keys that it does not have.
SECTIONS: dict[str, type[Strict]] = {
    "checks": CheckSettings,
    "checks.index_not_empty": IndexNotEmpty,
    "checks.anchors_resolved": AnchorsResolved,
    "checks.questions_answered": ShareCheck,
    "checks.unanswerable_declined": UnanswerableDeclined,
    "checks.citations_valid": CitationsValid,
    "checks.judge_coverage": JudgeCoverage,
    "checks.answer_regression": AnswerRegression,
    "checks.answer_floor": AnswerFloor,
}
