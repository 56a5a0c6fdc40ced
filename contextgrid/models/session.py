"""What all calls of one run share: the ledger, the budget, and the calls that are under way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from contextgrid.models.base import LLMError
from contextgrid.models.budget import Budget
from contextgrid.models.ledger import Ledger, open_ledger
from contextgrid.models.prices import CostModel, Price
from contextgrid.models.reply import Reply
from contextgrid.models.settings import CallSettings


class Session:
    """The shared state of the calls that are made under the same settings.

    Attributes:
        budget: what may still be spent.
        costs: prices of models.
        flights: identical calls that are under way.
        refreshed: keys of calls that a fresh run has made, which are not made twice in it.
    """

    def __init__(self, settings: CallSettings) -> None:
        self.settings = settings
        self.costs = CostModel({name: Price(*price) for name, *price in settings.prices})
        self.flights = Flights()
        self.begin()

    @property
    def ledger(self) -> Ledger | None:
        """Where replies are kept, if anywhere. Opened, and so made, only where a model needs it."""
        if self.settings.ledger is None:
            return None
        return open_ledger(self.settings.ledger, read_only=self.settings.mode == "replay")

    def begin(self) -> None:
        """Start a run: with the whole budget, and with everything to refresh."""
        self.budget = Budget(self.settings.budget_usd)
        self.refreshed: set[str] = set()


class Flights:
    """Calls under way. An identical one waits for the first and shares its reply."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[str, _Flight] = {}

    def once(self, key: str, make: Callable[[], Reply]) -> Reply:
        """The reply of ``make``, or of the call with this key that is under way."""
        with self._lock:
            flight = self._under_way.get(key)
            if flight is None:
                own = self._under_way[key] = _Flight()
        if flight is not None:
            return flight.wait()
        try:
            own.reply = make()
            return own.reply
        except Exception as error:
            own.error = error
            raise
        finally:
            with self._lock:
                del self._under_way[key]
            own.landed.set()


class _Flight:
    def __init__(self) -> None:
        self.landed = threading.Event()
        self.reply: Reply | None = None
        self.error: Exception | None = None

    def wait(self) -> Reply:
        self.landed.wait()
        if self.reply is not None:
            return replace(self.reply, stored=True)
        raise self.error or LLMError("the call was interrupted")


def session_of(settings: CallSettings) -> Session:
    """The session of these settings in this process."""
    with _lock:
        session = _sessions.get(settings)
        if session is None:
            session = _sessions[settings] = Session(settings)
        return session


_sessions: dict[CallSettings, Session] = {}
_lock = threading.Lock()
