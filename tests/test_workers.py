"""Partitions built by workers under a Dask scheduler: the same results, whatever happens to the workers."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from dagster import DagsterInstance, DagsterRunStatus, RunsFilter

from contextgrid.core.errors import ConfigError
from contextgrid.grid.experiment import Experiment
from contextgrid_dagster.executor import ExecutionReport, Kind, execute
from contextgrid_dagster.instance import open_instance
from contextgrid_dagster.planner import plan
from contextgrid_dagster.records import read_records
from contextgrid_dagster.workers import finding, worker
from contextgrid_dagster.workers.pool import Pool
from contextgrid_dagster.workers.worker import WORKER_LOST, WORKER_TAG
from tests.dagster_fixtures import (
    CALLS,
    EXPERIMENT,
    LLM_SHORT,
    Bench,
    bench,
    built_bench,
    new_bench,
)

__all__ = ["bench", "built_bench"]

OFFLINE = EXPERIMENT.replace("counting:a", "offline:reader,threshold=0.2")


distributed = pytest.importorskip("distributed", reason="workers need Dask: pip install 'contextgrid-dagster[dask]'")

LOOPBACK = "127.0.0.1:0"


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """A scheduler with two worker processes."""
    # Workers must not be threads of this process: Dagster configures logging for each run, and two runs at once can
    # wait for each other's locks.
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=LOOPBACK, memory_limit=0
    ) as cluster:
        yield cluster.scheduler_address


def materialise(bench: Bench, scheduler: str, *selections: str, rebuild_all: bool = False) -> ExecutionReport:
    return execute(bench.plan(*selections, rebuild_all=rebuild_all), bench.instance, workers=scheduler)


def unfinished(instance: DagsterInstance) -> list[str]:
    statuses = [DagsterRunStatus.NOT_STARTED, DagsterRunStatus.STARTING, DagsterRunStatus.STARTED]
    return [run.run_id for run in instance.get_runs(RunsFilter(statuses=statuses))]


def test_workers_give_the_versions_that_one_process_gives(
    bench: Bench, scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_bench(tmp_path / "spread") as spread:
        report = materialise(spread, scheduler)
        assert report.success, report.of_kind(Kind.FAILED)
        assert len(report.outcomes) == len(spread.graph().nodes)
        assert not spread.plan().pending
        there, here = read_records(spread.graph(), spread.instance), read_records(bench.graph(), bench.instance)
        assert {node: record.version for node, record in there.items()} == {
            node: record.version for node, record in here.items()
        }
        assert unfinished(spread.instance) == []


def test_inputs_and_paid_calls_stay_in_this_process(bench: Bench, scheduler: str) -> None:
    calls = len(CALLS)
    report = materialise(bench, scheduler, "+retrieval_scores", f"answers:{LLM_SHORT}*", rebuild_all=True)
    assert report.success
    assert len(CALLS) > calls
    where = {
        record.asset_materialization.asset_key.path[-1]: bench.instance.get_run_by_id(record.run_id)
        for name in ("corpus", "documents", "chunks", "retrieved_ids", "answers")
        for record in bench.instance.fetch_materializations(bench.graph().key(name), limit=1).records
        if record.asset_materialization
    }
    assert {name for name, run in where.items() if run and WORKER_TAG in run.tags} == {
        "documents",
        "chunks",
        "retrieved_ids",
    }


def test_the_offline_reader_may_read_anywhere(tmp_path: Path) -> None:
    with new_bench(tmp_path, OFFLINE) as offline:
        pool = Pool(offline.graph(), offline.instance, *[None] * 3)  # type: ignore[arg-type]
        taken = {node.asset for node in offline.graph().nodes if pool.takes(node)}
        assert taken == set(offline.graph().names) - {"corpus", "evalset", "generation_spec"}


def test_an_unchanged_result_spares_what_is_below_it(bench: Bench, scheduler: str) -> None:
    bench.edit("documents/refunds.md", "# Refunds\n", "# Refunds\r\n")  # parsed to the same text
    report = materialise(bench, scheduler)
    assert report.success
    counts = report.counts()
    assert counts["documents"] == {Kind.UNCHANGED: 1}
    assert counts["chunks"] == {Kind.SPARED: 2}
    assert counts["leaderboard"] == {Kind.SPARED: 1}


def test_a_failure_is_told_with_its_cause_and_the_rest_goes_on(bench: Bench, scheduler: str) -> None:
    bench.edit("prompts/short.txt", "Sentinel short.", "fail always")
    report = materialise(bench, scheduler)
    failed = report.of_kind(Kind.FAILED)
    assert {outcome.node.asset for outcome in failed} == {"answers"}
    assert all("told to fail" in outcome.reason for outcome in failed)
    assert {outcome.node.asset for outcome in report.of_kind(Kind.SKIPPED)} == {"lexical_scores", "lift_reports"}
    assert report.counts()["leaderboard"] == {Kind.BUILT: 1}


def test_an_error_on_a_worker_is_told_without_its_wrapping(bench: Bench, scheduler: str) -> None:
    graph = bench.graph()
    damaged = graph.tables.path_of(graph.key("documents"), "markdown")
    planned = plan(graph, bench.instance, ["chunks"], rebuild_all=True)
    Path(damaged.path).write_bytes(b"PAR1 no more")
    report = execute(planned, bench.instance, workers=scheduler)
    assert {outcome.kind for outcome in report.outcomes} == {Kind.FAILED}
    assert f"{damaged} is damaged" in report.outcomes[0].reason
    assert unfinished(bench.instance) == []


def test_the_run_that_a_lost_worker_left_is_closed_when_another_takes_over(bench: Bench) -> None:
    graph, submission = bench.graph(), "7b0c5a2e-4e0f-4f5e-9f3e-2b8a1f1d7c11"
    job = graph.job_of("chunks")
    first = bench.instance.create_run_for_job(job, run_id=worker.run_id_of(submission, 0))
    assert unfinished(bench.instance) == [first.run_id]
    assert worker.close_unfinished(bench.instance, submission, WORKER_LOST) == 1
    closed = bench.instance.get_run_by_id(first.run_id)
    assert closed is not None
    assert closed.status is DagsterRunStatus.FAILURE
    assert WORKER_LOST in [entry.message for entry in bench.instance.all_logs(first.run_id)]
    assert worker.run_id_of(submission, 1) != first.run_id


@pytest.mark.slow
def test_a_partition_whose_workers_are_lost_fails_with_that_cause_and_the_rest_goes_on(bench: Bench) -> None:
    import dask

    settings = {"threads_per_worker": 1, "dashboard_address": LOOPBACK, "memory_limit": 0}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(n_workers=1, silence_logs=logging.CRITICAL, **settings) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        ThreadPoolExecutor(1) as aside,
    ):
        (pid,) = client.run(os.getpid).values()
        lost = aside.submit(killed_at_work, bench.instance.root_directory, pid)
        report = materialise(bench, cluster.scheduler_address, "chunks", "index", "retrieved_ids", rebuild_all=True)
        run = bench.instance.get_run_by_id(lost.result())
    assert run is not None
    assert run.status is DagsterRunStatus.FAILURE
    (failed,) = report.of_kind(Kind.FAILED)
    assert WORKER_LOST in failed.reason
    assert f"{failed.node.asset} failed" not in failed.reason
    assert report.of_kind(Kind.UNCHANGED)  # by the worker that was started again
    assert len(report.outcomes) == 2 + 4 + 4
    assert unfinished(bench.instance) == []


def killed_at_work(home: str, pid: int) -> str:
    """Kill a worker process in the middle of a run; gives the id of that run."""
    end = time.monotonic() + 120
    with open_instance(Path(home)) as instance:
        while time.monotonic() < end:
            for run_id in unfinished(instance):
                os.kill(pid, signal.SIGSTOP)
                if run_id in unfinished(instance):
                    os.kill(pid, signal.SIGKILL)
                    return run_id
                os.kill(pid, signal.SIGCONT)
            time.sleep(0.01)
    raise AssertionError("no run was under way")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("0", "give the address of a Dask scheduler"),
        ("-1", "give the address of a Dask scheduler"),
        ("host", "give the address of a Dask scheduler"),
        ("tcp://127.0.0.1:9", "no Dask scheduler answers at tcp://127.0.0.1:9"),
        ("99999999999999999999", "at most 256 processes"),
        ("tls://127.0.0.1:9", "tls://127.0.0.1:9 needs TLS, .* name them in its configuration"),
    ],
)
def test_workers_that_cannot_be_are_one_clear_error(
    bench: Bench, given: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "_CONNECT_SECONDS", 1)
    with pytest.raises(ConfigError, match=message):
        execute(bench.plan(rebuild_all=True), bench.instance, workers=given)


def _other_version(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    monkeypatch.setattr(finding, "software", lambda: {**worker.software(), "pyarrow": "0.1"})


def _other_code(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    monkeypatch.setattr(finding, "software", lambda: {**worker.software(), "contextgrid": "0"})


def _other_instance(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    monkeypatch.setattr(finding, "records_of", lambda _: "another")


def _other_store(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    monkeypatch.setattr("contextgrid_dagster.storage.TableStore.write", lambda *_: None)
    monkeypatch.setattr("fsspec.implementations.local.LocalFileSystem.rm_file", lambda *_: None)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_other_version, r"worker tcp://[0-9.:]+ has pyarrow [0-9.]+ where this process has 0\.1; install the same"),
        (_other_code, "runs other code of contextgrid than this process"),
        (_other_instance, "opens another Dagster database"),
        (_other_store, "does not see the store .*; set CONTEXTGRID_STORAGE to a URL"),
    ],
)
def test_a_worker_that_would_work_on_something_else_is_refused(
    bench: Bench,
    scheduler: str,
    spoil: Callable[[pytest.MonkeyPatch, Bench], None],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planned = bench.plan(rebuild_all=True)
    spoil(monkeypatch, bench)
    with pytest.raises(ConfigError, match=message):
        execute(planned, bench.instance, workers=scheduler)


def test_without_a_worker_the_command_says_how_to_start_one(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "JOIN_SECONDS", 1)
    with (
        distributed.LocalCluster(n_workers=0, processes=False, protocol="tcp://", dashboard_address=LOOPBACK) as empty,
        pytest.raises(ConfigError, match=r"no worker joined .* start some with: dask worker tcp://\S+ --nthreads 1"),
    ):
        execute(bench.plan(rebuild_all=True), bench.instance, workers=empty.scheduler_address)


def test_an_instance_in_memory_cannot_be_shared(bench: Bench, scheduler: str) -> None:
    with DagsterInstance.ephemeral() as instance, pytest.raises(ConfigError, match="not in memory"):
        execute(plan(bench.graph(), instance), instance, workers=scheduler)


@pytest.mark.parametrize(("leaves", "cause"), [("scheduler", "the scheduler at"), ("workers", "no worker is left at")])
def test_when_nobody_is_left_what_is_in_hand_fails_and_nothing_hangs(
    bench: Bench, leaves: str, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("contextgrid_dagster.workers.pool._LOOK_SECONDS", 1)
    monkeypatch.setattr("contextgrid_dagster.workers.pool.JOIN_SECONDS", 2)
    settings = {"threads_per_worker": 1, "dashboard_address": LOOPBACK, "silence_logs": logging.CRITICAL}
    with distributed.LocalCluster(n_workers=1, **settings) as cluster:

        def leave(_: object) -> None:
            cluster.close() if leaves == "scheduler" else cluster.scale(0)

        planned = bench.plan("chunks", "index", rebuild_all=True)
        report = execute(planned, bench.instance, workers=cluster.scheduler_address, started=leave)
    assert {outcome.kind for outcome in report.outcomes} <= {Kind.FAILED, Kind.SKIPPED, Kind.UNCHANGED}
    assert any(cause in outcome.reason for outcome in report.outcomes), report.outcomes
    assert unfinished(bench.instance) == []


def test_the_experiment_is_sent_and_its_folder_not_needed(
    bench: Bench, scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTEXTGRID_STORAGE", str(tmp_path / "shared"))
    graph = bench.graph()
    assert execute(plan(graph, bench.instance, ["corpus", "evalset"]), bench.instance).success
    planned = plan(graph, bench.instance, ["documents", "chunks"])
    home = bench.folder / ".contextgrid"
    for entry in bench.folder.iterdir():
        if entry != home:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    report = execute(planned, bench.instance, workers=scheduler)
    assert report.success, report.outcomes
    with pytest.raises(ConfigError):
        Experiment.load(bench.file)
