"""An experiment whose checks can pass and fail, its model, and what its checks and its gate say."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from dagster import DagsterInstance
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluation
from dagster._core.event_api import PartitionKeyFilter

from contextgrid.core.markup import as_text
from contextgrid.models import LLMError, register_provider
from contextgrid_dagster.cli import main
from contextgrid_dagster.gate.verdicts import GateReport, examine
from contextgrid_dagster.graph import GridGraph, Node
from tests.dagster_fixtures import Bench, copied_bench, new_bench

TAGGED = "q9<script>alert(1)</script>\x1b[31m"
FACTS = ["Alpha", "Bravo", "Charlie", "Delta", "Echo", "Foxtrot", "Golf", "Hotel"]
QUESTIONS: list[dict[str, Any]] = [
    {
        "id": f"q{number}",
        "question": f"How long does the {name} engine run?",
        "answer": f"{name} runs {number} hours.",
        "anchors": [{"source_id": "engines.md", "quote": f"The {name} engine runs {number} hours"}],
    }
    for number, name in enumerate(FACTS, 1)
]
QUESTIONS.append({"id": TAGGED, "question": "Who chairs the board?", "answerable": False, "anchors": []})
EXPERIMENT = """\
name: gated
corpus: documents
evalset: questions.jsonl
prompts: {short: prompts/short.txt, long: prompts/long.txt}
grid:
  parser: markdown
  chunker: "recursive:60"
  embedder: null
  index: bm25
  generator: llm
  prompt: [short, long]
  model: moody:a
run: {k: 2, cutoffs: [1, 3], headline: recall@3, resamples: 200, judge: null}
"""
ROW = "markdown__recursive-60__bm25"
SHORT, LONG = f"llm__short__moody-a|{ROW}", f"llm__long__moody-a|{ROW}"

CALLS: list[str] = []


@dataclass(frozen=True)
class Moody:
    """Quotes the first passage, unless its prompt tells it to be lazy, to miscite, or to fail on the board."""

    model: str

    @property
    def name(self) -> str:
        return f"moody:{self.model}"

    def complete(self, prompt: str, *, max_tokens: int = 512) -> str:
        CALLS.append(prompt)
        if "fail on" in prompt and "board" in prompt:
            raise LLMError("told to fail")
        if "lazy" in prompt:
            return "Somewhat. [1]"
        passages = [line for line in prompt.splitlines() if line.startswith("The ")]
        return f"{passages[0]} [{9 if 'miscite' in prompt else 1}]"


@register_provider("moody")
def _moody(model: str, options: Mapping[str, str]) -> Moody:
    return Moody(model)


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DAGSTER_HOME", "CONTEXTGRID_STORAGE", "CONTEXTGRID_LEDGER", "CONTEXTGRID_EXPERIMENT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")


def write_inputs(folder: Path) -> None:
    facts = [f"The {name} engine runs {number} hours on one charge." for number, name in enumerate(FACTS, 1)]
    shutil.rmtree(folder / "documents")
    (folder / "documents").mkdir()
    (folder / "documents" / "engines.md").write_text("# Engines\n\n" + "\n\n".join(facts) + "\n")
    (folder / "questions.jsonl").write_text("".join(json.dumps(question) + "\n" for question in QUESTIONS))
    for name in ("short", "long"):
        (folder / "prompts" / f"{name}.txt").write_text(f"Sentinel {name}.\n{{context}}\nQuestion: {{question}}")


@pytest.fixture(scope="module")
def built_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gated")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DAGSTER_HOME", raising=False)
        patch.delenv("CONTEXTGRID_STORAGE", raising=False)
        with new_bench(folder, EXPERIMENT) as fresh:
            write_inputs(folder)
            assert fresh.materialise().success
    return folder


@pytest.fixture
def bench(built_folder: Path, tmp_path: Path) -> Iterator[Bench]:
    """An experiment of one row and two columns that was built completely."""
    with copied_bench(built_folder, tmp_path / "bench") as copied:
        yield copied


def evaluations(instance: DagsterInstance, graph: GridGraph) -> dict[tuple[Node, str], AssetCheckEvaluation]:
    """The last evaluation of every check of every partition that the instance has."""
    found = {}
    for node in graph.nodes:
        definition = next(asset for asset in graph.assets if asset.key == graph.key(node.asset))
        for key in definition.check_keys:
            records = instance.event_log_storage.get_asset_check_execution_history(
                key, limit=1, partition_filter=PartitionKeyFilter(key=node.partition)
            )
            for record in records:
                assert record.event is not None
                data = record.event.dagster_event
                assert data is not None
                found[node, key.name] = data.asset_check_evaluation_data
    return found


def gate(bench: Bench, *selections: str, **options: bool) -> GateReport:
    return examine(bench.graph(), bench.instance, selections, **options)


def verdict_words(report: GateReport) -> dict[tuple[Node, str], tuple[bool, str]]:
    """What the gate says of every check, as the UI would have it."""
    return {
        (examined.node, verdict.check): (verdict.passed, verdict.describe(as_text))
        for examined in report.partitions
        for verdict in examined.verdicts
    }


def recorded_words(bench: Bench) -> dict[tuple[Node, str], tuple[bool, str]]:
    found = evaluations(bench.instance, bench.graph())
    return {key: (evaluation.passed, evaluation.description or "") for key, evaluation in found.items()}


def command(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["contextgrid-dagster", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stopped:
            code = int(stopped.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def set_checks(bench: Bench, checks: str) -> None:
    text = re.sub(r"\nchecks: .*", "", bench.file.read_text())
    bench.file.write_text(f"{text.rstrip()}\nchecks: {checks}\n")


# The asset checks
