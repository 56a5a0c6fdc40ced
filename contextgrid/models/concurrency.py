"""Many calls side by side, their results in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def is_ordered(llm: object) -> bool:
    """Whether a model has to be called strictly one call after another.

    That holds for any object that does not say otherwise by ``in_order = False``: its replies may be a script.
    """
    return bool(getattr(llm, "in_order", True))


def map_in_order(llm: object, function: Callable[[T], R], items: Iterable[T]) -> list[R | Exception]:
    """``function`` of every item, as many side by side as the model allows, and the results in item order.

    Args:
        llm: the model that ``function`` calls; without ``in_order = False`` and a ``concurrency`` above 1 the items
            are taken one after another.

    Returns:
        For each item its result, or the exception that was raised. An interruption is raised at once; calls
        that are under way then are left to themselves.
    """
    todo = list(items)
    workers = 1 if is_ordered(llm) else min(int(getattr(llm, "concurrency", 1)), len(todo))
    if workers <= 1:
        return [_attempt(function, item) for item in todo]
    return _Crew(function, todo).work(workers)


def _attempt(function: Callable[[T], R], item: T) -> R | Exception:
    try:
        return function(item)
    except Exception as error:  # noqa: BLE001 - the caller decides what a failure means
        return error


class _Crew:
    """Daemon threads that share a list of items: unlike a pool's, they never hold up the end of the process."""

    def __init__(self, function: Callable[[T], R], items: list[T]) -> None:
        self._function, self._items = function, items
        self._results: list[object] = [None] * len(items)
        self._next = iter(range(len(items)))
        self._lock = threading.Lock()
        self._stop: BaseException | None = None

    def work(self, workers: int) -> list[R | Exception]:
        # Every thread gets its own copy: a context can be entered by one thread at a time only.
        threads = [threading.Thread(target=copy_context().run, args=(self._run,), daemon=True) for _ in range(workers)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException as interruption:
            self._stop = interruption
            raise
        if self._stop is not None:
            raise self._stop
        return self._results  # type: ignore[return-value]

    def _run(self) -> None:
        while self._stop is None:
            with self._lock:
                position = next(self._next, None)
            if position is None:
                return
            try:
                self._results[position] = _attempt(self._function, self._items[position])
            except BaseException as interruption:  # noqa: BLE001 - raised again by the thread that waits
                self._stop = interruption
