"""An experiment on a loopback server whose model and judge can change, and what a refresh of it finds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dagster import (
    AssetKey,
    DagsterInstance,
    ExecuteInProcessResult,
)

from contextgrid_dagster import build_definitions
from contextgrid_dagster.executor import Kind, execute
from contextgrid_dagster.graph import GridGraph
from contextgrid_dagster.refreshing.refresh import Refresh, refresh
from contextgrid_dagster.refreshing.schedules import refresh_of
from tests.dagster_fixtures import Bench, copied_bench, new_bench
from tests.loopback import KEY, Loopback, kind_of, running

SETTINGS = """\
name: drifting
corpus: documents
evalset: questions.jsonl
prompts: {short: prompts/short.txt, long: prompts/long.txt}
grid:
  parser: markdown
  chunker: ["recursive:60", "recursive:200"]
  index: bm25
  embedder: null
  generator: [extractive, llm]
  prompt: [short, long]
run:
  {k: 2, max_tokens: 20, cutoffs: [1, 3], headline: recall@3, resamples: 200, retries: 0, model: "SPEC",
   judge: {metrics: [], rubric: [groundedness]},
   refresh: {cron: "30 4 * * 1", timezone: Europe/Berlin, columns: "llm__short*"}}
"""
JUDGE = "judge: {metrics: [], rubric: [groundedness]}"
ROWS, QUESTIONS = 2, 3


@pytest.fixture(scope="module")
def upstream() -> Iterator[Loopback]:
    pytest.importorskip("litellm", reason="hosted models need litellm: pip install 'contextgrid-dagster[llm]'")
    with running() as server:
        yield server


@pytest.fixture
def server(upstream: Loopback, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    """The one server of all these tests, as it behaved when the experiment was built."""
    for name in ("DAGSTER_HOME", "CONTEXTGRID_STORAGE", "CONTEXTGRID_LEDGER", "CONTEXTGRID_CALLS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("contextgrid.models.retrying._FIRST_WAIT", 0.02)
    upstream.clear()
    yield upstream
    upstream.reply_for = upstream.fault_for = None


@pytest.fixture(scope="module")
def built_folder(upstream: Loopback, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drifting")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("DAGSTER_HOME", "CONTEXTGRID_STORAGE", "CONTEXTGRID_LEDGER", "CONTEXTGRID_CALLS"):
            patch.delenv(name, raising=False)
        patch.setenv("OPENAI_API_KEY", KEY)
        with new_bench(folder, SETTINGS.replace("SPEC", upstream.spec)) as fresh:
            report = fresh.materialise()
            assert report.success, report.of_kind(Kind.FAILED)
    return folder


@pytest.fixture
def bench(server: Loopback, built_folder: Path, tmp_path: Path) -> Iterator[Bench]:
    """The experiment, built completely."""
    with copied_bench(built_folder, tmp_path / "bench") as copied:
        yield copied


def refreshed(bench: Bench, *columns: str, repetitions: int = 1, budget: float | None = None) -> Refresh:
    """What ``contextgrid-dagster refresh`` does."""
    graph = bench.graph()
    return refresh(
        graph,
        bench.instance,
        refresh_of(graph.experiment, columns or ["*"])[0],
        run=lambda planned: execute(planned, bench.instance),
        record=bench.instance.report_runless_asset_event,
        repetitions=repetitions,
        budget=budget,
    )


def launched(bench: Bench, **config: Any) -> ExecuteInProcessResult:
    """The job, as it is launched from the UI with this configuration."""
    job = build_definitions(bench.file).resolve_job_def("bring_up_to_date")
    run_config = {"ops": {"bring_up_to_date_op": {"config": config}}}
    return job.execute_in_process(run_config=run_config, instance=bench.instance, raise_on_error=False)


def answers_about(words: str, reply: str = "Quite another reply [1]") -> Any:
    """Makes the server answer questions that hold some words otherwise."""

    def reply_for(prompt: str) -> str | None:
        question = prompt.rsplit("Question: ", 1)[-1]
        return reply if kind_of(prompt) == "answer" and words in question else None

    return reply_for


def changed(found: Refresh) -> dict[str, tuple[str, ...]]:
    return {drift.cell: drift.answers.changed for drift in found.drifts if drift.answers.changed}


def llm_cells(graph: GridGraph) -> set[str]:
    return {str(cell) for cell in graph.partitions("answers") if str(cell).startswith("llm")}


def noted(instance: DagsterInstance, cell: str) -> dict[str, Any]:
    """What Dagster shows of a cell's last drift report."""
    records = instance.fetch_materializations(AssetKey("drift_reports"), limit=100).records
    found = next(record.asset_materialization for record in records if record.partition_key == cell)
    assert found is not None
    return {name: value.value for name, value in found.metadata.items()}


def logs_of(result: ExecuteInProcessResult, instance: DagsterInstance) -> list[tuple[str | int, str]]:
    return [(entry.level, entry.user_message) for entry in instance.all_logs(result.run_id)]
