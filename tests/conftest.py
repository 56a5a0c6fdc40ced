"""Settings and fixtures that several test files share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.loopback import KEY, Loopback, running

# Timings on a shared machine say nothing about behaviour.
settings.register_profile("project", deadline=None)
settings.load_profile("project")

os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "yes")
os.environ.setdefault("DEEPEVAL_TELEMETRY_OPT_OUT", "YES")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the project; tests that need it are skipped where it is absent."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the real data sets are not beside this checkout")
    return folder


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    """A server on loopback that speaks OpenAI's protocol, its key in the environment, retries without long waits."""
    pytest.importorskip("litellm", reason="hosted models need litellm: pip install 'contextgrid-dagster[llm]'")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr("contextgrid.models.retrying._FIRST_WAIT", 0.02)
    with running() as loopback:
        yield loopback


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    """Where a ledger of its own is kept."""
    return str(tmp_path / "ledger.sqlite")
