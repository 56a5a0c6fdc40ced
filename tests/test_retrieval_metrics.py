from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from contextgrid.core.errors import ConfigError, StageError
from contextgrid.core.tables import CHUNKS, GOLD, RETRIEVED
from contextgrid.score.intervals import covered, overlapping, union
from contextgrid.score.relevance import holds
from contextgrid.score.retrieval import metric_names, parse_metric, score_retrieval

Span = tuple[str, int, int]
CUTOFFS = (1, 2, 3, 5, 10)
TREC_EVAL = {
    "precision": "P{}{}",
    "hit_rate": "success{}{}",
    "mrr": "recip_rank",
    "map": "map_cut{}{}",
    "ndcg": "ndcg_cut{}{}",
}


def table(schema: pa.Schema, rows: Sequence[Sequence[Any]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.table([list(column) for column in columns], schema=schema)


def chunk_table(spans: Sequence[Span]) -> pa.Table:
    return table(CHUNKS, [(f"{s}:{a}-{b}", s, a, b, "x") for s, a, b in spans])


def gold_table(rows: Sequence[tuple[str, int, Span]]) -> pa.Table:
    return table(GOLD, [(q, anchor, *span, "x", "exact") for q, anchor, span in rows])


def ranking_table(rankings: Mapping[str, Sequence[Span]]) -> pa.Table:
    rows: list[tuple[Any, ...]] = []
    for question, spans in rankings.items():
        if not spans:
            rows.append((question, "?", 0, None, None, None, None, None, None))
        for rank, (s, a, b) in enumerate(spans, start=1):
            rows.append((question, "?", rank, 1 / rank, f"{s}:{a}-{b}", s, a, b, "x"))
    return table(RETRIEVED, rows)


def score(
    rankings: Mapping[str, Sequence[Span]],
    chunks: Sequence[Span],
    gold: Sequence[tuple[str, int, Span]],
    cutoffs: Sequence[int] = CUTOFFS,
) -> dict[str, list[float]]:
    found = score_retrieval(ranking_table(rankings), chunk_table(chunks), gold_table(gold), list(rankings), cutoffs)
    return {name: values.tolist() for name, values in found.items()}


# Small worlds: two documents of 40 characters, any chunks, any evidence, any rankings.
spans = st.tuples(st.sampled_from(["a.md", "b.md"]), st.integers(0, 36), st.integers(1, 12)).map(
    lambda s: (s[0], s[1], min(s[1] + s[2], 40))
)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[dict[str, list[Span]], list[Span], list[tuple[str, int, Span]]]:
    chunks = draw(st.lists(spans, min_size=1, max_size=14, unique=True))
    questions = [f"q{i}" for i in range(draw(st.integers(1, 4)))]
    rankings = {q: draw(st.lists(st.sampled_from(chunks), unique=True, max_size=12)) for q in questions}
    gold = draw(st.lists(st.tuples(st.sampled_from(questions), st.integers(0, 2), spans), max_size=8, unique=True))
    return rankings, chunks, gold


def span_holds(chunk: Span, gold: Span) -> bool:
    common = set(range(*chunk[1:])) & set(range(*gold[1:])) if chunk[0] == gold[0] else set()
    return bool(common) and (len(common) >= (gold[2] - gold[1]) / 2 or len(common) >= (chunk[2] - chunk[1]) / 2)


@given(worlds())
@settings(max_examples=150, deadline=None)
def test_rank_metrics_agree_with_trec_eval(world: Any) -> None:
    rankings, chunks, gold = world
    scores = score(rankings, chunks, gold)
    for row, (question, ranking) in enumerate(rankings.items()):
        evidence = [span for q, _, span in gold if q == question]
        if not evidence:
            assert all(math.isnan(values[row]) for values in scores.values())
            continue
        qrels = {str(c): int(any(span_holds(c, span) for span in evidence)) for c in chunks}
        for k in CUTOFFS:
            # trec_eval orders by score, so scores fall strictly; cutting the run off cuts recip_rank off.
            run = {str(c): float(len(ranking) - i) for i, c in enumerate(ranking[:k])}
            judge = pytrec_eval.RelevanceEvaluator(
                {question: qrels}, {measure.format(".", k) for measure in TREC_EVAL.values()}
            )
            expected = judge.evaluate({question: run})[question] if run else {}
            for metric, measure in TREC_EVAL.items():
                assert scores[f"{metric}@{k}"][row] == pytest.approx(expected.get(measure.format("_", k), 0.0)), metric


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=6, unique=True),
    st.lists(st.integers(0, 9), min_size=1, max_size=10, unique=True),
)
@settings(max_examples=80, deadline=None)
def test_recall_agrees_with_trec_eval_where_each_anchor_lies_in_one_chunk(
    relevant: list[int], ranked: list[int]
) -> None:
    chunks = [("a.md", 10 * i, 10 * i + 10) for i in range(10)]
    gold = [("q", n, ("a.md", 10 * i + 2, 10 * i + 8)) for n, i in enumerate(relevant)]
    scores = score({"q": [chunks[i] for i in ranked]}, chunks, gold)
    evaluator = pytrec_eval.RelevanceEvaluator({"q": {str(i): int(i in relevant) for i in range(10)}}, {"recall.1,3,5"})
    expected = evaluator.evaluate({"q": {str(i): float(-rank) for rank, i in enumerate(ranked)}})["q"]
    for k in (1, 3, 5):
        assert scores[f"recall@{k}"][0] == pytest.approx(expected[f"recall_{k}"])


