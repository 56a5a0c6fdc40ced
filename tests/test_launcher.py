"""Runs that are forks of a warm process: what they see, how they end, and who notices if they are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from dagster import DagsterRun

from contextgrid_dagster.instance import open_instance
from contextgrid_dagster.launching.coordinator import PromptRunCoordinator
from contextgrid_dagster.launching.launcher import ForkingRunLauncher
from contextgrid_dagster.launching.processes import PROCESS_TAG, RunProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="runs are forked on Linux only")


def run_of(tag: str | None) -> DagsterRun:
    return DagsterRun(job_name="job", tags={PROCESS_TAG: tag} if tag else {})


def test_a_new_home_launches_forks_and_looks_after_them(tmp_path: Path) -> None:
    with open_instance(tmp_path / "home") as instance:
        assert isinstance(instance.run_launcher, ForkingRunLauncher)
        assert isinstance(instance.run_coordinator, PromptRunCoordinator)
        assert instance.run_coordinator.dequeue_interval_seconds == 1
        assert instance.run_monitoring_enabled
        queue = instance.get_concurrency_config().run_queue_config
        assert queue is not None
        assert queue.max_concurrent_runs == 4


def test_a_process_is_told_from_a_later_one_with_its_number() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        process = RunProcess.of(other.pid)
        assert process is not None
        assert process.is_alive
        assert RunProcess.noted(run_of(process.tags[PROCESS_TAG])) == process
        assert not RunProcess(process.host, process.pid, "1").is_alive
        other.kill()
        # Killed and not waited for yet: it has a number still, but will do nothing any more.
        deadline = time.monotonic() + 30
        while process.is_alive:
            assert time.monotonic() < deadline
        assert not process.interrupt()
    assert RunProcess.noted(run_of(None)) is None
    assert RunProcess.noted(run_of("nonsense")) is None


def test_an_interrupt_reaches_the_process_and_only_on_its_own_host() -> None:
    code = "import time\ntry: print(flush=True); time.sleep(60)\nexcept KeyboardInterrupt: raise SystemExit(7)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        process = RunProcess.of(other.pid)
        assert process is not None
        assert not RunProcess("elsewhere", process.pid, process.start).interrupt()
        assert process.interrupt()
        assert other.wait(30) == 7


def test_only_a_run_whose_own_process_is_gone_counts_as_dead() -> None:
    launcher = ForkingRunLauncher()
    here = RunProcess.of(os.getpid())
    assert here is not None
    dead = RunProcess(here.host, here.pid, "1")
    elsewhere = RunProcess("elsewhere", here.pid, "1")
    statuses = {
        name: launcher.check_run_worker_health(run_of(tag)).status.value
        for name, tag in {
            "here": here.tags[PROCESS_TAG],
            "dead": dead.tags[PROCESS_TAG],
            "elsewhere": elsewhere.tags[PROCESS_TAG],
            "launched by Dagster": None,
        }.items()
    }
    assert statuses == {"here": "RUNNING", "dead": "FAILED", "elsewhere": "RUNNING", "launched by Dagster": "RUNNING"}


def test_the_warm_process_ends_with_its_input_and_ignores_ctrl_c() -> None:
    command = [sys.executable, "-m", "contextgrid_dagster.launching.warm"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as warm:
        assert warm.stdin is not None
        deadline = time.monotonic() + 60
        while not int(_signals_ignored(warm.pid), 16) & 1 << (signal.SIGINT - 1):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        warm.send_signal(signal.SIGINT)
        assert warm.poll() is None
        warm.stdin.close()
        assert warm.wait(60) == 0


def _signals_ignored(pid: int) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("SigIgn"))
