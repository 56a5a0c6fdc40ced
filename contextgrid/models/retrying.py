"""The one retry loop: what is tried again, when, and when it is given up."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from contextgrid.models.base import LLMError
from contextgrid.models.limiter import Limiter

T = TypeVar("T")

# Statuses after which the same call may succeed. Connections that fail or break are reported as 500, timeouts as 408.
_TRANSIENT = frozenset({408, 409, 425, 429})
_TOO_MANY = 429
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
# What an attempt may take beyond its own timeout before it is abandoned.
_GRACE = 1.0


def call_with_retries(
    attempt: Callable[[float], T], limiter: Limiter, *, retries: int, deadline: float, name: str
) -> T:
    """The result of a call that is repeated while it fails for a passing reason.

    Waits grow exponentially and are spread at random, unless the provider says how long to wait. A refusal
    because of too many calls holds up every call to the provider. A provider that seems to be down gets one attempt
    for each call until one succeeds, or a thousand questions would wait for it a thousand times.

    Args:
        attempt: makes the call; gets the seconds that are left.
        deadline: seconds from the first attempt until the call is given up.
        name: of the model, for the message.

    Raises:
        LLMError: what the last attempt raised.
    """
    end: float | None = None
    for number in range(retries + 1):
        patience = deadline if end is None else end - time.monotonic()
        if not limiter.acquire(patience, end):
            raise LLMError(f"model {name!r}: the provider asked for a pause longer than the deadline of {deadline:g} s")
        if end is None:
            end = time.monotonic() + deadline
        try:
            result = attempt(end - time.monotonic())
        except LLMError as error:
            wait = _wait(error, number)
            last = number == retries or limiter.is_down or time.monotonic() + wait >= end
            if not is_transient(error) or last:
                limiter.given_up = limiter.given_up + 1 if is_transient(error) else 0
                raise
            if error.status == _TOO_MANY:
                limiter.pause(wait)
        else:
            limiter.given_up = 0
            return result
        finally:
            limiter.release()
        time.sleep(wait)
    raise AssertionError("unreachable")


def is_transient(error: LLMError) -> bool:
    """Whether the same call may succeed later."""
    return error.status is not None and (error.status in _TRANSIENT or error.status >= 500)


def abandon_after(seconds: float, function: Callable[[], T], name: str) -> T:
    """The function's result, or an error once the time is up, whatever the function still does.

    A timeout of the network library only limits the wait for the next byte.
    """
    done = threading.Event()
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append((function(), None))
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            outcome.append((None, error))
        done.set()

    threading.Thread(target=run, daemon=True).start()
    if not done.wait(seconds + _GRACE):
        raise LLMError(f"model {name!r} failed: no complete reply within {seconds:g} s", status=408)
    result, error = outcome[0]
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


def _wait(error: LLMError, number: int) -> float:
    if error.retry_after is not None:
        return error.retry_after + random.uniform(0, min(1.0, 0.1 + 0.1 * error.retry_after))
    longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0**number)
    return random.uniform(longest / 2, longest)
