"""Lift: did a retrieval gain survive to the answer? A cell against its baseline, question by question."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from textwrap import shorten
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contextgrid.core.errors import ConfigError, StageError
from contextgrid.core.markup import as_text
from contextgrid.core.registry import nearest
from contextgrid.core.tables import METRIC
from contextgrid.score.statistics import Floats, Mean, as_floats, mean_of, paired_bootstrap, paired_permutation

ALPHA = 0.05  # a difference is shown if its 95 % interval excludes 0 and its p-value is at most this
UNCHANGED_BELOW = 0.01  # a smaller change of the mean answer score reads as unchanged in the sentence of `lift`

_UNMEASURED = ("failed", "skipped_budget")  # statuses of rows whose answer has no scores
_TIE = 1e-9  # differences of this size are rounding, not a change
_SHOWN_IDS = 20

_DIFFERENCE_TYPES = {"n": pa.int64(), "total": pa.int64()}
_PARTS = ("gain_converted", "gain_wasted", "gain_unexplained", "loss", "unchanged", "not_compared")


def lift(retrieval_score: float | None, answer_score: float | None, baseline_answer: float | None) -> str:
    """Whether a retrieval gain survived to the answer, in words.

    Args:
        retrieval_score: the configuration's retrieval score.
        answer_score: its answer quality.
        baseline_answer: the answer quality of the configuration it is compared with. A change of less than
            0.01 reads as unchanged.

    Returns:
        One of three outcomes; a sentence that names what is missing if a score is ``None`` or not finite.
    """
    scores = {"retrieval score": retrieval_score, "answer score": answer_score, "baseline answer": baseline_answer}
    missing = [name for name, score in scores.items() if score is None or not math.isfinite(score)]
    if missing or retrieval_score is None or answer_score is None or baseline_answer is None:
        return f"No lift can be stated: {', '.join(missing)} not measured."
    change = round(answer_score - baseline_answer, 9)  # so that 0.29 - 0.28 is a change of 0.01 like 0.71 - 0.70
    if abs(change) < UNCHANGED_BELOW:
        return (
            f"Retrieval scored {retrieval_score:.3f}, and answer quality is unchanged against the baseline. "
            "The generator was finding the answer either way, so this retrieval gain bought nothing."
        )
    if change > 0:
        return (
            f"Retrieval scored {retrieval_score:.3f} and answer quality rose {change:+.3f}. "
            "The retrieval gain survived to the answer."
        )
    return (
        f"Retrieval scored {retrieval_score:.3f} and answer quality *fell* {change:+.3f}. "
        "Better retrieval that produces worse answers usually means more context, not better context "
        "-- check character precision before believing the retrieval number."
    )


@dataclass(frozen=True)
class Difference:
    """A cell against its baseline over the ``n`` of ``total`` questions for which both have a score.

    Attributes:
        cell, baseline: their means over those ``n`` questions; ``None`` if there are none.
        difference: mean of the paired differences, ``cell - baseline``.
        low, high: its 95 % bootstrap interval; ``None`` for fewer than two questions.
        p: its two-sided permutation p-value.
        total: questions that occur in either.
    """

    cell: float | None
    baseline: float | None
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    n: int
    total: int

    @property
    def direction(self) -> int:
        """1 for a rise and -1 for a fall that is shown; 0 for one within noise, or nothing to compare."""
        if self.low is None or self.high is None or self.p is None or self.p > ALPHA:
            return 0
        return 1 if self.low > 0 else -1 if self.high < 0 else 0

    def __str__(self) -> str:
        if self.difference is None:
            return "has no score in common with the baseline's"
        shown = round(self.difference, 3)
        verb = "rose" if shown > 0 else "fell" if shown < 0 else "did not change,"
        return f"{verb} {_signed(self.difference)} {self.interval}"

    @property
    def interval(self) -> str:
        """The interval in words: ``[+0.010, +0.090]``."""
        if self.low is None or self.high is None:
            return "[no interval]"
        return f"[{_signed(self.low)}, {_signed(self.high)}]"


@dataclass(frozen=True)
class LiftReport:
    """The evidence on whether a cell's retrieval gain survived to its answers.

    Every question whose answer has a score in both cells is in exactly one part. What happened to the answer
    decides first, so a worse answer is a loss whatever retrieval did:

    ==================  ==================  ==========================
    answer              retrieval rose      retrieval did not rise
    ==================  ==================  ==========================
    rose                ``gain_converted``  ``gain_unexplained``
    stayed the same     ``gain_wasted``     ``unchanged``
    fell                ``loss``            ``loss``
    ==================  ==================  ==========================

    A question without a retrieval score in both cells (an unanswerable one has none) counts as one whose
    retrieval did not rise. ``not_compared`` are the questions without an answer score in both cells.

    Attributes:
        cell, baseline: the keys of the two cells.
        headline: name of the retrieval metric.
        answer_metric: name of the answer metric.
        retrieval, answer: the two differences.
        question_ids, retrieval_scores, answer_scores: the cell's own scores, for comparing many cells.
        metrics: means of all the cell's numeric scores over what was measured, by name.
        reason: why nothing could be compared, else ``None``.
    """

    cell: str
    baseline: str
    headline: str
    answer_metric: str
    retrieval: Difference
    answer: Difference
    gain_converted: tuple[str, ...]
    gain_wasted: tuple[str, ...]
    gain_unexplained: tuple[str, ...]
    loss: tuple[str, ...]
    unchanged: tuple[str, ...]
    not_compared: tuple[str, ...]
    question_ids: tuple[str, ...]
    retrieval_scores: tuple[float | None, ...]
    answer_scores: tuple[float | None, ...]
    metrics: Mapping[str, Mean]
    reason: str | None = None

    @property
    def is_baseline(self) -> bool:
        """Whether the cell is its own baseline."""
        return self.cell == self.baseline

    @property
    def conclusion(self) -> str:
        """What follows from the two differences, without numbers: ``the gain survived``."""
        if self.reason is not None:
            return "nothing could be compared"
        return _CONCLUSIONS[self.retrieval.direction, self.answer.direction]

    @property
    def sentence(self) -> str:
        """What :func:`lift` says of the means over the compared questions, noise or not; see ``verdict``."""
        return lift(self.retrieval.cell, self.answer.cell, self.answer.baseline)

    @property
    def verdict(self) -> str:
        """One sentence: both differences with their uncertainty, and what follows."""
        return self._verdict(str)

    def _verdict(self, show: Callable[[str], str]) -> str:
        """The verdict with names and quoted errors passed through ``show``."""
        if self.reason is not None:
            return f"Nothing to compare: {show(self.reason)}."
        if self.is_baseline:
            scores = ((self.headline, self.retrieval), (self.answer_metric, self.answer))
            stated = (f"{show(name)} {_number(d.cell)} over {d.n} of {d.total} questions" for name, d in scores)
            return f"This is the baseline: {', '.join(stated)}."
        coverage = f"{self.answer.n} of {self.answer.total} questions"
        if self.retrieval.n != self.answer.n:
            coverage += f" ({self.retrieval.n} of {self.retrieval.total} for retrieval)"
        evidence = f"Retrieval {self.retrieval} and the answer {self.answer}, p{_p_value(self.answer.p, '=')}"
        return f"{evidence}, over {coverage}: {self.conclusion}."

    def to_table(self) -> pa.Table:
        """The report as one ``LIFT`` row."""
        row: dict[str, object] = {}
        for name in LIFT.names:
            side, _, part = name.partition("_")
            row[name] = getattr(getattr(self, side), part) if name in _DIFFERENCE_COLUMNS else getattr(self, name)
        row["metrics"] = [
            {"name": name, "mean": mean.mean, "n": mean.n, "total": mean.total} for name, mean in self.metrics.items()
        ]
        return pa.Table.from_pylist([row], schema=LIFT)

    @classmethod
    def from_table(cls, table: pa.Table) -> LiftReport:
        """The report that :meth:`to_table` wrote.

        Raises:
            StageError: if the table does not hold exactly one lift report.
        """
        missing = [name for name in LIFT.names if name not in table.column_names]
        if missing or table.num_rows != 1:
            problem = f"it lacks the column {missing[0]!r}" if missing else f"it has {table.num_rows} rows, not 1"
            raise StageError(f"not a lift report: {problem}")
        row: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in table.to_pylist()[0].items()}
        sides = {
            side: Difference(**{field.name: row[f"{side}_{field.name}"] for field in fields(Difference)})
            for side in ("retrieval", "answer")
        }
        metrics = {metric["name"]: Mean(metric["mean"], metric["n"], metric["total"]) for metric in row["metrics"]}
        values: dict[str, Any] = {field.name: row.get(field.name) for field in fields(cls)}
        return cls(**{**values, **sides, "metrics": metrics})

    def to_markdown(self) -> str:
        """Verdict, both differences, and the split with its question ids (20 a part), safe to render."""
        lines = [
            self._verdict(as_text),
            "",
            "| score | cell | baseline | difference | 95 % interval | p | questions |",
            "| :-- | --: | --: | --: | :-: | --: | --: |",
        ]
        for name, d in ((self.headline, self.retrieval), (self.answer_metric, self.answer)):
            numbers = (_number(d.cell), _number(d.baseline), _signed(d.difference), d.interval, _p_value(d.p))
            lines.append(f"| {as_text(name)} | {' | '.join(numbers)} | {d.n} of {d.total} |")
        lines += ["", "| questions | count | ids |", "| :-- | --: | :-- |"]
        for part in _PARTS:
            ids = getattr(self, part)
            shown = ", ".join(as_text(question_id) for question_id in ids[:_SHOWN_IDS])
            rest = f" and {len(ids) - _SHOWN_IDS} more" if len(ids) > _SHOWN_IDS else ""
            lines.append(f"| {part.replace('_', ' ')} | {len(ids)} | {shown}{rest} |")
        return "\n".join(lines) + "\n"


_CONCLUSIONS = {
    (1, 1): "the gain survived",
    (1, 0): "the answer's change is within noise, so it is not shown that the gain survived",
    (1, -1): "better retrieval came with worse answers, so check character precision before believing it",
    (0, 1): "no retrieval gain was shown that would explain the better answers",
    (0, 0): "no retrieval gain was shown, and the answer's change is within noise",
    (0, -1): "no retrieval gain was shown, and the answers got worse",
    (-1, 1): "retrieval got worse, yet the answers got better",
    (-1, 0): "retrieval got worse, and the answer's change is within noise",
    (-1, -1): "retrieval got worse, and the answers with it",
}

_DIFFERENCE_COLUMNS = {
    f"{side}_{field.name}": _DIFFERENCE_TYPES.get(field.name, pa.float64())
    for side in ("retrieval", "answer")
    for field in fields(Difference)
}

# One row per cell. ``verdict`` is for readers; it follows from the other columns.
LIFT = pa.schema(
    [
        ("cell", pa.string()),
        ("baseline", pa.string()),
        ("headline", pa.string()),
        ("answer_metric", pa.string()),
        ("verdict", pa.string()),
        ("reason", pa.string()),
        *_DIFFERENCE_COLUMNS.items(),
        *((part, pa.list_(pa.string())) for part in _PARTS),
        ("question_ids", pa.list_(pa.string())),
        ("retrieval_scores", pa.list_(pa.float64())),
        ("answer_scores", pa.list_(pa.float64())),
        ("metrics", pa.list_(METRIC)),
    ]
)


def lift_report(
    cell: pa.Table,
    baseline: pa.Table,
    *,
    cell_key: str,
    baseline_key: str,
    headline: str,
    answer_metric: str = "answer_quality",
    seed: int = 0,
    resamples: int = 10_000,
) -> LiftReport:
    """Compare a cell's scores with its baseline's, paired by question.

    Args:
        cell, baseline: ``LEXICAL_SCORES``, or tables with more numeric columns. Answer scores of rows whose
            status is ``failed`` or ``skipped_budget`` are absent; their retrieval scores count.
        cell_key, baseline_key: names of the two cells; equal for the baseline itself.
        headline: name of the metric in the ``retrieval`` column, for words only.
        answer_metric: the numeric column that measures answers; larger is better.
        seed, resamples: of the bootstrap and the permutation test.

    Raises:
        ConfigError: if ``answer_metric`` is not a numeric column of both tables.
        StageError: if a table has a question twice.
    """
    own = _Scores.read(cell, cell_key, answer_metric)
    other = _Scores.read(baseline, baseline_key, answer_metric)
    ids = pc.unique(pa.chunked_array([*own.ids.chunks, *other.ids.chunks], pa.string()))
    own_retrieval, other_retrieval = own.aligned(own.retrieval, ids), other.aligned(other.retrieval, ids)
    own_answer, other_answer = own.aligned(own.answer, ids), other.aligned(other.answer, ids)
    answer_change = _changes(own_answer, other_answer)
    retrieval_rose = _changes(own_retrieval, other_retrieval) > 0
    compared = ~np.isnan(answer_change)
    parts = {
        "gain_converted": (answer_change > 0) & retrieval_rose,
        "gain_wasted": (answer_change == 0) & retrieval_rose,
        "gain_unexplained": (answer_change > 0) & ~retrieval_rose,
        "loss": answer_change < 0,
        "unchanged": (answer_change == 0) & ~retrieval_rose,
        "not_compared": ~compared,
    }
    return LiftReport(
        cell=cell_key,
        baseline=baseline_key,
        headline=headline,
        answer_metric=answer_metric,
        retrieval=difference_of(own_retrieval, other_retrieval, seed, resamples),
        answer=difference_of(own_answer, other_answer, seed, resamples),
        **{part: tuple(ids.filter(pa.array(members)).to_pylist()) for part, members in parts.items()},
        question_ids=tuple(own.ids.to_pylist()),
        retrieval_scores=_nullable(own.retrieval),
        answer_scores=_nullable(own.answer),
        metrics={name: mean_of(_column(cell, name)) for name in _numeric_columns(cell)},
        reason=None if compared.any() else _why_nothing_compares(own, other, answer_metric),
    )


@dataclass(frozen=True)
class _Scores:
    """What the lift reads of one cell: question ids, both scores (nan where absent), and why answers failed."""

    ids: pa.ChunkedArray
    retrieval: Floats
    answer: Floats
    failures: list[str | None]

    @classmethod
    def read(cls, table: pa.Table, key: str, answer_metric: str) -> _Scores:
        ids = table["question_id"]
        if pc.count_distinct(ids).as_py() != len(ids):
            twice = next(count["values"] for count in ids.value_counts().to_pylist() if count["counts"] > 1)
            raise StageError(f"lift: cell {key!r} has scores for question {twice!r} twice; score each once")
        numeric = _numeric_columns(table)
        if answer_metric not in numeric:
            problem = "is not numeric" if answer_metric in table.column_names else "does not exist"
            raise ConfigError(
                f"lift: cell {key!r}: column {answer_metric!r} {problem}{nearest(answer_metric, numeric)}"
            )
        failures = table.filter(pc.equal(table["status"], "failed"))["reason"]
        return cls(ids, _column(table, "retrieval"), _column(table, answer_metric), failures.to_pylist())

    def aligned(self, scores: Floats, ids: pa.Array) -> Floats:
        """Scores in the order of ``ids``, nan for questions that the cell does not have."""
        row = pc.fill_null(pc.index_in(ids, value_set=self.ids.combine_chunks()), len(scores)).to_numpy()
        aligned: Floats = np.append(scores, np.nan)[row]
        return aligned


def _numeric_columns(table: pa.Table) -> list[str]:
    return [
        field.name
        for field in table.schema
        if pa.types.is_floating(field.type) or pa.types.is_integer(field.type) or pa.types.is_boolean(field.type)
    ]


def _column(table: pa.Table, name: str) -> Floats:
    """A numeric column with nan for absent values."""
    values = as_floats(table[name])
    if name != "retrieval":
        values[pc.is_in(table["status"], value_set=pa.array(_UNMEASURED)).to_numpy()] = np.nan
    return values


def _changes(own: Floats, other: Floats) -> Floats:
    changes = own - other
    changes[np.abs(changes) < _TIE] = 0.0
    return changes


def difference_of(own: Floats, other: Floats, seed: int, resamples: int) -> Difference:
    """What changed between two scores of the same questions, in the same order, nan where there is none."""
    changes = _changes(own, other)
    both = ~np.isnan(changes)
    interval = paired_bootstrap(changes, confidence=1 - ALPHA, resamples=resamples, seed=seed)
    return Difference(
        cell=mean_of(own[both]).mean,
        baseline=mean_of(other[both]).mean,
        difference=mean_of(changes).mean,
        low=interval[0] if interval else None,
        high=interval[1] if interval else None,
        p=paired_permutation(changes, resamples=resamples, seed=seed),
        n=int(both.sum()),
        total=len(both),
    )


def _why_nothing_compares(own: _Scores, other: _Scores, answer_metric: str) -> str:
    coverage = [mean_of(own.answer), mean_of(other.answer)]
    reason = (
        f"{answer_metric} was measured for {coverage[0].n} of {coverage[0].total} questions in this cell and "
        f"{coverage[1].n} of {coverage[1].total} in its baseline"
    )
    if all(mean.n for mean in coverage):
        reason += ", but for no question in both"
    for scores, where in ((own, "here"), (other, "in the baseline")):
        if scores.failures:
            cause = shorten(scores.failures[0] or "no reason given", 200, placeholder=" ...").rstrip(".")
            reason += f"; {len(scores.failures)} answers failed {where}, the first with: {cause}"
    return reason


def _nullable(scores: Floats) -> tuple[float | None, ...]:
    return tuple(None if math.isnan(score) else score for score in scores.tolist())


def _number(value: float | None) -> str:
    return "absent" if value is None else f"{value:.3f}"


def _p_value(p: float | None, equals: str = "") -> str:
    return "<0.001" if p is not None and p < 0.001 else equals + _number(p)


def _signed(value: float | None) -> str:
    return "absent" if value is None else f"{round(value, 3) + 0.0:+.3f}"
