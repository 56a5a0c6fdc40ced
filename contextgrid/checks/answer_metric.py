"""The answer metric of a cell against the last materialisation's, and against a floor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contextgrid.checks.settings import AnswerFloor, AnswerRegression
from contextgrid.checks.verdict import Finding, Outcome, Verdict, absent
from contextgrid.generate.lift import ALPHA, Difference, paired_changes, paired_difference
from contextgrid.score.statistics import as_floats, mean_of, paired_bootstrap
from contextgrid.settings import RunSettings

REGRESSION, FLOOR = "answer_regression", "answer_floor"
# Ids of questions that are noted with a change: more than a description shows, so that it says that there are more.
_NOTED_IDS = 6


def scored_by(run: RunSettings) -> str:
    """The stage whose table has the answer metric."""
    judged = () if run.judge is None else run.judge.judged
    return "judge_scores" if run.answer_metric in judged else "lexical_scores"


def scores_by_question(table: pa.Table, metric: str) -> dict[str, float]:
    """The measured scores of a table of :func:`scored_by`, by question; empty if it does not have the metric."""
    if "metric" in table.column_names:
        table, metric = table.filter(pc.equal(table["metric"], metric)), "score"
    if metric not in table.column_names:
        return {}
    pairs = zip(table["question_id"].to_pylist(), table[metric].to_pylist(), strict=True)
    return {id_: float(score) for id_, score in pairs if score is not None and math.isfinite(score)}


@dataclass(frozen=True)
class Change:
    """The answer metric now against the last materialisation's, over the questions that have a score in both.

    Attributes:
        metric: its name.
        difference: the paired difference, the last materialisation as baseline; ``None`` without a common question.
        worse: ids of the first few questions that fell, most first.
        reason: why there is nothing to compare with, else empty.
    """

    metric: str
    difference: Difference | None = None
    worse: tuple[str, ...] = ()
    reason: str = ""

    @classmethod
    def between(cls, before: pa.Table, now: pa.Table, run: RunSettings) -> Change:
        """The change from one table of :func:`scored_by` to another of the same cell."""
        metric = run.answer_metric
        old, new = scores_by_question(before, metric), scores_by_question(now, metric)
        common = [id_ for id_ in new if id_ in old]
        if not common:
            where = [where for where, scores in (("last time", old), ("now", new)) if not scores]
            found = (
                f"{metric} was measured for no question {' and '.join(where)}" if where else "no question is in both"
            )
            return cls(metric, reason=f"nothing to compare: {found}")
        own, other = as_floats([new[id_] for id_ in common]), as_floats([old[id_] for id_ in common])
        difference = paired_difference(own, other, seed=run.seed, resamples=run.resamples)
        difference = replace(difference, cell=None, baseline=None, total=len(old.keys() | new.keys()))
        changes = paired_changes(own, other)
        fallen = np.argsort(changes, kind="stable")[: np.count_nonzero(changes < 0)]
        worse = tuple(common[position] for position in fallen[:_NOTED_IDS])
        return cls(metric, difference, worse)

    def noted(self) -> dict[str, float | str | list[str]]:
        """The change as entries of a materialisation's metadata; :meth:`read` reads them back."""
        notes: dict[str, float | str | list[str]] = {"answer_change_metric": self.metric}
        if self.difference is None:
            return notes | {"answer_change_note": self.reason}
        for name, entry in _NOTED.items():
            value = getattr(self.difference, name)
            if value is not None:
                notes[entry] = value
        return notes | ({"answer_change_worse": list(self.worse)} if self.worse else {})

    @classmethod
    def read(cls, notes: Mapping[str, Any], run: RunSettings) -> Change:
        """The change that a materialisation noted."""
        metric = notes.get("answer_change_metric")
        if metric is None:
            return cls(run.answer_metric, reason="nothing to compare: no change was noted when this was built")
        if metric != run.answer_metric:
            return cls(run.answer_metric, reason=f"nothing to compare: the last change was measured as {metric}")
        if "answer_change_note" in notes:
            return cls(metric, reason=str(notes["answer_change_note"]))
        parts: dict[str, Any] = {name: notes.get(entry) for name, entry in _NOTED.items()}
        difference = Difference(cell=None, baseline=None, **parts)
        return cls(metric, difference, tuple(notes.get("answer_change_worse", ())))

    def verdict(self, settings: AnswerRegression) -> Verdict:
        """Failed only if the whole 95 % interval lies below ``-max_drop`` and the fall is beyond noise.

        Beyond noise is what a lift report calls so: the interval excludes 0 and p is at most 0.05. The interval of
        a handful of questions is too narrow to decide alone.
        """
        d = self.difference
        if d is None or d.difference is None:
            return absent(REGRESSION, settings, self.reason)
        measured = {entry: value for name, entry in _NOTED.items() if (value := getattr(d, name)) is not None}
        measured["max_drop"] = settings.max_drop
        stated = f"{self.metric} {d} against the last materialisation, over {d.n} of {d.total} questions"
        if d.direction < 0 and d.high is not None and d.high < -settings.max_drop:
            wanted = f"a fall of at most {settings.max_drop:g} is wanted" if settings.max_drop else "no fall is wanted"
            found = Finding(f"{stated}; {wanted}", self.worse)
            return Verdict(REGRESSION, Outcome.FAILED, settings.severity, (found,), measured)
        return Verdict(REGRESSION, Outcome.PASSED, settings.severity, (Finding(stated),), measured)


# Parts of the difference that a verdict needs, and the metadata entries that hold them.
_NOTED = {
    "difference": "answer_change",
    "low": "answer_change_low",
    "high": "answer_change_high",
    "p": "answer_change_p",
    "n": "answer_change_questions",
    "total": "answer_change_questions_in_all",
}


def floor_verdict(table: pa.Table, run: RunSettings, settings: AnswerFloor) -> Verdict:
    """Failed only if the upper end of the mean's 95 % bootstrap interval is below ``min_mean``."""
    scores = scores_by_question(table, run.answer_metric)
    mean = mean_of(scores.values())
    if mean.mean is None:
        return absent(FLOOR, settings, f"{run.answer_metric} was measured for no question")
    interval = paired_bootstrap(list(scores.values()), confidence=1 - ALPHA, resamples=run.resamples, seed=run.seed)
    if interval is None:
        return absent(FLOOR, settings, f"{run.answer_metric} was measured for one question, which has no interval")
    low, high = interval
    measured = {"mean": mean.mean, "low": low, "high": high, "questions": float(mean.n), "min_mean": settings.min_mean}
    stated = f"{run.answer_metric} {mean.mean:.3f} [{low:.3f}, {high:.3f}] over {mean.n} questions"
    if high >= settings.min_mean:
        return Verdict(FLOOR, Outcome.PASSED, settings.severity, (Finding(stated),), measured)
    lowest = sorted(scores, key=lambda id_: scores[id_])
    found = Finding(f"{stated}; at least {settings.min_mean:g} wanted, lowest", lowest, more=False)
    return Verdict(FLOOR, Outcome.FAILED, settings.severity, (found,), measured)
