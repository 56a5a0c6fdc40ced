"""How a grid is run: depths, metrics, baseline, seeds. The ``run`` section of an experiment file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from contextgrid.core.errors import ConfigError
from contextgrid.core.registry import nearest
from contextgrid.generate.judge import DEFAULT_METRICS, available_generation_metrics, deepeval_version
from contextgrid.generate.judging import OFFLINE, RUBRIC_PREFIX
from contextgrid.generate.rubric import RUBRICS
from contextgrid.models import build_model
from contextgrid.models.calls import CallMode, CallSettings
from contextgrid.refresh_settings import RefreshSettings
from contextgrid.score.retrieval import parse_metric

# Numeric columns of the lexical scores that an experiment may compare answers by.
ANSWER_METRICS = (
    "answer_quality",
    "groundedness",
    "citation_accuracy",
    "evidence_overlap",
    "abstention_correct",
    "citation_precision",
    "citation_recall",
)
# The deepest rank that can be asked for: nobody reads further, and memory grows with it.
MAX_RANK = 10_000
# A whole number that YAML wrote as one: neither true, nor "3", nor 3.0.
_Whole = Annotated[int, Field(strict=True)]


class Strict(BaseModel):
    """A section of the experiment file that refuses keys it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


class JudgeSettings(Strict):
    """The ``run.judge`` section: how answers are judged by a model.

    Attributes:
        model: the model that judges; by default ``run.model``, else the model that wrote the answers.
        metrics: DeepEval metrics.
        rubric: rubric judges, ``groundedness`` and ``relevance``, that rate from 1 to 5.
        threshold: score from which DeepEval lets an answer pass; it changes no score.
    """

    model: str | None = None
    metrics: tuple[str, ...] = DEFAULT_METRICS
    rubric: tuple[str, ...] = ()
    threshold: float = Field(default=0.5, ge=0, le=1, allow_inf_nan=False)

    @field_validator("metrics", "rubric", mode="before")
    @classmethod
    def _one_or_many(cls, names: Any) -> Any:
        return () if names is None else (names,) if isinstance(names, str) else names

    @field_validator("metrics")
    @classmethod
    def _known_metrics(cls, metrics: tuple[str, ...]) -> tuple[str, ...]:
        return _distinct_and_known(metrics, available_generation_metrics(), "judge metric")

    @field_validator("rubric")
    @classmethod
    def _known_rubric(cls, rubric: tuple[str, ...]) -> tuple[str, ...]:
        return _distinct_and_known(rubric, RUBRICS, "rubric judge")

    @model_validator(mode="after")
    def _can_judge(self) -> JudgeSettings:
        if not self.metrics and not self.rubric:
            raise ValueError("name a metric or a rubric judge, or write judge: null to judge nothing")
        if self.model is not None:
            if self.model.startswith(OFFLINE):
                raise ValueError(f"model {self.model!r} reads passages and cannot judge; name a hosted or local model")
            try:
                build_model(self.model)
            except ConfigError as error:
                raise ValueError(str(error)) from None
        return self

    @property
    def judged(self) -> tuple[str, ...]:
        """Names of all metrics that are judged."""
        return (*self.metrics, *(RUBRIC_PREFIX + name for name in self.rubric))


def _distinct_and_known(names: tuple[str, ...], valid: Iterable[str], kind: str) -> tuple[str, ...]:
    for name in names:
        if name not in valid:
            raise ValueError(f"unknown {kind} {name!r}{nearest(name, valid)}")
        if names.count(name) > 1:
            raise ValueError(f"{kind} {name!r} is listed twice")
    return names


