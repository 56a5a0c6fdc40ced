"""Dagster's SQLite storages with connections that are kept, which makes a run in one process three times faster.

Dagster opens a connection, and with it a file, for each of the twenty or so statements of a run. These two
classes keep a small pool instead and wait for a lock up to half a minute, so that two processes on one
instance both finish. Tables and files are Dagster's own: an instance can go back to the stock classes at any
time. They are named in the ``dagster.yaml`` that :mod:`contextgrid_dagster.instance` writes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import sqlalchemy
from dagster import EventLogEntry
from dagster._core.storage.event_log import ConsolidatedSqliteEventLogStorage
from dagster._core.storage.event_log.polling_event_watcher import SqlPollingEventWatcher
from dagster._core.storage.runs import SqliteRunStorage
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import QueuePool

_LOCK_SECONDS = 30


class PooledEventLogStorage(ConsolidatedSqliteEventLogStorage):
    """The event log of all runs in one SQLite file."""

    _watcher: SqlPollingEventWatcher | None = None

    @contextmanager
    def _connect(self) -> Iterator[Connection]:
        with _engine(self._conn_string).begin() as connection:
            yield connection

    @cached_property
    def supports_asset_checks(self) -> bool:
        # The stock class opens a database anew to look for the table, twice for each check.
        return bool(super().supports_asset_checks)

    def watch(self, run_id: str, cursor: str | None, callback: Callable[[EventLogEntry, str], None]) -> None:
        # The stock class waits for changes of the main file, which a kept connection rarely touches: new
        # events are in the write-ahead log.
        if self._watcher is None:
            self._watcher = SqlPollingEventWatcher(self)
        self._watcher.watch_run(run_id, cursor, callback)

    def end_watch(self, run_id: str, handler: Callable[[EventLogEntry, str], None]) -> None:
        if self._watcher is not None:
            self._watcher.unwatch_run(run_id, handler)

    def dispose(self) -> None:
        if self._watcher is not None:
            self._watcher.close()
        _dispose(self._conn_string)


class PooledRunStorage(SqliteRunStorage):
    """The runs in one SQLite file."""

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Any) -> PooledRunStorage:
        return cls.from_local(inst_data=inst_data, **config_value)

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        with _engine(self._conn_string).begin() as connection:
            yield connection

    def dispose(self) -> None:
        _dispose(self._conn_string)


_engines: dict[tuple[int, str], Engine] = {}


def _engine(url: str) -> Engine:
    # By process: a connection must not be used on both sides of a fork.
    key = (os.getpid(), url)
    if key not in _engines:
        engine = sqlalchemy.create_engine(url, poolclass=QueuePool, connect_args={"timeout": _LOCK_SECONDS})
        sqlalchemy.event.listen(engine, "connect", _relax_sync)
        _engines[key] = engine
    return _engines[key]


def _relax_sync(connection: Any, _: Any) -> None:
    # With a write-ahead log this survives a killed process; only a power cut can lose the last events.
    connection.execute("PRAGMA synchronous=NORMAL")


def _dispose(url: str) -> None:
    engine = _engines.pop((os.getpid(), url), None)
    if engine is not None:
        engine.dispose()
