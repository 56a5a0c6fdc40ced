"""Backfills through the real daemon, web server and code server, over GraphQL as the UI sends it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from dagster import DagsterInstance, DagsterRunStatus, RunsFilter

from contextgrid.core.fingerprint import fingerprint
from contextgrid.grid.experiment import Experiment
from contextgrid_dagster.graph import GridGraph, Node
from contextgrid_dagster.instance import home_of, open_instance
from contextgrid_dagster.launching.processes import RunProcess
from contextgrid_dagster.planner import plan
from tests.dagster_fixtures import EXPERIMENT, PROMPTS, write_experiment
from tests.dagster_server import DagsterServer, dagster_server

SMALL = EXPERIMENT.replace("counting:a", "offline:reader").replace('["recursive:60", "recursive:200"]', "recursive:60")
SHORT, LONG = "llm__short__offline-reader", "llm__long__offline-reader"
ROW = "markdown__recursive-60__bm25"
CELL_ASSETS = ("answers", "lexical_scores", "lift_reports")
SECONDS = 90

_LAUNCH = """mutation($params: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $params) {
  __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""
_BACKFILL = """query($id: String!) { partitionBackfillOrError(backfillId: $id) {
  ... on PartitionBackfill { status error { message } } } }"""
_CANCEL = "mutation($id: String!) { cancelPartitionBackfill(backfillId: $id) { __typename } }"
_TERMINATE = "mutation($id: String!) { terminateRun(runId: $id) { __typename } }"
_RETRY = """mutation($params: ReexecutionParams!) { reexecutePartitionBackfill(reexecutionParams: $params) {
  __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""
_REEXECUTE = """mutation($params: ReexecutionParams!) { launchRunReexecution(reexecutionParams: $params) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
_LAUNCH_JOB = """mutation($params: ExecutionParams!) { launchRun(executionParams: $params) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""


@dataclass(frozen=True)
class Deployment:
    """The server and, beside it, the instance that it writes to."""

    server: DagsterServer
    instance: DagsterInstance

    def graph(self) -> GridGraph:
        return GridGraph(Experiment.load(self.server.experiment))

    def pending(self) -> set[Node]:
        return {step.node for step in plan(self.graph(), self.instance).pending}

    def edit_prompts(self, *names: str, text: str) -> None:
        for name in names:
            (self.server.experiment.parent / "prompts" / f"{name}.txt").write_text(f"{text} {PROMPTS[name]}")

    def backfill(self, *assets: str, **params: Any) -> str:
        selection = [{"path": [name]} for name in assets]
        launched = self.server.graphql(_LAUNCH, params={"assetSelection": selection, **params})
        return self._id_of(launched["launchPartitionBackfill"])

    def retry(self, backfill: str) -> str:
        params = {"parentRunId": backfill, "strategy": "FROM_FAILURE"}
        return self._id_of(self.server.graphql(_RETRY, params=params)["reexecutePartitionBackfill"])

    def reexecute(self, run: str) -> str:
        params = {"parentRunId": run, "strategy": "FROM_FAILURE"}
        return self._id_of(self.server.graphql(_REEXECUTE, params=params)["launchRunReexecution"])

    def bring_up_to_date(self, **config: Any) -> str:
        params = {
            "selector": {**self.server.repository(), "jobName": "bring_up_to_date"},
            "runConfigData": {"ops": {"bring_up_to_date_op": {"config": config}}},
        }
        return self._id_of(self.server.graphql(_LAUNCH_JOB, params=params)["launchRun"])

    def backfill_ended(self, backfill: str) -> str:
        def status() -> str:
            found = self.server.graphql(_BACKFILL, id=backfill)["partitionBackfillOrError"]
            assert not found["error"], found
            return "" if found["status"] in ("REQUESTED", "CANCELING", "FAILING") else str(found["status"])

        return self.server.until(status, SECONDS, f"the end of backfill {backfill}")

    def run_ended(self, run_id: str) -> DagsterRunStatus:
        def status() -> DagsterRunStatus | None:
            run = self.instance.get_run_by_id(run_id)
            return run.status if run and run.is_finished else None

        ended = self.server.until(status, SECONDS, f"the end of run {run_id}")
        assert ended is not None
        return ended

    def built(self, backfill: str) -> list[Node]:
        """The partitions that a backfill's runs materialised, as often as they did."""
        runs = self.instance.get_runs(RunsFilter(tags={"dagster/backfill": backfill}))
        return [node for run in runs for node in self.built_by(run.run_id)]

    def built_by(self, run_id: str) -> list[Node]:
        events = [entry.dagster_event for entry in self.instance.all_logs(run_id) if entry.dagster_event]
        return [
            Node(event.asset_key.path[-1], event.partition)
            for event in events
            if event.is_step_materialization and event.asset_key
        ]

    def built_since(self, what: Callable[[], object]) -> set[Node]:
        """The partitions that were materialised while something ran."""
        before = {run.run_id for run in self.instance.get_runs()}
        what()
        new = [run.run_id for run in self.instance.get_runs() if run.run_id not in before]
        return {node for run_id in new for node in self.built_by(run_id)}

    @staticmethod
    def _id_of(launched: dict[str, Any]) -> str:
        assert launched["__typename"] in ("LaunchBackfillSuccess", "LaunchRunSuccess"), launched
        found = launched.get("backfillId") or launched["run"]["runId"]
        return str(found)


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    """Nothing is built yet; the daemon looks at backfills and runs more often than it would by default."""
    for name in ("DAGSTER_HOME", "CONTEXTGRID_STORAGE"):
        monkeypatch.delenv(name, raising=False)
    file = write_experiment(tmp_path, SMALL)
    home = home_of(Experiment.load(file))
    with open_instance(home):
        settings = home / "dagster.yaml"
        quicker = settings.read_text().replace("backfill_interval_seconds: 10", "backfill_interval_seconds: 2")
        settings.write_text(quicker.replace("poll_interval_seconds: 15", "poll_interval_seconds: 1"))
    with dagster_server(file) as server, open_instance(home) as instance:
        yield Deployment(server, instance)


@pytest.mark.slow
def test_backfills_through_the_daemon(deployment: Deployment) -> None:
    """One deployment for all, because it takes long to start."""
    a_full_backfill_builds_every_partition_once(deployment)
    a_backfill_after_a_prompt_edit_builds_its_column_and_nothing_else(deployment)
    a_cancelled_backfill_leaves_finished_cells_valid_and_the_rest_for_later(deployment)
    a_failed_cell_is_retried_alone(deployment)
    a_terminated_job_stops_and_keeps_what_was_finished(deployment)
    a_killed_run_is_failed_and_finished_by_the_next(deployment)


def a_full_backfill_builds_every_partition_once(on: Deployment) -> None:
    graph = on.graph()
    backfill = on.backfill(*graph.names, allPartitions=True)
    assert on.backfill_ended(backfill) == "COMPLETED_SUCCESS"
    assert sorted(on.built(backfill), key=str) == sorted(graph.nodes, key=str)
    assert on.pending() == set()


def a_backfill_after_a_prompt_edit_builds_its_column_and_nothing_else(on: Deployment) -> None:
    on.edit_prompts("short", text="Be brief.")
    column = {node for node in on.graph().nodes if str(node.partition).partition("|")[0] == SHORT}
    assert len(column) == 1 + 3 * 2
    assert on.pending() == column | {Node("leaderboard")}
    backfill = on.backfill("generation_spec", *CELL_ASSETS, "leaderboard", partitionNames=[SHORT])
    assert on.backfill_ended(backfill) == "COMPLETED_SUCCESS"
    built = on.built(backfill)
    assert (len(built), set(built)) == (len(column) + 1, column | {Node("leaderboard")})
    assert on.pending() == set()


def a_cancelled_backfill_leaves_finished_cells_valid_and_the_rest_for_later(on: Deployment) -> None:
    on.edit_prompts("short", "long", text="Think first.")
    stale = on.pending()
    backfill = on.backfill("generation_spec", *CELL_ASSETS, "leaderboard", partitionNames=[SHORT, LONG])
    on.server.until(lambda: [n for n in on.built(backfill) if n.asset == "answers"], SECONDS, "the first answers")
    on.server.graphql(_CANCEL, id=backfill)
    assert on.backfill_ended(backfill) == "CANCELED"
    finished = set(on.built(backfill))
    assert Node("leaderboard") not in finished

    # Exactly the rest is left, apart from what is spared because the answers above it turned out the same.
    left, rest, graph = on.pending(), stale - finished, on.graph()
    assert left <= rest
    for spared in rest - left:
        parents = {node for group in graph.parents(spared).values() for node in group}
        assert parents & stale <= finished | (rest - left)
    every_stored_file_is_whole(on)
    assert on.built_since(lambda: on.run_ended(on.bring_up_to_date())) <= left
    assert on.pending() == set()


def a_failed_cell_is_retried_alone(on: Deployment) -> None:
    graph = on.graph()
    cells = [f"extractive|{row.key}" for row in graph.experiment.matrix.rows]
    bad = f"extractive|{ROW}"
    path = graph.tables.path_of(graph.key("retrieved_ids"), ROW)
    content = path.read_bytes()
    path.unlink()
    backfill = on.backfill("answers", "lexical_scores", partitionNames=cells)
    assert on.backfill_ended(backfill) == "COMPLETED_FAILED"
    assert {node.partition for node in on.built(backfill)} == set(cells) - {bad}

    path.write_bytes(content)
    (failed,) = on.instance.get_runs(
        RunsFilter(tags={"dagster/backfill": backfill}, statuses=[DagsterRunStatus.FAILURE])
    )
    once_more = on.reexecute(failed.run_id)
    assert on.run_ended(once_more) is DagsterRunStatus.SUCCESS
    assert set(on.built_by(once_more)) == {Node("answers", bad), Node("lexical_scores", bad)}
    retried = on.retry(backfill)
    assert on.backfill_ended(retried) == "COMPLETED_SUCCESS"
    assert set(on.built(retried)) == {Node("answers", bad), Node("lexical_scores", bad)}


def a_terminated_job_stops_and_keeps_what_was_finished(on: Deployment) -> None:
    run_id = on.bring_up_to_date(rebuild_all=True)
    process_at_work(on, run_id)
    on.server.graphql(_TERMINATE, id=run_id)
    assert on.run_ended(run_id) is DagsterRunStatus.CANCELED
    every_stored_file_is_whole(on)
    assert on.pending() == set()


def a_killed_run_is_failed_and_finished_by_the_next(on: Deployment) -> None:
    run_id = on.bring_up_to_date(rebuild_all=True)
    running = process_at_work(on, run_id)
    os.kill(running.pid, signal.SIGKILL)
    assert on.run_ended(run_id) is DagsterRunStatus.FAILURE
    said = " ".join(str(entry.message) for entry in on.instance.all_logs(run_id))
    assert "was ended by SIGKILL" in said or f"process {running.pid} is gone" in said
    # The daemon also ends the record of the run that was at work inside it.
    unfinished = RunsFilter(statuses=[DagsterRunStatus.STARTED, DagsterRunStatus.STARTING])
    on.server.until(lambda: not on.instance.get_runs(unfinished), SECONDS, "no run that is started for ever")
    every_stored_file_is_whole(on)
    assert on.run_ended(on.bring_up_to_date()) is DagsterRunStatus.SUCCESS
    assert on.pending() == set()


def process_at_work(on: Deployment, run_id: str) -> RunProcess:
    """The process of a launched job, once a run inside it is at work."""

    def process() -> RunProcess | None:
        run = on.instance.get_run_by_id(run_id)
        inside = on.instance.get_runs(RunsFilter(statuses=[DagsterRunStatus.STARTED]))
        return RunProcess.noted(run) if run and len(inside) > 1 else None

    found = on.server.until(process, SECONDS, "a run inside the launched run")
    assert found is not None
    return found


def every_stored_file_is_whole(on: Deployment) -> None:
    """Each reads back with the version that it states."""
    graph = on.graph()
    for name in graph.names:
        store, key = graph.store(name), graph.key(name)
        stored = store.stored(key, graph.partitions(name))
        assert set(stored) == set(graph.partitions(name))
        for partition, version in stored.items():
            path = store.path_of(key, partition)
            content: Any = graph.indexes.load_index(path) if name == "index" else graph.tables.load_table(path)
            assert (content.fingerprint() if name == "index" else fingerprint(content)) == version
    storage = on.server.experiment.parent / ".contextgrid" / "storage"
    assert not list(storage.rglob(".*.part"))
