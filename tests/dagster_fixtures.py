"""A small experiment with real files, a real Dagster instance and a model that counts its calls."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from dagster import DagsterEventType, DagsterInstance, EventRecordsFilter

from contextgrid.grid.experiment import Experiment
from contextgrid.models import LLMError, register_provider
from contextgrid_dagster.executor import ExecutionReport, Kind, execute
from contextgrid_dagster.graph import GridGraph, Node
from contextgrid_dagster.instance import home_of, open_instance
from contextgrid_dagster.planner import Plan, plan

__all__ = ["CALLS", "Bench", "bench", "built_bench", "copied_bench", "new_bench"]

DOCUMENTS = {
    "refunds.md": "# Refunds\n\nRefunds are paid within thirty days of purchase.\n\nGift cards are never refunded.\n",
    "shipping.md": "# Shipping\n\nExpress parcels arrive on the next working day.\n\nOthers take five days.\n",
    "warranty.md": "# Warranty\n\nThe warranty for engines lasts twenty-four months.\n\nTyres carry no warranty.\n",
}
QUESTIONS = [
    {
        "id": "q1",
        "question": "How long do refunds take?",
        "anchors": [{"source_id": "refunds.md", "quote": "thirty days of purchase"}],
    },
    {
        "id": "q2",
        "question": "When do express parcels arrive?",
        "anchors": [{"source_id": "shipping.md", "quote": "next working day"}],
    },
    {"id": "q3", "question": "Who chairs the board?", "answerable": False, "anchors": []},
]
# "Sentinel" lets tests look for prompt text where it does not belong.
PROMPTS = {
    "short": "Sentinel short. Answer from\n{context}\nQuestion: {question}",
    "long": "Sentinel long. Answer at length from\n{context}\nQuestion: {question}",
}
EXPERIMENT = """\
name: bench
corpus: documents
evalset: questions.jsonl
prompts: {short: prompts/short.txt, long: prompts/long.txt}
grid:
  parser: markdown
  chunker: ["recursive:60", "recursive:200"]
  embedder: tfidf
  index: [bm25, dense]
  generator: [extractive, llm]
  prompt: [short, long]
  model: counting:a
run: {k: 2, cutoffs: [1, 3], headline: recall@3, resamples: 200, judge: null}
"""
ROWS, COLUMNS = 4, 3
LLM_SHORT, LLM_LONG = "llm__short__counting-a", "llm__long__counting-a"

CALLS: list[str] = []
"""Every prompt that the counting model was given in this process."""


@dataclass(frozen=True)
class CountingModel:
    """Replies with the first passage, or with all of them if the prompt says so; can be told to fail."""

    model: str

    @property
    def name(self) -> str:
        return f"counting:{self.model}"

    def complete(self, prompt: str, *, max_tokens: int = 512) -> str:
        CALLS.append(prompt)
        if "fail always" in prompt or ("fail once" in prompt and "board" in prompt):
            raise LLMError("the counting model was told to fail")
        body = prompt.split("from\n", 1)[1].rsplit("\nQuestion", 1)[0]
        passages = [line for line in body.splitlines() if line.strip() and not line.startswith("[")]
        reply = " ".join(passages if "at length" in prompt else passages[:1])
        return f"{reply} [1]" if self.model == "a" else f"{reply[: len(reply) // 2]} [1]"


@register_provider("counting")
def _counting(model: str, options: Mapping[str, str]) -> CountingModel:
    return CountingModel(model)


@dataclass
class Bench:
    """An experiment folder and the Dagster instance that belongs to it."""

    folder: Path
    instance: DagsterInstance

    @property
    def file(self) -> Path:
        return self.folder / "experiment.yaml"

    def graph(self) -> GridGraph:
        return GridGraph(Experiment.load(self.file))

    def plan(self, *selections: str, rebuild_all: bool = False) -> Plan:
        return plan(self.graph(), self.instance, selections, rebuild_all=rebuild_all)

    def reasons(self) -> dict[Node, tuple[str, ...]]:
        return {step.node: step.reasons for step in self.plan().pending}

    def materialise(self, *selections: str, rebuild_all: bool = False) -> ExecutionReport:
        return execute(self.plan(*selections, rebuild_all=rebuild_all), self.instance)

    def edit(self, name: str, before: str, after: str) -> None:
        file = self.folder / name
        text = file.read_text()
        assert before in text
        file.write_text(text.replace(before, after))

    @contextmanager
    def counted(self) -> Iterator[Counted]:
        """Counts the materialisations that the instance records and the model calls made meanwhile."""
        calls, mark = len(CALLS), self._last_event()
        counted = Counted({}, 0)
        yield counted
        counted.calls = len(CALLS) - calls
        for name in self.graph().names:
            for record in self.instance.fetch_materializations(self.graph().key(name), limit=1000).records:
                if record.storage_id > mark:
                    counted.partitions.setdefault(name, []).append(record.partition_key)

    def _last_event(self) -> int:
        found = self.instance.event_log_storage.get_event_records(
            EventRecordsFilter(DagsterEventType.ASSET_MATERIALIZATION), limit=1, ascending=False
        )
        return found[0].storage_id if found else 0


@dataclass
class Counted:
    """Partition keys that were materialised, by asset, and how often the model was called."""

    partitions: dict[str, list[str | None]]
    calls: int

    def counts(self) -> dict[str, int]:
        return {name: len(keys) for name, keys in self.partitions.items()}


def write_experiment(folder: Path, text: str = EXPERIMENT, questions: Sequence[object] = QUESTIONS) -> Path:
    """Write the experiment and its inputs; returns the experiment file."""
    for name, content in DOCUMENTS.items():
        (folder / "documents").mkdir(parents=True, exist_ok=True)
        (folder / "documents" / name).write_text(content)
    (folder / "prompts").mkdir(exist_ok=True)
    for name, content in PROMPTS.items():
        (folder / "prompts" / f"{name}.txt").write_text(content)
    (folder / "questions.jsonl").write_text("".join(json.dumps(question) + "\n" for question in questions))
    (folder / "experiment.yaml").write_text(text)
    return folder / "experiment.yaml"


@contextmanager
def new_bench(folder: Path, text: str = EXPERIMENT) -> Iterator[Bench]:
    """An experiment of which nothing is built."""
    file = write_experiment(folder, text)
    with open_instance(home_of(Experiment.load(file))) as instance:
        yield Bench(folder, instance)


@contextmanager
def copied_bench(built: Path, folder: Path) -> Iterator[Bench]:
    """A copy of an experiment's folder, with all that was built in it."""
    shutil.copytree(built, folder)
    with open_instance(home_of(Experiment.load(folder / "experiment.yaml"))) as instance:
        yield Bench(folder, instance)


_built: list[Path] = []


@pytest.fixture(scope="session")
def built_bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an experiment that was built completely, to be copied; built once for all test files."""
    if not _built:
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("DAGSTER_HOME", raising=False)
            patch.delenv("CONTEXTGRID_STORAGE", raising=False)
            folder = tmp_path_factory.mktemp("built")
            with new_bench(folder) as fresh:
                report = fresh.materialise()
                assert report.success, report.of_kind(Kind.FAILED)
        _built.append(folder)
    return _built[0]


@pytest.fixture
def bench(built_bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """An experiment that was built completely."""
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.delenv("CONTEXTGRID_STORAGE", raising=False)
    with copied_bench(built_bench, tmp_path / "bench") as copied:
        yield copied
