from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextgrid.core.errors import ConfigError, StageError
from contextgrid.core.tables import LEXICAL_SCORES
from contextgrid.generate.lift import LIFT, LiftReport, lift, lift_report
from contextgrid.score.statistics import Mean

Scores = Sequence[float | None]


def scores(answer: Scores, retrieval: Scores, ids: Sequence[str] | None = None, **columns: Sequence[Any]) -> pa.Table:
    n = len(answer)
    values: dict[str, Sequence[Any]] = {
        "question_id": ids or [f"q{i}" for i in range(n)],
        "status": ["scored"] * n,
        "answer_quality": answer,
        "retrieval": retrieval,
        **columns,
    }
    return pa.table([pa.array(values.get(f.name, [None] * n), f.type) for f in LEXICAL_SCORES], schema=LEXICAL_SCORES)


def report(cell: pa.Table, baseline: pa.Table, **options: Any) -> LiftReport:
    names: dict[str, Any] = {"cell_key": "cell", "baseline_key": "baseline", "headline": "recall@5", "resamples": 2000}
    return lift_report(cell, baseline, **(names | options))


def shifted(retrieval: float, answer: float, n: int = 60) -> LiftReport:
    """A cell whose scores differ from its baseline's by these means, and noise of 0.1."""
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.1, (2, n))
    base = rng.random((2, n))
    moved = base + noise - noise.mean(axis=1, keepdims=True) + np.array([[retrieval], [answer]])
    return report(scores(moved[1].tolist(), moved[0].tolist()), scores(base[1].tolist(), base[0].tolist()))


score = st.none() | st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0, 1)
cell_pairs = st.lists(st.tuples(score, score, score, score), max_size=25).map(
    lambda rows: (
        scores([r[0] for r in rows], [r[1] for r in rows]),
        scores([r[2] for r in rows], [r[3] for r in rows]),
    )
)


def test_lift_says_what_the_pages_print() -> None:
    assert lift(retrieval_score=0.62, answer_score=0.71, baseline_answer=0.70) == (
        "Retrieval scored 0.620 and answer quality rose +0.010. The retrieval gain survived to the answer."
    )
    assert lift(retrieval_score=0.62, answer_score=0.60, baseline_answer=0.70) == (
        "Retrieval scored 0.620 and answer quality *fell* -0.100. Better retrieval that produces worse answers usually"
        " means more context, not better context -- check character precision before believing the retrieval number."
    )
    assert lift(0.8, 0.7, 0.5) == (
        "Retrieval scored 0.800 and answer quality rose +0.200. The retrieval gain survived to the answer."
    )
    assert lift(0.8, 0.5, 0.5) == (
        "Retrieval scored 0.800, and answer quality is unchanged against the baseline. The generator was finding the"
        " answer either way, so this retrieval gain bought nothing."
    )


def test_a_change_of_exactly_a_hundredth_counts_wherever_it_lies() -> None:
    assert "rose +0.010" in lift(0.8, 0.29, 0.28)
    assert "fell* -0.010" in lift(0.8, 0.28, 0.29)
    assert "unchanged" in lift(0.8, 0.299, 0.29)


@pytest.mark.parametrize("absent", [None, math.nan, math.inf])
def test_lift_names_what_was_not_measured(absent: float | None) -> None:
    assert lift(0.5, absent, 0.5) == "No lift can be stated: answer score not measured."
    assert lift(absent, 0.5, absent) == "No lift can be stated: retrieval score, baseline answer not measured."


def test_the_split_says_what_became_of_each_question() -> None:
    ids = ["converted", "wasted", "unexplained", "unexplained too", "lost", "lost too", "same", "worse found", "failed"]
    cell = scores([1.0, 0.5, 1.0, 1.0, 0.0, 0.0, 0.5, 0.5, 1.0], [1.0, 1.0, 0.5, 0.0, 1.0, None, 0.5, 0.0, 1.0], ids)
    base = scores([0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, None], [0.5, 0.5, 0.5, 0.5, 0.5, None, 0.5, 0.5, 0.5], ids)
    split = report(cell, base)
    assert split.gain_converted == ("converted",)
    assert split.gain_wasted == ("wasted",)
    assert split.gain_unexplained == ("unexplained", "unexplained too")
    assert split.loss == ("lost", "lost too")
    assert split.unchanged == ("same", "worse found")
    assert split.not_compared == ("failed",)
    assert (split.answer.n, split.answer.total, split.retrieval.n) == (8, 9, 8)
    assert "over 8 of 9 questions:" in split.verdict


def test_a_question_without_retrieval_score_still_counts_for_the_answer() -> None:
    split = report(scores([1.0, 0.0, 1.0], [None] * 3), scores([0.0, 1.0, 1.0], [None] * 3))
    assert (split.gain_unexplained, split.loss, split.unchanged) == (("q0",), ("q1",), ("q2",))
    assert split.answer.n == 3
    assert split.retrieval.n == 0
    assert split.retrieval.difference is None
    assert "Retrieval has no score in common" in split.verdict
    assert "(0 of 3 for retrieval)" in split.verdict


