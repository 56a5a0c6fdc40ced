"""A change costs exactly the partitions and the model calls that depend on it."""

from __future__ import annotations

import json
import os
import signal

import pytest
from dagster._utils.interrupts import capture_interrupts
from upath import UPath

from contextgrid import stages
from contextgrid_dagster.executor import Kind
from contextgrid_dagster.graph import Node
from contextgrid_dagster.planner import Status
from contextgrid_dagster.storage import TableStore
from tests.dagster_fixtures import (
    COLUMNS,
    LLM_LONG,
    LLM_SHORT,
    QUESTIONS,
    ROWS,
    Bench,
    bench,
    built_bench,
)

__all__ = ["bench", "built_bench"]

CELLS = ROWS * COLUMNS
BELOW_RETRIEVAL = {
    "retrieval_scores": ROWS,
    "answers": CELLS,
    "lexical_scores": CELLS,
    "lift_reports": CELLS,
    "leaderboard": 1,
}


def test_nothing_changed_costs_nothing(bench: Bench) -> None:
    with bench.counted() as counted:
        assert not bench.plan().pending
        assert not bench.materialise().outcomes
    assert (counted.partitions, counted.calls) == ({}, 0)


def test_a_rewritten_file_with_the_same_content_costs_nothing(bench: Bench) -> None:
    for file in (bench.folder / "documents").iterdir():
        file.write_bytes(file.read_bytes())
    assert not bench.plan().pending


def test_an_edited_prompt_costs_its_column_and_the_leaderboard(bench: Bench) -> None:
    bench.edit("prompts/short.txt", "Answer from", "Answer at length from")
    with bench.counted() as counted:
        assert bench.materialise().success
    column = sorted(f"{LLM_SHORT}|{row.key}" for row in bench.graph().experiment.matrix.rows)
    cells = {"answers", "lexical_scores", "lift_reports"}
    assert set(counted.partitions) == {"generation_spec", *cells, "leaderboard"}
    assert counted.partitions["generation_spec"] == [LLM_SHORT]
    assert all(sorted(map(str, counted.partitions[name])) == column for name in cells)
    assert counted.calls == ROWS * len(QUESTIONS)
    assert not bench.plan().pending


def test_a_prompt_edit_that_changes_no_answer_stops_at_the_answers(bench: Bench) -> None:
    bench.edit("prompts/short.txt", "Sentinel short.", "Sentinel short!")
    report = bench.materialise()
    assert len(report.of_kind(Kind.UNCHANGED)) == ROWS
    assert {outcome.node.asset for outcome in report.of_kind(Kind.SPARED)} == {
        "lexical_scores",
        "lift_reports",
        "leaderboard",
    }


def test_another_model_costs_its_columns_and_the_leaderboard(bench: Bench) -> None:
    bench.edit("experiment.yaml", "counting:a", "counting:b")
    with bench.counted() as counted:
        assert bench.materialise().success
    assert counted.counts() == {
        "generation_spec": 2,
        "answers": 2 * ROWS,
        "lexical_scores": 2 * ROWS,
        "lift_reports": 2 * ROWS,
        "leaderboard": 1,
    }
    assert counted.calls == 2 * ROWS * len(QUESTIONS)


def test_an_added_question_costs_nothing_above_retrieval(bench: Bench) -> None:
    with (bench.folder / "questions.jsonl").open("a") as questions:
        anchors = [{"source_id": "warranty.md", "quote": "twenty-four months"}]
        question = {"id": "q4", "question": "How long is the warranty for engines?", "anchors": anchors}
        questions.write(json.dumps(question) + "\n")
    assert bench.reasons()[Node("evalset")] == ("1 question added",)
    with bench.counted() as counted:
        assert bench.materialise().success
    assert counted.counts() == {"evalset": 1, "retrieved_ids": ROWS, **BELOW_RETRIEVAL}
    assert counted.calls == 2 * ROWS * (len(QUESTIONS) + 1)


def test_an_added_document_costs_everything_but_the_other_inputs(bench: Bench) -> None:
    (bench.folder / "documents" / "board.md").write_text("# Board\n\nThe refunds board meets when parcels arrive.\n")
    assert bench.reasons()[Node("corpus")] == ("1 document added",)
    with bench.counted() as counted:
        report = bench.materialise()
    assert report.success
    above = {"corpus": 1, "documents": 1, "chunks": 2, "index": 4, "retrieved_ids": ROWS, "retrieval_scores": ROWS}
    built = counted.counts()
    assert {name: built.get(name) for name in above} == above
    assert (built["answers"], counted.calls) == (CELLS, 2 * ROWS * len(QUESTIONS))
    assert {"evalset", "generation_spec"}.isdisjoint(built)
    # Below the answers a cell is spared where its scores came out the same.
    assert all(counts[Kind.BUILT] + counts[Kind.UNCHANGED] + counts[Kind.SPARED] for counts in report.counts().values())
    assert {outcome.node.asset for outcome in report.of_kind(Kind.SPARED)} <= {"lexical_scores", "lift_reports"}
    assert not bench.plan().pending


