"""Noticing an interruption that Dagster swallows."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_STOPS = frozenset({int(signal.SIGINT), int(signal.SIGTERM)})


@contextmanager
def interruptions() -> Iterator[Callable[[], bool]]:
    """Gives a function that says whether the process was asked to stop since the context was entered.

    While a run executes, Dagster replaces the handler of Ctrl-C; a signal that arrives between its checkpoints
    is forgotten when the run ends. Python still writes the number of every signal to the wake-up socket.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    try:
        yield lambda: _asked_to_stop(reader)
    finally:
        signal.set_wakeup_fd(before)
        reader.close()
        writer.close()


def _asked_to_stop(reader: socket.socket) -> bool:
    try:
        return bool(_STOPS & set(reader.recv(4096)))
    except BlockingIOError:
        return False
