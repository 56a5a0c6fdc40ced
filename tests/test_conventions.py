"""Dagster's own tools accept the definitions without a complaint."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from dagster import Definitions

from contextgrid.grid.experiment import Experiment
from contextgrid_dagster import build_definitions
from contextgrid_dagster.instance import warn_of_temporary_home
from tests.dagster_fixtures import write_experiment

ROOT = Path(__file__).resolve().parents[1]
HANDBOOK = ROOT / "examples" / "handbook" / "experiment.yaml"


def _dagster(folder: Path, *arguments: str, experiment: Path | None = HANDBOOK) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DAGSTER_HOME": str(folder), "DAGSTER_DISABLE_TELEMETRY": "yes"}
    environment.pop("CONTEXTGRID_EXPERIMENT", None)
    if experiment is not None:
        environment["CONTEXTGRID_EXPERIMENT"] = str(experiment)
    command = [sys.executable, "-m", "dagster", *arguments]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
def test_definitions_validate_passes_without_a_warning_of_ours(tmp_path: Path) -> None:
    (tmp_path / "dagster.yaml").touch()
    result = _dagster(tmp_path, "definitions", "validate", "-w", "workspace.yaml")
    assert result.returncode == 0, result.stderr
    said = (result.stdout + result.stderr).splitlines()
    lines = [line for line in said if "Warning" in line or "WARNING" in line or "ERROR" in line]
    # Dagster announces that another command will replace this one.
    assert [line for line in lines if "SupersessionWarning" not in line] == []


@pytest.mark.slow
def test_asset_list_names_every_asset(tmp_path: Path) -> None:
    result = _dagster(tmp_path, "asset", "list", "-m", "contextgrid_dagster.definitions", "-a", "defs")
    assert result.returncode == 0, result.stderr
    assert {"corpus", "answers", "lift_reports", "leaderboard"} <= set(result.stdout.split())


@pytest.mark.slow
def test_a_workspace_without_an_experiment_says_which_variable_is_missing(tmp_path: Path) -> None:
    result = _dagster(tmp_path, "definitions", "validate", "-w", "workspace.yaml", experiment=None)
    assert result.returncode == 1
    assert "CONTEXTGRID_EXPERIMENT is not set" in result.stdout


def test_definitions_are_built_without_a_warning(tmp_path: Path) -> None:
    file = write_experiment(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert build_definitions(file).get_repository_def()


def test_several_experiments_in_one_workspace_share_no_key_job_sensor_or_store(tmp_path: Path) -> None:
    file = write_experiment(tmp_path)
    left, right = (build_definitions(file, key_prefix=prefix).get_repository_def() for prefix in ("left", "right-2"))
    assert not set(left.asset_graph.get_all_asset_keys()) & set(right.asset_graph.get_all_asset_keys())
    assert not {sensor.name for sensor in left.sensor_defs} & {sensor.name for sensor in right.sensor_defs}
    assert set(left.job_names) & set(right.job_names) == {"__ASSET_JOB"}
    merged = Definitions.merge(*(build_definitions(file, key_prefix=prefix) for prefix in ("left", "right-2")))
    assert merged.get_repository_def()


def test_dagster_dev_without_a_home_is_told_which_home_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    experiment = Experiment.load(write_experiment(tmp_path))
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setenv("DAGSTER_IS_DEV_CLI", "1")
    warn_of_temporary_home(experiment)
    home = tmp_path / ".contextgrid" / "dagster" / "bench"
    assert f"Set DAGSTER_HOME={home}" in caplog.text
    assert f"contextgrid-dagster ui {tmp_path}" in caplog.text
    caplog.clear()
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    warn_of_temporary_home(experiment)
    assert not caplog.text
