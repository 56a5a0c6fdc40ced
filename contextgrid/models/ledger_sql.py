"""The ledger in a database that SQLAlchemy reaches by URL, such as PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from contextgrid.models import ledger as sql
from contextgrid.models.ledger import By, Entry, LedgerError, Spending
from contextgrid.models.reply import Reply

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

# A number taken by another process in between is tried again.
_ATTEMPTS = 20


class SqlLedger:
    """A ledger in one table, ``calls``, of a database server.

    Args:
        url: for example ``postgresql+psycopg://user@host/database``. Keep a password out of it and in the
            server's own password file (``~/.pgpass``) or environment.
    """

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        try:
            import sqlalchemy
        except ImportError:
            raise LedgerError("a ledger by URL needs SQLAlchemy: pip install sqlalchemy") from None
        self._text = sqlalchemy.text
        self._error = sqlalchemy.exc.SQLAlchemyError
        try:
            address = sqlalchemy.make_url(url)
            self.name = address.render_as_string(hide_password=True)
            self._engine = sqlalchemy.create_engine(
                address, hide_parameters=True, pool_size=16, max_overflow=32, pool_pre_ping=True
            )
        except self._error as error:
            raise LedgerError(f"not the address of a ledger: {type(error).__name__}") from None
        except ImportError as error:
            raise LedgerError(f"ledger {self.name}: {error}; for PostgreSQL: pip install 'psycopg[binary]'") from None
        if not read_only:
            self._create()

    def get(self, key: str) -> Reply | None:
        """The reply to serve for a key."""
        with self._connection() as connection:
            row = connection.execute(self._text(sql.GET), {"key": key}).fetchone()
        return None if row is None else sql.reply_of(row)

    def get_many(self, keys: Iterable[str]) -> dict[str, Reply]:
        """The replies to serve for those of the keys that are held."""
        found: dict[str, Reply] = {}
        with self._connection() as connection:
            for some in sql.batches(keys):
                rows = connection.execute(self._text(sql.get_many_query(some)))
                found.update((row[0], sql.reply_of(row)) for row in rows)
        return found

    def held(self, keys: Iterable[str]) -> set[str]:
        """Which of the keys are held."""
        with self._connection() as connection:
            queries = (self._text(sql.held_query(some)) for some in sql.batches(keys))
            return {row[0] for query in queries for row in connection.execute(query)}

    def record(self, entry: Entry, *, fresh: bool = False) -> Reply:
        """Write a call down."""
        row = _storable(sql.row_of(entry))
        with self._connection() as connection:
            if not fresh and connection.execute(self._text(sql.RECORD), row).rowcount > 0:
                return entry.reply
        for _ in range(_ATTEMPTS):
            with self._connection() as connection:
                statement = sql.RECORD_FRESH if fresh else sql.RECORD_SPARE
                if connection.execute(self._text(statement), row).rowcount > 0:
                    break
        else:
            raise LedgerError(f"ledger {self.name}: other processes kept writing the same call")
        return entry.reply if fresh else self.get(entry.key) or entry.reply

    def spending(self, by: By) -> list[Spending]:
        """What was spent, the most expensive first; days in their order."""
        with self._connection() as connection:
            return [Spending(*row) for row in connection.execute(self._text(sql.spending_query(by)))]

    def mean_completion_tokens(self) -> Mapping[tuple[str, str], float]:
        """Mean length of the replies by model and stage."""
        with self._connection() as connection:
            rows = connection.execute(self._text(sql.MEAN_TOKENS)).fetchall()
        return {(model, stage): float(mean) for model, stage, mean in rows}

    def close(self) -> None:
        """Close idle connections."""
        self._engine.dispose()

    def _create(self) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                with self._connection() as connection:
                    connection.execute(self._text(sql.CREATE))
                return
            except LedgerError:
                # Of two processes that create the table at the same moment, PostgreSQL refuses one.
                if attempt == 1:
                    raise

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except self._error as error:
            cause = getattr(error, "orig", None) or error
            # The first line only: what follows may repeat values.
            message = next(iter(str(cause).splitlines()), "")
            raise LedgerError(f"ledger {self.name}: {type(cause).__name__}: {message}") from None


def _storable(row: dict[str, object]) -> dict[str, object]:
    # PostgreSQL keeps no NUL character.
    return {name: value.replace("\0", "\ufffd") if isinstance(value, str) else value for name, value in row.items()}
