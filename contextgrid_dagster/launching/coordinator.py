"""Dagster's run queue, with a backfill daemon that looks more often, named in the ``dagster.yaml``."""

from __future__ import annotations

import sys
from typing import Any

from dagster import Field, IntSource
from dagster._core.run_coordinator import QueuedRunCoordinator
from dagster._serdes import ConfigurableClassData

_BACKFILL_INTERVAL = "backfill_interval_seconds"
_CONSTANT = "DEFAULT_DAEMON_INTERVAL_SECONDS"


class PromptRunCoordinator(QueuedRunCoordinator[Any]):
    """The stock coordinator with one setting more: how often a backfill in progress is looked at.

    A backfill requests one level of the graph each time it is looked at: a grid has eight. Dagster looks every thirty
    seconds and has no setting for it, only a constant that its daemon reads when it starts, after it has
    asked the instance for its coordinator. A Dagster without the constant is left as it is.
    """

    @classmethod
    def config_type(cls) -> Any:
        interval = Field(IntSource, is_required=False, description="Seconds between two looks at each backfill.")
        stock: Any = super().config_type()
        return {**stock, _BACKFILL_INTERVAL: interval}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData, config_value: Any) -> PromptRunCoordinator:
        config = dict(config_value)
        seconds = config.pop(_BACKFILL_INTERVAL, None)
        # Only the daemon has this module.
        controller = sys.modules.get("dagster._daemon.controller")
        if seconds is not None and hasattr(controller, _CONSTANT):
            setattr(controller, _CONSTANT, seconds)
        return cls(inst_data=inst_data, **config)
