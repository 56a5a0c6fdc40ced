"""Drift: did a model change by itself? What a cell says now against what it said before, question by question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np
import pyarrow as pa

from contextgrid.core.tables import DRIFT
from contextgrid.generate.drift_reading import Reading, Value
from contextgrid.generate.drift_words import markdown_of, sentence_of
from contextgrid.generate.lift import ALPHA, Difference, paired_difference
from contextgrid.score.statistics import Floats, holm

ANSWER = "answer"
_WHY = {"failed": "failed", "skipped_budget": "skipped for the budget", None: "not asked"}
_OTHER_TASK = "asked with other passages or in other words"


@dataclass(frozen=True)
class Aspect:
    """One thing that was compared question by question: the answers themselves, or a metric.

    Attributes:
        name: ``answer``, or the metric's name.
        compared: the questions that have a value before and in at least one repetition.
        changed: those of them whose earlier value came back in no repetition.
        unstable: those of them whose repetitions differ from each other.
        not_compared: the other questions, each with the reason.
        difference: of a metric, its mean over the repetitions against before; ``cell`` is now, ``baseline`` before.
        p_corrected: the p-value of the difference, corrected for all comparisons that were made with it.
        reason: why nothing was compared, else ``None``.
    """

    name: str
    compared: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unstable: tuple[str, ...] = ()
    not_compared: Mapping[str, str] = field(default_factory=dict)
    difference: Difference | None = None
    p_corrected: float | None = None
    reason: str | None = None

    @property
    def stably_changed(self) -> tuple[str, ...]:
        """The questions whose value changed and is the same in all repetitions."""
        return tuple(question for question in self.changed if question not in set(self.unstable))

    @property
    def direction(self) -> int:
        """1 for a rise and -1 for a fall of the mean that is shown, 0 for one within noise."""
        if self.difference is None or self.p_corrected is None or self.p_corrected > ALPHA:
            return 0
        return self.difference.direction


@dataclass(frozen=True)
class DriftReport:
    """Whether a cell's answers, or what judges say of them, drifted.

    Attributes:
        cell: the key of the cell.
        repetitions: how often each question was asked afresh.
        answers: the comparison of the answers.
        metrics: the comparisons of scores; the first is the run's answer metric.
        since: when the earlier answers were stored.
        reason: why nothing of the cell was compared, else ``None``.
    """

    cell: str
    repetitions: int
    answers: Aspect
    metrics: tuple[Aspect, ...] = ()
    since: datetime | None = None
    reason: str | None = None

    @property
    def was_compared(self) -> bool:
        """Whether any question's answer was compared."""
        return self.reason is None and bool(self.answers.compared)

    @property
    def drifted(self) -> bool:
        """Whether an answer or a verdict changed for good, or a mean beyond noise.

        With several repetitions, what differs between them counts only through the means.
        """
        judged_otherwise = any(self.judged_otherwise(metric) for metric in self.metrics)
        return bool(self.answers.stably_changed) or judged_otherwise or any(m.direction for m in self.metrics)

    def judged_otherwise(self, metric: Aspect) -> tuple[str, ...]:
        """The questions whose answer did not change, but whose score did, the same way in all repetitions."""
        kept = set(self.answers.compared) - {*self.answers.changed, *self.answers.unstable}
        return tuple(question for question in metric.stably_changed if question in kept)

    @property
    def sentence(self) -> str:
        """What was found, in words: which answers changed and what that did to the scores."""
        return sentence_of(self)

    def to_markdown(self) -> str:
        """Sentence, comparisons and question ids (20 each), safe to render."""
        return markdown_of(self)

    def to_table(self) -> pa.Table:
        """The report as rows of ``tables.DRIFT``."""
        return pa.Table.from_pylist([self._row(aspect) for aspect in (self.answers, *self.metrics)], schema=DRIFT)

    def _row(self, aspect: Aspect) -> dict[str, object]:
        shift = aspect.difference
        return {
            "cell": self.cell,
            "drifted": self.drifted,
            "sentence": self.sentence,
            "reason": self.reason or aspect.reason,
            "since": self.since,
            "repetitions": self.repetitions,
            "what": aspect.name,
            "compared": len(aspect.compared),
            "changed": aspect.changed,
            "unstable": aspect.unstable,
            "not_compared": [{"question_id": id_, "reason": why} for id_, why in aspect.not_compared.items()],
            "before": shift and shift.baseline,
            "now": shift and shift.cell,
            **{name: shift and getattr(shift, name) for name in ("difference", "low", "high", "p")},
            "p_corrected": aspect.p_corrected,
        }


