"""Refreshes against a model on loopback that changes its behaviour, through the job, the schedule and the command."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from dagster import (
    AssetKey,
)
from dagster_shared.serdes import serialize_value

from contextgrid.core.errors import ConfigError
from contextgrid.core.fingerprint import fingerprint
from contextgrid_dagster.cli import main
from contextgrid_dagster.executor import execute
from contextgrid_dagster.graph import GridGraph, Node
from contextgrid_dagster.planner import Plan
from contextgrid_dagster.records import read_records
from contextgrid_dagster.refreshing.refresh import refresh
from tests.dagster_fixtures import Bench, new_bench
from tests.drifting_experiment import (
    JUDGE,
    QUESTIONS,
    ROWS,
    SETTINGS,
    answers_about,
    bench,
    built_folder,
    changed,
    launched,
    llm_cells,
    logs_of,
    noted,
    refreshed,
    server,
    upstream,
)
from tests.loopback import KEY, Fault, Loopback, kind_of

__all__ = ["bench", "built_folder", "server", "upstream"]

# What drifted


def test_an_unchanged_model_shows_no_drift(bench: Bench, server: Loopback) -> None:
    before = {cell: fingerprint(bench.graph().load("answers", cell)) for cell in bench.graph().partitions("answers")}
    found = refreshed(bench, repetitions=2)
    assert server.kinds() == {"answer": 2 * 2 * ROWS * QUESTIONS, "rating": 2 * 3 * ROWS * QUESTIONS}
    assert found.report.success
    assert len(found.drifts) == 3 * ROWS
    assert not found.drifted
    assert {drift.sentence for drift in found.drifts} == {
        "No drift: none of 3 answers and none of their scores changed."
    }
    after = {cell: fingerprint(bench.graph().load("answers", cell)) for cell in bench.graph().partitions("answers")}
    assert before == after
    assert not bench.plan().pending


@pytest.mark.slow
def test_the_job_reports_drift_in_exactly_the_changed_questions(bench: Bench, server: Loopback) -> None:
    server.reply_for = answers_about("express parcels")
    result = launched(bench, fresh=True)
    assert result.success
    graph = bench.graph()
    for cell in graph.partitions("answers"):
        drifted = str(cell) in llm_cells(graph)
        table = graph.load("drift_reports", cell)
        row = table.to_pylist()[0]
        assert (row["changed"], row["drifted"]) == ((["q2"], True) if drifted else ([], False))
        shown = noted(bench.instance, str(cell))
        assert (shown["answers_changed"], shown["answers_compared"]) == (int(drifted), QUESTIONS)
        assert shown["sentence"] == row["sentence"]
        assert {"answer_change", "answer_change_low", "answer_change_high", "report"} <= shown.keys()
        assert table["since"][0].as_py() is not None
    lines = logs_of(result, bench.instance)
    warnings = [message for level, message in lines if level == 30]
    assert len(warnings) == len(llm_cells(graph))
    assert all("Drift: 1 of 3 answers changed (q2)" in message for message in warnings)
    assert f"{len(llm_cells(graph))} of 6 cells drifted" in [message for _, message in lines]
    entries = [entry for run in bench.instance.get_runs() for entry in bench.instance.all_logs(run.run_id)]
    everything = "".join(map(serialize_value, entries))
    assert "Quite another reply" not in everything
    assert KEY not in everything
    assert not bench.plan().pending

    server.clear()
    assert launched(bench, fresh=True).success
    assert noted(bench.instance, sorted(llm_cells(graph))[0])["answers_changed"] == 0


@pytest.mark.slow
def test_the_command_prints_drift_and_can_fail_on_it(
    bench: Bench, server: Loopback, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["contextgrid-dagster", "refresh", str(bench.file), *arguments])
        try:
            main()
        except SystemExit as stopped:
            return int(stopped.code or 0), capsys.readouterr().out
        return 0, capsys.readouterr().out

    code, out = command("--fail-on-drift")  # run.refresh.columns has one column
    assert (code, server.kinds()["answer"]) == (0, ROWS * QUESTIONS)
    assert "0 of 2 cells drifted." in out

    server.reply_for = answers_about("refunds")
    code, out = command("--select", "*", "--repetitions", "2")
    assert code == 0
    assert "4 of 6 cells drifted." in out
    assert "Drift: 1 of 3 answers changed (q1)" in " ".join(out.split())
    assert all(len(line) <= 80 for line in out.splitlines() if "Dagster home" not in line)
    server.reply_for = None
    assert command("--fail-on-drift")[0] == 1


def test_a_judge_that_drifts_alone_is_told_from_answers(bench: Bench, server: Loopback) -> None:
    server.reply_for = lambda prompt: (
        "Score: 1\nJustification: No." if kind_of(prompt) == "rating" and "express parcels" in prompt else None
    )
    found = refreshed(bench)
    assert found.drifted
    assert changed(found) == {}
    for drift in found.drifts:
        judged = drift.judged_otherwise(drift.metrics[1])
        assert judged in (("q2",), ())  # () where the judge rated it 1 before
        assert drift.drifted == bool(judged)
        assert ("rubric_groundedness now judges 1 unchanged answer otherwise (q2)" in drift.sentence) == bool(judged)


def test_every_repetition_is_asked_afresh_and_an_unstable_model_is_no_drift(bench: Bench, server: Loopback) -> None:
    times: Counter[str] = Counter()

    def unsteady(prompt: str) -> str | None:
        if kind_of(prompt) != "answer" or "refunds" not in prompt.rsplit("Question: ", 1)[-1]:
            return None
        times[prompt] += 1
        return f"Reply number {times[prompt]} [1]"

    server.reply_for = unsteady
    found = refreshed(bench, "llm__short*", repetitions=3)
    assert set(times.values()) == {3}
    assert server.kinds()["answer"] == 3 * ROWS * QUESTIONS
    for drift in found.drifts:
        assert (drift.answers.changed, drift.answers.unstable) == (("q1",), ("q1",))
        assert drift.answers.stably_changed == ()
        assert "1 differ between the 3 repetitions (q1)" in drift.sentence
    assert not any(drift.drifted for drift in found.drifts)
    assert {drift.cell.partition("|")[0] for drift in found.drifts} == {bench.graph().partitions("generation_spec")[1]}


# What cannot be compared


def test_a_prompt_edit_is_not_drift(bench: Bench) -> None:
    bench.edit("prompts/short.txt", "Answer from", "Answer at length from")
    found = refreshed(bench)
    assert not found.drifted
    for drift in found.drifts:
        edited = drift.cell.startswith("llm__short")
        assert (drift.reason == "prompt text changed") == edited
    assert found.summary == "0 of 4 cells drifted, 2 could not be compared"
    assert "answers_changed" not in noted(bench.instance, found.drifts[0].cell) or found.drifts[0].was_compared
    assert not bench.plan().pending


def test_questions_that_were_asked_otherwise_are_left_out(bench: Bench, server: Loopback) -> None:
    bench.edit("questions.jsonl", "When do express parcels", "When will express parcels")
    server.reply_for = answers_about("board")
    found = refreshed(bench, "llm*")
    for drift in found.drifts:
        assert drift.answers.changed == ("q3",)
        assert drift.answers.not_compared == {"q2": "asked with other passages or in other words"}
        assert "answer_quality not compared, as retrieval_scores changed" in drift.sentence
        assert "rubric_groundedness not compared, as 1 question changed" in drift.sentence


def test_another_judge_is_not_drift(bench: Bench) -> None:
    bench.edit("experiment.yaml", "rubric: [groundedness]", "rubric: [groundedness, relevance]")
    found = refreshed(bench)
    assert not found.drifted
    for drift in found.drifts:
        assert "rubric_groundedness and rubric_relevance not compared, as rubric changed:" in drift.sentence


@pytest.mark.slow
def test_a_first_build_by_a_refresh_has_nothing_to_compare_with(server: Loopback, tmp_path: Path) -> None:
    with new_bench(tmp_path, SETTINGS.replace("SPEC", server.spec).replace(JUDGE, "judge: null")) as fresh:
        found = refreshed(fresh)
        assert found.report.success
        assert {drift.reason for drift in found.drifts} == {"there are no earlier answers"}
        assert server.kinds() == {"answer": 2 * ROWS * QUESTIONS}
        again = refreshed(fresh)
        assert {drift.sentence for drift in again.drifts} == {
            "No drift: none of 3 answers and none of their scores changed."
        }


# What fails


def test_a_question_that_fails_keeps_its_answer_and_is_not_compared(bench: Bench, server: Loopback) -> None:
    before = {cell: fingerprint(bench.graph().load("answers", cell)) for cell in bench.graph().partitions("answers")}
    server.fault_for = lambda prompt: (
        Fault("status", 400) if "express parcels" in prompt.rsplit("Question: ", 1)[-1] else None
    )
    found = refreshed(bench, "llm*")
    for drift in found.drifts:
        assert drift.answers.not_compared == {"q2": "failed now"}
        assert "1 of 3 questions not compared (1 failed now)" in drift.sentence
    after = {cell: fingerprint(bench.graph().load("answers", cell)) for cell in bench.graph().partitions("answers")}
    assert before == after
    server.fault_for = None
    server.clear()
    bench.materialise()
    assert server.kinds()["answer"] == 0


def test_reports_that_cannot_be_stored_cost_no_answer_and_are_still_printed(
    bench: Bench, server: Loopback, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = bench.graph()
    before = {cell: fingerprint(graph.load("answers", cell)) for cell in graph.partitions("answers")}
    server.fault_for = lambda prompt: (
        Fault("status", 400) if "express parcels" in prompt.rsplit("Question: ", 1)[-1] else None
    )
    reports = Path(str(graph.tables.path_of(graph.key("drift_reports"), min(llm_cells(graph))))).parent.parent
    reports.write_text("a file where a folder has to be")
    monkeypatch.setattr(sys, "argv", ["contextgrid-dagster", "refresh", str(bench.file), "-s", "llm*"])
    with pytest.raises(SystemExit, match="1"):
        main()
    said = capsys.readouterr()
    assert "not stored drift_reports could not be stored: " in said.err
    assert "1 of 3 questions not compared (1 failed now)" in " ".join(said.out.split())
    assert before == {cell: fingerprint(graph.load("answers", cell)) for cell in graph.partitions("answers")}


def test_earlier_scores_that_are_damaged_are_named_so(bench: Bench, server: Loopback) -> None:
    graph = bench.graph()
    cell = min(llm_cells(graph))
    path = Path(str(graph.tables.path_of(graph.key("lexical_scores"), cell)))
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + b"\xff" * 100 + whole[104:])
    (drift,) = (drift for drift in refreshed(bench, "llm*").drifts if drift.cell == cell)
    assert "what was stored of the earlier scores is damaged" in drift.sentence


@pytest.mark.slow
def test_cells_keep_what_they_had_while_a_provider_is_down(bench: Bench, server: Loopback) -> None:
    server.fault_for = lambda prompt: Fault("status", 400)
    found = refreshed(bench)
    assert not found.report.success
    assert not found.drifted
    reasons = {drift.reason for drift in found.drifts if drift.cell in llm_cells(bench.graph())}
    assert len(reasons) == 1
    assert "answers failed: all 3 questions failed" in str(reasons.pop())
    assert bench.graph().load("leaderboard").num_rows == 3 * ROWS
    assert not bench.plan("answers", "lexical_scores", "lift_reports", "leaderboard").pending
    server.fault_for = None
    server.clear()
    assert bench.materialise().success
    assert not bench.plan().pending
    assert server.kinds() == {}


@pytest.mark.slow
def test_a_budget_is_kept_over_all_repetitions_and_leaves_no_cell_with_less(bench: Bench, server: Loopback) -> None:
    bench.edit("experiment.yaml", "retries: 0", "retries: 0, concurrency: 1")
    budget = 0.00008  # some of the 12 questions
    before = {cell: fingerprint(bench.graph().load("answers", cell)) for cell in bench.graph().partitions("answers")}
    found = refreshed(bench, "llm*", repetitions=2, budget=budget)
    assert 0 < found.report.calls.spent <= budget
    assert not found.report.success
    left_out = {why for drift in found.drifts for why in drift.answers.not_compared.values()}
    assert left_out == {"skipped for the budget now"}
    after = {cell: fingerprint(bench.graph().load("answers", cell)) for cell in bench.graph().partitions("answers")}
    assert before == after
    assert not bench.plan("answers").pending
    assert launched(bench, fresh=True, budget=budget).success is False


def test_an_interrupted_refresh_reports_what_it_had_found(bench: Bench, server: Loopback) -> None:
    server.reply_for = answers_about("express parcels")
    done = 0

    def stop_after_two(planned: Plan) -> Any:
        def finished(outcome: object) -> None:
            nonlocal done
            done += 1
            if done == 2:
                raise KeyboardInterrupt

        return execute(planned, bench.instance, finished=finished)

    graph = bench.graph()
    with pytest.raises(KeyboardInterrupt):
        refresh(
            graph,
            bench.instance,
            ["answers:llm*+"],
            run=stop_after_two,
            record=bench.instance.report_runless_asset_event,
        )
    records = bench.instance.fetch_materializations(AssetKey("drift_reports"), limit=100).records
    assert len(records) == 2
    sentence = noted(bench.instance, str(records[0].partition_key))["sentence"]
    assert "1 of 3 answers changed (q2)" in sentence
    assert "rubric_groundedness not compared, as the refresh was interrupted before" in sentence


@pytest.mark.slow
def test_embeddings_are_not_refreshed(server: Loopback, tmp_path: Path) -> None:
    text = SETTINGS.replace("SPEC", server.spec).replace(JUDGE, "judge: null").replace("index: bm25", "index: dense")
    embedder = f"hosted:openai/text-embedding-3-small,api_base={server.url}"
    text = text.replace("embedder: null", f'embedder: "{embedder}"').replace('"recursive:60", ', "")
    with new_bench(tmp_path, text) as fresh:
        assert fresh.materialise().success
        server.clear()
        assert refreshed(fresh).report.success
        fresh.edit("documents/shipping.md", "Express parcels", "All parcels")
        assert refreshed(fresh).report.success
        assert server.kinds()["answer"] == 2 * 2 * QUESTIONS
        embedded = [text for request in server.requests if "input" in request for text in request["input"]]
        assert embedded
        assert all("parcels" in text.lower() for text in embedded)


def test_repetitions_do_not_hide_a_change_from_the_check_that_compares_with_the_last_materialisation(
    bench: Bench, server: Loopback
) -> None:
    replies = iter(range(1000))
    server.reply_for = lambda prompt: None if kind_of(prompt) == "rating" else f"{RIGHT} {next(replies)} [1]"
    graph = bench.graph()
    before = {cell: _scores(graph, str(cell)) for cell in graph.partitions("answers") if "short" in str(cell)}
    refreshed(bench, "llm__short*", repetitions=2)
    records = read_records(graph, bench.instance)
    for cell, earlier in before.items():
        noted = float(str(records[Node("lexical_scores", cell)].materialization.metadata["answer_change"].value))
        assert noted == pytest.approx(_scores(graph, str(cell)) - earlier, abs=1e-6)
        assert noted > 0.1
    assert not bench.plan().pending


RIGHT = "Within thirty days of purchase, or on the next working day. Number"


def _scores(graph: GridGraph, cell: str) -> float:
    return float(pc.mean(graph.load("lexical_scores", cell)["answer_quality"]).as_py())


def test_an_experiment_that_only_replays_is_not_refreshed(bench: Bench, server: Loopback) -> None:
    bench.edit("experiment.yaml", "{k: 2,", "{k: 2, calls: replay,")
    with pytest.raises(ConfigError, match="is replay"):
        refreshed(bench)
    assert not server.requests