@given(worlds())
@settings(max_examples=150, deadline=None)
def test_recall_counts_anchors_and_char_metrics_count_characters(world: Any) -> None:
    rankings, chunks, gold = world
    scores = score(rankings, chunks, gold)
    for row, (question, ranking) in enumerate(rankings.items()):
        anchors: dict[int, list[Span]] = {}
        for q, anchor, span in gold:
            if q == question:
                anchors.setdefault(anchor, []).append(span)
        if not anchors:
            continue
        gold_characters = {(s, i) for found in anchors.values() for s, a, b in found for i in range(a, b)}
        for k in CUTOFFS:
            top = ranking[:k]
            seen = {(s, i) for s, a, b in top for i in range(a, b)}
            held = [any(span_holds(chunk, span) for span in found for chunk in top) for found in anchors.values()]
            assert scores[f"recall@{k}"][row] == pytest.approx(sum(held) / len(held))
            weights = [max(b - a for _, a, b in found) for found in anchors.values()]
            shares = [
                max(sum((s, i) in seen for i in range(a, b)) / (b - a) for s, a, b in found)
                for found in anchors.values()
            ]
            expected = sum(w * s for w, s in zip(weights, shares, strict=True)) / sum(weights)
            assert scores[f"char_recall@{k}"][row] == pytest.approx(expected)
            precision = len(seen & gold_characters) / len(seen) if seen else 0.0
            assert scores[f"char_precision@{k}"][row] == pytest.approx(precision)


@given(worlds())
@settings(max_examples=60, deadline=None)
def test_scores_lie_between_0_and_1_and_recall_never_falls_with_depth(world: Any) -> None:
    scores = score(*world)
    for name, values in scores.items():
        assert all(math.isnan(v) or -1e-12 <= v <= 1 + 1e-12 for v in values), name
    for name in ("recall", "char_recall", "hit_rate", "mrr", "map"):
        by_depth = np.array([scores[f"{name}@{k}"] for k in CUTOFFS])
        assert not (np.diff(by_depth, axis=0) < -1e-12).any()


def test_a_passage_holds_evidence_if_half_of_either_lies_in_the_other() -> None:
    assert holds(0, 10, 5, 15)  # half of the evidence
    assert not holds(0, 10, 6, 16)
    assert holds(0, 4, 2, 100)  # half of a small passage
    assert not holds(0, 5, 3, 100)
    assert not holds(0, 10, 10, 20)  # half-open: they only touch
    assert not holds(5, 5, 0, 10)  # empty
    assert holds([[0], [20]], [[10], [30]], [0, 22], [10, 28]).tolist() == [[True, False], [False, True]]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)), max_size=12), st.integers(0, 30), st.integers(0, 8))
def test_intervals_behave_like_sets_of_integers(others: list[tuple[int, int]], start: int, length: int) -> None:
    first, last = np.array([start]), np.array([start + length])
    starts = np.array([a for a, _ in others], dtype=np.int64)
    ends = starts + np.array([n for _, n in others], dtype=np.int64)
    members = set(range(start, start + length))
    sets = [set(range(a, a + n)) for a, n in others]
    _, found = overlapping(first, last, starts, ends)
    assert sorted(found.tolist()) == [i for i, other in enumerate(sets) if other & members]
    all_members = set().union(*sets)
    merged = union(starts, ends)
    assert {i for a, b in zip(*merged, strict=True) for i in range(a, b)} == all_members
    assert (merged[0][1:] > merged[1][:-1]).all()
    assert covered(first, last, *merged).tolist() == [len(members & all_members)]


def test_an_anchor_cut_into_three_chunks_is_one_piece_of_evidence() -> None:
    chunks = [("a.md", 0, 10), ("a.md", 10, 20), ("a.md", 20, 30), ("a.md", 30, 60)]
    gold = [("q", 0, ("a.md", 0, 30)), ("q", 1, ("a.md", 40, 50))]
    scores = score({"q": [chunks[1], chunks[3]]}, chunks, gold)
    assert scores["recall@1"] == [0.5]
    assert scores["recall@2"] == [1.0]
    assert scores["map@2"] == [0.5]  # trec_eval counts four relevant chunks
    assert scores["char_recall@1"] == [0.25]


def test_any_occurrence_of_an_anchor_counts() -> None:
    chunks = [("a.md", 0, 10), ("b.md", 0, 10)]
    gold = [("q", 0, ("a.md", 2, 8)), ("q", 0, ("b.md", 2, 8))]
    scores = score({"q": [chunks[1]]}, chunks, gold)
    assert scores["recall@1"] == [1.0]
    assert scores["char_recall@1"] == [1.0]


