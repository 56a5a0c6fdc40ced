"""How models are called for one run, as a person asks for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from contextgrid.core.errors import ConfigError
from contextgrid.models.calls import begin_run
from contextgrid.models.settings import MODE_VARIABLE
from contextgrid_dagster.graph import GridGraph


@contextmanager
def begun(
    graph: GridGraph, *, budget: float | None = None, fresh: bool = False, replay: bool = False
) -> Iterator[GridGraph]:
    """Begin a run, with its whole budget; gives the graph whose assets call models as asked.

    Args:
        budget: dollars that the run may spend, instead of what the experiment says.
        fresh: call models for everything once more.
        replay: call no model.

    Raises:
        ConfigError: if both ``fresh`` and ``replay`` are asked for.
    """
    if fresh and replay:
        raise ConfigError("fresh calls everything and replay nothing; choose one")
    with _mode("fresh" if fresh else "replay" if replay else None):
        chosen = graph if budget is None else graph.with_budget(budget)
        if any(graph.calls_model(node) for node in graph.nodes):
            begin_run(chosen.experiment.run.call_settings)
        yield chosen


@contextmanager
def _mode(mode: str | None) -> Iterator[None]:
    """What is asked for wins over what is set."""
    if mode is None:
        yield
        return
    before = os.environ.get(MODE_VARIABLE)
    os.environ[MODE_VARIABLE] = mode
    try:
        yield
    finally:
        if before is None:
            del os.environ[MODE_VARIABLE]
        else:
            os.environ[MODE_VARIABLE] = before
