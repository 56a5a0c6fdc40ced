"""What ``deploy/`` holds can be read, and names only what exists."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from dagster._core.workspace.config_schema import process_workspace_config

from contextgrid_dagster import instance
from tests.services import database

__all__ = ["database"]

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
FILES = sorted(DEPLOY.glob("*.yaml"))


def strings(value: Any) -> Iterator[str]:
    """Every text in a document, keys included."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_file_is_yaml_and_every_variable_in_it_exists_in_the_code(file: Path) -> None:
    documents = list(yaml.safe_load_all(file.read_text()))
    assert all(isinstance(document, dict) for document in documents)
    named = set(re.findall(r"CONTEXTGRID_[A-Z_]+", file.read_text()))
    code = "".join(
        module.read_text() for room in ("contextgrid", "contextgrid_dagster") for module in (ROOT / room).rglob("*.py")
    )
    assert {name for name in named if f'"{name}"' not in code} == set()


def test_the_home_of_the_image_opens_on_postgresql(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(instance.POSTGRESQL_VARIABLE, database.replace("postgresql:", "postgresql+psycopg2:"))
    shutil.copy(DEPLOY / "dagster.yaml", tmp_path)
    with instance.open_instance(tmp_path) as opened:
        assert opened.get_runs() == []
        assert type(opened.run_storage).__name__ == "PostgresRunStorage"
        assert opened.get_concurrency_config().pool_config.default_pool_limit == 1


def test_the_home_of_the_image_is_the_home_that_the_command_makes(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(instance.POSTGRESQL_VARIABLE, database.replace("postgresql:", "postgresql+psycopg2:"))
    with instance.open_instance(tmp_path):
        pass
    written, copied = (
        yaml.safe_load(file.read_text()) for file in (tmp_path / "dagster.yaml", DEPLOY / "dagster.yaml")
    )
    for own in ("nux", "run_launcher"):  # the launcher forks from the daemon, which is another host there
        written.pop(own)
    assert copied == written


def test_the_workspace_is_one_of_dagster(tmp_path: Path) -> None:
    assert process_workspace_config(yaml.safe_load((DEPLOY / "workspace.yaml").read_text())).success


def test_the_services_of_compose_find_each_other() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services = compose["services"]
    for name, service in services.items():
        depends = service.get("depends_on", [])
        assert set(depends) <= services.keys(), name
        assert service.keys() & {"image", "build"}
    hosts = set(re.findall(r"(?:@|//)(\w+)[:/]", "\n".join(strings(services["code"]["environment"]))))
    assert hosts - {"contextgrid"} <= services.keys()
    server = yaml.safe_load((DEPLOY / "workspace.yaml").read_text())["load_from"][0]["grpc_server"]
    assert server["host"] in services
    assert str(server["port"]) in services[server["host"]]["command"]
    assert "OPENAI_API_KEY" not in services["worker"]["environment"]


def test_every_file_that_the_image_copies_is_there() -> None:
    copied = re.findall(r"^COPY (.+) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    for name in " ".join(copied).replace("${EXPERIMENT}", "examples/handbook").split():
        assert (ROOT / name).exists(), name
