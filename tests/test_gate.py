"""The gate through its command: exit codes, the terminal, JUnit XML."""

from __future__ import annotations

import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from contextgrid.core.markup import as_text
from contextgrid_dagster.executor import Kind
from contextgrid_dagster.graph import Node
from tests.checked_experiment import (
    CALLS,
    LONG,
    SHORT,
    TAGGED,
    bench,
    built_folder,
    command,
    evaluations,
    gate,
    recorded_words,
    set_checks,
    surroundings,
    verdict_words,
)
from tests.dagster_fixtures import Bench

__all__ = ["bench", "built_folder", "surroundings"]


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
    said = " ".join(out.split())
    assert "is damaged" in said
    assert f"build it again: contextgrid-dagster materialize experiment.yaml --all --select 'answers:{SHORT}'" in said
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
