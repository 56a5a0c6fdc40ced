"""How models are called for one run, as a person asks for it."""

from __future__ import annotations

from contextgrid.core.errors import ConfigError
from contextgrid.models.calls import begin_run
from contextgrid_dagster.graph import GridGraph


def begun(graph: GridGraph, *, budget: float | None = None, fresh: bool = False, replay: bool = False) -> GridGraph:
    """Begin a run, with its whole budget; returns the graph whose assets call models as asked.

    Args:
        budget: dollars that the run may spend, instead of what the experiment says.
        fresh: call models for everything once more.
        replay: call no model.

    Raises:
        ConfigError: if both ``fresh`` and ``replay`` are asked for.
    """
    if fresh and replay:
        raise ConfigError("fresh calls everything and replay nothing; choose one")
    mode = "fresh" if fresh else "replay" if replay else None
    chosen = graph if budget is None and mode is None else graph.calling(budget_usd=budget, mode=mode)
    if any(graph.calls_model(node) for node in graph.nodes):
        begin_run(chosen.experiment.run.call_settings)
    return chosen
