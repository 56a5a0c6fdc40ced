"""The leaderboard and the findings: order, ties, cells scored with different questions, nothing to compare."""

from __future__ import annotations

import pyarrow as pa
import pytest

from contextgrid.core.axes import Generation
from contextgrid.core.tables import LEXICAL_SCORES, RETRIEVAL_SCORES
from contextgrid.generate.lift import LiftReport, lift_report
from contextgrid.grid.matrix import build_matrix
from contextgrid.report.findings import findings, short_names
from contextgrid.report.leaderboard import build_leaderboard
from contextgrid.settings import RunSettings

MATRIX = build_matrix(
    {
        "parser": ["auto"],
        "chunker": ["recursive:100"],
        "index": ["bm25"],
        "reranker": [None, "lexical"],
        "generator": ["extractive:1", "extractive:2"],
    }
)
FIRST, SECOND = (row.key for row in MATRIX.rows)
ONE, TWO = (column.key for column in MATRIX.columns)
RUN = RunSettings(resamples=200)


def lexical(scores: dict[str, float | None]) -> pa.Table:
    rows = [
        {
            "question_id": id_,
            "status": "scored" if score is not None else "failed",
            "answer_quality": score,
            "retrieval": score,
        }
        for id_, score in scores.items()
    ]
    return pa.Table.from_pylist(rows, schema=LEXICAL_SCORES)


def retrieval(ids: list[str]) -> pa.Table:
    table = pa.Table.from_pylist([{"question_id": id_, "question": "?"} for id_ in ids], schema=RETRIEVAL_SCORES)
    return table.append_column("recall@5", pa.array([0.5] * len(ids), pa.float64()))


def report(cell: str, own: dict[str, float | None], base: dict[str, float | None]) -> LiftReport:
    baseline = f"{cell.partition('|')[0]}|{FIRST}"
    return lift_report(
        lexical(own), lexical(base), cell_key=cell, baseline_key=baseline, headline="recall@5", resamples=200
    )


def board(cells: dict[str, dict[str, float | None]]) -> tuple[pa.Table, dict[str, LiftReport]]:
    lifts = {cell: report(cell, own, cells[f"{cell.partition('|')[0]}|{FIRST}"]) for cell, own in cells.items()}
    tables = {row: retrieval(["a"]) for row in (FIRST, SECOND)}
    return build_leaderboard(tables, lifts, RUN, MATRIX), lifts


def test_cells_without_a_score_come_last_and_the_baseline_is_marked() -> None:
    table, _ = board({f"{ONE}|{FIRST}": {"a": 0.2, "b": 0.4}, f"{ONE}|{SECOND}": {"a": None, "b": None}})
    assert table["retrieval"].to_pylist() == [FIRST, SECOND]
    assert table["baseline"].to_pylist() == [True, False]
    assert table["answer_score"].to_pylist() == [pytest.approx(0.3), None]


def test_cells_scored_with_different_questions_are_compared_on_those_they_share() -> None:
    ids = [f"q{number}" for number in range(12)]
    high: dict[str, float | None] = dict.fromkeys(ids, 1.0)
    low: dict[str, float | None] = dict.fromkeys([*reversed(ids), "new"], 0.0)
    table, _ = board({f"{ONE}|{FIRST}": high, f"{TWO}|{FIRST}": low})
    assert table["best"].to_pylist() == [True, False]
    # The same scores in another order of questions are the same scores.
    mixed = {id_: float(number % 2) for number, id_ in enumerate(ids)}
    turned = {id_: mixed[id_] for id_ in reversed(ids)}
    table, _ = board({f"{ONE}|{FIRST}": {**mixed}, f"{TWO}|{FIRST}": {**turned}})
    assert table["best"].to_pylist() == [True, True]
    assert len(set(table["answer_score"].to_pylist())) == 1


def test_findings_do_not_speak_of_gains_where_nothing_compares_or_nothing_rose() -> None:
    _, lifts = board({f"{ONE}|{FIRST}": {"a": None}, f"{ONE}|{SECOND}": {"a": 0.5}})
    assert "1 of 1: nothing could be compared." in findings(lifts)
    _, lifts = board({f"{ONE}|{FIRST}": {"a": 0.5, "b": 0.5}, f"{ONE}|{SECOND}": {"a": 0.4, "b": 0.5}})
    said = " ".join(findings(lifts))
    assert "no row's answers gain" in said
    assert "gain most" not in said


def test_short_names_leave_out_what_all_longer_keys_share() -> None:
    assert short_names(["auto__a__bm25", "auto__a__dense__x", None]) == {
        "auto__a__bm25": "bm25",
        "auto__a__dense__x": "dense x",
    }
    served = [Generation("llm", prompt, "openai:any,api_base=http://localhost:80/v1").key for prompt in ("p", "q")]
    name = "openai-any.api_base_http://localhost:80/v1"
    assert short_names([served[0]]) == {served[0]: f"llm p {name}"}
    assert list(short_names(served).values()) == ["p", "q"]
    assert short_names(["extractive", "llm__p__m"]) == {"extractive": "extractive", "llm__p__m": "llm p m"}
