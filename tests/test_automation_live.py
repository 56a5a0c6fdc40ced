"""The sensors in a running deployment: an edited prompt ends with its column rebuilt, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.dagster_fixtures import EXPERIMENT, ROWS, Bench, new_bench
from tests.dagster_server import DagsterServer, dagster_server

READER = EXPERIMENT.replace("counting:a", '"offline:reader,threshold=0.05"')
_START = """
mutation($selector: SensorSelector!) { startSensor(sensorSelector: $selector) { __typename
  ... on Sensor { sensorState { id selectorId status } } ... on PythonError { message } } }
"""
_STOP = "mutation($id: String!) { stopSensor(id: $id) { __typename ... on PythonError { message } } }"
_TICKS = """
query($selector: SensorSelector!) { sensorOrError(sensorSelector: $selector) { __typename
  ... on Sensor { sensorState { ticks(limit: 1) { status skipReason error { message } } } } } }
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DAGSTER_HOME", raising=False)
        patch.delenv("CONTEXTGRID_STORAGE", raising=False)
        with new_bench(tmp_path_factory.mktemp("live"), READER) as bench:
            assert bench.materialise().success
            yield bench


@pytest.fixture(scope="module")
def server(built: Bench) -> Iterator[DagsterServer]:
    with dagster_server(built.file) as running:
        yield running


def _start(server: DagsterServer, sensor: str) -> dict[str, Any]:
    selector = {**server.repository(), "sensorName": sensor}
    started = server.graphql(_START, selector=selector)["startSensor"]
    assert started["__typename"] == "Sensor", started
    return selector


def _last_tick(server: DagsterServer, selector: dict[str, Any]) -> dict[str, Any]:
    ticks = server.graphql(_TICKS, selector=selector)["sensorOrError"]["sensorState"]["ticks"]
    found: dict[str, Any] = ticks[0] if ticks else {}
    assert not found.get("error"), found
    return found


@pytest.mark.slow
def test_an_edited_prompt_rebuilds_its_column_while_the_sensor_runs(built: Bench, server: DagsterServer) -> None:
    selector = _start(server, "keep_current")
    server.until(lambda: "up to date" in (_last_tick(server, selector).get("skipReason") or ""), 60, "a first look")
    with built.counted() as counted:
        built.edit("prompts/short.txt", "Answer from", "Answer in one sentence from")
        server.until(lambda: built.plan().pending == (), 120, "the edited column is up to date")
        server.until(lambda: "up to date" in (_last_tick(server, selector).get("skipReason") or ""), 60, "rest")
    column = sorted(str(cell) for cell in built.graph().partitions("answers") if "__short__" in str(cell))
    assert len(column) == ROWS
    assert {name: sorted(map(str, keys)) for name, keys in counted.partitions.items()} == {
        "generation_spec": [column[0].partition("|")[0]],
        "answers": column,
        "lexical_scores": column,
        "lift_reports": column,
        "leaderboard": ["None"],
    }
