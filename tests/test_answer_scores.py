from __future__ import annotations

import json
import math
import random
import time
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextgrid.assemble.context import AssembledContext, ContextAssembler
from contextgrid.core.documents import Chunk
from contextgrid.core.errors import ConfigError, StageError
from contextgrid.core.evalset import EvalItem, GoldSpan
from contextgrid.core.span import Span
from contextgrid.core.tables import ANSWERS, EVIDENCE, LEXICAL_SCORES, PASSAGE, RETRIEVAL_SCORES
from contextgrid.generate import Answer, AnswerScore, GenerationReport, score_answer
from contextgrid.generate.citation_scores import citation_scores
from contextgrid.generate.quality import answer_quality, evidence_overlap, token_f1
from contextgrid.generate.scores import groundedness
from contextgrid.generate.scoring import score_answers
from contextgrid.score.relevance import holds

THIRTY = Chunk("doc:0", Span("doc", 0, 51), "Refunds are issued within thirty days of purchase.")
REFUNDS = "refunds take within 30 days of purchase. digital goods are not refundable once downloaded."
SHIPPING = "express shipping arrives the next business day."


def context_of(*texts: str) -> AssembledContext:
    return ContextAssembler().assemble(
        [Chunk(f"d{n}", Span(f"d{n}.md", 0, len(text)), text) for n, text in enumerate(texts, start=1)]
    )


# the page


def test_the_examples_of_the_page() -> None:
    context = ContextAssembler().assemble([THIRTY])
    item = EvalItem("q1", "How long do refunds take?", gold=(GoldSpan(THIRTY.span),))
    score = score_answer(item, Answer("Refunds take thirty days [1].", citations=(1,)), context)
    assert score.groundedness is not None
    assert (round(score.groundedness, 2), score.citation_accuracy, score.abstention_correct) == (0.8, 1.0, True)

    unanswerable = EvalItem("q2", "What is the CEO's phone number?")
    declined = score_answer(unanswerable, Answer("The passages do not contain the answer."), context)
    overconfident = EvalItem("q3", "What is the CEO's phone number?")
    guessed = score_answer(overconfident, Answer("The CEO's number is 555-0100."), context)
    report = GenerationReport(scores=[score, declined, guessed], generator="llm")
    assert report.metrics() == {
        "groundedness": 0.26666666666666666,
        "citation_accuracy": 1.0,
        "evidence_overlap": 0.0,
        "abstention_accuracy": 0.6666666666666666,
    }
    assert report.abstention_accuracy == 0.6666666666666666
    assert report.confident_when_it_should_not_be == ["q3"]
    summary = report.summary()
    assert "n=3 of 3" in summary
    assert "n=1 of 3" in summary
    assert "q3" in summary
    assert "\n" not in summary


def test_the_score_prints_as_documented() -> None:
    context = ContextAssembler().assemble(
        [Chunk("a", Span("refunds.md", 0, 90), REFUNDS), Chunk("b", Span("shipping.md", 0, 47), SHIPPING)]
    )
    score = score_answer(EvalItem("q1", "How long do refunds take?"), Answer(REFUNDS, 39, 0, (1,)), context)
    assert repr(score) == (
        "AnswerScore(item_id='q1', groundedness=1.0, citation_accuracy=1.0, evidence_overlap=0.0, abstained=False,"
        " should_have_abstained=True, warnings=[])"
    )
    score.warnings.append("kept")
    assert score.warnings == ["kept"]


# groundedness


@pytest.mark.parametrize(
    ("answer", "context"),
    [
        ("It doesn’t apply to café owners.", "It doesn't apply to cafe\u0301 owners."),
        ("Ｒｅｆｕｎｄｓ ３０", "Refunds 30"),
        ("STRASSE", "straße"),
        ("ﬁle", "file"),
        ("退款需要三十天", "根据政策，退款需要三十天。"),
        ("三", "退款需要三十天"),
        ("東京タワーは高い", "有名な東京タワーは高いです。"),
        ("ระยะเวลาประกัน", "ข้อ4 ระยะเวลาประกันสองปี"),
    ],
)
def test_an_answer_in_its_context_is_grounded(answer: str, context: str) -> None:
    assert groundedness(answer, context) == 1.0


