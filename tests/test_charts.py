"""Charts and HTML reports: what they show, how long they are, and that names and ids stay text."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest

from contextgrid.core.tables import LEADERBOARD
from contextgrid.generate.lift import Difference, LiftReport
from contextgrid.report.charts import as_markdown, leaderboard_chart, lift_chart, split_chart
from contextgrid.report.html import leaderboard_page, lift_page

PARTS = ("gain_converted", "gain_wasted", "gain_unexplained", "loss", "unchanged", "not_compared")
HOSTILE = "<script>alert('1')</script>&%23"


def report(**changes: Any) -> LiftReport:
    made = LiftReport(
        cell="llm|b",
        baseline="llm|a",
        headline="recall@5",
        answer_metric="answer_quality",
        retrieval=Difference(0.7, 0.4, 0.3, 0.2, 0.4, 0.001, 40, 50),
        answer=Difference(0.5, 0.52, -0.02, -0.05, 0.03, 0.4, 50, 50),
        gain_converted=("q1", "q2"),
        gain_wasted=("q3",),
        gain_unexplained=(),
        loss=(HOSTILE,),
        unchanged=("q5",),
        not_compared=(),
        question_ids=("q1", "q2", "q3", HOSTILE, "q5"),
        retrieval_scores=(1.0,) * 5,
        answer_scores=(1.0,) * 5,
        metrics={},
    )
    return replace(made, **changes)


def leaderboard(rows: int, columns: int) -> pa.Table:
    lines = [
        {
            "rank": column * rows + row + 1,
            "retrieval": f"auto__row-{row}",
            "generation": f"llm__{HOSTILE if column == 0 else column}__m",
            "best": row % 2 == 0,
            "baseline": row == 0,
            "headline": "recall@5",
            "retrieval_score": 0.2 + 0.6 * row / rows,
            "retrieval_n": 5,
            "answer_metric": "answer_quality",
            "answer_score": 0.1 + 0.05 * column + 0.003 * row,
            "answer_n": 4,
            "questions": 5,
            "answer_gain": 0.1,
            "answer_low": -0.1,
            "answer_high": 0.3,
            "p_value": 0.2,
            "verdict": "",
            "metrics": [],
        }
        for column in range(columns)
        for row in range(rows)
    ]
    return pa.Table.from_pylist(lines, schema=LEADERBOARD)


def texts(svg: str | None) -> str:
    assert svg is not None
    return " ".join(text.strip() for text in ET.fromstring(svg).itertext() if text.strip())


def test_a_lift_chart_names_both_scores_and_colours_only_what_is_beyond_noise() -> None:
    svg = lift_chart(report())
    assert texts(svg).startswith("recall@5 answer_quality")
    assert svg is not None
    assert svg.count("seagreen") == 2
    assert "crimson" not in svg
    assert lift_chart(report(answer=Difference(0.1, 0.3, -0.2, -0.3, -0.1, 0.001, 50, 50))).count("crimson") == 2  # type: ignore[union-attr]


def test_the_baseline_and_a_cell_without_scores_have_no_charts() -> None:
    nothing = Difference(None, None, None, None, None, None, 0, 5)
    for without in (report(cell="llm|a"), report(retrieval=nothing, answer=nothing, reason="no answer has a score")):
        assert lift_chart(without) is None
        assert split_chart(without) is None


@pytest.mark.parametrize("difference", [0.0, 1e-9, 4.0])
def test_axes_exist_for_any_size_of_a_difference(difference: float) -> None:
    side = Difference(1.0, 1.0, difference, difference, difference, 1.0, 5, 5)
    assert "nan" not in texts(lift_chart(report(retrieval=side, answer=side)))


def test_a_split_chart_counts_the_parts_that_have_questions() -> None:
    assert texts(split_chart(report())) == "2 converted 1 wasted 1 loss 1 unchanged"


def test_charts_of_a_lift_are_short_enough_for_a_page_of_dagster() -> None:
    many = tuple(f"q{number}" for number in range(99_999))
    full = report(
        headline="char_precision@10000",
        answer_metric="rubric_groundedness",
        **dict.fromkeys(PARTS, many),
    )
    for svg in (lift_chart(full), split_chart(full)):
        assert svg is not None
        assert len(as_markdown(svg, "chart")) < 1000


def test_a_leaderboard_chart_has_a_dot_for_each_cell_and_escapes_names() -> None:
    svg = leaderboard_chart(leaderboard(8, 3))
    assert svg is not None
    assert svg.count("z") == 24
    assert "alert('1')" in texts(svg)
    one = leaderboard_chart(leaderboard(30, 3), "llm__1__m")
    assert one is not None
    assert one.count("z") == 30
    assert len(as_markdown(one, "chart")) < 1000
    assert leaderboard_chart(leaderboard(0, 0)) is None


def test_a_chart_in_markdown_is_the_chart() -> None:
    svg = split_chart(report())
    assert svg is not None
    markdown = as_markdown(svg, "chart")
    address = markdown.removeprefix("![chart](<data:image/svg+xml,").removesuffix(">)")
    assert not set("<>&\n") & set(address)
    assert unquote(address) == svg


def test_reports_in_html_show_ids_and_names_as_text_and_link_cells_to_their_reports() -> None:
    page = lift_page(report())
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "Retrieval rose +0.300" in page
    board = leaderboard_page(leaderboard(2, 2), [HOSTILE], HOSTILE, links={"llm__1__m|auto__row-1": "x%3C.html"})
    assert "<script>" not in board
    assert board.count('href="x%3C.html"') == 1
    assert "0.150 (n=4 of 5)" in board
