"""What the assets cost beside the work in them: CPU, wall time and runs for each cell of a grid without a model.

Run with ``python -m benchmarks.overhead``, then any of ``process``, ``job`` and ``backfill`` (by default the first
two), ``--grid 6x4`` or ``--grid 20x5`` (by default both), ``--without-checks``, which switches all checks off, and
``--stock``, which launches runs with Dagster's own launcher and queue. The grids have three short documents and three
questions, so that next to all of the time is spent on runs, records and files.

- ``process``: ``contextgrid-dagster materialize`` of everything, planning and the imports of the stages included.
- ``job``: the job ``bring_up_to_date``, launched through the web server and the daemon of a real deployment.
- ``backfill``: a backfill of all assets in Dagster itself, as the UI starts it. Takes minutes.

CPU is that of all processes, those of runs included; for ``job`` and ``backfill`` from the launch to the end, the
deployment's own idling included.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from tests.dagster_fixtures import write_experiment
from tests.dagster_server import DagsterServer, dagster_server

EXPERIMENT = """\
name: overhead
corpus: documents
evalset: questions.jsonl
prompts: {prompts}
grid:
  parser: markdown
  chunker: {chunkers}
  embedder: tfidf
  index: [bm25, dense]
  reranker: {rerankers}
  generator: [extractive, llm]
  prompt: {names}
  model: offline:reader
run: {{k: 2, cutoffs: [1, 3], headline: recall@3, resamples: 200, judge: null}}
"""
# Rows and columns; rows are 2 indexes by rerankers by chunkers.
GRIDS = {"6x4": (6, 4), "20x5": (20, 5)}
WAYS = ("process", "job", "backfill")
_SECONDS = 3600


@dataclass(frozen=True)
class Cost:
    """What a grid took: seconds of CPU and of wall time, and the number of runs that Dagster recorded."""

    cpu: float
    wall: float
    runs: int


def write_grid(folder: Path, rows: int, columns: int) -> Path:
    """An experiment with that many rows and columns; one column is extractive, the others differ by prompt."""
    rerankers = 2 if rows % 4 == 0 else 1
    names = [f"p{number}" for number in range(columns - 1)]
    text = EXPERIMENT.format(
        prompts=json.dumps({name: f"Prompt {name}.\n{{context}}\nQuestion: {{question}}" for name in names}),
        chunkers=json.dumps([f"recursive:{60 + 40 * number}" for number in range(rows // 2 // rerankers)]),
        rerankers="[null, lexical]" if rerankers == 2 else "null",
        names=json.dumps(names),
    )
    return write_experiment(folder, text)


def switch_checks_off(file: Path) -> None:
    """Have nothing checked."""
    from contextgrid.checks import CheckSettings

    none = ", ".join(f"{name}: null" for name in CheckSettings.model_fields)
    file.write_text(f"{file.read_text()}checks: {{{none}}}\n")


def write_stock_home(file: Path) -> None:
    """Make the experiment's Dagster home, without what this project adds to how runs are launched."""
    from contextgrid.grid.experiment import Experiment
    from contextgrid_dagster.instance import home_of, open_instance

    home = home_of(Experiment.load(file))
    with open_instance(home):
        pass
    settings = yaml.safe_load((home / "dagster.yaml").read_text())
    for own in ("run_launcher", "run_coordinator", "run_monitoring"):
        del settings[own]
    (home / "dagster.yaml").write_text(yaml.safe_dump(settings))


def in_one_process(file: Path) -> Cost:
    """Everything, run by run in this process."""
    from contextgrid.grid.experiment import Experiment
    from contextgrid_dagster.executor import execute
    from contextgrid_dagster.graph import GridGraph
    from contextgrid_dagster.instance import home_of, open_instance
    from contextgrid_dagster.planner import plan

    graph = GridGraph(Experiment.load(file))
    with open_instance(home_of(graph.experiment)) as instance:
        wall, cpu = time.perf_counter(), time.process_time()
        report = execute(plan(graph, instance), instance)
        assert report.success
        return Cost(time.process_time() - cpu, time.perf_counter() - wall, len(report.outcomes))


