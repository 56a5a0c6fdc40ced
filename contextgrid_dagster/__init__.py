"""The grid as Dagster assets: partitions, stores, planner, executor, and the ``contextgrid-dagster`` command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextgrid_dagster.definitions import build_definitions

__all__ = ["build_definitions"]


def __getattr__(name: str) -> Any:
    # Importing Dagster takes a second, which --help need not pay.
    if name == "build_definitions":
        from contextgrid_dagster.definitions import build_definitions

        return build_definitions
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
