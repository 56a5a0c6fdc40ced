"""Definitions for Dagster: of one experiment, or of the one that ``CONTEXTGRID_EXPERIMENT`` names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dagster import Definitions

from contextgrid.core.errors import ConfigError
from contextgrid.grid.experiment import Experiment
from contextgrid_dagster.graph import GridGraph
from contextgrid_dagster.instance import warn_of_temporary_home
from contextgrid_dagster.jobs import bring_up_to_date_job
from contextgrid_dagster.refreshing.drift_asset import drift_assets
from contextgrid_dagster.refreshing.schedules import refresh_schedules
from contextgrid_dagster.sensors import grid_sensors

EXPERIMENT_VARIABLE = "CONTEXTGRID_EXPERIMENT"
KEY_PREFIX_VARIABLE = "CONTEXTGRID_KEY_PREFIX"


def build_definitions(
    experiment: str | Path, *, storage: str | None = None, key_prefix: str | None = None
) -> Definitions:
    """The asset graph of an experiment, with its stores, the job ``bring_up_to_date``, its sensors, and a schedule if
    ``run.refresh`` asks for one; sensors and schedule are stopped.

    Args:
        experiment: path of the experiment file.
        storage: folder or fsspec URL for results; by default ``CONTEXTGRID_STORAGE``, else ``.contextgrid/storage``
            beside the experiment file.
        key_prefix: first part of every asset key. Give each of several experiments its own to keep them in one
            Dagster instance, or to merge them with ``Definitions.merge``.

    Raises:
        ConfigError: if the experiment cannot run, naming the file, the key and the nearest valid name.
    """
    loaded = Experiment.load(experiment)
    warn_of_temporary_home(loaded)
    assets = GridGraph(loaded, storage, key_prefix, pooled=True).definitions
    graph = GridGraph(loaded, storage, key_prefix)
    job = bring_up_to_date_job(graph)
    return Definitions.merge(
        assets,
        Definitions(
            assets=drift_assets(graph.declaration),
            jobs=[job],
            schedules=refresh_schedules(graph.declaration, job),
            sensors=grid_sensors(graph, job),
        ),
    )


def _default_definitions() -> Definitions:
    path = os.environ.get(EXPERIMENT_VARIABLE)
    if not path:
        raise ConfigError(
            f"{EXPERIMENT_VARIABLE} is not set; set it to the path of an experiment file, or call"
            " build_definitions(path) in your own module"
        )
    return build_definitions(path, key_prefix=os.environ.get(KEY_PREFIX_VARIABLE) or None)


# ``defs`` is built when Dagster asks for it, so that importing build_definitions needs no environment.
def __getattr__(name: str) -> Any:
    if name == "defs":
        globals()["defs"] = _default_definitions()
        return globals()["defs"]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), "defs"})
