"""Where Dagster keeps its records of an experiment, and how that place is made."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

from dagster import DagsterError, DagsterInstance, get_dagster_logger
from dagster._utils.env import using_dagster_dev
from dagster_shared.check import CheckError
from filelock import FileLock
from sqlalchemy import create_engine
from sqlalchemy.exc import SQLAlchemyError
from yaml import YAMLError

from contextgrid.core.errors import ConfigError
from contextgrid.grid.experiment import Experiment
from contextgrid_dagster.storage import safe_segment

POSTGRESQL_VARIABLE = "CONTEXTGRID_DAGSTER_POSTGRESQL"
# Strict, so that no error can repeat a password that was taken for a host or a port.
_ADDRESS = re.compile(r"postgresql\+psycopg2://(?:[^\s:@/]+(?::[^\s@/]*)?@)?[^\s:@/]*(?::\d+)?/[^\s@/?]+(?:\?\S*)?")
_CONNECT_SECONDS = 10
_STATEMENT_MILLISECONDS, _RECYCLE_SECONDS, _MOST_CONNECTIONS = 300_000, 3600, 20

_DAGSTER_YAML = """\
# Written once by contextgrid-dagster; edit it freely.
telemetry:
  enabled: false
nux:
  enabled: false
{storage}
# Redirecting stdout and stderr costs every run four processes; what assets log is in the event log anyway.
compute_logs:
  module: dagster._core.storage.noop_compute_log_manager
  class: NoOpComputeLogManager
python_logs:
  python_log_level: INFO
# A launched run is a fork of a process that has everything imported, which saves it three seconds of CPU.
run_launcher:
  module: contextgrid_dagster.launching.launcher
  class: ForkingRunLauncher
# Runs whose process was killed are failed, not kept as started for ever.
run_monitoring:
  enabled: true
  poll_interval_seconds: 15
# A backfill requests one level of the graph each time the daemon looks at it.
run_coordinator:
  module: contextgrid_dagster.launching.coordinator
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
_SQLITE = """\
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
"""
# The address, which may hold a password, stays in the environment.
_POSTGRESQL = f"""\
storage:
  postgres:
    postgres_url: {{env: {POSTGRESQL_VARIABLE}}}
"""


def home_of(experiment: Experiment) -> Path:
    """``DAGSTER_HOME`` if set, else the experiment's own folder below ``.contextgrid/dagster`` beside its file."""
    configured = os.environ.get("DAGSTER_HOME")
    if configured:
        return Path(configured).expanduser().absolute()
    # Dagster puts the path into a database URL, where % would start an escape.
    return experiment.path.parent / ".contextgrid" / "dagster" / safe_segment(experiment.name).replace("%", "=")


def warn_of_temporary_home(experiment: Experiment) -> None:
    """Say what ``dagster dev`` without ``DAGSTER_HOME`` means: an empty instance that is gone when it stops."""
    if using_dagster_dev() and not os.environ.get("DAGSTER_HOME"):
        get_dagster_logger("contextgrid").warning(
            "DAGSTER_HOME is not set: Dagster keeps its records in a temporary folder, shows nothing of what"
            f" contextgrid-dagster built, and forgets everything when it stops. Set DAGSTER_HOME={home_of(experiment)},"
            f" or start it with: contextgrid-dagster ui {experiment.path}"
        )


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
        with FileLock(home / ".contextgrid.lock", timeout=60), dagster_home(home):
            _configure(home / "dagster.yaml")
            instance = DagsterInstance.from_config(str(home))
    except SQLAlchemyError as error:
        raise unusable_records(home, error) from error
    except (OSError, DagsterError, CheckError, YAMLError) as error:
        raise ConfigError(f"Dagster home {home}: {error}") from error
    with instance:
        keep_connections(instance)
        yield instance


def keep_connections(instance: DagsterInstance) -> None:
    """Let an instance on PostgreSQL keep its connection, where Dagster would open a new one for each statement.

    Dagster has this for its web server. An instance on SQLite is left as it is: see :mod:`contextgrid_dagster.sqlite`.
    """
    instance.optimize_for_webserver(
        statement_timeout=_STATEMENT_MILLISECONDS, pool_recycle=_RECYCLE_SECONDS, max_overflow=_MOST_CONNECTIONS
    )


def _configure(file: Path) -> None:
    """Write ``dagster.yaml`` if there is none, and refuse one that would keep records elsewhere than was asked for."""
    url = os.environ.get(POSTGRESQL_VARIABLE)
    if url:
        _refuse_unusable(url)
    if not file.exists():
        file.write_text(_DAGSTER_YAML.replace("{storage}\n", _POSTGRESQL if url else _SQLITE), encoding="utf-8")
    named = POSTGRESQL_VARIABLE in file.read_text(encoding="utf-8")
    if url and not named:
        raise ConfigError(
            f"{POSTGRESQL_VARIABLE} is set, but {file} was written before and keeps Dagster's records elsewhere; move"
            " that file away to have it written anew, or unset the variable"
        )
    if named and not url:
        raise ConfigError(f"{file} keeps Dagster's records in the database that {POSTGRESQL_VARIABLE} names; set it")


def _refuse_unusable(url: str) -> None:
    """Try the database once: Dagster would try for a while and then not say what was wrong."""
    if find_spec("dagster_postgres") is None:
        raise ConfigError(f"{POSTGRESQL_VARIABLE} needs dagster-postgres: pip install 'contextgrid-dagster[postgres]'")
    if not _ADDRESS.fullmatch(url):
        # Plain postgresql:// means psycopg 3 to SQLAlchemy 2.1, which dagster-postgres cannot use.
        raise ConfigError(
            f"{POSTGRESQL_VARIABLE} is not an address of the form postgresql+psycopg2://user:password@host:port/database"
            " (in a password, write @ as %40 and / as %2F)"
        )
    try:
        engine = create_engine(url, connect_args={"connect_timeout": _CONNECT_SECONDS})
        engine.connect().close()
        engine.dispose()
    except SQLAlchemyError as error:
        raise ConfigError(f"the database that {POSTGRESQL_VARIABLE} names: {database_problem(error)}") from None


def unusable_records(home: Path, error: SQLAlchemyError) -> ConfigError:
    """That the database of a home cannot be read or written, and what to do."""
    return ConfigError(
        f"Dagster home {home}: its database cannot be used: {database_problem(error)}; make room or mend it, or move"
        " the home away: what was built is then built anew, with paid replies from the ledger"
    )


def database_problem(error: SQLAlchemyError) -> str:
    """What a database refused, without what follows: statements, their values, links and hints for programmers."""
    return str(getattr(error, "orig", None) or error).strip().splitlines()[0]


@contextmanager
def read_instance(home: Path) -> Iterator[DagsterInstance]:
    """The Dagster instance of a home; where there is none, one without records that leaves no trace.

    Raises:
        ConfigError: if the home's ``dagster.yaml`` cannot be used.
    """
    if (home / "dagster.yaml").exists():
        with open_instance(home) as instance:
            yield instance
    else:
        with DagsterInstance.ephemeral() as instance:
            yield instance


@contextmanager
def dagster_home(home: Path | str) -> Iterator[None]:
    """``DAGSTER_HOME`` set meanwhile, for a ``dagster.yaml`` that refers to it."""
    before = os.environ.get("DAGSTER_HOME")
    os.environ["DAGSTER_HOME"] = str(home)
    try:
        yield
    finally:
        if before is None:
            del os.environ["DAGSTER_HOME"]
        else:
            os.environ["DAGSTER_HOME"] = before