def test_rounding_is_not_a_change() -> None:
    split = report(scores([0.1 + 0.2], [0.1 + 0.2]), scores([0.3], [0.3]))
    assert split.unchanged == ("q0",)
    assert split.answer.difference == 0.0


@given(cell_pairs)
@settings(max_examples=60, deadline=None)
def test_every_question_is_in_exactly_one_part(pair: tuple[pa.Table, pa.Table]) -> None:
    split = report(*pair, resamples=50)
    parts = (split.gain_converted, split.gain_wasted, split.gain_unexplained, split.loss, split.unchanged)
    compared = [question_id for part in parts for question_id in part]
    assert len(compared) == len(set(compared)) == split.answer.n
    assert sorted([*compared, *split.not_compared]) == sorted(pair[0]["question_id"].to_pylist())


@given(cell_pairs)
@settings(max_examples=60, deadline=None)
def test_reports_survive_a_table_and_hold_no_nan(pair: tuple[pa.Table, pa.Table]) -> None:
    written = report(*pair, resamples=50)
    table = written.to_table()
    assert table.schema == LIFT
    assert LiftReport.from_table(table) == written
    assert "nan" not in str(table.to_pylist())


def test_swapping_cell_and_baseline_mirrors_the_interval() -> None:
    own, other = [(i * 7 % 11) / 10 for i in range(60)], [(i * 5 % 11) / 10 for i in range(60)]
    there = report(scores(own, own), scores(other, other)).answer
    back = report(scores(other, other), scores(own, own)).answer
    assert there.low is not None
    assert there.high is not None
    assert back.low == pytest.approx(-there.high, abs=0.01)
    assert back.high == pytest.approx(-there.low, abs=0.01)


@given(cell_pairs)
@settings(max_examples=40, deadline=None)
def test_swapping_cell_and_baseline_mirrors_the_differences(pair: tuple[pa.Table, pa.Table]) -> None:
    there, back = report(*pair, resamples=100), report(*reversed(pair), resamples=100)
    for one, other in ((there.answer, back.answer), (there.retrieval, back.retrieval)):
        assert one.p == other.p
        assert one.difference == (None if other.difference is None else -other.difference)
    assert there.loss == tuple(q for q in there.question_ids if q in {*back.gain_converted, *back.gain_unexplained})


@pytest.mark.parametrize(
    ("retrieval", "answer", "conclusion"),
    [
        (0.1, 0.1, "the gain survived"),
        (0.1, 0.0, "within noise, so it is not shown that the gain survived"),
        (0.1, -0.1, "worse answers, so check character precision before believing it"),
        (0.0, 0.1, "no retrieval gain was shown that would explain the better answers"),
        (0.0, 0.0, "no retrieval gain was shown, and the answer's change is within noise"),
        (0.0, -0.1, "no retrieval gain was shown, and the answers got worse"),
        (-0.1, 0.1, "retrieval got worse, yet the answers got better"),
        (-0.1, 0.0, "retrieval got worse, and the answer's change is within noise"),
        (-0.1, -0.1, "retrieval got worse, and the answers with it"),
    ],
)
def test_the_verdict_follows_from_both_intervals(retrieval: float, answer: float, conclusion: str) -> None:
    shown = shifted(retrieval, answer)
    assert shown.verdict.endswith(conclusion + ".")
    for difference in (shown.retrieval, shown.answer):
        assert difference.low is not None
        assert difference.high is not None
        assert (difference.direction == 0) == (difference.low <= 0 <= difference.high)


def test_the_verdict_states_the_numbers() -> None:
    verdict = shifted(0.12, 0.05).verdict
    assert verdict.startswith("Retrieval rose +0.120 [+0.0")
    assert "] and the answer rose +0.050 [+0.0" in verdict
    assert verdict.endswith("], p<0.001, over 60 of 60 questions: the gain survived.")


def test_a_handful_of_questions_is_never_a_shown_difference() -> None:
    few = report(scores([1.0] * 3, [1.0] * 3), scores([0.0] * 3, [0.0] * 3))
    assert few.answer.low == 1.0  # no spread, yet three questions prove nothing
    assert few.answer.p == 0.25
    assert "within noise" in few.verdict
    one = report(scores([1.0], [1.0]), scores([0.0], [0.0]))
    assert (one.answer.low, one.answer.high, one.answer.p) == (None, None, 1.0)
    assert "rose +1.000 [no interval]" in one.verdict


def test_the_baseline_is_named_as_such() -> None:
    table = scores([0.5, 1.0, None], [1.0, None, 0.0])
    own = report(table, table, cell_key="baseline")
    assert own.verdict == (
        "This is the baseline: recall@5 0.500 over 2 of 3 questions, answer_quality 0.750 over 2 of 3 questions."
    )
    assert (own.answer.difference, own.answer.low, own.answer.high, own.answer.p) == (0.0, 0.0, 0.0, 1.0)
    assert "unchanged against the baseline" in own.sentence


