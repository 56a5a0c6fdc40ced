"""The grid as a value: its rows and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from contextgrid.core.axes import Generation, Retrieval
from contextgrid.core.errors import ConfigError

C = TypeVar("C", Retrieval, Generation)


@dataclass(frozen=True)
class Matrix:
    """The grid: every row answers through every column.

    ``dropped`` counts the combinations that cannot be built, by reason; ``collapsed`` those that differed
    from another only in an axis that could not matter (a prompt under ``extractive``), or in spelling.
    """

    rows: tuple[Retrieval, ...]
    columns: tuple[Generation, ...]
    baseline: Retrieval
    dropped: Mapping[str, int]
    collapsed: int

    def row(self, key: str) -> Retrieval:
        """The row with this partition key."""
        return _by_key(self.rows, key, "row")

    def column(self, key: str) -> Generation:
        """The column with this partition key."""
        return _by_key(self.columns, key, "column")

    def unique(self, level: str) -> dict[str, Retrieval]:
        """One row for each distinct prefix: ``level`` is ``parser_key``, ``chunks_key``, ``index_key`` or ``key``."""
        found: dict[str, Retrieval] = {}
        for row in self.rows:
            found.setdefault(getattr(row, level), row)
        return found


def _by_key(configurations: Sequence[C], key: str, kind: str) -> C:
    for configuration in configurations:
        if configuration.key == key:
            return configuration
    raise ConfigError(f"no {kind} has the key {key!r}")
