"""More than one machine, on loopback: PostgreSQL, S3, a Dask scheduler and workers, one of which is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from dagster import DagsterInstance, DagsterRun, DagsterRunStatus, RunsFilter

from contextgrid.grid.experiment import Experiment
from contextgrid.models.ledger import open_ledger
from contextgrid_dagster.executor import execute
from contextgrid_dagster.graph import GridGraph, Node
from contextgrid_dagster.instance import POSTGRESQL_VARIABLE, home_of, open_instance
from contextgrid_dagster.planner import plan
from contextgrid_dagster.workers.worker import WORKER_LOST, WORKER_TAG
from tests.loopback import KEY, Loopback, running
from tests.services import SECRET, Bucket, bucket, database, s3_server

__all__ = ["bucket", "database", "s3_server"]

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "handbook"
UNFINISHED = [DagsterRunStatus.NOT_STARTED, DagsterRunStatus.STARTING, DagsterRunStatus.STARTED]
T = TypeVar("T")
DEADLINE = 480.0  # for a machine that is busy with other tests


@pytest.mark.slow
def test_the_example_on_several_machines_is_the_example_on_one(
    tmp_path: Path, database: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed", reason="workers need Dask: pip install 'contextgrid-dagster[dask]'")
    pytest.importorskip("litellm", reason="hosted models need litellm: pip install 'contextgrid-dagster[llm]'")
    for name in ("DAGSTER_HOME", "CONTEXTGRID_STORAGE", POSTGRESQL_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with running() as model:
        one = example(tmp_path / "one", model)
        with open_instance(home_of(one)) as instance:
            assert execute(plan(GridGraph(one), instance), instance).success
        expected = versions(GridGraph(one))

        ledger = database.replace("postgresql:", "postgresql+psycopg:")
        for name, value in {
            POSTGRESQL_VARIABLE: database.replace("postgresql:", "postgresql+psycopg2:"),
            "CONTEXTGRID_LEDGER": ledger,
            "CONTEXTGRID_STORAGE": f"{bucket.url}/evals",
        }.items():
            monkeypatch.setenv(name, value)
        many = example(tmp_path / "many", model)
        graph = GridGraph(many)
        with open_instance(home_of(many)) as instance, cluster(tmp_path, workers=2) as (address, processes):
            command = [sys.executable, "-c", "from contextgrid_dagster.cli import main; main()", "materialize"]
            command += [str(many.path), "--workers", address]
            coordinator = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            victim, its_run = stopped_at_work(instance, processes, coordinator)
            victim.send_signal(signal.SIGKILL)
            out, err = coordinator.communicate(timeout=DEADLINE)

            assert coordinator.returncode == 0, out + err
            assert not plan(graph, instance).pending
            assert instance.get_runs(RunsFilter(statuses=UNFINISHED)) == []
            lost = instance.get_run_by_id(its_run.run_id)
            assert lost is not None
            assert lost.status is DagsterRunStatus.FAILURE
            assert WORKER_LOST in [entry.message for entry in instance.all_logs(its_run.run_id)]
            runs = instance.get_runs()
            worked = {run.tags[WORKER_TAG] for run in runs if WORKER_TAG in run.tags}
            assert len(worked) == 2
            assert len(runs) == len(graph.nodes) + 1  # each partition once, and once more what was lost
        assert versions(graph) == expected
        assert not (many.path.parent / ".contextgrid" / "storage").exists()
        assert {row.name for row in open_ledger(ledger).spending("stage")} == {"answers"}
        assert open_ledger(ledger).spending("stage")[0].calls == len(set(model.prompts))
        logs = "".join(file.read_text() for file in tmp_path.glob("*.log"))
        assert not [secret for secret in (SECRET, KEY) if secret in out + err + logs]


def example(folder: Path, model: Loopback) -> Experiment:
    """The example with fewer cells and draws, and with a hosted model beside the offline reader."""
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".contextgrid", "results"))
    file = folder / "experiment.yaml"
    text = file.read_text()
    for before, after in {
        '["recursive:250", "structural:900"]': '"recursive:250"',
        "[bm25, dense, hybrid]": "[bm25, hybrid]",
        "reranker: [null, lexical]": "reranker: null",
        "prompt: [concise, thorough]": "prompt: concise",
        'model: "offline:reader,threshold=0.2"': f'model: ["offline:reader,threshold=0.2", "{model.spec}"]',
        "run:\n": "run:\n  judge: null\n  resamples: 200\n",
    }.items():
        assert before in text
        text = text.replace(before, after)
    file.write_text(text)
    return Experiment.load(file)


def versions(graph: GridGraph) -> dict[Node, str | None]:
    """The data version that each stored file states."""
    found = {
        Node(name, partition): version
        for name in graph.names
        for partition, version in graph.store(name).stored(graph.key(name), graph.partitions(name)).items()
    }
    assert found.keys() == set(graph.nodes)
    return found


@contextmanager
def cluster(folder: Path, *, workers: int) -> Iterator[tuple[str, dict[str, subprocess.Popen[bytes]]]]:
    """A scheduler and workers as processes; gives its address, and each worker process by name."""
    with ExitStack() as stack:

        def start(name: str, *arguments: object) -> subprocess.Popen[bytes]:
            command = [sys.executable, "-m", "dask", *map(str, arguments)]
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            process = stack.enter_context(subprocess.Popen(command, stdout=log, stderr=log, env=os.environ))
            stack.callback(process.kill)
            return process

        file = folder / "scheduler.json"
        start("scheduler", "scheduler", "--host", "127.0.0.1", "--port", 0, "--no-dashboard", "--scheduler-file", file)
        address = poll(lambda: _address(file))
        options = ("--nthreads", 1, "--no-nanny", "--no-dashboard", "--host", "127.0.0.1")
        names = [f"worker-{number}" for number in range(workers)]
        yield (
            address,
            {name: start(name, "worker", address, *options, "--name", name) for name in names},
        )


def _address(file: Path) -> str | None:
    try:
        address: str = json.loads(file.read_text())["address"]
    except (OSError, ValueError):
        return None
    return address


def stopped_at_work(
    instance: DagsterInstance, workers: dict[str, subprocess.Popen[bytes]], coordinator: subprocess.Popen[str]
) -> tuple[subprocess.Popen[bytes], DagsterRun]:
    """A worker that was stopped in the middle of a run, after some others were finished; and that run."""

    def caught() -> tuple[subprocess.Popen[bytes], DagsterRun] | None:
        assert coordinator.poll() is None, coordinator.communicate()
        started = instance.get_runs(RunsFilter(statuses=[DagsterRunStatus.STARTED]))
        for run in started:
            process = workers.get(run.tags.get(WORKER_TAG, ""))
            if process is None or instance.get_runs_count(RunsFilter(statuses=[DagsterRunStatus.SUCCESS])) < 8:
                continue
            process.send_signal(signal.SIGSTOP)
            now = instance.get_run_by_id(run.run_id)
            if now is not None and now.status is DagsterRunStatus.STARTED:
                return process, now
            process.send_signal(signal.SIGCONT)
        return None

    return poll(caught)


def poll(look: Callable[[], T | None]) -> T:
    """What ``look`` finds, as soon as it finds something."""
    end = time.monotonic() + DEADLINE
    while (found := look()) is None:
        assert time.monotonic() < end, "nothing was found in time"
        time.sleep(0.05)
    return found
