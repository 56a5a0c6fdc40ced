"""The experiment file: what is accepted, what is refused, and how the message names the mend."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextgrid.core.errors import ConfigError
from contextgrid.grid.experiment import Experiment
from contextgrid.grid.matrix import partition_counts

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
        (
            "run:",
            "grid: {index: bm25}\nrun:",
            "experiment.yaml:12: not readable as YAML: the key 'grid' is given twice",
        ),
        ("name: demo", "name: 2024-13-45", "'2024-13-45' is no timestamp; put it in quotes"),
        ("name: demo", f"name: {'9' * 5000}", "is no int"),
        ("name: demo", "name: !!bool maybe", "'maybe' is no bool"),
        ("name: demo", "name: &a [*a]", "an alias stands inside what it refers to"),
        ("name: demo", f"name: {'[' * 5000}", "nested more than 50 levels"),
        ("run:", "run:\n  k: true", "run.k: Input should be a valid integer, got True"),
        ("run:", 'run:\n  k: "3"', "run.k: Input should be a valid integer, got '3'"),
        ("run:", "run:\n  k: 3.0", "run.k: Input should be a valid integer, got 3.0"),
        ("run:", "run:\n  k: 2147483648", "less than or equal to 10000, got 2147483648"),
        ("run:", "run:\n  cutoffs: [1, 2147483648]", "at most 10000"),
        ("run:", "run:\n  cutoffs: [true]", "valid integer"),
        ("run:", "run:\n  headline: recall@20000", "at most 10000"),
        ("run:", "run:\n  seed: -1", "run.seed"),
        ("run:", "run:\n  budget_usd: true", "run.budget_usd"),
        ("run:", "run:\n  baseline: {foo: llm}", "unknown axis 'foo'"),
        ("run:", "run:\n  baseline: {idx: bm25}", "did you mean 'index'"),
        ("run:", "run:\n  baseline: {generator: llm}", "the baseline is a row"),
        ("index: [bm25, dense]", "index: [bm25]\n  candidates: 2147483648", "at most 10000"),
        ("recursive:512", "recursive:99999999999999999999", "at most 10000000 characters"),
        ("evalset: questions.jsonl", 'evalset: "a\\0.jsonl"', "evalset: holds a NUL character"),
        ("corpus: docs", "corpus: ~nouser/x", "'~nouser/x' is no path"),
        ("corpus: docs", 'corpus: ""', "corpus: is blank"),
        ("corpus: docs", 'corpus: [docs/a.md, " "]', "corpus: is blank"),
        ("corpus: docs", "corpus: []", "corpus: List should have at least 1 item"),
        ("corpus: docs", f"corpus: {'x' * 5000}", "is no path"),
        ("evalset: questions.jsonl", 'evalset: ""', "evalset: is blank"),
        ("prompts/short.txt", "x" * 5000, "prompts.short: 'xxx"),
        ("prompts/short.txt", "${CONTEXTGRID_ABSENT_VARIABLE}/short.txt", "CONTEXTGRID_ABSENT_VARIABLE is not set"),
        ("run:", "report: {output: docs}\nrun:", "lies among the documents"),
    ],
)
def test_a_mistake_is_refused_with_its_place_and_the_mend(folder: Path, old: str, new: str, expected: str) -> None:
    assert old in VALID
    message = refusal(folder, VALID.replace(old, new, 1))
    assert expected in message
    assert len(message) < 1000
    assert message.count("experiment.yaml") == 1


@pytest.mark.parametrize(
    "line",
    [
        "  model: openai:gpt-4o-mini,api_key=abcdef",
        "  prices: {sk-abcdefghijklmnopqrstuvwxyz: [1, 1]}",
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


def test_a_key_in_a_prompt_is_refused_without_repeating_it(folder: Path) -> None:
    secret = "sk-abcdefghijklmnopqrstuvwxyz"
    assert secret not in refusal(folder, VALID.replace("Passages:", secret))
    (folder / "prompts" / "short.txt").write_text(f"{{context}} {{question}} {secret}")
    with pytest.raises(ConfigError, match=r"short.txt: keys do not belong") as caught:
        load(folder, VALID)
    assert secret not in str(caught.value)
    (folder / "prompts" / "short.txt").write_text("{context} {question} key-performance-indicators")
    load(folder, VALID)


def test_a_dollar_sign_in_the_text_of_a_prompt_stays_and_in_its_path_is_replaced(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTEXTGRID_TEST_PROMPTS", "prompts")
    text = VALID.replace("prompts/short", "${CONTEXTGRID_TEST_PROMPTS}/short")
    experiment = load(folder, text.replace("Passages:", "${CONTEXTGRID_ABSENT_VARIABLE}:"))
    assert experiment.prompt_text("short").startswith("Use {context}")
    assert experiment.prompt_text("inline").startswith("${CONTEXTGRID_ABSENT_VARIABLE}: {context}")


def test_a_prompt_file_that_is_not_utf_8_is_named(folder: Path) -> None:
    (folder / "prompts" / "short.txt").write_bytes("{context} {question} für".encode("latin-1"))
    assert "short.txt is not UTF-8" in refusal(folder, VALID)


def test_aliases_that_grow_without_bound_are_refused_at_once_and_others_work(folder: Path) -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))
    assert "once aliases are replaced" in refusal(folder, bomb)
    shared = VALID.replace("[short, inline]", "&names [short, inline]").replace(
        "model: off", "ordering: ends\n  model: off"
    )
    merged = "  baseline:\n    <<: {index: bm25}\n    index: dense\n"
    assert load(folder, shared + merged).matrix.baseline.index == "dense"


def test_what_runs_wrote_is_no_document_of_the_next(folder: Path) -> None:
    text = VALID.replace("corpus: docs", "corpus: .")
    before = [source.id for source in load(folder, text).load_corpus()]
    for name in ("demo", "another"):
        (folder / "results" / name).mkdir(parents=True)
        for file in ("report.md", "leaderboard.csv", "leaderboard.parquet"):
            (folder / "results" / name / file).write_text("x")
    (folder / ".contextgrid").mkdir()
    (folder / ".contextgrid" / "a.md").write_text("x")
    assert [source.id for source in load(folder, text).load_corpus()] == before
    (folder / "docs" / "report.md").write_text("A document of that name.")
    assert "docs/report.md" in [source.id for source in load(folder, text).load_corpus()]


def test_a_variable_that_is_set_is_replaced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXTGRID_TEST_DOCS", "docs")
    experiment = load(folder, VALID.replace("corpus: docs", "corpus: ${CONTEXTGRID_TEST_DOCS}"))
    assert len(experiment.load_corpus()) == 1


def test_the_partition_counts_follow_the_matrix(folder: Path) -> None:
    experiment = load(folder, VALID)
    counts = partition_counts(experiment.matrix, experiment.run)
    assert (counts["chunks"], counts["index"], counts["answers"]) == (2, 4, 12)
    nothing = load(folder, VALID.replace("generator: [extractive, llm]", "generator: null"))
    assert "answers" not in partition_counts(nothing.matrix, nothing.run)