def test_a_chunker_whose_code_changed_but_not_its_output_stops_there(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(stages._VERSIONS, "chunks", (99, ()))
    with bench.counted() as counted:
        report = bench.materialise()
    assert (counted.counts(), counted.calls) == ({"chunks": 2}, 0)
    assert len(report.of_kind(Kind.UNCHANGED)) == 2
    assert "index" in {outcome.node.asset for outcome in report.of_kind(Kind.SPARED)}


def test_a_changed_setting_costs_the_stages_that_depend_on_it(bench: Bench) -> None:
    bench.edit("experiment.yaml", "resamples: 200", "resamples: 300")
    with bench.counted() as counted:
        assert bench.materialise().success
    assert (counted.counts(), counted.calls) == ({"lift_reports": CELLS, "leaderboard": 1}, 0)


def test_a_lost_file_is_built_again_and_spares_what_is_below(bench: Bench) -> None:
    graph = bench.graph()
    row = graph.experiment.matrix.rows[0].key
    graph.tables.path_of(graph.key("retrieved_ids"), row).unlink()
    steps = {step.node: step for step in bench.plan().pending}
    assert steps[Node("retrieved_ids", row)].status is Status.MISSING
    assert steps[Node("answers", f"{LLM_LONG}|{row}")].status is Status.POSSIBLE
    with bench.counted() as counted:
        assert bench.materialise().success
    assert (counted.counts(), counted.calls) == ({"retrieved_ids": 1}, 0)


def test_a_failing_column_stops_no_other_and_the_leaderboard_leaves_it_out(bench: Bench) -> None:
    bench.edit("prompts/long.txt", "Sentinel long.", "fail always")
    report = bench.materialise()
    assert not report.success
    failed = report.of_kind(Kind.FAILED)
    assert {outcome.node.asset for outcome in failed} == {"answers"}
    assert len(failed) == ROWS
    assert "told to fail" in failed[0].reason
    assert all("answers:" in outcome.reason and "failed" in outcome.reason for outcome in report.of_kind(Kind.SKIPPED))
    # The column's older lift reports are still stored, but they belong to the old prompt.
    assert bench.graph().load("leaderboard").num_rows == CELLS - ROWS
    pending = {step.node.asset for step in bench.plan().pending}
    assert pending == {"answers", "lexical_scores", "lift_reports", "leaderboard"}

    bench.edit("prompts/long.txt", "fail always", "Sentinel mended.")
    with bench.counted() as counted:
        assert bench.materialise().success
    assert counted.calls == ROWS * len(QUESTIONS)
    assert bench.graph().load("leaderboard").num_rows == CELLS
    assert not bench.plan().pending


def test_a_failed_question_does_not_fail_its_cell_but_is_tried_again(bench: Bench) -> None:
    bench.edit("prompts/long.txt", "Sentinel long.", "fail once")
    report = bench.materialise()
    assert report.success
    unfinished = {outcome.unfinished for outcome in report.outcomes if outcome.node.asset == "answers"}
    assert unfinished == {"1 question failed"}
    row = bench.graph().experiment.matrix.rows[0].key
    assert bench.reasons()[Node("answers", f"{LLM_LONG}|{row}")] == ("1 question failed last time",)

    bench.edit("prompts/long.txt", "fail once", "Sentinel mended.")
    assert bench.materialise().success
    assert not bench.plan().pending


def test_rebuilding_all_builds_what_is_selected_even_if_it_is_current(bench: Bench) -> None:
    with bench.counted() as counted:
        report = bench.materialise("chunks", rebuild_all=True)
    assert counted.counts() == {"chunks": 2}
    assert len(report.of_kind(Kind.UNCHANGED)) == 2


def test_a_selection_waits_for_what_is_out_of_date_above_it(bench: Bench) -> None:
    bench.edit("prompts/short.txt", "Answer from", "Answer at length from")
    with bench.counted() as counted:
        report = bench.materialise("answers")
    assert (counted.counts(), counted.calls) == ({}, 0)
    assert len(report.of_kind(Kind.SKIPPED)) == ROWS
    assert "generation_spec is out of date and not selected; put + in front" in report.outcomes[0].reason
    assert bench.materialise("+answers").success


def test_an_interruption_that_dagster_swallows_stops_the_executor(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.edit("prompts/short.txt", "Answer from", "Answer at length from")
    write = TableStore.write

    def write_and_interrupt(store: TableStore, path: UPath, content: bytes) -> None:
        with capture_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
        write(store, path, content)

    monkeypatch.setattr(TableStore, "write", write_and_interrupt)
    with bench.counted() as counted, pytest.raises(KeyboardInterrupt):
        bench.materialise()
    assert counted.counts() == {"generation_spec": 1}


def test_the_leaderboard_keeps_the_cells_beside_a_selection_that_turned_out_the_same(bench: Bench) -> None:
    report = bench.materialise("chunks:*recursive-60", "leaderboard", rebuild_all=True)
    assert {outcome.node.asset: outcome.kind for outcome in report.outcomes} == {
        "chunks": Kind.UNCHANGED,
        "leaderboard": Kind.UNCHANGED,
    }
    assert not bench.plan().pending
