"""``run.refresh``: the schedule that it becomes, and settings that are refused."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from dagster import (
    AssetKey,
    DagsterEventType,
    DefaultScheduleStatus,
    RunRequest,
    build_schedule_context,
)
from dagster._utils.schedules import schedule_execution_time_iterator
from dagster_shared.serdes import serialize_value

from contextgrid.core.errors import ConfigError
from contextgrid.grid.experiment import Experiment
from contextgrid_dagster import build_definitions
from contextgrid_dagster.refreshing.schedules import refresh_of
from tests.dagster_fixtures import Bench, write_experiment
from tests.drifting_experiment import JUDGE, QUESTIONS, ROWS, SETTINGS, bench, built_folder, launched, server, upstream
from tests.loopback import Loopback, kind_of

__all__ = ["bench", "built_folder", "server", "upstream"]


def test_the_schedule_asks_for_what_the_experiment_says(bench: Bench, server: Loopback) -> None:
    definitions = build_definitions(bench.file)
    schedule = definitions.resolve_schedule_def("refresh")
    assert schedule.default_status is DefaultScheduleStatus.STOPPED
    assert "spends money" in str(schedule.description)
    monday = datetime(2025, 3, 31, 4, 30, tzinfo=ZoneInfo("Europe/Berlin"))  # summer time began the day before
    start = datetime(2025, 3, 29, tzinfo=ZoneInfo("UTC")).timestamp()
    ticks = schedule_execution_time_iterator(start, schedule.cron_schedule, schedule.execution_timezone)
    assert next(ticks) == monday
    context = build_schedule_context(scheduled_execution_time=monday)
    (request,) = schedule.evaluate_tick(context).run_requests or ()
    assert isinstance(request, RunRequest)
    job = definitions.resolve_job_def(str(schedule.job_name))
    assert job.execute_in_process(run_config=request.run_config, instance=bench.instance).success
    assert server.kinds()["answer"] == ROWS * QUESTIONS
    assert all(prompt.startswith("Sentinel short") for prompt in server.prompts if kind_of(prompt) == "answer")
    assert len(bench.instance.fetch_materializations(AssetKey("drift_reports"), limit=100).records) == ROWS


def test_the_schedule_and_the_reports_are_told_apart_by_key_prefix(bench: Bench) -> None:
    definitions = build_definitions(bench.file, key_prefix="a-b")
    assert definitions.resolve_schedule_def("a_b_refresh").job_name == "a_b_bring_up_to_date"
    graph = definitions.resolve_asset_graph()
    key = AssetKey(["a-b", "drift_reports"])
    assert not graph.get(key).is_executable
    assert graph.get(key).parent_keys == {AssetKey(["a-b", n]) for n in ("answers", "lexical_scores", "judge_scores")}
    assert graph.get(key).group_name == "a_b_5_findings"


def test_grids_that_generate_nothing_have_neither(tmp_path: Path) -> None:
    text = SETTINGS.replace("[extractive, llm]", "null").replace("prompt: [short, long]", "").replace("SPEC", "x:y")
    text = re.sub(r",\n   refresh.*", "}", text).replace('model: "x:y",', "")
    definitions = build_definitions(write_experiment(tmp_path, text))
    assert AssetKey("drift_reports") not in definitions.resolve_asset_graph().get_all_asset_keys()
    assert not list(definitions.schedules or ())
    with pytest.raises(ConfigError, match="nothing to refresh"):
        refresh_of(Experiment.load(tmp_path / "experiment.yaml"))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ('{cron: "0 4 * *"}', "run.refresh.cron: '0 4 * *' is no schedule"),
        ('{cron: "61 4 * * *"}', "run.refresh.cron: '61 4 * * *' is no schedule"),
        ('{cron: "0 0 31 4,6 *"}', "run.refresh.cron: '0 0 31 4,6 *' is no schedule, or never comes"),
        ('{cron: "0 0 30 2 *"}', "run.refresh.cron: '0 0 30 2 *' is no schedule"),
        ("{columns: all}", "'run.refresh.cron' is missing"),
        ('{cron: "@daily", timezone: Europe/Berln}', "did you mean 'Europe/Berlin'?"),
        ('{cron: "@daily", timezone: "../etc/passwd"}', "write an IANA name"),
        ('{cron: "@daily", columns: llm__shrt}', "did you mean 'llm__short__offline-reader'?"),
        ('{cron: "@daily", columns: extractive}', "run.refresh.columns: no column that a model answers"),
        ('{cron: "@daily", columns: []}', "run.refresh.columns: write all, or a list"),
        ('{cron: "@daily", repetitions: 0}', "run.refresh.repetitions"),
        ('{cron: "@daily", repetition: 2}', "did you mean 'repetitions'?"),
    ],
)
def test_a_mistaken_refresh_is_refused_with_the_mend(tmp_path: Path, written: str, message: str) -> None:
    text = SETTINGS.replace("SPEC", "offline:reader").replace(JUDGE, "judge: null")
    file = write_experiment(tmp_path, re.sub(r"refresh: \{.*\}\}", f"refresh: {written}}}", text))
    with pytest.raises(ConfigError, match=re.escape(message)):
        build_definitions(file)


def test_repetitions_without_fresh_calls_are_refused(bench: Bench) -> None:
    result = launched(bench, repetitions=2)
    assert not result.success
    assert "needs fresh: true" in serialize_value(
        [event for event in result.all_events if event.event_type is DagsterEventType.STEP_FAILURE]
    )


def test_a_refresh_changes_no_version(bench: Bench) -> None:
    bench.edit("experiment.yaml", 'cron: "30 4 * * 1"', 'cron: "0 5 * * 2", repetitions: 3')
    assert not bench.plan().pending