def test_spans_of_different_documents_never_meet() -> None:
    chunks = [("a.md", 0, 10), ("b.md", 0, 10)]
    assert score({"q": [chunks[0]]}, chunks, [("q", 0, ("b.md", 0, 10))])["recall@10"] == [0.0]


def test_a_question_that_found_nothing_scores_0_and_one_without_evidence_has_no_score() -> None:
    chunks = [("a.md", 0, 10)]
    scores = score({"nothing": [], "no evidence": chunks}, chunks, [("nothing", 0, ("a.md", 0, 10))])
    for values in scores.values():
        assert values[0] == 0.0
        assert math.isnan(values[1])


def test_evidence_in_a_document_without_chunks_counts_as_missed() -> None:
    chunks = [("a.md", 0, 10)]
    gold = [("q", 0, ("a.md", 0, 10)), ("q", 1, ("gone.md", 0, 10))]
    scores = score({"q": chunks}, chunks, gold)
    assert scores["recall@1"] == [0.5]
    assert scores["char_recall@1"] == [0.5]


def test_a_question_missing_from_the_rankings_scores_0_and_others_are_left_aside() -> None:
    chunks = [("a.md", 0, 10)]
    gold = gold_table([("q1", 0, chunks[0]), ("q2", 0, chunks[0])])
    scores = score_retrieval(ranking_table({"q1": chunks}), chunk_table(chunks), gold, ["q2"], [1])
    assert scores["recall@1"].tolist() == [0.0]


def test_no_evidence_at_all_gives_no_scores() -> None:
    chunks = [("a.md", 0, 10)]
    assert all(math.isnan(values[0]) for values in score({"q": chunks}, chunks, []).values())


@pytest.mark.parametrize(
    ("ranking", "message"),
    [
        ([("a.md", 0, 10), ("a.md", 0, 10)], "question 'q': chunk 'a.md:0-10' is retrieved twice"),
        ([("z.md", 0, 10)], "question 'q': chunk 'z.md:0-10' is not among the chunks"),
    ],
)
def test_rankings_that_do_not_fit_the_chunks_are_refused(ranking: list[Span], message: str) -> None:
    with pytest.raises(StageError, match=message):
        score({"q": ranking}, [("a.md", 0, 10)], [])


def test_two_chunks_at_one_rank_are_refused() -> None:
    chunks = [("a.md", 0, 10), ("a.md", 10, 20)]
    tied = pa.concat_tables([ranking_table({"q": [chunk]}) for chunk in chunks])
    with pytest.raises(StageError, match=r"chunk 'a.md:10-20' shares its rank"):
        score_retrieval(tied, chunk_table(chunks), gold_table([]), ["q"], [1])


def test_metric_names_cover_every_metric_and_cutoff() -> None:
    names = metric_names([5, 1])
    assert "recall@1" in names
    assert names.index("recall@1") < names.index("recall@5")
    assert {name.partition("@")[0] for name in names} == {
        *("recall", "precision", "hit_rate", "mrr", "map", "ndcg", "char_recall", "char_precision")
    }


@pytest.mark.parametrize("cutoffs", [[], [0], [-1], [True], [2.5], [5, 5]])
def test_bad_cutoffs_are_refused(cutoffs: list[Any]) -> None:
    with pytest.raises(ConfigError, match="cutoffs"):
        metric_names(cutoffs)


def test_a_metric_name_is_read_into_its_parts() -> None:
    assert parse_metric("recall@5") == ("recall", 5)
    assert parse_metric("char_precision@10", cutoffs=[5, 10]) == ("char_precision", 10)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("recal@5", "unknown metric 'recal@5'; did you mean 'recall@5'?"),
        ("nDCG@10", "did you mean 'ndcg@10'?"),
        ("recall", "needs a cut-off of at least 1, as in recall@5"),
        ("recall@0", "needs a cut-off of at least 1"),
        ("recall@-3", "needs a cut-off of at least 1"),
        ("recall@05", "as in recall@5"),
        ("recall@" + "9" * 5000, "needs a cut-off"),
        ("", "unknown metric ''; choose one of"),
    ],
)
def test_a_bad_headline_is_refused_with_the_nearest_valid_name(name: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_metric(name)
    assert message in str(refused.value)


def test_a_headline_at_a_cutoff_that_is_not_measured_is_refused() -> None:
    with pytest.raises(ConfigError, match="'recall@7' is not measured; choose one of: recall@5, recall@10"):
        parse_metric("recall@7", cutoffs=[10, 5])


def test_six_hundred_questions_over_thirty_thousand_chunks_take_a_fraction_of_a_second() -> None:
    rng = np.random.default_rng(0)
    chunks = [(f"{d}.md", 500 * i, 500 * i + 600) for d in range(600) for i in range(50)]
    rankings = {f"q{i}": [chunks[j] for j in rng.choice(len(chunks), 10, replace=False)] for i in range(600)}
    gold = [(q, 0, (f"{i}.md", 700, 900)) for i, q in enumerate(rankings)]
    tables = ranking_table(rankings), chunk_table(chunks), gold_table(gold)
    started = time.perf_counter()
    score_retrieval(*tables, list(rankings), [1, 3, 5, 10])
    assert time.perf_counter() - started < 0.5
