"""Rerankers and transforms: what they score, what they leave alone, and whether reranking helps real questions."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextgrid.chunk import chunk_documents
from contextgrid.core.errors import ConfigError
from contextgrid.core.tables import DOCUMENTS
from contextgrid.core.words import content_words, words
from contextgrid.index import build_index
from contextgrid.rerank import RERANKERS, get_reranker
from contextgrid.transform import TRANSFORMS, get_transform

TEXTS = st.lists(st.sampled_from("refund refunds days day the of 退款 Tage Tag".split()), max_size=8).map(" ".join)


def plain_lexical(question: str, passages: list[str], prefix: int = 5, weight: float = 0.5) -> list[float]:
    """The score word by word, straight from the definition."""
    asked = content_words(question) or words(question)
    held = [words(passage) for passage in passages]
    mean = max(1.0, sum(map(len, held)) / len(held)) if held else 1.0
    scores = [0.0] * len(passages)
    for share, cut in ((1 - weight, 10**6), (weight, prefix)):
        terms = list(dict.fromkeys(word[:cut] if word.isalpha() else word for word in asked))
        rows = [[word[:cut] if word.isalpha() else word for word in passage] for passage in held]
        gained, possible = [0.0] * len(passages), 0.0
        for term in terms:
            df = sum(term in row for row in rows)
            idf = math.log(1 + (len(rows) - df + 0.5) / (df + 0.5))
            possible += idf
            for i, row in enumerate(rows):
                tf = row.count(term)
                gained[i] += idf * tf / (tf + 1.2 * (0.5 + 0.5 * len(row) / mean))
        scores = [
            score + share * (gain / possible if possible else 0.0) for score, gain in zip(scores, gained, strict=True)
        ]
    return scores


@given(st.lists(st.tuples(TEXTS, st.lists(TEXTS, max_size=5)), max_size=5))
def test_lexical_scores_follow_the_definition_whatever_is_asked_together(asked: list[tuple[str, list[str]]]) -> None:
    questions, passages = [question for question, _ in asked], [candidates for _, candidates in asked]
    found = RERANKERS.build("lexical").scores(questions, passages)
    assert len(found) == len(questions)
    for question, candidates, scores in zip(questions, passages, found, strict=True):
        assert scores.dtype == np.float64
        np.testing.assert_allclose(scores, plain_lexical(question, candidates), atol=1e-12)


def test_lexical_prefers_the_passage_that_covers_the_rarer_word() -> None:
    passages = ["refunds and refunds and refunds", "refunds for digital goods", "refunds in general"]
    (scores,) = RERANKERS.build("lexical").scores(["refunds of digital goods"], [passages])
    assert scores.argmax() == 1


def test_lexical_reads_inflected_words_through_their_first_letters() -> None:
    passages = ["nothing of the kind", "they terminated it", "nothing at all"]
    (scores,) = RERANKERS.build("lexical").scores(["termination"], [passages])
    assert scores.argmax() == 1
    (exact,) = RERANKERS.build("lexical:prefix_weight=0").scores(["termination"], [passages])
    assert exact.tolist() == [0, 0, 0]


def test_passages_that_cannot_be_told_apart_have_equal_scores() -> None:
    reranker = RERANKERS.build("lexical")
    same, unmatched, function_words = reranker.scores(
        ["warranty period", "zebra", "?!"], [["two years", "warranty", "warranty"], ["a", "b"], ["c", "d"]]
    )
    assert same[1] == same[2] > same[0]
    assert unmatched.tolist() == function_words.tolist() == [0, 0]


def test_questions_without_candidates_have_no_scores() -> None:
    reranker = RERANKERS.build("lexical")
    assert reranker.scores([], []) == []
    first, second = reranker.scores(["one", "two"], [[], ["two"]])
    assert (len(first), len(second)) == (0, 1)


def test_many_questions_are_scored_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    questions = ["refund days", "zebra", "", "Tage", "退款"]
    passages = [["refund in days", "day"], [], ["x"], ["Tag", "Tage"], ["退款"]]
    whole = RERANKERS.build("lexical").scores(questions, passages)
    monkeypatch.setattr("contextgrid.rerank.lexical._BLOCK", 2)
    parts = RERANKERS.build("lexical").scores(questions, passages)
    assert [scores.tolist() for scores in whole] == [scores.tolist() for scores in parts]


def test_null_keeps_order_and_questions() -> None:
    (scores,) = get_reranker(None).scores(["q"], [["a", "b"]])
    assert scores[0] == scores[1]
    assert get_transform(None).transform(["How long?"]) == ["How long?"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("lexical:0", "lexical: prefix must be at least 1, got 0"),
        ("lexical:prefix_weight=2", "lexical: prefix_weight must be from 0 to 1, got 2"),
        ("lexcial", "did you mean 'lexical'"),
    ],
)
def test_parameters_that_cannot_work_are_refused(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RERANKERS.build(spec)


def test_lexical_finds_more_evidence_in_the_first_five_passages_of_real_questions(shared_data: Path) -> None:
    folder = shared_data / "clapnq"
    rows: list[dict[str, Any]] = [
        {"source_id": file.name, "text": file.read_text(encoding="utf-8"), "headings": [], "error": None}
        for file in sorted((folder / "documents").iterdir())
    ]
    lines = (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    items = [item for item in map(json.loads, lines) if item["anchors"]]
    chunks = chunk_documents(pa.Table.from_pylist(rows, schema=DOCUMENTS), "recursive:512,overlap=64")
    texts = chunks["text"].to_pylist()
    questions = [item["question"] for item in items]
    found, _ = build_index(chunks, "tfidf", "dense").search(questions, 50)
    passages = [[texts[row] for row in rows_ if row >= 0] for rows_ in found]
    scores = RERANKERS.build("lexical").scores(questions, passages)

    sources, starts, ends = (chunks[name].to_pylist() for name in ("source_id", "start", "end"))

    def holds(row: int, anchor: dict[str, Any]) -> bool:
        start, end = anchor["start"], anchor["end"]
        shared = min(ends[row], end) - max(starts[row], start)
        return 2 * shared >= min(end - start, ends[row] - starts[row]) and bool(sources[row] == anchor["source_id"])

    def recall(order: list[list[int]]) -> float:
        shares = [
            np.mean([any(holds(row, anchor) for row in top[:5]) for anchor in item["anchors"]])
            for item, top in zip(items, order, strict=True)
        ]
        return float(np.mean(shares))

    before = [hits[hits >= 0].tolist() for hits in found]
    after = [[hits[i] for i in np.argsort(-values, kind="stable")] for hits, values in zip(before, scores, strict=True)]
    assert recall(after) > recall(before) + 0.01


def test_keywords_keeps_content_words_as_written() -> None:
    found = TRANSFORMS.build("keywords").transform(
        [
            "How long do refunds for Digital goods take?",
            "Wie lange dauert die Rückgabe?",
            "退款需要多久？",
            "Why is it so?",
        ]
    )
    assert found[0] == "long refunds Digital goods take"
    assert found[2:] == ["退款需要多久", "Why is it so?"]
    assert "Rückgabe" in found[1]
    assert len(found) == 4


@given(st.text(max_size=40))
def test_keywords_keep_exactly_the_content_words_of_spaced_text(question: str) -> None:
    (kept,) = TRANSFORMS.build("keywords").transform([question])
    assert set(content_words(question)) <= set(words(kept))
