"""Starts launched runs as forks of a process that has everything imported, named in the ``dagster.yaml``."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from typing import Any

from dagster import DagsterRun
from dagster._core.launcher import CheckRunHealthResult, DefaultRunLauncher, LaunchRunContext, WorkerStatus
from dagster._core.remote_origin import GrpcServerCodeLocationOrigin
from dagster._serdes import serialize_value

from contextgrid_dagster.launching.processes import RunProcess


class ForkingRunLauncher(DefaultRunLauncher):
    """Dagster's own launcher, with forks instead of new processes where that is possible.

    A new process spends three seconds of CPU on imports before it looks at its run. Runs that need another Python
    than the daemon's, a system other than Linux, or code that a server on another host holds, are launched as Dagster
    does.
    """

    def __init__(self, inst_data: Any = None) -> None:
        super().__init__(inst_data)
        self._lock = threading.Lock()
        self._warm: subprocess.Popen[bytes] | None = None
        self._servers: dict[str, str] = {}

    def launch_run(self, context: LaunchRunContext) -> None:
        run = context.dagster_run
        if not _can_fork(run):
            super().launch_run(context)
            return
        with self._lock:
            self._end_if_reloaded(context)
            process = RunProcess.of(self._start(run.run_id))
        if process is not None:
            self._instance.add_run_tags(run.run_id, process.tags)

    def terminate(self, run_id: str) -> bool:
        run = self._instance.get_run_by_id(run_id)
        process = RunProcess.noted(run) if run else None
        if run is None or process is None:
            return bool(super().terminate(run_id))  # type: ignore[no-untyped-call]
        if run.is_finished:
            return False
        self._instance.report_run_canceling(run)
        return process.interrupt()

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        process = RunProcess.noted(run)
        if process is None or not process.is_here or process.is_alive:
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        return CheckRunHealthResult(WorkerStatus.FAILED, f"process {process.pid} is gone")

    def dispose(self) -> None:
        with self._lock:
            self._end()

    def _start(self, run_id: str) -> int:
        """Start a run; returns the number of its process. A warm process that has ended is replaced."""
        request = {"run_id": run_id, "instance": serialize_value(self._instance.get_ref())}
        line = json.dumps(request).encode() + b"\n"
        for _ in range(2):
            warm = self._warm = self._warm or _new_warm_process()
            assert warm.stdin is not None
            assert warm.stdout is not None
            try:
                warm.stdin.write(line)
                warm.stdin.flush()
                if reply := warm.stdout.readline():
                    return int(reply)
            except BrokenPipeError:
                pass
            self._end()
        raise RuntimeError("the process that starts runs ended; what it wrote is in the output of the daemon")

    def _end_if_reloaded(self, context: LaunchRunContext) -> None:
        """After a reload of a code location its code may be another."""
        origin = context.dagster_run.remote_job_origin
        if context.workspace is None or origin is None:
            return
        name = origin.location_name
        server = str(getattr(context.workspace.get_code_location(name), "server_id", ""))
        if self._servers.setdefault(name, server) != server:
            self._servers[name] = server
            self._end()

    def _end(self) -> None:
        warm, self._warm = self._warm, None
        if warm is not None and warm.stdin is not None and warm.stdout is not None:
            warm.stdout.close()
            with contextlib.suppress(BrokenPipeError):
                warm.stdin.close()
            # It ends after its last run.
            threading.Thread(target=warm.wait, daemon=True).start()


def _new_warm_process() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "contextgrid_dagster.launching.warm"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _can_fork(run: DagsterRun) -> bool:
    origin = run.job_code_origin.repository_origin if run.job_code_origin else None
    same_python = origin is not None and origin.executable_path == sys.executable
    return sys.platform == "linux" and same_python and _is_served_here(run)


def _is_served_here(run: DagsterRun) -> bool:
    """Whether the code comes from a server of this host. One elsewhere has files and keys of its own."""
    if run.remote_job_origin is None:
        return False
    server = run.remote_job_origin.repository_origin.code_location_origin
    if not isinstance(server, GrpcServerCodeLocationOrigin):
        return True
    return server.socket is not None or server.host in ("localhost", "127.0.0.1", "::1")