def through_the_daemon(file: Path, launch: Callable[[DagsterServer], str]) -> Cost:
    """Everything, by what ``launch`` starts in a deployment; it returns a query that says whether that has ended."""
    with dagster_server(file) as server:
        wall, cpu = time.perf_counter(), _cpu(server)
        query = launch(server)
        deadline = time.monotonic() + _SECONDS
        while (status := next(iter(server.graphql(query).values()))["status"]) not in _ENDED:
            assert time.monotonic() < deadline, server.tail()
            time.sleep(2)  # asking costs the web server CPU
        assert status in ("SUCCESS", "COMPLETED_SUCCESS"), server.tail()
        spent = Cost(_cpu(server) - cpu, time.perf_counter() - wall, 0)
        return Cost(spent.cpu, spent.wall, server.graphql(_RUNS)["runsOrError"]["count"])


_ENDED = frozenset({"SUCCESS", "FAILURE", "CANCELED", "COMPLETED_SUCCESS", "COMPLETED_FAILED", "COMPLETED", "FAILED"})
_RUNS = "{ runsOrError { ... on Runs { count } } }"


def launch_job(server: DagsterServer) -> str:
    """Launch ``bring_up_to_date``."""
    params = {"selector": {**server.repository(), "jobName": "bring_up_to_date"}, "runConfigData": {}}
    mutation = """mutation($params: ExecutionParams!) { launchRun(executionParams: $params) {
      ... on LaunchRunSuccess { run { runId } } } }"""
    run_id = server.graphql(mutation, params=params)["launchRun"]["run"]["runId"]
    return f'{{ runOrError(runId: "{run_id}") {{ ... on Run {{ status }} }} }}'


def launch_backfill(server: DagsterServer) -> str:
    """Launch a backfill of all partitions of all assets."""
    assets = server.graphql("{ assetNodes { assetKey { path } isExecutable } }")["assetNodes"]
    # drift_reports is not executable: the UI leaves it out, and the daemon fails over it.
    selected = [node["assetKey"] for node in assets if node["isExecutable"]]
    params = {"assetSelection": selected, "allPartitions": True}
    mutation = """mutation($params: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $params) {
      ... on LaunchBackfillSuccess { backfillId } } }"""
    found = server.graphql(mutation, params=params)["launchPartitionBackfill"]["backfillId"]
    return f'{{ partitionBackfillOrError(backfillId: "{found}") {{ ... on PartitionBackfill {{ status }} }} }}'


def _cpu(server: DagsterServer) -> float:
    """Seconds of CPU of the deployment: of its living processes, and of those that these have waited for."""
    root = psutil.Process(server.process.pid)
    total = 0.0
    for process in [root, *root.children(recursive=True)]:
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total


def main() -> None:
    """Print the figures asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ways", nargs="*", choices=[*WAYS, []], default=[])
    parser.add_argument("--grid", action="append", choices=list(GRIDS))
    parser.add_argument("--without-checks", action="store_true")
    parser.add_argument("--stock", action="store_true")
    arguments = parser.parse_args()
    os.environ.pop("DAGSTER_HOME", None)
    os.environ.pop("CONTEXTGRID_STORAGE", None)
    measure: dict[str, Callable[[Path], Cost]] = {
        "process": in_one_process,
        "job": lambda file: through_the_daemon(file, launch_job),
        "backfill": lambda file: through_the_daemon(file, launch_backfill),
    }
    print("grid   way       cells  runs  CPU s/cell  wall s/cell  CPU s/run  wall s")
    for grid in arguments.grid or GRIDS:
        rows, columns = GRIDS[grid]
        for way in arguments.ways or WAYS[:2]:
            with tempfile.TemporaryDirectory() as folder:
                file = write_grid(Path(folder) / grid, rows, columns)
                if arguments.without_checks:
                    switch_checks_off(file)
                if arguments.stock:
                    write_stock_home(file)
                cost: Any = measure[way](file)
            cells = rows * columns
            print(
                f"{grid:6} {way:9} {cells:5} {cost.runs:5} {cost.cpu / cells:11.2f} {cost.wall / cells:12.2f}"
                f" {cost.cpu / cost.runs:10.2f} {cost.wall:7.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