def test_nothing_comparable_says_why() -> None:
    failed = scores([None, None], [1.0, 0.0], status=["failed"] * 2, reason=["429: slow down.", "429: slow down."])
    nothing = report(failed, scores([1.0, 0.0], [1.0, 0.0]))
    assert nothing.verdict == (
        "Nothing to compare: answer_quality was measured for 0 of 2 questions in this cell and 2 of 2 in its baseline;"
        " 2 answers failed here, the first with: 429: slow down."
    )
    assert nothing.answer.n == 0
    assert nothing.answer.cell is None
    assert nothing.sentence.startswith("No lift can be stated")
    apart = report(scores([1.0], [1.0], ["a"]), scores([1.0], [1.0], ["b"]))
    assert "1 of 1 questions in this cell and 1 of 1 in its baseline, but for no question in both" in apart.verdict
    assert apart.not_compared == ("a", "b")


def test_scores_of_failed_rows_are_absent_but_their_retrieval_counts() -> None:
    status = ["scored", "failed", "skipped_budget", "abstained"]
    cell = scores([1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 1.0, 1.0], status=status, abstained=[False, False, None, True])
    failed = report(cell, scores([1.0] * 4, [1.0] * 4))
    assert failed.answer_scores == (1.0, None, None, 0.0)
    assert failed.retrieval_scores == (1.0, 0.0, 1.0, 1.0)
    assert failed.not_compared == ("q1", "q2")
    assert failed.metrics["answer_quality"] == Mean(0.5, 2, 4)
    assert failed.metrics["retrieval"] == Mean(0.75, 4, 4)
    assert failed.metrics["abstained"] == Mean(0.5, 2, 4)
    assert failed.metrics["groundedness"] == Mean(None, 0, 4)
    assert "status" not in failed.metrics


def test_means_of_both_cells_are_over_the_compared_questions() -> None:
    # The baseline's easiest question failed in the cell: leaving it in the baseline's mean would be unfair.
    means = report(scores([None, 0.5], [1.0, 1.0]), scores([1.0, 0.4], [1.0, 1.0])).answer
    assert (means.cell, means.baseline) == (0.5, 0.4)
    assert means.difference == pytest.approx(0.1)


def test_questions_are_paired_by_id_not_by_row() -> None:
    swapped = report(scores([1.0, 0.0], [1.0, 0.0], ["a", "b"]), scores([0.0, 1.0], [0.0, 1.0], ["b", "a"]))
    assert swapped.unchanged == ("a", "b")


def test_any_numeric_column_can_be_the_answer_metric() -> None:
    cell = scores([0.0], [1.0], abstention_correct=[1.0])
    other = report(cell, scores([1.0], [1.0], abstention_correct=[0.0]), answer_metric="abstention_correct")
    assert other.answer.difference == 1.0
    assert other.answer_metric == "abstention_correct"
    judged = pa.table({**dict(zip(cell.column_names, cell.columns, strict=True)), "faithfulness": [0.75]})
    assert report(judged, judged, answer_metric="faithfulness").answer.cell == 0.75


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("answer_qualty", "'answer_qualty' does not exist; did you mean 'answer_quality'?"),
        ("status", "column 'status' is not numeric"),
    ],
)
def test_an_answer_metric_that_cannot_be_used_is_refused(metric: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        report(scores([1.0], [1.0]), scores([1.0], [1.0]), answer_metric=metric)
    assert message in str(refused.value)


def test_a_question_scored_twice_is_refused() -> None:
    with pytest.raises(StageError, match="cell 'baseline' has scores for question 'a' twice"):
        report(scores([1.0], [1.0]), scores([1.0, 1.0], [1.0, 1.0], ["a", "a"]))


def test_tables_that_are_no_lift_report_are_refused() -> None:
    table = report(scores([1.0], [1.0]), scores([1.0], [1.0])).to_table()
    with pytest.raises(StageError, match="it has 2 rows"):
        LiftReport.from_table(pa.concat_tables([table, table]))
    with pytest.raises(StageError, match="lacks the column 'loss'"):
        LiftReport.from_table(table.drop_columns(["loss"]))


def test_markdown_shows_ids_as_text_and_at_most_twenty() -> None:
    ids = ["<script>alert(1)</script>", "a|b", "**bold** [x](http://y)", "two\nlines", *(f"q{i}" for i in range(30))]
    n = len(ids)
    text = report(scores([1.0] * n, [1.0] * n, ids), scores([0.0] * n, [0.0] * n, ids)).to_markdown()
    assert "<script>" not in text
    assert "&lt;script&gt;alert\\(1\\)&lt;/script&gt;" in text
    assert "a\\|b" in text
    assert "\\*\\*bold\\*\\* \\[x\\]\\(http\\://y\\)" in text
    assert "two lines" in text
    assert f"| gain converted | {n} | " in text
    assert "q15 and 14 more |" in text
    assert "q16" not in text
    failed = scores([None], [1.0], status=["failed"], reason=["<b>no</b>"])
    assert "&lt;b&gt;no&lt;/b&gt;" in report(failed, scores([1.0], [1.0])).to_markdown()
