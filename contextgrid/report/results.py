"""What a run of the library returns: one result per cell, and the leaderboard over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from contextgrid.report.means import COST, JUDGE_COST, cell_means, generation_cost, judge_cost, lost_metrics
from contextgrid.score.statistics import Mean

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from contextgrid.generate.lift import LiftReport
    from contextgrid.pipeline import Config
    from contextgrid.settings import RunSettings


@dataclass(frozen=True)
class RunResult:
    """The scores of one cell.

    Attributes:
        config: the cell.
        metrics: mean of every metric that could be measured; what could not be is absent.
        coverage: for each metric, over how many of how many questions it is a mean.
        retrieval_scores: one row per question, schema ``tables.RETRIEVAL_SCORES`` and metric columns.
        answers: one row per question, schema ``tables.ANSWERS``; ``None`` where nothing is generated.
        lexical_scores: one row per question, schema ``tables.LEXICAL_SCORES``; ``None`` likewise.
        judge_scores: one row per question and judge metric, schema ``tables.JUDGE_SCORES``; ``None`` where
            nothing is judged.
    """

    config: Config
    metrics: Mapping[str, float]
    coverage: Mapping[str, Mean]
    retrieval_scores: pa.Table = field(repr=False)
    answers: pa.Table | None = field(default=None, repr=False)
    lexical_scores: pa.Table | None = field(default=None, repr=False)
    judge_scores: pa.Table | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        config: Config,
        run: RunSettings,
        retrieval_scores: pa.Table,
        answers: pa.Table | None = None,
        lexical_scores: pa.Table | None = None,
        judge_scores: pa.Table | None = None,
    ) -> RunResult:
        """The result of a cell from its stage tables."""
        coverage = cell_means(retrieval_scores, lexical_scores, judge_scores)
        if answers is not None:
            coverage |= {COST: generation_cost(answers)}
        if judge_scores is not None:
            coverage |= {JUDGE_COST: judge_cost(judge_scores)}
        metrics = {name: mean.mean for name, mean in coverage.items() if mean.mean is not None}
        return cls(config, metrics, coverage, retrieval_scores, answers, lexical_scores, judge_scores)

    @property
    def key(self) -> str:
        """The cell's key: ``column_key|row_key``, or the row's alone where nothing is generated."""
        column = self.config.generation
        row = self.config.retrieval.key
        return row if column is None else f"{column.key}|{row}"

    @property
    def warnings(self) -> list[str]:
        """A sentence for each judge metric some of whose verdicts failed, with how many its mean is over."""
        from contextgrid.generate.judging import coverage_warnings

        return [] if self.judge_scores is None else coverage_warnings(self.judge_scores)


@dataclass(frozen=True)
class Results:
    """Everything a grid gave.

    Attributes:
        leaderboard: schema ``tables.LEADERBOARD``, best cell first.
        runs: one result per cell, in leaderboard order.
        lifts: the lift report of every cell by ``column_key|row_key``; empty where nothing is generated.
        failed: why a cell has no result, by its key.
        notes: what a reader of the judges' scores has to know.
        left_out: what of the documents and questions no score is over, in sentences.
    """

    leaderboard: pa.Table
    runs: tuple[RunResult, ...]
    lifts: Mapping[str, LiftReport]
    failed: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[RunResult]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def best(self) -> RunResult:
        """The first cell of the leaderboard."""
        return self.runs[0]

    @property
    def warnings(self) -> list[str]:
        """What was left out of all scores, then every cell's warnings with the cell's key."""
        return [*self.left_out, *(f"{run.key}: {sentence}" for run in self.runs for sentence in run.warnings)]

    @property
    def skipped_questions(self) -> int:
        """Answers that the budget did not cover, over all cells."""
        tables = [run.answers for run in self.runs if run.answers is not None]
        return sum(table["status"].to_pylist().count("skipped_budget") for table in tables)

    @property
    def skipped_verdicts(self) -> int:
        """Judges' verdicts that the budget did not cover, over all cells."""
        tables = [run.judge_scores for run in self.runs if run.judge_scores is not None]
        return sum(table["status"].to_pylist().count("skipped_budget") for table in tables)

    @property
    def lost_metrics(self) -> list[str]:
        """Judge metrics of which every verdict that was asked for failed, over all cells, with the first reason."""
        lost = lost_metrics(run.judge_scores for run in self.runs if run.judge_scores is not None)
        return [f"{metric}: all verdicts failed; the first: {reason}" for metric, reason in lost.items()]

    def spending(self) -> list[str]:
        """What answers and verdicts cost, in words; nothing where no call was made or none costs anything."""
        answers = [run.answers for run in self.runs if run.answers is not None]
        verdicts = [run.judge_scores for run in self.runs if run.judge_scores is not None]
        return [*_spending("answers", answers), *_spending("verdicts", verdicts)]

    def to_pandas(self) -> pd.DataFrame:
        """The leaderboard with one column per metric instead of the nested ``metrics`` column.

        A metric that some cell has not measured for every question has a second column, ``<metric>_n``, so that a
        mean over few questions does not read as one over all.
        """
        frame: pd.DataFrame = self.leaderboard.drop_columns(["metrics"]).to_pandas()
        cells = self.leaderboard["metrics"].to_pylist()
        partial = {metric["name"] for metrics in cells for metric in metrics if metric["n"] < metric["total"]}
        for position, metrics in enumerate(cells):
            for metric in metrics:
                frame.loc[position, metric["name"]] = metric["mean"]
                if metric["name"] in partial:
                    frame.loc[position, f"{metric['name']}_n"] = metric["n"]
        return frame


def _spending(what: str, tables: Sequence[pa.Table]) -> list[str]:
    import pyarrow.compute as pc

    calls = sum(pc.sum(table["model_calls"]).as_py() or 0 for table in tables)
    spent = sum(pc.sum(table["usd_spent"]).as_py() or 0.0 for table in tables)
    worth = sum(pc.sum(table["usd"]).as_py() or 0.0 for table in tables)
    # A call that was paid for, at a price that is not known.
    unpriced = sum(pc.sum(pc.and_(pc.greater(t["model_calls"], 0), pc.is_null(t["usd"]))).as_py() or 0 for t in tables)
    if not worth and not unpriced:
        return []
    said = f"{what.capitalize()}: {calls} calls, ${spent:.4f} spent now; at their original price the {what} cost"
    said += f" ${worth:.4f}"
    return [f"{said}, and {unpriced} of unknown price more" if unpriced else said]
