"""What a run may spend: reserved before a call, settled after it."""

from __future__ import annotations

import threading

from contextgrid.models.base import LLMError


class BudgetExceeded(LLMError):  # noqa: N818 - the name that callers catch
    """The run's budget does not cover a call. Nothing was called; what is done is kept."""


class Budget:
    """Dollars that may be spent, never exceeded however many calls run side by side.

    A call reserves the most that it can cost. Where that does not fit while others are under way, it waits for
    them: they rarely cost what they reserved.
    """

    def __init__(self, limit: float | None) -> None:
        self.limit = limit
        self._spent = self._reserved = 0.0
        self._changed = threading.Condition()

    @property
    def spent(self) -> float:
        """Dollars spent so far."""
        return self._spent

    def reserve(self, usd: float) -> None:
        """Set dollars aside.

        Raises:
            BudgetExceeded: if what is left does not cover them.
        """
        if self.limit is None:
            return
        with self._changed:
            while self._spent + self._reserved + usd > self.limit:
                if usd > self.limit:
                    raise BudgetExceeded(
                        f"this call alone may cost up to ${usd:.6f}, more than the whole budget of ${self.limit:g};"
                        " raise run.budget_usd"
                    )
                if not self._reserved:
                    # Without amounts that vary: the message is stored with the answers.
                    raise BudgetExceeded(
                        f"the budget of ${self.limit:g} does not cover this call; raise run.budget_usd, or run again"
                        " with a new budget: what is done is kept"
                    )
                self._changed.wait()
            self._reserved += usd

    def settle(self, reserved: float, spent: float) -> None:
        """Give back what was reserved and count what was spent."""
        with self._changed:
            self._spent += spent
            if self.limit is not None:
                self._reserved -= reserved
                if self._reserved < 1e-12:
                    self._reserved = 0.0  # what rounding leaves must not keep others waiting
            self._changed.notify_all()