@given(
    st.text(alphabet="三十天退款タワのประ ยกันab ", min_size=1, max_size=20), st.text(max_size=10), st.text(max_size=10)
)
def test_what_stands_in_the_context_is_grounded_in_any_script(answer: str, before: str, after: str) -> None:
    context = f"{before} {answer} {after}"
    assert groundedness(answer, context) in (1.0, None)
    assert groundedness(unicodedata.normalize("NFD", answer), context) in (1.0, None)


def test_words_that_are_not_in_the_context_count_against_an_answer_once() -> None:
    assert groundedness("refunds refunds refunds take months", "refunds take days") == 2 / 3
    assert groundedness("北京大学", "上海大学") == 1 / 3
    assert groundedness("refunds", "") == 0.0


def test_an_answer_without_content_words_has_no_groundedness() -> None:
    assert groundedness("", "refunds") is None
    assert groundedness("It is not.", "refunds") is None


def test_groundedness_agrees_with_people(shared_data: Path) -> None:
    from scipy.stats import spearmanr

    lines = (shared_data / "mtrag_labels" / "labels.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    scores = np.array([groundedness(row["answer"], "\n\n".join(row["contexts"])) for row in rows], dtype=float)
    human = np.array([np.mean(row["human"]["faithfulness"]) for row in rows])
    system = np.array([row["model"] for row in rows])
    within = [spearmanr(scores[system == name], human[system == name]).statistic for name in np.unique(system)]
    assert spearmanr(scores, human).statistic >= 0.67
    assert np.mean(within) >= 0.65


# one answer


def test_citations_that_point_nowhere_are_wrong_and_warned_of() -> None:
    context = context_of("one", "two")
    score = score_answer(EvalItem("q", "?"), Answer("x", citations=(0, 1, 2, 99)), context)
    assert score.citation_accuracy == 0.5
    assert score.warnings == ["cites 0, 99, but the context has 2 passages"]


def test_an_empty_answer_to_an_unanswerable_question_is_a_correct_abstention() -> None:
    score = score_answer(EvalItem("q", "?"), Answer(""), context_of("one"))
    assert score.abstained
    assert score.abstention_correct
    assert score.groundedness is None


def test_an_empty_context_should_be_declined_even_with_gold() -> None:
    item = EvalItem("q", "?", gold=(GoldSpan(THIRTY.span),))
    assert score_answer(item, Answer("Thirty days."), AssembledContext("")).should_have_abstained
    assert not score_answer(item, Answer("Thirty days."), context_of("one")).should_have_abstained


def test_evidence_overlap_is_the_share_of_gold_words_found() -> None:
    item = EvalItem("q", "?", gold=(GoldSpan(THIRTY.span),))
    score = score_answer(item, Answer("Thirty days [1]."), context_of("one"), [THIRTY])
    assert score.evidence_overlap == 2 / 6  # thirty, days of refunds, issued, within, thirty, days, purchase
    assert evidence_overlap("anything", []) is None
    assert evidence_overlap("anything", ["the of"]) is None


# reports


def scored(item_id: str = "q", **values: Any) -> AnswerScore:
    defaults: dict[str, Any] = {
        "groundedness": 1.0,
        "citation_accuracy": None,
        "evidence_overlap": 0.0,
        "abstained": False,
        "should_have_abstained": False,
    }
    return AnswerScore(item_id, **(defaults | values))


def test_a_report_leaves_out_what_nobody_has() -> None:
    report = GenerationReport([scored(), scored()], "extractive")
    assert "citation_accuracy" not in report.metrics()
    assert "No answer cites a passage." in report.summary()
    assert GenerationReport().metrics() == {}
    assert GenerationReport().abstention_accuracy is None
    assert GenerationReport().summary() == "The generator answered no questions."


def test_values_that_are_not_numbers_are_never_averaged_in() -> None:
    report = GenerationReport([scored(groundedness=0.5), scored(groundedness=math.nan), scored(groundedness=math.inf)])
    assert report.metrics()["groundedness"] == 0.5


# answer quality


@pytest.mark.parametrize(
    ("abstained", "answerable", "expected"),
    [(True, False, 1.0), (False, False, 0.0), (True, True, 0.0), (False, True, 1.0)],
)
def test_declining_is_right_only_where_there_is_no_answer(abstained: bool, answerable: bool, expected: float) -> None:
    quality = answer_quality("thirty days", abstained=abstained, answerable=answerable, reference="Thirty days.")
    assert quality == expected


def test_quality_takes_the_reference_before_the_quotes_and_neither_is_no_score() -> None:
    def quality(reference: str | None, quotes: list[str]) -> float | None:
        return answer_quality("thirty days", abstained=False, answerable=True, reference=reference, gold_quotes=quotes)

    assert quality("thirty", ["thirty days notice period"]) == pytest.approx(2 / 3)
    assert quality(None, ["thirty days notice period"]) == 0.5
    assert quality(" -- ", ["thirty days"]) == 1.0
    assert quality(None, []) is None


def test_token_f1_is_squads() -> None:
    assert token_f1("The thirty days [1].", "thirty days") == 1.0
    assert token_f1("thirty thirty days", "thirty days") == pytest.approx(0.8)
    assert token_f1("nothing of it", "thirty days") == 0.0
    assert token_f1("退款需要三十天", "三十天") == pytest.approx(4 / 8)


# citations against the evidence


def naive_citation_scores(
    citations: list[int], passages: list[dict[str, Any]], evidence: list[dict[str, Any]]
) -> tuple[float, float]:
    def held(passage: dict[str, Any], gold: dict[str, Any]) -> bool:
        return passage["source_id"] == gold["source_id"] and bool(
            holds(passage["start"], passage["end"], gold["start"], gold["end"])
        )

    if not evidence:
        return math.nan, math.nan
    shown = [passages[number - 1] for number in citations if 1 <= number <= len(passages)]
    anchors = {gold["anchor"] for gold in evidence}
    found = {gold["anchor"] for gold in evidence for passage in shown if held(passage, gold)}
    good = sum(any(held(passage, gold) for gold in evidence) for passage in shown)
    return good / len(citations) if citations else math.nan, len(found) / len(anchors)


SPANS = st.builds(
    lambda source_id, start, length: {"source_id": source_id, "start": start, "end": start + length},
    st.sampled_from("ab"),
    st.integers(0, 20),
    st.integers(1, 20),
)
CASES = st.tuples(
    st.lists(st.integers(0, 5), unique=True, max_size=4),
    st.lists(SPANS.map(lambda span: {**span, "chunk_id": "c", "text": "t"}), max_size=4),
    st.lists(
        st.tuples(SPANS, st.integers(0, 2)).map(lambda pair: {**pair[0], "anchor": pair[1], "text": "t"}), max_size=4
    ),
)


@given(st.lists(CASES, max_size=5))
def test_citation_scores_are_those_of_the_definition(
    cases: list[tuple[list[int], list[dict[str, Any]], list[dict[str, Any]]]],
) -> None:
    columns = list(zip(*cases, strict=True)) if cases else [(), (), ()]
    precision, recall = citation_scores(
        pa.array(columns[0], pa.list_(pa.int32())),
        pa.array(columns[1], pa.list_(PASSAGE)),
        pa.array(columns[2], pa.list_(EVIDENCE)),
    )
    expected = [naive_citation_scores(*case) for case in cases]
    np.testing.assert_array_equal(precision, [pair[0] for pair in expected])
    np.testing.assert_array_equal(recall, [pair[1] for pair in expected])


# the table


def passage(source_id: str, start: int, text: str) -> dict[str, Any]:
    return {
        "chunk_id": f"{source_id}:{start}",
        "source_id": source_id,
        "start": start,
        "end": start + len(text),
        "text": text,
    }


SHOWN = [passage("a.md", 0, "Refunds take thirty days."), passage("b.md", 0, "Shipping is free.")]
EVIDENCE_ROW = [{"anchor": 0, "source_id": "a.md", "start": 8, "end": 24, "text": "take thirty days"}]


def table(rows: list[dict[str, Any]]) -> tuple[pa.Table, pa.Table]:
    """Answers and retrieval scores from rows that give only what differs from a good answer."""
    answers, retrieval = [], []
    for number, given_row in enumerate(rows):
        row: dict[str, Any] = {
            "answer": "Refunds take thirty days [1].",
            "citations": [1],
            "passages": SHOWN,
            "error": None,
            "reference": None,
            "answerable": None,
            "evidence": EVIDENCE_ROW,
            "unresolved": [],
            "recall@5": 1.0,
        } | given_row
        text = "\n".join(f"[{n}] {shown['source_id']}\n{shown['text']}" for n, shown in enumerate(row["passages"], 1))
        ids = {"question_id": f"q{number}", "question": "?"}
        answers.append(ids | {"context": text} | row)
        retrieval.append(ids | row)
    metric = pa.array([row["recall@5"] for row in retrieval], pa.float64())
    scores = pa.Table.from_pylist(retrieval, schema=RETRIEVAL_SCORES).append_column("recall@5", metric)
    return pa.Table.from_pylist(answers, schema=ANSWERS), scores


def score_rows(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    scores = score_answers(*table(list(rows)), headline="recall@5")
    assert scores.schema == LEXICAL_SCORES
    found: list[dict[str, Any]] = scores.to_pylist()
    return found


def test_a_good_answer() -> None:
    (row,) = score_rows({})
    assert row == {
        "question_id": "q0",
        "status": "scored",
        "reason": None,
        "groundedness": 1.0,
        "citation_accuracy": 1.0,
        "evidence_overlap": 1.0,
        "abstained": False,
        "should_have_abstained": False,
        "abstention_correct": 1.0,
        "answer_quality": 1.0,
        "citation_precision": 1.0,
        "citation_recall": 1.0,
        "retrieval": 1.0,
    }


def test_a_failed_question_has_a_reason_and_no_scores() -> None:
    (row,) = score_rows({"answer": None, "citations": None, "error": "LLMError: timed out"})
    assert (row["status"], row["reason"], row["retrieval"]) == ("failed", "LLMError: timed out", 1.0)
    assert {value for name, value in row.items() if name not in ("question_id", "status", "reason", "retrieval")} == {
        None
    }


def test_a_declined_question_is_scored_for_declining_only() -> None:
    answerable, unanswerable = score_rows(
        {"answer": "I don't know.", "citations": []},
        {"answer": "The passages [1] do not say.", "citations": [1], "evidence": [], "answerable": False},
    )
    for row in (answerable, unanswerable):
        assert row["status"] == "abstained"
        assert row["groundedness"] is row["citation_accuracy"] is row["citation_recall"] is None
    assert (answerable["abstention_correct"], answerable["answer_quality"]) == (0.0, 0.0)
    assert (unanswerable["abstention_correct"], unanswerable["answer_quality"]) == (1.0, 1.0)


def test_an_answer_without_passages_is_marked_and_not_called_ungrounded() -> None:
    declined, guessed = score_rows(
        {"passages": [], "answer": "", "citations": []}, {"passages": [], "answer": "Thirty days.", "citations": []}
    )
    assert declined["status"] == guessed["status"] == "empty_context"
    assert guessed["groundedness"] is None
    assert declined["should_have_abstained"] is guessed["should_have_abstained"] is True
    assert (declined["abstention_correct"], guessed["abstention_correct"]) == (1.0, 0.0)
    assert (declined["answer_quality"], guessed["answer_quality"]) == (0.0, 2 / 3)


def test_who_cites_nothing_has_no_citation_accuracy() -> None:
    (row,) = score_rows({"answer": "Refunds take thirty days.", "citations": []})
    assert row["citation_accuracy"] is row["citation_precision"] is None
    assert row["citation_recall"] == 0.0


def test_wrong_citations_count() -> None:
    (row,) = score_rows({"citations": [0, 1, 2, 99]})
    assert (row["citation_accuracy"], row["citation_precision"], row["citation_recall"]) == (0.5, 0.25, 1.0)


@pytest.mark.parametrize(
    ("answerable", "evidence", "unresolved", "quality"),
    [
        (None, [], [], 0.0),  # nothing to answer from: answering is wrong
        (None, [], ["a.md: lost quote"], None),  # evidence exists but was not found: nothing to compare with
        (True, [], [], None),
        (False, EVIDENCE_ROW, [], 0.0),  # the label wins
        (None, EVIDENCE_ROW, [], 1.0),
    ],
)
def test_a_question_is_unanswerable_by_label_or_by_having_no_evidence(
    answerable: bool | None, evidence: list[dict[str, Any]], unresolved: list[str], quality: float | None
) -> None:
    (row,) = score_rows({"answerable": answerable, "evidence": evidence, "unresolved": unresolved})
    assert row["answer_quality"] == quality
    assert row["should_have_abstained"] is (not evidence)


def test_occurrences_of_one_anchor_are_one_piece_of_evidence() -> None:
    twice = [*EVIDENCE_ROW, {"anchor": 0, "source_id": "c.md", "start": 0, "end": 11, "text": "thirty days"}]
    other = {"anchor": 1, "source_id": "b.md", "start": 0, "end": 17, "text": "Shipping is free"}
    same, half = score_rows({"evidence": twice}, {"evidence": [*twice, other]})
    assert (same["evidence_overlap"], same["citation_recall"]) == (1.0, 1.0)
    assert (half["evidence_overlap"], half["citation_recall"]) == (3 / 5, 0.5)


def test_a_missing_retrieval_score_is_null_never_nan() -> None:
    absent, broken = score_rows({"recall@5": None}, {"recall@5": math.nan})
    assert absent["retrieval"] is broken["retrieval"] is None


def test_answers_are_joined_by_question_whatever_the_order() -> None:
    answers, retrieval = table([{"recall@5": 0.25}, {"recall@5": 0.75}])
    scores = score_answers(answers, retrieval.take(pa.array([1, 0])), headline="recall@5")
    assert scores["retrieval"].to_pylist() == [0.25, 0.75]


def test_what_cannot_be_joined_is_refused() -> None:
    answers, retrieval = table([{}, {}])
    with pytest.raises(StageError, match="'q1' was answered but has no retrieval scores"):
        score_answers(answers, retrieval.slice(0, 1), headline="recall@5")
    with pytest.raises(ConfigError, match="no retrieval metric 'recal@5'; did you mean 'recall@5'"):
        score_answers(answers, retrieval, headline="recal@5")


def test_no_answers_give_an_empty_table() -> None:
    answers, retrieval = table([{}])
    assert score_answers(answers.slice(0, 0), retrieval, headline="recall@5").num_rows == 0


def test_two_hundred_questions_are_scored_at_once() -> None:
    generator = random.Random(0)
    vocabulary = [f"word{number}" for number in range(3000)]
    rows = [
        {"passages": [passage(f"{n}.md", 600 * r, " ".join(generator.choices(vocabulary, k=80))) for r in range(5)]}
        for n in range(200)
    ]
    answers, retrieval = table(rows)
    start = time.perf_counter()
    score_answers(answers, retrieval, headline="recall@5")
    assert time.perf_counter() - start < 2  # 0.1 s on an idle machine
