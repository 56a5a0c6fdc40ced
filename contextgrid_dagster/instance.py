"""Where Dagster keeps its records of an experiment, and how that place is made."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from dagster import DagsterError, DagsterInstance
from dagster_shared.check import CheckError
from filelock import FileLock
from sqlalchemy.exc import SQLAlchemyError
from yaml import YAMLError

from contextgrid.core.errors import ConfigError
from contextgrid.grid.experiment import Experiment
from contextgrid_dagster.storage import safe_segment

_DAGSTER_YAML = """\
# Written once by contextgrid-dagster; edit it freely.
telemetry:
  enabled: false
nux:
  enabled: false
event_log_storage:
  module: contextgrid_dagster.sqlite
  class: PooledEventLogStorage
  config:
    base_dir: {env: DAGSTER_HOME}
run_storage:
  module: contextgrid_dagster.sqlite
  class: PooledRunStorage
  config:
    base_dir: {env: DAGSTER_HOME}
# Redirecting stdout and stderr costs every run four processes; what assets log is in the event log anyway.
compute_logs:
  module: dagster._core.storage.noop_compute_log_manager
  class: NoOpComputeLogManager
python_logs:
  python_log_level: INFO
# A launched run is a fork of a process that has everything imported, which saves it three seconds of CPU.
run_launcher:
  module: contextgrid_dagster.launcher
  class: ForkingRunLauncher
# Runs whose process was killed are failed, not kept as started for ever.
run_monitoring:
  enabled: true
  poll_interval_seconds: 15
# A backfill requests one level of the graph each time the daemon looks at it.
run_coordinator:
  module: contextgrid_dagster.coordinator
  class: PromptRunCoordinator
  config:
    dequeue_interval_seconds: 1
    backfill_interval_seconds: 10
concurrency:
  runs:
    max_concurrent_runs: 4
  # Where any model is a hosted one, runs that call models (pool contextgrid_models: answers and judge_scores) wait for
  # each other. Each of them makes run.concurrency calls side by side, so a provider sees that many times this limit.
  # It holds for runs that are launched from the UI or by the daemon; contextgrid-dagster materialize works in its own
  # process.
  pools:
    granularity: run
    default_limit: 1
"""


def home_of(experiment: Experiment) -> Path:
    """``DAGSTER_HOME`` if set, else the experiment's own folder below ``.contextgrid/dagster`` beside its file."""
    configured = os.environ.get("DAGSTER_HOME")
    if configured:
        return Path(configured).expanduser().absolute()
    # Dagster puts the path into a database URL, where % would start an escape.
    return experiment.path.parent / ".contextgrid" / "dagster" / safe_segment(experiment.name).replace("%", "=")


@contextmanager
def open_instance(home: Path) -> Iterator[DagsterInstance]:
    """The Dagster instance of a home, which is made ready if it is new.

    Raises:
        ConfigError: if the folder cannot be made or its ``dagster.yaml`` cannot be used.
    """
    if unquote(str(home)) != str(home) or "?" in str(home):
        raise ConfigError(
            f"Dagster home {home}: Dagster keeps no databases below a path with ? or a %-escape; set DAGSTER_HOME"
        )
    try:
        home.mkdir(parents=True, exist_ok=True)
        # Two processes that both find no database would both create its tables.
        with FileLock(home / ".contextgrid.lock", timeout=60), _dagster_home(home):
            if not (home / "dagster.yaml").exists():
                (home / "dagster.yaml").write_text(_DAGSTER_YAML, encoding="utf-8")
            instance = DagsterInstance.from_config(str(home))
    except (OSError, DagsterError, CheckError, SQLAlchemyError, YAMLError) as error:
        raise ConfigError(f"Dagster home {home}: {error}") from error
    with instance:
        yield instance


@contextmanager
def _dagster_home(home: Path) -> Iterator[None]:
    before = os.environ.get("DAGSTER_HOME")
    os.environ["DAGSTER_HOME"] = str(home)
    try:
        yield
    finally:
        if before is None:
            del os.environ["DAGSTER_HOME"]
        else:
            os.environ["DAGSTER_HOME"] = before
