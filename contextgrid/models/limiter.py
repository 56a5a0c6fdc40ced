"""How many calls run side by side against one provider, and when none may start."""

from __future__ import annotations

import threading
import time


class Limiter:
    """Lets up to ``limit`` calls run at the same time, and none while the provider asked for a pause.

    Attributes:
        given_up: calls in a row that failed through all their attempts.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.given_up = 0
        self._running = 0
        self._paused_until = 0.0
        self._changed = threading.Condition()

    def acquire(self, patience: float, until: float | None = None) -> bool:
        """Wait for a place.

        Args:
            patience: seconds; a pause that lasts longer is not waited for.
            until: moment (``time.monotonic``) after which no place is of use.

        Returns:
            Whether there is a place, which is to be given back by :meth:`release`.
        """
        with self._changed:
            while True:
                now = time.monotonic()
                pause = self._paused_until - now
                if pause <= 0 and self._running < self.limit:
                    self._running += 1
                    return True
                if pause > patience or (until is not None and now >= until):
                    return False
                waits = [pause] if pause > 0 else []
                waits += [until - now] if until is not None else []
                self._changed.wait(min(waits, default=None))

    def release(self) -> None:
        """Give a place back."""
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    @property
    def is_down(self) -> bool:
        """Whether as many calls in a row as may run side by side failed through all their attempts."""
        return self.given_up >= self.limit

    def pause(self, seconds: float) -> None:
        """Let no call start for a while."""
        with self._changed:
            self._paused_until = max(self._paused_until, time.monotonic() + seconds)
            self._changed.notify_all()


def limiter(group: tuple[str, ...], limit: int) -> Limiter:
    """The one limiter of a provider in this process; the limit asked for last holds."""
    with _lock:
        found = _limiters.setdefault(group, Limiter(limit))
        found.limit = limit
        return found


_limiters: dict[tuple[str, ...], Limiter] = {}
_lock = threading.Lock()
