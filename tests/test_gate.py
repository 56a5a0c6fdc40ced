"""Checks recorded by a real instance, and the gate on the same files: one verdict, two places."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from dagster import AssetCheckKey, AssetKey, DagsterInstance
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluation
from dagster._core.event_api import PartitionKeyFilter

from contextgrid.core.markup import as_text
from contextgrid.models import LLMError, register_provider
from contextgrid_dagster import build_definitions
from contextgrid_dagster.cli import main
from contextgrid_dagster.executor import Kind
from contextgrid_dagster.gate.verdicts import GateReport, examine
from contextgrid_dagster.graph import GridGraph, Node
from contextgrid_dagster.records import read_records
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
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_every_partition_has_an_evaluation_and_the_gate_says_the_same(bench: Bench) -> None:
    recorded = recorded_words(bench)
    assert {(node.asset, check) for node, check in recorded} == {
        ("index", "index_not_empty"),
        ("retrieval_scores", "anchors_resolved"),
        ("answers", "questions_answered"),
        ("lexical_scores", "unanswerable_declined"),
        ("lexical_scores", "citations_valid"),
        ("lexical_scores", "answer_regression"),
    }
    assert recorded == verdict_words(gate(bench))
    assert recorded[Node("lexical_scores", SHORT), "answer_regression"] == (
        True, "nothing to compare: this is the first materialisation"
    )  # fmt: skip


def test_an_evaluation_belongs_to_the_materialisation_of_its_own_run_and_partition(bench: Bench) -> None:
    graph = bench.graph()
    for name in ("index", "lexical_scores"):
        for record in bench.instance.fetch_materializations(graph.key(name), limit=10).records:
            logs = bench.instance.all_logs(record.run_id)
            found = [
                entry.dagster_event.asset_check_evaluation_data
                for entry in logs
                if entry.dagster_event and entry.dagster_event.event_type_value == "ASSET_CHECK_EVALUATION"
            ]
            assert found
            assert {evaluation.partition for evaluation in found} == {record.partition_key}
            targets = {evaluation.target_materialization_data for evaluation in found}
            assert {target.run_id for target in targets if target} == {record.run_id}


def test_a_failing_check_fails_neither_its_step_nor_what_is_downstream(bench: Bench) -> None:
    set_checks(bench, "{index_not_empty: {min_passages: 1000}, questions_answered: {min_share: 1}}")
    bench.edit("prompts/short.txt", "Sentinel", "Now fail on it. Sentinel")
    report = bench.materialise("+lift_reports", rebuild_all=True)
    assert report.success
    recorded = evaluations(bench.instance, bench.graph())
    failed = {
        (node.asset, check): evaluation for (node, check), evaluation in recorded.items() if not evaluation.passed
    }
    assert {("index", "index_not_empty"), ("answers", "questions_answered")} <= set(failed)
    assert failed["answers", "questions_answered"].severity.value == "ERROR"
    assert failed["lexical_scores", "unanswerable_declined"].severity.value == "WARN"
    assert not any(evaluation.blocking for evaluation in recorded.values())


def test_checks_are_switched_off_by_null(bench: Bench) -> None:
    names = ("index_not_empty", "anchors_resolved", "questions_answered", "unanswerable_declined", "citations_valid")
    set_checks(bench, f"{{{', '.join(f'{name}: null' for name in (*names, 'answer_regression'))}}}")
    assert not any(asset.check_keys for asset in bench.graph().assets)
    assert bench.materialise("answers", rebuild_all=True).success
    assert gate(bench).counts() == {}
    assert gate(bench).success


def test_definitions_carry_the_checks_without_a_warning(bench: Bench, recwarn: pytest.WarningsRecorder) -> None:
    definitions = build_definitions(bench.file, key_prefix="own")
    keys = definitions.resolve_asset_graph().asset_check_keys
    assert AssetCheckKey(AssetKey(["own", "lexical_scores"]), "answer_regression") in keys
    assert not [warning for warning in recwarn if "preview" in str(warning.message)]


# The answer metric against the last materialisation


def test_an_edit_that_makes_answers_worse_is_flagged_by_check_and_gate_alike(bench: Bench) -> None:
    bench.edit("prompts/short.txt", "Sentinel", "Be lazy. Sentinel")
    assert bench.materialise().success
    passed, words = recorded_words(bench)[Node("lexical_scores", SHORT), "answer_regression"]
    assert not passed
    assert words.startswith("answer_quality fell -")
    assert "q1" in words
    report = gate(bench)
    assert recorded_words(bench) == verdict_words(report)
    assert [node.partition for node, _ in report.failures("error")] == [SHORT]
    assert not report.success

    noted = read_records(bench.graph(), bench.instance)[Node("lexical_scores", SHORT)].materialization.metadata
    assert float(str(noted["answer_change"].value)) < 0
    assert float(str(noted["answer_change_high"].value)) < 0
    assert noted["answer_change_questions"].value == len(QUESTIONS)


def test_an_unchanged_rebuild_is_no_regression(bench: Bench) -> None:
    assert bench.materialise("lexical_scores", rebuild_all=True).success
    passed, words = recorded_words(bench)[Node("lexical_scores", SHORT), "answer_regression"]
    assert passed
    assert words == (
        "answer_quality did not change, +0.000 [+0.000, +0.000] against the last materialisation, over 9 of 9 questions"
    )
    assert gate(bench).success


def test_another_metric_or_a_damaged_table_leaves_nothing_to_compare(bench: Bench) -> None:
    graph = bench.graph()
    graph.tables.write(graph.tables.path_of(graph.key("lexical_scores"), SHORT), b"PAR1 no longer")
    assert bench.materialise("lexical_scores", rebuild_all=True).success
    recorded = recorded_words(bench)
    assert recorded[Node("lexical_scores", SHORT), "answer_regression"] == (
        True, "nothing to compare: the last materialisation's table cannot be read"
    )  # fmt: skip
    assert "over 9 of 9" in recorded[Node("lexical_scores", LONG), "answer_regression"][1]
    bench.edit("experiment.yaml", "resamples: 200", "resamples: 200, answer_metric: groundedness")
    told = verdict_words(gate(bench, "lexical_scores"))[Node("lexical_scores", LONG), "answer_regression"]
    assert told == (True, "nothing to compare: the last change was measured as answer_quality")


def test_new_question_ids_leave_nothing_to_compare(bench: Bench) -> None:
    bench.edit("questions.jsonl", '"id": "q', '"id": "new')
    assert bench.materialise().success
    told = recorded_words(bench)[Node("lexical_scores", SHORT), "answer_regression"]
    assert told == (True, "nothing to compare: no question is in both")


# Thresholds


def test_an_edited_threshold_changes_the_verdict_and_rebuilds_nothing(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(capsys, "gate", bench.file)[0] == 0
    before, calls = evaluations(bench.instance, bench.graph()), len(CALLS)
    set_checks(bench, "{answer_floor: {min_mean: 0.99}, unanswerable_declined: {severity: error}}")
    assert not bench.plan().pending
    code, out, _ = command(capsys, "gate", bench.file)
    assert code == 1
    assert "error answer_floor\n" in out
    assert "at least 0.99 wanted" in " ".join(out.split())
    set_checks(bench, "{answer_floor: {min_mean: 0.01}, unanswerable_declined: null}")
    assert command(capsys, "gate", bench.file, "--strict")[0] == 0
    bench.edit("experiment.yaml", "unanswerable_declined: null", "index_not_empty: {}")
    assert (evaluations(bench.instance, bench.graph()), len(CALLS)) == (before, calls)


def test_the_gate_changes_nothing_and_calls_no_model(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    def content() -> dict[str, bytes]:
        storage = bench.folder / ".contextgrid" / "storage"
        return {str(file): file.read_bytes() for file in storage.rglob("*") if file.is_file()}

    bench.edit("prompts/short.txt", "Sentinel", "Be lazy. Sentinel")
    before, calls, runs = content(), len(CALLS), bench.instance.get_runs_count()
    with bench.counted() as counted:
        assert command(capsys, "gate", bench.file)[0] == 1
    assert (content(), len(CALLS), bench.instance.get_runs_count()) == (before, calls, runs)
    assert counted.partitions == {}


# What is not up to date


def test_stale_and_missing_partitions_close_the_gate_unless_allowed(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.edit("prompts/short.txt", "Sentinel", "Be brief. Sentinel")
    code, out, _ = command(capsys, "gate", bench.file)
    assert code == 1
    assert f"answers:{SHORT}: stale, generation_spec: prompt text changed" in " ".join(out.split())
    assert "6 partitions missing or stale" not in out.splitlines()[0]
    assert command(capsys, "gate", bench.file, "--allow-stale")[0] == 0
    assert command(capsys, "gate", bench.file, "--select", f"lexical_scores:{LONG}")[0] == 0


def test_where_nothing_was_built_everything_is_missing_and_nothing_is_made(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "clone"
    shutil.copytree(bench.folder, folder, ignore=shutil.ignore_patterns(".contextgrid"))
    code, out, _ = command(capsys, "gate", folder / "experiment.yaml")
    assert code == 1
    assert "corpus: missing, never built" in out
    assert not (folder / ".contextgrid").exists()
    code, out, _ = command(capsys, "gate", folder / "experiment.yaml", "--allow-stale")
    assert (code, "nothing was examined" in " ".join(out.split())) == (1, True)


def test_a_table_that_is_damaged_inside_closes_the_gate_and_is_built_again_by_the_next_run(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph, node = bench.graph(), Node("answers", SHORT)
    path = Path(str(graph.tables.path_of(graph.key("answers"), SHORT)))
    whole, before = path.read_bytes(), graph.tables.stored(graph.key("answers"), [SHORT])
    path.write_bytes(whole[:4] + b"\xff" * 100 + whole[104:])
    assert not bench.plan().pending
    junit = tmp_path / "gate.xml"
    code, out, _ = command(capsys, "gate", bench.file, "--allow-stale", "--junit", junit)
    assert code == 1
    assert "is damaged" in " ".join(out.split())
    assert [key for key, case in cases(junit).items() if case.find("failure") is not None]
    report = bench.materialise(f"lexical_scores:{SHORT}", rebuild_all=True)
    (failed,) = report.of_kind(Kind.FAILED)
    assert "the next run builds it again" in failed.reason
    assert bench.reasons()[node] == ("its stored file is gone",)
    assert bench.materialise().success
    assert graph.tables.stored(graph.key("answers"), [SHORT]) == before
    assert command(capsys, "gate", bench.file, f"--select=answers:{SHORT}")[0] == 0


def test_another_kind_of_table_where_answers_should_be_closes_the_gate(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = bench.graph()
    answers, scores = (
        Path(str(graph.tables.path_of(graph.key(name), SHORT))) for name in ("answers", "lexical_scores")
    )
    shutil.copy(scores, answers)
    code, out, _ = command(capsys, "gate", bench.file, "--allow-stale")
    assert (code, "its checks could not be made" in " ".join(out.split())) == (1, True)


def test_failed_questions_are_for_the_checks_to_judge(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.edit("prompts/short.txt", "Sentinel", "Now fail on it. Sentinel")
    assert bench.materialise().success
    assert "1 question failed last time" in bench.reasons()[Node("answers", SHORT)]
    code, out, _ = command(capsys, "gate", bench.file)
    assert code == 1
    assert "all up to date" in out
    assert "8 of 9 questions are answered (1 failed)" in " ".join(out.split())
    set_checks(bench, "{questions_answered: {min_share: 0.8}}")
    assert command(capsys, "gate", bench.file)[0] == 0


# The command


def test_materialize_says_which_checks_partitions_did_not_pass(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.edit("prompts/short.txt", "Sentinel", "Now fail on it. Sentinel")
    code, out, _ = command(capsys, "materialize", bench.file)
    assert code == 0
    assert "Checks that partitions did not pass: questions_answered (" in " ".join(out.split())


def test_warnings_count_only_if_strict(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = command(capsys, "gate", bench.file)
    assert code == 0
    assert "The gate is open: 0 errors, 2 warnings, all up to date." in out
    assert "lexical_scores:*" in out
    assert command(capsys, "gate", bench.file, "--strict")[0] == 1
    assert all(len(line) <= 80 for line in out.splitlines() if "Dagster home" not in line)


def test_bad_input_is_exit_code_2(bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = command(capsys, "gate", bench.file, "--select", "answrs")
    assert (code, "did you mean 'answers'?" in err) == (2, True)
    assert command(capsys, "gate", bench.folder / "none.yaml")[0] == 2
    (tmp_path / "file").write_text("")
    code, _, err = command(capsys, "gate", bench.file, "--junit", tmp_path / "file" / "out.xml")
    assert (code, "--junit" in err) == (2, True)
    set_checks(bench, "{judge_coverage: {min_share: 2}}")
    assert command(capsys, "gate", bench.file)[0] == 2


def test_hostile_ids_are_shown_as_text_and_never_a_text(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    out = command(capsys, "gate", bench.file)[1]
    assert "q9<script>alert(1)</script>\\x1b[31m" in out
    assert "\x1b[31m" not in out
    words = " ".join(description for _, description in recorded_words(bench).values())
    assert as_text(TAGGED) in words
    assert "<script>" not in words
    assert "Sentinel" not in words
    assert "engine" not in words


# JUnit


def cases(path: Path) -> dict[tuple[str, str], ElementTree.Element]:
    root = ElementTree.parse(path).getroot()
    assert root.tag == "testsuites"
    for element in (root, *root.iter("testsuite")):
        for tag, attribute in (("testcase", "tests"), ("failure", "failures"), ("skipped", "skipped")):
            assert int(element.attrib[attribute]) == len(list(element.iter(tag)))
    return {(case.attrib["classname"], case.attrib["name"]): case for case in root.iter("testcase")}


def test_junit_has_a_case_for_each_check_and_partition(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new" / "gate.xml"
    assert command(capsys, "gate", bench.file, "--junit", file)[0] == 0
    found = cases(file)
    assert len(found) == len(bench.graph().nodes) + len(verdict_words(gate(bench)))
    regression = found["gated.lexical_scores.answer_regression", SHORT]
    skipped = regression.find("skipped")
    assert skipped is not None
    assert "first materialisation" in skipped.attrib["message"]
    answered = found["gated.answers.questions_answered", SHORT]
    properties = {entry.attrib["name"]: entry.attrib["value"] for entry in answered.iter("property")}
    assert properties == {"severity": "error", "share": "1", "counted": "9", "min_share": "1"}
    assert answered.findtext("system-out") == "9 of 9 questions are answered"
    warned = found["gated.lexical_scores.unanswerable_declined", SHORT]
    assert warned.find("failure") is None
    assert "warning: 0 of 1" in str(warned.findtext("system-out"))
    assert "q9<script>alert(1)</script>\\x1b[31m" in str(warned.findtext("system-out"))


def test_junit_fails_where_the_gate_does(bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench.edit("prompts/short.txt", "Sentinel", "Do miscite. Sentinel")
    bench.materialise("+lexical_scores")
    file = tmp_path / "gate.xml"
    assert command(capsys, "gate", bench.file, "--junit", file, "--strict")[0] == 1
    failed = {key: case.find("failure") for key, case in cases(file).items() if case.find("failure") is not None}
    assert ("gated.lexical_scores.citations_valid", SHORT) in failed
    assert ("gated.lexical_scores.unanswerable_declined", LONG) in failed
    assert ("gated.lift_reports.up_to_date", SHORT) in failed
    assert command(capsys, "gate", bench.file, "--junit", file, "--allow-stale")[0] == 1
    stale = cases(file)["gated.lift_reports.up_to_date", SHORT]
    assert stale.find("failure") is None
    assert stale.find("skipped") is not None


# Judges


def test_a_judges_answer_metric_is_checked_where_it_is_measured(tmp_path: Path) -> None:
    text = EXPERIMENT.replace(
        "judge: null",
        "answer_metric: rubric_groundedness, judge: {model: 'rater:a', metrics: [], rubric: [groundedness]}",
    )
    with new_bench(tmp_path, text) as fresh:
        write_inputs(tmp_path)
        assert fresh.materialise().success
        fresh.edit("prompts/short.txt", "Sentinel", "Please miscite. Sentinel")
        assert fresh.materialise().success
        recorded = recorded_words(fresh)
        assert recorded == verdict_words(gate(fresh))
        passed, words = recorded[Node("judge_scores", SHORT), "answer_regression"]
        assert not passed
        assert words.startswith("rubric_groundedness fell -4.000 [-4.000, -4.000]")
        assert (Node("lexical_scores", SHORT), "answer_regression") not in recorded
        assert recorded[Node("judge_scores", SHORT), "judge_coverage"] == (
            True, "9 of 9 answers have a score for rubric_groundedness"
        )  # fmt: skip


@dataclass(frozen=True)
class Rater:
    """Rates what it is shown: 5, or 1 for an answer that cites passage 9."""

    model: str

    @property
    def name(self) -> str:
        return f"rater:{self.model}"

    def complete(self, prompt: str, *, max_tokens: int = 512) -> str:
        return f"Score: {1 if '[9]' in prompt else 5}\nJustification: as told"


@register_provider("rater")
def _rater(model: str, options: Mapping[str, str]) -> Rater:
    return Rater(model)
