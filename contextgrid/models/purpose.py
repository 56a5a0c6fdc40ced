"""What calls are for, told to plugins that know only their spec: set by the stage that uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from contextgrid.models.settings import CallSettings


@dataclass(frozen=True)
class Purpose:
    """How calls are made, and what the ledger notes with them.

    Attributes:
        settings: gives the settings; asked only by a plugin that calls something, because they may be invalid.
        stage: what the calls are for, as ``index``.
        cell: the row or cell of the grid they are for.
    """

    settings: Callable[[], CallSettings] = CallSettings
    stage: str = "retrieval"
    cell: str | None = None


_PLAIN = Purpose()
_purpose: ContextVar[Purpose] = ContextVar("purpose", default=_PLAIN)


@contextmanager
def calls_for(settings: Callable[[], CallSettings], stage: str, cell: str | None = None) -> Iterator[None]:
    """Inside the block, plugins call models under these settings."""
    token = _purpose.set(Purpose(settings, stage, cell))
    try:
        yield
    finally:
        _purpose.reset(token)


def purpose() -> Purpose:
    """What calls are for here; outside any stage, plain settings without a ledger of their own."""
    return _purpose.get()


_forbidden: ContextVar[bool] = ContextVar("forbidden", default=False)


@contextmanager
def no_calls() -> Iterator[None]:
    """Inside the block, plugins serve what the ledger holds and call nothing, as estimates have to."""
    token = _forbidden.set(True)
    try:
        yield
    finally:
        _forbidden.reset(token)


def may_call() -> bool:
    """Whether no :func:`no_calls` is open here."""
    return not _forbidden.get()
