"""Counting calls, tokens, dollars and time."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from contextgrid.models.reply import Reply


class Meter:
    """What some calls took. Safe to use from several threads.

    Attributes:
        calls: calls that were made and answered.
        hits: calls that cost nothing, because the ledger or an identical call held the reply.
        failed: calls that gave no reply.
        prompt_tokens, completion_tokens: of all replies, as the providers counted them.
        spent: dollars of the calls made.
        usd: what all replies cost when they were made, those from the ledger included.
        unpriced: replies without a price, which are missing in ``spent`` and ``usd``.
    """

    def __init__(self) -> None:
        self.calls = self.hits = self.failed = self.unpriced = 0
        self.prompt_tokens = self.completion_tokens = 0
        self.spent = self.usd = 0.0
        self._seconds = array("d")
        self._lock = threading.Lock()

    def add(self, reply: Reply) -> None:
        """Count a reply."""
        with self._lock:
            if reply.stored:
                self.hits += 1
            else:
                self.calls += 1
                self.spent += reply.usd or 0.0
                self._seconds.append(reply.seconds)
            self.prompt_tokens += reply.prompt_tokens or 0
            self.completion_tokens += reply.completion_tokens or 0
            self.usd += reply.usd or 0.0
            self.unpriced += reply.usd is None

    def add_failure(self) -> None:
        """Count a call without a reply."""
        with self._lock:
            self.failed += 1

    @property
    def replies(self) -> int:
        """Replies in all, paid or not."""
        return self.calls + self.hits

    @property
    def price(self) -> float | None:
        """``usd``, or ``None`` if any reply has no price."""
        return None if self.unpriced else self.usd

    @property
    def latencies(self) -> tuple[float, ...]:
        """Seconds of every call made, in the order in which they ended."""
        with self._lock:
            return tuple(self._seconds)

    def latency(self, share: float) -> float | None:
        """The seconds within which this share of the calls made was answered (0.5: the median)."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


_counting: ContextVar[tuple[Meter, ...]] = ContextVar("counting", default=())


@contextmanager
def count_calls() -> Iterator[Meter]:
    """Counts every metered call that is made inside, on whatever model."""
    meter = Meter()
    token = _counting.set((*_counting.get(), meter))
    try:
        yield meter
    finally:
        _counting.reset(token)


def meters_of_context() -> tuple[Meter, ...]:
    """The meters of all :func:`count_calls` that are open here."""
    return _counting.get()
