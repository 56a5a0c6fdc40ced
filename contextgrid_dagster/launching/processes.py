"""Which process executes a run: noted as a tag of the run, so that any process of the host can look after it."""

from __future__ import annotations

import os
import signal
import socket
from dataclasses import dataclass
from pathlib import Path

from dagster import DagsterRun
from dagster._core.storage.tags import HIDDEN_TAG_PREFIX

# Dagster does not show tags with its hidden prefix.
PROCESS_TAG = f"{HIDDEN_TAG_PREFIX}contextgrid_process"


@dataclass(frozen=True)
class RunProcess:
    """A process on a host. Its start (clock ticks since the host's) tells it from a later one with the same number."""

    host: str
    pid: int
    start: str

    @classmethod
    def current(cls) -> RunProcess | None:
        """This process; ``None`` where the system does not say when it started."""
        return cls.of(os.getpid())

    @classmethod
    def of(cls, pid: int) -> RunProcess | None:
        """A living process of this host."""
        start = _start(pid)
        return None if start is None else cls(socket.gethostname(), pid, start)

    @classmethod
    def noted(cls, run: DagsterRun) -> RunProcess | None:
        """The process that a run's tag names."""
        host, _, rest = run.tags.get(PROCESS_TAG, "").rpartition("/")[0].rpartition("/")
        start = run.tags.get(PROCESS_TAG, "").rpartition("/")[2]
        return cls(host, int(rest), start) if host and rest.isdigit() else None

    @property
    def tags(self) -> dict[str, str]:
        """What a run notes of its process."""
        return {PROCESS_TAG: f"{self.host}/{self.pid}/{self.start}"}

    @property
    def is_here(self) -> bool:
        """Whether it is a process of this host."""
        return self.host == socket.gethostname()

    @property
    def is_alive(self) -> bool:
        """Whether it still runs; only known of processes of this host."""
        return self.start == _start(self.pid)

    def interrupt(self) -> bool:
        """Ask it to stop, as Ctrl-C does; returns whether it was there."""
        if not (self.is_here and self.is_alive):
            return False
        os.kill(self.pid, signal.SIGINT)
        return True


def _start(pid: int) -> str | None:
    try:
        # After the command, which may hold anything and ends with a parenthesis: the state, and 19 fields on the start.
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else fields[18]
