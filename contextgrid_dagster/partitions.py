"""The partitions of the assets and how they map onto each other, all derived from the grid's matrix."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from dagster import (
    BetaWarning,
    DimensionPartitionMapping,
    IdentityPartitionMapping,
    MultiPartitionMapping,
    MultiPartitionsDefinition,
    MultiToSingleDimensionPartitionMapping,
    PartitionMapping,
    PartitionsDefinition,
    StaticPartitionMapping,
    StaticPartitionsDefinition,
)

from contextgrid.core.axes import settings_of
from contextgrid.core.matrix import Matrix

RETRIEVAL, GENERATION = "retrieval", "generation"
# The levels of a row's prefix that are built once and shared by all rows below them.
PARSER, CHUNKS, INDEX, ROW = "parser_key", "chunks_key", "index_key", "key"
# Level and the number of leading retrieval axes that its key is made of.
_AXES_OF = {PARSER: 1, CHUNKS: 2, INDEX: 4, ROW: 7}

M = TypeVar("M", bound=PartitionMapping)


@dataclass(frozen=True)
class GridPartitions:
    """Partitions definitions of one grid. Each is made once and shared: Dagster compares them by identity first."""

    matrix: Matrix

    @cached_property
    def parser(self) -> StaticPartitionsDefinition:
        """Parses of the corpus."""
        return self._level(PARSER)

    @cached_property
    def chunks(self) -> StaticPartitionsDefinition:
        """Chunkings of a parse."""
        return self._level(CHUNKS)

    @cached_property
    def index(self) -> StaticPartitionsDefinition:
        """Indexes over a chunking."""
        return self._level(INDEX)

    @cached_property
    def retrieval(self) -> StaticPartitionsDefinition:
        """Rows of the grid."""
        return self._level(ROW)

    @cached_property
    def generation(self) -> StaticPartitionsDefinition:
        """Columns of the grid."""
        return StaticPartitionsDefinition([column.key for column in self.matrix.columns])

    @cached_property
    def cell(self) -> MultiPartitionsDefinition:
        """Cells of the grid; their keys read ``generation|retrieval``."""
        return MultiPartitionsDefinition({RETRIEVAL: self.retrieval, GENERATION: self.generation})

    def up(self, level: str, below: str) -> PartitionMapping:
        """From the partitions of a level to the one of a shorter prefix: ``up(CHUNKS, below=ROW)``."""
        below_of: dict[str, list[str]] = {}
        for key, row in self.matrix.unique(below).items():
            below_of.setdefault(getattr(row, level), []).append(key)
        return StaticPartitionMapping({key: set(keys) for key, keys in below_of.items()})

    def cell_to(self, dimension: str) -> PartitionMapping:
        """From a cell to its row or to its column."""
        return _quietly(lambda: MultiToSingleDimensionPartitionMapping(dimension))

    @cached_property
    def cell_and_baseline(self) -> PartitionMapping:
        """From a cell to itself and to the cell of the same column in the baseline row."""
        keys = [row.key for row in self.matrix.rows]
        baseline = self.matrix.baseline.key
        rows = StaticPartitionMapping({key: set(keys) if key == baseline else {key} for key in keys})
        return _quietly(
            lambda: MultiPartitionMapping(
                {
                    GENERATION: DimensionPartitionMapping(GENERATION, IdentityPartitionMapping()),
                    RETRIEVAL: DimensionPartitionMapping(RETRIEVAL, rows),
                }
            )
        )

    def settings(self, definition: PartitionsDefinition, key: str) -> str:
        """The axis values behind a partition key, as ``parser=auto chunker=recursive:512``."""
        if definition is self.cell:
            column, _, row = key.partition("|")
            return f"{self.settings(self.generation, column)} {self.settings(self.retrieval, row)}"
        if definition is self.generation:
            axes = list(settings_of(self.matrix.column(key)).items())
        else:
            level = next(level for level in _AXES_OF if self._levels[level] is definition)
            axes = list(settings_of(self.matrix.unique(level)[key]).items())[: _AXES_OF[level]]
        return " ".join(f"{axis}={value}" for axis, value in axes if value is not None)

    @cached_property
    def _levels(self) -> dict[str, StaticPartitionsDefinition]:
        return {PARSER: self.parser, CHUNKS: self.chunks, INDEX: self.index, ROW: self.retrieval}

    def _level(self, level: str) -> StaticPartitionsDefinition:
        return StaticPartitionsDefinition(list(self.matrix.unique(level)))


def _quietly(build: Callable[[], M]) -> M:
    """Build a mapping that Dagster announces as beta each time; these two were measured with the pinned version."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BetaWarning)
        return build()
