"""The call ledger: every paid reply, written down the moment it arrives, so that no call is paid twice.

A row is one call: a hash of all that determines the reply, the repetition, the reply, and what it took. Prompts are
not stored unless ``run.ledger_inputs`` asks for it, keys never. ``repetition`` counts from 0; a scheduled refresh
adds the next, and the highest one is served. Where two processes paid for the same call at the same moment, the
first reply is served to both, and the other is kept under a negative number, so that the sum of dollars is right.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from contextgrid.core.errors import ContextGridError
from contextgrid.models.reply import Reply

By = Literal["model", "stage", "cell", "day"]


class LedgerError(ContextGridError):
    """The ledger cannot be opened, read or written. Messages hold neither replies nor passwords."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A call to be written down.

    Attributes:
        key: 32 hex digits that stand for all that determines the reply.
        kind: ``completion``, ``embedding`` or ``rerank``.
        model: the model's name.
        stage: what the call was for, as ``answers``.
        cell: the cell of the grid that paid for it.
        reply: the reply with what it took.
        created: seconds since 1970.
        input: what was sent, where the ledger is to keep it.
    """

    key: str
    kind: str
    model: str
    stage: str
    cell: str | None
    reply: Reply
    created: float
    input: str | None = None


@dataclass(frozen=True)
class Spending:
    """What calls of one model, stage, cell or day cost when they were made.

    Attributes:
        name: the model, stage, cell, or day (UTC); ``None`` for calls outside a grid.
        calls: calls made.
        unpriced: how many of them have no price, and so are missing in ``usd``.
    """

    name: str | None
    calls: int
    prompt_tokens: int
    completion_tokens: int
    usd: float
    unpriced: int
    seconds: float


class Ledger(Protocol):
    """Where replies are kept. Safe to use from several threads and processes at the same time."""

    name: str
    """Where it is, without a password."""

    def get(self, key: str) -> Reply | None:
        """The reply to serve for a key."""
        ...

    def get_many(self, keys: Iterable[str]) -> dict[str, Reply]:
        """The replies to serve for those of the keys that are held, in a few queries."""
        ...

    def held(self, keys: Iterable[str]) -> set[str]:
        """Which of the keys are held, in a few queries."""
        ...

    def record(self, entry: Entry, *, fresh: bool = False) -> Reply:
        """Write a call down for good.

        Args:
            fresh: serve this reply from now on, also if there is one already.

        Returns:
            The reply that the ledger serves from now on.
        """
        ...

    def spending(self, by: By) -> list[Spending]:
        """What was spent, the most expensive first."""
        ...

    def mean_completion_tokens(self) -> Mapping[tuple[str, str], float]:
        """Mean length of the replies by model and stage."""
        ...

    def close(self) -> None:
        """Close idle connections; the ledger can still be used."""
        ...


def open_ledger(location: str, *, read_only: bool = False) -> Ledger:
    """The ledger at a path (SQLite) or SQLAlchemy URL; one and the same object for one location.

    Args:
        read_only: never create or write; the file may lie where nothing can be written.

    Raises:
        LedgerError: if it cannot be opened.
    """
    with _lock:
        ledger = _open.pop((location, read_only), None)
        if ledger is None:
            if "://" in location:
                from contextgrid.models.ledger_sql import SqlLedger

                ledger = SqlLedger(location, read_only=read_only)
            else:
                from contextgrid.models.ledger_sqlite import SqliteLedger

                ledger = SqliteLedger(Path(location), read_only=read_only)
        _open[location, read_only] = ledger  # last in, last to be closed
        for other in list(_open.values())[:-_KEPT_OPEN]:
            other.close()
        return ledger


_KEPT_OPEN = 4
_open: dict[tuple[str, bool], Ledger] = {}
_lock = threading.Lock()


@atexit.register
def _close_all() -> None:
    for ledger in _open.values():
        ledger.close()


# SQL that SQLite and PostgreSQL both read.

CREATE = """
CREATE TABLE IF NOT EXISTS calls (
    key TEXT NOT NULL,
    repetition INTEGER NOT NULL,
    kind TEXT NOT NULL,
    model TEXT NOT NULL,
    stage TEXT NOT NULL,
    cell TEXT,
    reply TEXT NOT NULL,
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    usd DOUBLE PRECISION,
    seconds DOUBLE PRECISION NOT NULL,
    created DOUBLE PRECISION NOT NULL,
    day TEXT NOT NULL,
    input TEXT,
    PRIMARY KEY (key, repetition)
)
"""
_COLUMNS = "kind, model, stage, cell, reply, prompt_tokens, completion_tokens, usd, seconds, created, day, input".split(
    ", "
)
_NAMES = f"key, repetition, {', '.join(_COLUMNS)}"
_VALUES = ", ".join(f":{name}" for name in _COLUMNS)
_SERVED = "key, reply, prompt_tokens, completion_tokens, usd, seconds"

GET = f"SELECT {_SERVED} FROM calls WHERE key = :key AND repetition >= 0 ORDER BY repetition DESC LIMIT 1"
RECORD = f"INSERT INTO calls ({_NAMES}) VALUES (:key, 0, {_VALUES}) ON CONFLICT DO NOTHING"
# The next repetition, and the next of those that are never served. A parameter has no type in a SELECT, and needs one.
_TYPED = ", ".join(
    f"CAST(:{name} AS {'DOUBLE PRECISION' if name in ('usd', 'seconds', 'created') else 'INTEGER'})"
    if name in ("usd", "seconds", "created", "prompt_tokens", "completion_tokens")
    else f"CAST(:{name} AS TEXT)"
    for name in _COLUMNS
)
_NEXT = f"INSERT INTO calls ({_NAMES}) SELECT CAST(:key AS TEXT), {{}}, {_TYPED} FROM calls WHERE key = :key"
RECORD_FRESH = f"{_NEXT.format('COALESCE(MAX(repetition), -1) + 1')} ON CONFLICT DO NOTHING"
RECORD_SPARE = f"{_NEXT.format('COALESCE(MIN(repetition), 0) - 1')} ON CONFLICT DO NOTHING"
MEAN_TOKENS = "SELECT model, stage, AVG(completion_tokens) FROM calls WHERE completion_tokens > 0 GROUP BY model, stage"


def get_many_query(keys: Sequence[str]) -> str:
    """Replies of these keys (hex digits), a later repetition after an earlier one."""
    return f"SELECT {_SERVED} FROM calls WHERE key IN ({_quoted(keys)}) AND repetition >= 0 ORDER BY repetition"


def held_query(keys: Sequence[str]) -> str:
    """Those of these keys (hex digits) that are held."""
    return f"SELECT DISTINCT key FROM calls WHERE key IN ({_quoted(keys)}) AND repetition >= 0"


def spending_query(by: By) -> str:
    """What was spent by one column."""
    return (
        f"SELECT {by}, COUNT(*), COALESCE(SUM(prompt_tokens), 0), COALESCE(SUM(completion_tokens), 0),"
        " COALESCE(SUM(usd), 0.0), SUM(CASE WHEN usd IS NULL THEN 1 ELSE 0 END), SUM(seconds)"
        f" FROM calls GROUP BY {by} ORDER BY {'1' if by == 'day' else '5 DESC, 2 DESC, 1'}"
    )


def row_of(entry: Entry) -> dict[str, Any]:
    """An entry as the parameters of the statements above."""
    from datetime import UTC, datetime

    reply = entry.reply
    return {
        "key": entry.key,
        "kind": entry.kind,
        "model": entry.model,
        "stage": entry.stage,
        "cell": entry.cell,
        "reply": reply.text,
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "usd": reply.usd,
        "seconds": reply.seconds,
        "created": entry.created,
        "day": datetime.fromtimestamp(entry.created, UTC).date().isoformat(),
        "input": entry.input,
    }


def reply_of(row: Sequence[Any]) -> Reply:
    """The reply in a row of ``GET``."""
    return Reply(row[1], row[2], row[3], row[4], row[5], stored=True)


def batches(keys: Iterable[str], size: int = 500) -> Iterable[list[str]]:
    """Distinct keys in lists that fit into one query."""
    distinct = list(dict.fromkeys(keys))
    return (distinct[start : start + size] for start in range(0, len(distinct), size))


def _quoted(keys: Sequence[str]) -> str:
    for key in keys:
        int(key, 16)  # raises for anything that is not a key
    return ", ".join(f"'{key}'" for key in keys)
