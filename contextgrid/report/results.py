"""What a run of the library returns: one result per cell, and the leaderboard over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from contextgrid.score.statistics import Mean, mean_of

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
    """

    config: Config
    metrics: Mapping[str, float]
    coverage: Mapping[str, Mean]
    retrieval_scores: pa.Table = field(repr=False)
    answers: pa.Table | None = field(default=None, repr=False)
    lexical_scores: pa.Table | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        config: Config,
        run: RunSettings,
        retrieval_scores: pa.Table,
        answers: pa.Table | None = None,
        lexical_scores: pa.Table | None = None,
    ) -> RunResult:
        """The result of a cell from its stage tables."""
        coverage = cell_means(retrieval_scores, lexical_scores)
        metrics = {name: mean.mean for name, mean in coverage.items() if mean.mean is not None}
        return cls(config, metrics, coverage, retrieval_scores, answers, lexical_scores)


@dataclass(frozen=True)
class Results:
    """Everything a grid gave.

    Attributes:
        leaderboard: schema ``tables.LEADERBOARD``, best cell first.
        runs: one result per cell, in leaderboard order.
        lifts: the lift report of every cell by ``column_key|row_key``; empty where nothing is generated.
        failed: why a cell has no result, by its key.
    """

    leaderboard: pa.Table
    runs: tuple[RunResult, ...]
    lifts: Mapping[str, LiftReport]
    failed: Mapping[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[RunResult]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def best(self) -> RunResult:
        """The first cell of the leaderboard."""
        return self.runs[0]

    def to_pandas(self) -> pd.DataFrame:
        """The leaderboard with one column per metric instead of the nested ``metrics`` column."""
        frame: pd.DataFrame = self.leaderboard.drop_columns(["metrics"]).to_pandas()
        for position, metrics in enumerate(self.leaderboard["metrics"].to_pylist()):
            for metric in metrics:
                frame.loc[position, metric["name"]] = metric["mean"]
        return frame


# Columns of the lexical scores that are means on the leaderboard under another name.
LEXICAL_NAMES = {"abstention_correct": "abstention_accuracy"}


def cell_means(retrieval_scores: pa.Table, lexical_scores: pa.Table | None = None) -> dict[str, Mean]:
    """Mean, count and total of every metric column of a cell, retrieval first."""
    means: dict[str, Mean] = {}
    for table in [retrieval_scores] if lexical_scores is None else [retrieval_scores, lexical_scores]:
        for column in table.schema:
            if str(column.type) == "double" and column.name != "retrieval":
                means[LEXICAL_NAMES.get(column.name, column.name)] = mean_of(table[column.name])
    return means