class RunSettings(Strict):
    """The ``run`` section.

    Attributes:
        mode: ``factorial`` combines all values of the axes, ``ofat`` varies one axis at a time.
        k: passages handed to the generator.
        cutoffs: ranks at which retrieval is scored.
        headline: the retrieval metric that the lift is about.
        answer_metric: the per-question answer score that the lift is about.
        baseline: axis values of the row that the others are compared with; by default the first of each axis.
        model: the model of model-backed generators where the grid does not vary it.
        seed: seeds every resampling.
        resamples: draws of the bootstrap and of the permutation test.
        ordering: how passages are ordered in the context.
        context_tokens: budget of the assembled context, in estimated tokens; whole passages are dropped.
        max_tokens: cap on the length of a model's answer.
        judge: how answers are judged; ``None`` judges nothing.
        refresh: when models answer and judge once more, to see whether they changed; ``None`` never.
        ledger: where paid replies are kept: a file, or an SQLAlchemy URL. In an experiment file by default
            ``.contextgrid/ledger.sqlite`` beside it.
        ledger_inputs: whether the ledger keeps prompts too, not only their hash.
        calls: ``normal``, ``fresh`` (make every call once more) or ``replay`` (make none). The environment variable
            ``CONTEXTGRID_CALLS`` wins over an experiment file.
        concurrency: calls side by side to one provider.
        budget_usd: dollars that one run may spend on calls.
        retries: how often a call that may succeed later is repeated.
        deadline: seconds after which a call is given up.
        prices: dollars per million tokens in and out, by model, for models without a known price.
    """

    mode: Literal["factorial", "ofat"] = "factorial"
    k: _Whole = Field(default=5, ge=1, le=MAX_RANK)
    cutoffs: tuple[_Whole, ...] = (1, 3, 5, 10)
    headline: str = "recall@5"
    answer_metric: str = "answer_quality"
    baseline: dict[str, str | int | None] = Field(default_factory=dict)
    model: str | None = None
    seed: _Whole = Field(default=0, ge=0, lt=2**63)
    resamples: _Whole = Field(default=10_000, ge=100, le=1_000_000)
    ordering: Literal["relevance", "ends", "document", "reversed"] = "relevance"
    context_tokens: _Whole | None = Field(default=None, ge=1, le=100_000_000)
    max_tokens: _Whole = Field(default=400, ge=1, le=1_000_000)
    judge: JudgeSettings | None = Field(default_factory=JudgeSettings)
    refresh: RefreshSettings | None = None
    ledger: str | None = None
    ledger_inputs: bool = False
    calls: CallMode | None = None
    concurrency: _Whole = Field(default=8, ge=1, le=256)
    budget_usd: float | None = Field(default=None, strict=True, ge=0, allow_inf_nan=False)
    retries: _Whole = Field(default=5, ge=0, le=20)
    deadline: float = Field(default=300.0, strict=True, gt=0, allow_inf_nan=False)
    prices: dict[str, tuple[float, float]] = Field(default_factory=dict)

    @field_validator("cutoffs")
    @classmethod
    def _distinct_positive(cls, cutoffs: tuple[int, ...]) -> tuple[int, ...]:
        if not cutoffs or min(cutoffs) < 1:
            raise ValueError("cut-offs must be whole numbers of at least 1")
        if max(cutoffs) > MAX_RANK:
            raise ValueError(f"a cut-off may be at most {MAX_RANK}, got {max(cutoffs)}")
        if len(set(cutoffs)) < len(cutoffs):
            raise ValueError("a cut-off is listed twice")
        return cutoffs

    @model_validator(mode="after")
    def _known_metrics(self) -> RunSettings:
        if parse_metric(self.headline)[1] > MAX_RANK:
            raise ValueError(f"headline: the cut-off may be at most {MAX_RANK}, got {self.headline!r}")
        judged = () if self.judge is None else self.judge.judged
        if self.answer_metric not in (*ANSWER_METRICS, *judged):
            if self.answer_metric in (*available_generation_metrics(), *(RUBRIC_PREFIX + name for name in RUBRICS)):
                raise ValueError(f"answer_metric: {self.answer_metric!r} is not judged; name it under run.judge")
            valid = (*ANSWER_METRICS, *judged)
            raise ValueError(f"answer_metric must be one of {', '.join(valid)}; got {self.answer_metric!r}")
        return self

    def judge_model(self, answered_by: str | None) -> str | None:
        """Spec of the model that judges, or ``None`` where nothing is judged.

        ``run.judge.model``, else ``run.model``, so that one judge sees the whole grid, else the model that wrote the
        answers. The offline reader is no judge.

        Args:
            answered_by: spec of the model that wrote the answers, ``None`` if none did.
        """
        if self.judge is None:
            return None
        candidates = (self.judge.model, self.model, answered_by)
        return next((spec for spec in candidates if spec is not None and not spec.startswith(OFFLINE)), None)

    @property
    def judge_key(self) -> str:
        """All of the settings that a judge's scores depend on beside the answers, in a few words."""
        if self.judge is None:
            return "none"
        model = self.judge_model(None) or "generator"
        parts = [model]
        if self.judge.metrics:
            parts.append(f"deepeval={deepeval_version()} metrics={','.join(self.judge.metrics)}")
        if self.judge.rubric:
            parts.append(f"rubric={','.join(self.judge.rubric)}")
        return " ".join(parts)

    @field_validator("prices")
    @classmethod
    def _possible_prices(cls, prices: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
        for model, price in prices.items():
            if not all(0 <= part < float("inf") for part in price):
                raise ValueError(f"{model}: dollars per million tokens, in and out, of at least 0; got {list(price)}")
        return prices

    @property
    def call_settings(self) -> CallSettings:
        """How calls to models are made; changes no result, and so is part of no version."""
        return CallSettings(
            ledger=self.ledger,
            mode=self.calls,
            concurrency=self.concurrency,
            budget_usd=self.budget_usd,
            retries=self.retries,
            deadline=self.deadline,
            prices=tuple((model, *price) for model, price in self.prices.items()),
            keep_inputs=self.ledger_inputs,
        )

    @property
    def scored_cutoffs(self) -> tuple[int, ...]:
        """The cut-offs to score at, the headline's included, ascending."""
        return tuple(sorted({*self.cutoffs, parse_metric(self.headline)[1]}))

    @property
    def depth(self) -> int:
        """How many ranks are kept: enough for the generator and for every cut-off."""
        return max(self.k, *self.scored_cutoffs)
