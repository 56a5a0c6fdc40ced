"""Sensors notice edited files and ask for exactly what they changed; declarative automation rebuilds one column."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import pytest
from dagster import (
    AssetKey,
    DagsterRunStatus,
    DefaultSensorStatus,
    Definitions,
    RunRequest,
    SensorDefinition,
    SensorResult,
    SkipReason,
    build_sensor_context,
    evaluate_automation_conditions,
)
from dagster._core.definitions.declarative_automation.automation_condition_tester import (
    EvaluateAutomationConditionsResult,
)
from dagster._core.test_utils import create_run_for_test

from contextgrid.core.errors import ContextGridError
from contextgrid_dagster import build_definitions
from tests.dagster_fixtures import LLM_SHORT, ROWS, Bench, bench, built_bench

__all__ = ["bench", "built_bench"]


class Ticks:
    """One sensor of a loaded experiment, evaluated tick by tick with its cursor, as the daemon does."""

    def __init__(self, bench: Bench, name: str, key_prefix: str | None = None) -> None:
        self.defs = build_definitions(bench.file, key_prefix=key_prefix)
        self._bench = bench
        self._cursor: str | None = None
        sensor = self.defs.resolve_sensor_def(name)
        assert isinstance(sensor, SensorDefinition)
        self._sensor = sensor

    def tick(self) -> list[RunRequest] | str:
        """The requested runs, or the reason why there are none."""
        repository = self.defs.get_repository_def()
        context = build_sensor_context(self._bench.instance, cursor=self._cursor, repository_def=repository)
        result = self._sensor(context)
        assert isinstance(result, SensorResult)
        self._cursor = result.cursor
        if result.skip_reason is not None:
            assert isinstance(result.skip_reason, SkipReason)
            return str(result.skip_reason.skip_message)
        return list(result.run_requests or [])

    def run(self) -> None:
        """What a launched run of the job does."""
        job = self.defs.resolve_job_def("bring_up_to_date")
        job.execute_in_process(instance=self._bench.instance, raise_on_error=False)


@pytest.fixture(autouse=True)
def aged(bench: Bench) -> None:
    """All files of the experiment were saved a while ago."""
    for file in bench.folder.rglob("*"):
        if file.is_file() and ".contextgrid" not in file.parts:
            _age(file)


_SAVED = count(1_700_000_000)


def _age(file: Path) -> None:
    saved = next(_SAVED)
    os.utime(file, (saved, saved))


def _edit(bench: Bench, name: str, before: str, after: str) -> None:
    bench.edit(name, before, after)
    _age(bench.folder / name)


def test_keep_current_asks_once_for_what_an_edit_changed(bench: Bench) -> None:
    ticks = Ticks(bench, "keep_current")
    assert "up to date" in ticks.tick()
    assert "no file changed" in ticks.tick()
    _edit(bench, "prompts/short.txt", "Answer from", "Answer at length from")
    requests = ticks.tick()
    assert isinstance(requests, list)
    (request,) = requests
    assert request.tags["contextgrid/started_by"] == "keep_current"
    with bench.counted() as counted:
        ticks.run()
    assert counted.counts() == {
        "generation_spec": 1,
        "answers": ROWS,
        "lexical_scores": ROWS,
        "lift_reports": ROWS,
        "leaderboard": 1,
    }
    assert "up to date" in ticks.tick()


def test_a_stored_file_that_vanished_is_noticed_at_the_next_close_look(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = Ticks(bench, "keep_current")
    ticks.tick()
    graph = bench.graph()
    graph.tables.path_of(graph.key("lexical_scores"), graph.partitions("lexical_scores")[0]).unlink()
    assert "no file changed since the last look: all " in ticks.tick()
    monkeypatch.setattr("contextgrid_dagster.watching.LOOK_AGAIN_SECONDS", 0)
    assert isinstance(ticks.tick(), list)


def test_an_edit_that_is_taken_back_and_made_again_is_asked_for_again(bench: Bench) -> None:
    ticks = Ticks(bench, "keep_current")
    ticks.tick()
    for before, after in [("Answer from", "Say it from"), ("Say it from", "Answer from")] * 2:
        _edit(bench, "prompts/short.txt", before, after)
        assert isinstance(ticks.tick(), list)
        ticks.run()
        assert "up to date" in ticks.tick()


def test_a_cell_that_fails_is_not_paid_for_twice(bench: Bench) -> None:
    ticks = Ticks(bench, "keep_current")
    _edit(bench, "prompts/short.txt", "Answer from", "fail always from")
    assert isinstance(ticks.tick(), list)
    ticks.run()
    reason = ticks.tick()
    assert reason[:30] == "the last run left answers:llm_"
    assert "bring_up_to_date" in reason
    assert "no file changed" in ticks.tick()
    _edit(bench, "prompts/short.txt", "fail always from", "Answer from")
    assert isinstance(ticks.tick(), list)


def test_files_that_are_just_being_saved_are_waited_for(bench: Bench) -> None:
    ticks = Ticks(bench, "keep_current")
    bench.edit("prompts/short.txt", "Answer from", "Answer at length from")
    assert "being saved" in ticks.tick()
    _age(bench.folder / "prompts" / "short.txt")
    assert isinstance(ticks.tick(), list)


def test_a_run_that_is_under_way_is_waited_for(bench: Bench) -> None:
    ticks = Ticks(bench, "keep_current")
    _edit(bench, "prompts/short.txt", "Answer from", "Answer at length from")
    run = create_run_for_test(bench.instance, job_name="bring_up_to_date", status=DagsterRunStatus.STARTED)
    assert run.run_id[:8] in ticks.tick()
    other = create_run_for_test(
        bench.instance, asset_selection=frozenset({AssetKey("answers")}), status=DagsterRunStatus.STARTING
    )
    bench.instance.delete_run(run.run_id)
    assert other.run_id[:8] in ticks.tick()
    bench.instance.delete_run(other.run_id)
    assert isinstance(ticks.tick(), list)


def test_an_edited_experiment_file_asks_for_a_reload(bench: Bench) -> None:
    ticks = Ticks(bench, "keep_current")
    _edit(bench, "experiment.yaml", "recursive:200", "recursive:150")
    assert ticks.tick() == "experiment.yaml changed: reload the code location to work with its new cells"
    reloaded = Ticks(bench, "keep_current")
    assert isinstance(reloaded.tick(), list)


def test_a_question_file_that_cannot_be_read_fails_the_tick_with_its_line(bench: Bench) -> None:
    ticks = Ticks(bench, "keep_current")
    ticks.tick()
    _edit(bench, "questions.jsonl", '{"id": "q2"', '{"id": q2')
    with pytest.raises(ContextGridError, match=r"questions\.jsonl:2: not valid JSON"):
        ticks.tick()


def test_watch_inputs_asks_for_the_inputs_whose_files_changed(bench: Bench) -> None:
    ticks = Ticks(bench, "watch_inputs")
    assert "up to date" in ticks.tick()
    _edit(bench, "prompts/short.txt", "Answer from", "Answer at length from")
    _edit(bench, "documents/refunds.md", "thirty days", "thirty  days")
    requests = ticks.tick()
    assert isinstance(requests, list)
    assert [(request.asset_selection, request.partition_key) for request in requests] == [
        ([AssetKey("corpus")], None),
        ([AssetKey("generation_spec")], LLM_SHORT),
    ]
    bench.materialise("corpus", "generation_spec")
    assert "up to date" in ticks.tick()


def test_automation_rebuilds_the_column_of_an_edited_prompt_and_nothing_else(bench: Bench) -> None:
    defs = build_definitions(bench.file)
    before = evaluate_automation_conditions(defs, bench.instance)
    assert before.total_requested == 0
    bench.edit("prompts/short.txt", "Answer from", "Answer at length from")
    bench.materialise("generation_spec")
    column = {f"{LLM_SHORT}|{row.key}" for row in bench.graph().experiment.matrix.rows}
    assert _followed(defs, bench, before) == {
        "answers": column,
        "lexical_scores": column,
        "lift_reports": column,
        "leaderboard": {None},
    }


def _followed(
    defs: Definitions, bench: Bench, result: EvaluateAutomationConditionsResult
) -> dict[str, set[str | None]]:
    """What automation asks for tick after tick, each request being fulfilled, until it asks for nothing."""
    asked: dict[str, set[str | None]] = {}
    for _ in range(10):
        result = evaluate_automation_conditions(defs, bench.instance, cursor=result.cursor)
        if not result.total_requested:
            return asked
        for name in bench.graph().names:
            if partitions := result.get_requested_partitions(AssetKey(name)):
                asked.setdefault(name, set()).update(partitions)
                bench.materialise(name)
    raise AssertionError(f"automation never came to rest: {asked}")


def test_automation_rests_when_an_upstream_is_rebuilt_with_the_same_content(bench: Bench) -> None:
    defs = build_definitions(bench.file)
    before = evaluate_automation_conditions(defs, bench.instance)
    bench.materialise("corpus", "retrieved_ids", rebuild_all=True)
    assert evaluate_automation_conditions(defs, bench.instance, cursor=before.cursor).total_requested == 0


def test_every_sensor_is_stopped_until_somebody_starts_it_and_says_what_that_costs(bench: Bench) -> None:
    sensors = {sensor.name: sensor for sensor in build_definitions(bench.file).sensors or ()}
    assert set(sensors) == {"keep_current", "watch_inputs", "follow_changes"}
    assert {sensor.default_status for sensor in sensors.values()} == {DefaultSensorStatus.STOPPED}
    for name in ("keep_current", "follow_changes"):
        assert "spend money" in str(sensors[name].description)


def test_two_experiments_in_one_workspace_have_sensors_of_their_own(bench: Bench) -> None:
    merged = Definitions.merge(
        build_definitions(bench.file, key_prefix="left"), build_definitions(bench.file, key_prefix="right-2")
    )
    names = {sensor.name for sensor in merged.sensors or ()}
    assert {"left_keep_current", "right_2_keep_current", "left_follow_changes", "right_2_watch_inputs"} <= names
    assert merged.get_repository_def()