def not_compared(cell: str, reason: str, *, repetitions: int = 1, since: datetime | None = None) -> DriftReport:
    """The report of a cell of which nothing can be compared."""
    return DriftReport(cell, repetitions, Aspect(ANSWER), since=since, reason=reason)


def drift_report(
    before: Reading,
    after: Sequence[Reading],
    *,
    cell: str,
    metrics: Sequence[str] = ("answer_quality",),
    reasons: Mapping[str, str] | None = None,
    since: datetime | None = None,
    seed: int = 0,
    resamples: int = 10_000,
) -> DriftReport:
    """Compare what a cell said before with what it says now.

    A question whose generator was given something else to read than before is not compared.

    Args:
        before: the earlier reading.
        after: one reading for each repetition, at least one.
        cell: its key.
        metrics: the scores to compare, the run's answer metric first.
        reasons: by metric, why it is not compared.
        since: when the earlier answers were stored.
        seed, resamples: of the bootstrap and the permutation test.
    """
    answers = _compared(ANSWER, before.answers, [reading.answers for reading in after])
    aspects = []
    for name in dict.fromkeys(metrics):
        reason = (reasons or {}).get(name)
        if reason is None and any(name not in reading.metrics for reading in (before, *after)):
            reason = "it was not measured both times"
        if reason is not None:
            aspects.append(Aspect(name, reason=reason))
            continue
        earlier, later = before.metrics[name], [reading.metrics[name] for reading in after]
        # A score of other answers than those that are compared would say something else than they do.
        kept = set(answers.compared)
        earlier = {id_: value for id_, value in earlier.items() if id_ in kept}
        aspect = _compared(name, earlier, [{id_: v for id_, v in values.items() if id_ in kept} for values in later])
        own = [_mean_score(values[id_] for values in later if id_ in values) for id_ in answers.compared]
        other = [_mean_score([earlier[id_]]) if id_ in earlier else np.nan for id_ in answers.compared]
        difference = paired_difference(
            np.array(own, np.float64), np.array(other, np.float64), seed=seed, resamples=resamples
        )
        aspects.append(replace(aspect, difference=difference, p_corrected=difference.p))
    return DriftReport(cell, len(after), answers, tuple(aspects), since)


def corrected(reports: Iterable[DriftReport]) -> list[DriftReport]:
    """The reports with the p-values of all their metrics corrected together: many cells, many chances to be wrong."""
    reports = list(reports)
    metrics = [metric for report in reports for metric in report.metrics]
    raw = [m.difference.p if m.difference and m.difference.p is not None else np.nan for m in metrics]
    p_values = iter(holm(raw).tolist())
    return [
        replace(
            report,
            metrics=tuple(
                replace(metric, p_corrected=None if np.isnan(p) else p)
                for metric, p in ((metric, next(p_values)) for metric in report.metrics)
            ),
        )
        for report in reports
    ]


def _compared(name: str, before: Mapping[str, Value], after: Sequence[Mapping[str, Value]]) -> Aspect:
    compared, changed, unstable, left_out = [], [], [], {}
    for id_ in dict.fromkeys(id_ for values in (before, *after) for id_ in values):
        earlier = before.get(id_, Value(None))
        later = [values.get(id_, Value(None)) for values in after]
        found = [value.content for value in later if value.content is not None]
        if earlier.content is None:
            left_out[id_] = f"{_WHY.get(earlier.status, earlier.status)} before"
        elif not found:
            left_out[id_] = f"{_WHY.get(later[-1].status, later[-1].status)} now"
        elif any(value.task != earlier.task for value in later if value.content is not None):
            left_out[id_] = _OTHER_TASK
        else:
            compared.append(id_)
            changed += [id_] if earlier.content not in found else []
            unstable += [id_] if len(set(found)) > 1 else []
    return Aspect(name, tuple(compared), tuple(changed), tuple(unstable), left_out)


def _mean_score(values: Iterable[Value]) -> float:
    scores: Floats = np.array([value.score for value in values if value.score is not None], dtype=np.float64)
    return float(scores.mean()) if len(scores) else float("nan")
