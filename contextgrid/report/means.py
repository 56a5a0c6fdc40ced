"""The means of a cell: of every metric over the questions where it was measured, and of what it cost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from contextgrid.score.statistics import Mean, mean_of

if TYPE_CHECKING:
    import pyarrow as pa

# The metrics of a cell that say what answering a thousand questions costs, and judging the answers.
COST = "generation_usd_per_1k"
JUDGE_COST = "judge_usd_per_1k"


def generation_cost(answers: pa.Table) -> Mean:
    """Dollars per 1,000 questions answered, at the price of the day on which each call was made.

    Replies from the ledger count as much as others. There is no value unless every answer has a price.
    """
    import pyarrow.compute as pc

    answered = answers.filter(pc.is_valid(answers["answer"]))
    priced = answered.num_rows - answered["usd"].null_count
    total = answers.num_rows
    if priced < answered.num_rows or not priced:
        return Mean(None, 0, total)
    return Mean(1_000 * pc.mean(answered["usd"]).as_py(), priced, total)


def judge_cost(judge_scores: pa.Table) -> Mean:
    """Dollars per 1,000 answers for judging them by all metrics, priced as :func:`generation_cost` prices answers."""
    import pyarrow.compute as pc

    called = judge_scores.filter(pc.greater(judge_scores["calls"], 0))
    total = pc.count_distinct(judge_scores["question_id"]).as_py()
    if called["usd"].null_count or not len(called):
        return Mean(None, 0, total)
    return Mean(1_000 * pc.sum(called["usd"]).as_py() / total, total, total)


def lost_metrics(judge_scores: Iterable[pa.Table]) -> dict[str, str]:
    """Judge metrics of which every verdict that was asked for failed, each with the first reason."""
    asked: dict[str, list[tuple[str, str | None]]] = {}
    for table in judge_scores:
        for metric, status, reason, calls in zip(*(table[name].to_pylist() for name in _ASKED), strict=True):
            if calls and status in ("scored", "failed"):
                asked.setdefault(metric, []).append((status, reason))
    return {
        metric: verdicts[0][1] or "no reason given"
        for metric, verdicts in asked.items()
        if all(status == "failed" for status, _ in verdicts)
    }


_ASKED = ("metric", "status", "reason", "calls")

# Columns of the lexical scores that are means on the leaderboard under another name.
LEXICAL_NAMES = {"abstention_correct": "abstention_accuracy"}


def cell_means(
    retrieval_scores: pa.Table, lexical_scores: pa.Table | None = None, judge_scores: pa.Table | None = None
) -> dict[str, Mean]:
    """Mean, count and total of every metric of a cell: retrieval, then lexical, then judges."""
    means: dict[str, Mean] = {}
    for table in [retrieval_scores] if lexical_scores is None else [retrieval_scores, lexical_scores]:
        for column in table.schema:
            if str(column.type) == "double" and column.name != "retrieval":
                means[LEXICAL_NAMES.get(column.name, column.name)] = mean_of(table[column.name])
    if judge_scores is not None:
        import pyarrow.compute as pc

        for metric in pc.unique(judge_scores["metric"]).to_pylist():
            means[metric] = mean_of(judge_scores.filter(pc.equal(judge_scores["metric"], metric))["score"])
    return means
