"""The experiment file: what is accepted, what is refused, and how the message names the mend."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextgrid.core.errors import ConfigError
from contextgrid.grid.experiment import Experiment

VALID = """\
name: demo
corpus: docs
evalset: questions.jsonl
prompts:
  short: prompts/short.txt
  inline: "Passages: {context} Question: {question}"
grid:
  chunker: ["recursive:256", "recursive:512"]
  index: [bm25, dense]
  generator: [extractive, llm]
  prompt: [short, inline]
run:
  model: offline:reader
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Refunds\n\nRefunds take thirty days.\n")
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "short.txt").write_text("Use {context}\nto answer {question} in one sentence.")
    (tmp_path / "questions.jsonl").write_text(
        '{"id": "q1", "question": "How long?", "anchors": [{"source_id": "a.md", "quote": "thirty days"}]}\n'
    )
    return tmp_path


def load(folder: Path, text: str) -> Experiment:
    file = folder / "experiment.yaml"
    file.write_text(text, encoding="utf-8")
    return Experiment.load(file)


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(folder, text)
    assert "experiment.yaml" in str(caught.value)
    return str(caught.value)


def test_paths_resolve_against_the_file_and_prompts_are_files_or_text(folder: Path) -> None:
    experiment = load(folder, VALID)
    assert [source.id for source in experiment.load_corpus()] == ["a.md"]
    assert len(experiment.load_evalset()) == 1
    assert experiment.prompt_text("short").startswith("Use {context}")
    assert [column.key for column in experiment.matrix.columns] == [
        "extractive",
        "llm__short__offline-reader",
        "llm__inline__offline-reader",
    ]


def test_a_list_of_files_has_ids_below_the_experiment_or_below_their_common_folder(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    inside = load(folder, VALID.replace("corpus: docs", "corpus: [docs/a.md]"))
    assert [source.id for source in inside.load_corpus()] == ["docs/a.md"]
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "sub").mkdir()
    for name in ("b.md", "sub/c.md"):
        (elsewhere / name).write_text("Text.")
    outside = load(folder, VALID.replace("corpus: docs", f"corpus: [{elsewhere}/b.md, {elsewhere}/sub/c.md]"))
    assert [source.id for source in outside.load_corpus()] == ["b.md", "sub/c.md"]


def test_a_prompt_edit_on_disk_shows_in_the_generation_spec_of_its_column_only(folder: Path) -> None:
    experiment = load(folder, VALID)
    before = [experiment.generation_spec(column).to_pylist() for column in experiment.matrix.columns]
    (folder / "prompts" / "short.txt").write_text("{context} {question}")
    after = [experiment.generation_spec(column).to_pylist() for column in experiment.matrix.columns]
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False, True]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("chunker:", "chunkr:", "did you mean 'chunker'"),
        ("run:", "rum:", "did you mean 'run'"),
        ("  model: off", "  modell: off", "did you mean 'model'"),
        ("recursive:512", "recursve:512", "did you mean 'recursive'"),
        ("recursive:512", "recursive:-1", "recursive"),
        ("recursive:512", "recursive:nan", "whole number"),
        ("recursive:512", "recursive:256", "listed twice"),
        ("extractive,", '"extractive:0",', "sentences"),
        ("prompt: [short, inline]", "prompt: [shrt]", "did you mean 'short'"),
        ("prompts/short.txt", "prompts/absent.txt", "absent.txt"),
        ("{context} Question", "Question", "{context}"),
        ("run:", "run:\n  k: 0", "run.k"),
        ("run:", "run:\n  headline: recal@5", "recall"),
        ("run:", "run:\n  headline: recall@0", "recall@0"),
        ("run:", "run:\n  answer_metric: qualty", "answer_quality"),
        ("run:", "run:\n  cutoffs: [5, 5]", "twice"),
        ("run:", "run:\n  baseline: {index: hybrid}", "not on the grid"),
        ("model: offline:reader", "model: opnai:gpt-4o", "did you mean 'openai'"),
        ("index: [bm25, dense]", "index: null", "null is not possible"),
        ("index: [bm25, dense]", "index: [bm25]\n  candidates: 2", "at least 5"),
        ("evalset: questions.jsonl\n", "", "'evalset' is missing"),
        ("docs", "${CONTEXTGRID_ABSENT_VARIABLE}", "CONTEXTGRID_ABSENT_VARIABLE is not set"),
        ("name: demo", "name: [", "not readable as YAML"),
    ],
)
def test_a_mistake_is_refused_with_its_place_and_the_mend(folder: Path, old: str, new: str, expected: str) -> None:
    assert old in VALID
    assert expected in refusal(folder, VALID.replace(old, new, 1))


@pytest.mark.parametrize(
    "line",
    [
        "  model: openai:gpt-4o-mini,api_key=abcdef",
        "  model: sk-abcdefghijklmnopqrstuvwxyz",
        "  model: openai:gpt,api_base=${CONTEXTGRID_TEST_API_KEY}",
    ],
)
def test_a_key_in_the_file_is_refused_without_repeating_it(
    folder: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTEXTGRID_TEST_API_KEY", "abcdef-secret")
    message = refusal(folder, VALID.replace("  model: offline:reader", line))
    assert "keys do not belong" in message
    assert "abcdef" not in message


def test_a_variable_that_is_set_is_replaced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXTGRID_TEST_DOCS", "docs")
    experiment = load(folder, VALID.replace("corpus: docs", "corpus: ${CONTEXTGRID_TEST_DOCS}"))
    assert len(experiment.load_corpus()) == 1


def test_the_partition_counts_follow_the_matrix(folder: Path) -> None:
    counts = load(folder, VALID).matrix.partition_counts()
    assert (counts["chunks"], counts["index"], counts["answers"]) == (2, 4, 12)
    no_columns = load(folder, VALID.replace("generator: [extractive, llm]", "generator: null")).matrix
    assert "answers" not in no_columns.partition_counts()
