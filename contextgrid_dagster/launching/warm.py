"""A process that has all imports done and forks itself for each run: ``python -m contextgrid_dagster.launching.warm``

Its imports cost three seconds once; a fork of it is ready in a hundredth of one. It loads no definitions: each
fork does, so that it sees the experiment as it is then. It has no threads and no connections, which a fork
could not share. :mod:`contextgrid_dagster.launching.launcher` starts it and talks to it: each line on its standard
input is a run to start, each line on its standard output the number of the process that executes it. It ends
when its input does, after the last run.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import contextgrid
import contextgrid_dagster

# What runs import, apart from the modules of these two packages and a user's own.
_SLOW = ("dagster._cli.api", "pandas", "scipy.stats", "sklearn.feature_extraction.text")
_LOOK_AFTER_SECONDS = 0.2


def main() -> None:
    """Serve until the input ends and no run is left."""
    # What a run prints must not be taken for a reply.
    replies = os.dup(1)
    os.dup2(2, 1)
    # Ctrl-C in a terminal reaches every process of it; the end of the input is what ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    preload()
    # Otherwise the collector would write to, and so copy, every page that the forks share.
    gc.collect()
    gc.freeze()
    _serve(0, replies)


def preload() -> None:
    """Import what runs need. Packages that only some experiments use are imported by the run that does."""
    for package in (contextgrid, contextgrid_dagster):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    for name in _SLOW:
        import_module(name)


def _serve(requests: int, replies: int) -> None:
    running: dict[int, dict[str, Any]] = {}
    waiting, is_open = b"", True
    while is_open or running:
        watched = [requests] if is_open else []
        if select.select(watched, [], [], _LOOK_AFTER_SECONDS if running else None)[0]:
            received = os.read(requests, 65536)
            is_open = bool(received)
            *lines, waiting = (waiting + received).split(b"\n")
            for line in lines:
                request = json.loads(line)
                pid = _forked(_execute, request, replies)
                running[pid] = request
                os.write(replies, b"%d\n" % pid)
        _look_after(running, replies)


def _forked(work: Any, request: dict[str, Any], replies: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    os.close(replies)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    work(request)
    sys.exit(0)


def _execute(request: dict[str, Any]) -> None:
    from dagster import DagsterInstance
    from dagster._cli.api import _execute_run_command_body
    from dagster._core.instance import InstanceRef
    from dagster._serdes import deserialize_value
    from dagster._utils.interrupts import capture_interrupts

    instance_ref = deserialize_value(request["instance"], InstanceRef)
    with capture_interrupts(), DagsterInstance.from_ref(instance_ref) as instance:
        _execute_run_command_body(request["run_id"], instance, lambda event: None, set_exit_code_on_failure=False)


def _look_after(running: dict[int, dict[str, Any]], replies: int) -> None:
    """Forget the processes that ended; of one that was killed, another fork records that its run failed."""
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if not ended:
            continue
        request = running.pop(pid)
        code = os.waitstatus_to_exitcode(status)
        if code and "code" not in request:
            running[_forked(_report, {**request, "code": code}, replies)] = {**request, "code": code}


def _report(request: dict[str, Any]) -> None:
    from dagster import DagsterInstance
    from dagster._core.instance import InstanceRef
    from dagster._serdes import deserialize_value

    code = request["code"]
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    with DagsterInstance.from_ref(deserialize_value(request["instance"], InstanceRef)) as instance:
        run = instance.get_run_by_id(request["run_id"])
        if run is not None and not run.is_finished:
            instance.report_run_failed(run, f"The process of this run {how}; run it again to finish it.")


if __name__ == "__main__":
    main()
