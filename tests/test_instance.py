"""Where Dagster keeps its records: SQLite by default, PostgreSQL by one variable, never elsewhere than asked."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from contextgrid.core.errors import ConfigError
from contextgrid_dagster.instance import POSTGRESQL_VARIABLE, open_instance
from tests.dagster_fixtures import EXPERIMENT, new_bench
from tests.services import database

__all__ = ["database"]

PASSWORD = "hunter2-canary"
SMALL = EXPERIMENT.replace("[extractive, llm]", "extractive").replace("[bm25, dense]", "bm25")


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DAGSTER_HOME", "CONTEXTGRID_STORAGE", POSTGRESQL_VARIABLE):
        monkeypatch.delenv(name, raising=False)


def test_a_grid_is_built_and_recorded_on_postgresql(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(POSTGRESQL_VARIABLE, database.replace("postgresql:", "postgresql+psycopg2:"))
    with new_bench(tmp_path, SMALL) as bench:
        assert bench.materialise("+retrieval_scores").success
        assert not bench.plan("+retrieval_scores").pending
        assert type(bench.instance.event_log_storage).__name__ == "PostgresEventLogStorage"
        home = Path(bench.instance.root_directory)
        assert "postgresql+psycopg2" not in (home / "dagster.yaml").read_text()
    with open_instance(home) as again:
        assert again.get_runs_count() > 0
    assert not list(home.rglob("*.db"))


def test_a_home_that_keeps_its_records_elsewhere_is_refused(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_instance(tmp_path / "sqlite"):
        pass
    monkeypatch.setenv(POSTGRESQL_VARIABLE, database.replace("postgresql:", "postgresql+psycopg2:"))
    with (
        pytest.raises(ConfigError, match=r"dagster\.yaml was written before .* move that file away"),
        open_instance(tmp_path / "sqlite"),
    ):
        pass
    with open_instance(tmp_path / "server"):
        pass
    monkeypatch.delenv(POSTGRESQL_VARIABLE)
    with pytest.raises(ConfigError, match=f"{POSTGRESQL_VARIABLE} names; set it"), open_instance(tmp_path / "server"):
        pass


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql+psycopg2://me:{password}@127.0.0.1:9/none", "Connection refused"),
        ("postgresql+psycopg2://me:{password}@127.0.0.1:port/none", r"of the form postgresql\+psycopg2://user"),
        ("postgresql+psycopg2://me:a@{password}@127.0.0.1/none", "write @ as %40"),
        ("postgresql+psycopg2://me:a/{password}@127.0.0.1/none", "/ as %2F"),
        ("postgresql://me:{password}@127.0.0.1:9/none", r"of the form postgresql\+psycopg2://user"),
        ("postgresql+psycopg://me:{password}@127.0.0.1:9/none", r"of the form postgresql\+psycopg2://user"),
    ],
)
def test_a_database_that_cannot_be_used_is_one_clear_error_without_the_password(
    tmp_path: Path, url: str, message: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv(POSTGRESQL_VARIABLE, url.format(password=PASSWORD))
    with pytest.raises(ConfigError, match=message) as raised, open_instance(tmp_path):
        pass
    assert POSTGRESQL_VARIABLE in str(raised.value)
    assert PASSWORD not in str(raised.value) + caplog.text


def test_a_database_that_does_not_exist_is_named(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(POSTGRESQL_VARIABLE, f"{database.replace('postgresql:', 'postgresql+psycopg2:')}_not")
    with pytest.raises(ConfigError, match=r'database "test_\w+_not" does not exist'), open_instance(tmp_path):
        pass
