"""The ledger in a SQLite file."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from contextgrid.models import ledger as sql
from contextgrid.models.ledger import By, Entry, LedgerError, Spending
from contextgrid.models.reply import Reply

# How long a statement waits for another process that writes.
_LOCK_SECONDS = 60.0
_IDLE_CONNECTIONS = 32


class SqliteLedger:
    """A ledger in one file. Writers wait for one another, readers for nobody (write-ahead log).

    Connections are kept and handed from thread to thread, because opening one takes longer than fifty look-ups.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.name = str(path)
        self._path, self._read_only = path.absolute(), read_only
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._process = os.getpid()
        if read_only:
            if not path.is_file():
                raise LedgerError(f"no ledger {path}; record one by running without replay")
        else:
            self._create()

    def get(self, key: str) -> Reply | None:
        """The reply to serve for a key."""
        with self._connection() as connection:
            row = connection.execute(sql.GET, {"key": key}).fetchone()
        return None if row is None else sql.reply_of(row)

    def get_many(self, keys: Iterable[str]) -> dict[str, Reply]:
        """The replies to serve for those of the keys that are held."""
        with self._connection() as connection:
            rows = (row for some in sql.batches(keys) for row in connection.execute(sql.get_many_query(some)))
            return {row[0]: sql.reply_of(row) for row in rows}

    def held(self, keys: Iterable[str]) -> set[str]:
        """Which of the keys are held."""
        with self._connection() as connection:
            return {row[0] for some in sql.batches(keys) for row in connection.execute(sql.held_query(some))}

    def record(self, entry: Entry, *, fresh: bool = False) -> Reply:
        """Write a call down; it is safe from the end of the process, however that comes, once this returns."""
        row = sql.row_of(entry)
        with self._connection() as connection:
            if connection.execute(sql.RECORD_FRESH if fresh else sql.RECORD, row).rowcount > 0:
                return entry.reply
            connection.execute(sql.RECORD_SPARE, row)
            first = connection.execute(sql.GET, {"key": entry.key}).fetchone()
        return sql.reply_of(first)

    def spending(self, by: By) -> list[Spending]:
        """What was spent, the most expensive first; days in their order."""
        with self._connection() as connection:
            return [Spending(*row) for row in connection.execute(sql.spending_query(by))]

    def mean_completion_tokens(self) -> Mapping[tuple[str, str], float]:
        """Mean length of the replies by model and stage."""
        with self._connection() as connection:
            return {(model, stage): mean for model, stage, mean in connection.execute(sql.MEAN_TOKENS)}

    def close(self) -> None:
        """Close idle connections, which also folds the write-ahead log into the file."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = self._take()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            self._give_back(connection)
        except sqlite3.Error as error:
            raise LedgerError(f"ledger {self.name}: {type(error).__name__}: {error}") from None

    def _take(self) -> sqlite3.Connection:
        with self._lock:
            if self._process != os.getpid():
                # Connections must not be used in a forked process, nor closed there.
                self._abandoned, self._idle, self._process = self._idle, [], os.getpid()
            if self._idle:
                return self._idle.pop()
        return self._connect()

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if len(self._idle) < _IDLE_CONNECTIONS:
                self._idle.append(connection)
                return
        connection.close()

    def _connect(self) -> sqlite3.Connection:
        if not self._read_only:
            return self._opened(f"file:{quote(str(self._path))}")
        try:
            connection = self._opened(f"file:{quote(str(self._path))}?mode=ro")
            connection.execute(sql.GET, {"key": ""}).fetchone()
        except sqlite3.OperationalError:
            # Even reading needs a folder that can be written to, unless nobody else is said to write.
            return self._opened(f"file:{quote(str(self._path))}?immutable=1")
        return connection

    def _opened(self, address: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            address, uri=True, timeout=_LOCK_SECONDS, isolation_level=None, check_same_thread=False
        )
        # A power failure may lose the last replies, a killed process none.
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    def _create(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LedgerError(f"ledger {self.name}: {error.strerror}") from None
        with self._connection() as connection:
            give_up = time.monotonic() + _LOCK_SECONDS
            while True:
                try:
                    connection.execute("PRAGMA journal_mode = WAL")
                    connection.execute(sql.CREATE)
                    return
                except sqlite3.OperationalError as error:
                    # Two processes that create one file do not wait for each other here.
                    if "locked" not in str(error) or time.monotonic() > give_up:
                        raise
                    time.sleep(0.01)
