"""All cells side by side, best first, with the set that cannot be told from the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextgrid.core.tables import LEADERBOARD
from contextgrid.report.means import LEXICAL_NAMES, cell_means
from contextgrid.score.statistics import Mean, as_floats, indistinguishable_from_best, mean_of

if TYPE_CHECKING:
    from contextgrid.core.matrix import Matrix
    from contextgrid.generate.lift import LiftReport
    from contextgrid.settings import RunSettings


def build_leaderboard(
    retrieval_scores: Mapping[str, pa.Table], lifts: Mapping[str, LiftReport], run: RunSettings, matrix: Matrix
) -> pa.Table:
    """See :func:`contextgrid.stages.leaderboard`. Cells without results are absent."""
    retrieval = {key: _row_summary(table, run) for key, table in retrieval_scores.items()}
    if matrix.columns:
        cells = [
            (row.key, column.key, lifts[f"{column.key}|{row.key}"])
            for column in matrix.columns
            for row in matrix.rows
            if f"{column.key}|{row.key}" in lifts and row.key in retrieval
        ]
        lines = [_cell_line(retrieval[row], row, column, lift) for row, column, lift in cells]
        scores = _by_question([(lift.question_ids, as_floats(lift.answer_scores)) for *_, lift in cells])
    else:
        tables = [(row.key, retrieval_scores[row.key]) for row in matrix.rows if row.key in retrieval]
        lines = [{**retrieval[key], "retrieval": key} for key, _ in tables]
        scores = _by_question([(table["question_id"].to_pylist(), _values(table, run.headline)) for _, table in tables])
    lines = [{**line, "baseline": line["retrieval"] == matrix.baseline.key} for line in lines]
    return _ranked(lines, scores, "answer_score" if matrix.columns else "retrieval_score", run)


def _by_question(cells: list[tuple[Sequence[str], NDArray[np.float64]]]) -> NDArray[np.float64]:
    """Scores of shape (cells, questions), nan where a cell does not have a question.

    Cells may have been scored with different questions, where only some of them were brought up to date.
    """
    ids = dict.fromkeys(id_ for own, _ in cells for id_ in own)
    position = {id_: column for column, id_ in enumerate(ids)}
    scores = np.full((len(cells), len(ids)), np.nan)
    for row, (own, values) in zip(scores, cells, strict=True):
        row[[position[id_] for id_ in own]] = values
    return scores


def _row_summary(table: pa.Table, run: RunSettings) -> dict[str, Any]:
    headline = mean_of(_values(table, run.headline))
    return {
        "headline": run.headline,
        "retrieval_score": headline.mean,
        "retrieval_n": headline.n,
        "questions": table.num_rows,
        "metrics": _metric_rows(cell_means(table)),
    }


def _cell_line(row: dict[str, Any], row_key: str, column_key: str, lift: LiftReport) -> dict[str, Any]:
    answer = lift.metrics[lift.answer_metric]
    own = {LEXICAL_NAMES.get(name, name): mean for name, mean in lift.metrics.items() if name != "retrieval"}
    return {
        **row,
        "retrieval": row_key,
        "generation": column_key,
        "answer_metric": lift.answer_metric,
        "answer_score": answer.mean,
        "answer_n": answer.n,
        "retrieval_gain": lift.retrieval.difference,
        "answer_gain": lift.answer.difference,
        "answer_low": lift.answer.low,
        "answer_high": lift.answer.high,
        "p_value": lift.answer.p,
        "verdict": lift.verdict,
        "metrics": row["metrics"] + _metric_rows(own),
    }


def _ranked(lines: list[dict[str, Any]], scores: NDArray[np.float64], by: str, run: RunSettings) -> pa.Table:
    """Best first; a cell without the score comes last; ties go to better retrieval, then to grid order."""
    if not lines:
        return LEADERBOARD.empty_table()

    def goodness(position: int) -> tuple[float, float]:
        line = lines[position]
        missing = -np.inf
        first, second = line[by], line["retrieval_score"]
        return (missing if first is None else first, missing if second is None else second)

    order = sorted(range(len(lines)), key=goodness, reverse=True)
    tied = indistinguishable_from_best(scores[order], seed=run.seed)
    ranked = [
        {**lines[position], "rank": rank, "best": bool(best)}
        for rank, (position, best) in enumerate(zip(order, tied, strict=True), start=1)
    ]
    return pa.Table.from_pylist(ranked, schema=LEADERBOARD)


def _metric_rows(means: Mapping[str, Mean]) -> list[dict[str, Any]]:
    """Means as rows of the nested ``metrics`` column."""
    return [{"name": name, "mean": mean.mean, "n": mean.n, "total": mean.total} for name, mean in means.items()]


def _values(table: pa.Table, metric: str) -> NDArray[np.float64]:
    return as_floats(table[metric])
