"""Indexes: scores against their definitions, one order for ties, padding, batches, and the file they are kept in."""

from __future__ import annotations

import io
import math
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from contextgrid.core.errors import ConfigError, CorpusError, StageError
from contextgrid.core.tables import CHUNKS
from contextgrid.core.words import words
from contextgrid.index import PassageIndex, build_index
from contextgrid.index.ranking import rank_in_blocks

CONFIGURATIONS = [
    ("tfidf", "dense"),
    ("wordllama:64", "dense"),
    (None, "bm25"),
    ("tfidf", "hybrid"),
    ("wordllama:64", "hybrid:10"),
]
PASSAGES = [
    "Refunds take thirty days. Refunds are paid in full.",
    "Express shipping arrives the next day.",
    "退款需要三十天。",
    "Die Straße ist gesperrt.",
    "The warranty lasts two years.",
    "!!!",
    "Express shipping arrives the next day.",
]
QUERIES = ["how long do refunds take", "express shipping day", "STRASSE", "退款要多久", "zebra quagga", ""]

TEXTS = st.lists(st.sampled_from("red blue green 红色 blau. the RED !".split()), max_size=6).map(" ".join)


def table(passages: list[str]) -> pa.Table:
    starts = list(range(len(passages)))
    ids = [f"doc:{start}-{start + 1}" for start in starts]
    return pa.table([ids, ["doc"] * len(passages), starts, [s + 1 for s in starts], passages], schema=CHUNKS)


def plain_bm25(passages: list[str], query: str, k1: float, b: float) -> list[float]:
    """BM25 in Lucene's variant, word by word, straight from the definition."""
    documents = [Counter(words(passage)) for passage in passages]
    lengths = [sum(document.values()) for document in documents]
    mean = sum(lengths) / len(lengths)
    scores = [0.0] * len(passages)
    for word in words(query):
        df = sum(word in document for document in documents)
        idf = math.log(1 + (len(passages) - df + 0.5) / (df + 0.5))
        for row, document in enumerate(documents):
            tf = document[word]
            scores[row] += idf * tf / (tf + k1 * (1 - b + b * lengths[row] / mean)) if tf else 0.0
    return scores


@pytest.mark.parametrize(("spec", "k1", "b"), [("bm25", 1.5, 0.75), ("bm25:k1=0.9,b=0.4", 0.9, 0.4)])
def test_bm25_scores_follow_the_definition(spec: str, k1: float, b: float) -> None:
    queries = [*QUERIES, "refunds refunds days"]
    rows, scores = build_index(table(PASSAGES), None, spec).search(queries, len(PASSAGES))
    for query, found, values in zip(queries, rows, scores, strict=True):
        expected = plain_bm25(PASSAGES, query, k1, b)
        hits = sorted((row for row, score in enumerate(expected) if score > 0), key=lambda row: (-expected[row], row))
        assert found[found >= 0].tolist() == hits
        np.testing.assert_allclose(values[: len(hits)], [expected[row] for row in hits], rtol=1e-12)


def test_hybrid_scores_are_reciprocal_ranks() -> None:
    chunks = table(PASSAGES)
    dense, cosines = build_index(chunks, "tfidf", "dense").search(QUERIES, 7)
    bm25, _ = build_index(chunks, None, "bm25").search(QUERIES, 7)
    rows, scores = build_index(chunks, "tfidf", "hybrid:rrf_k=20").search(QUERIES, 7)
    for question in range(len(QUERIES)):
        expected: dict[int, float] = {}
        for ranking in (dense[question][cosines[question] > 0], bm25[question]):
            for rank, row in enumerate(ranking[ranking >= 0].tolist(), start=1):
                expected[row] = expected.get(row, 0.0) + 1 / (20 + rank)
        hits = sorted(expected, key=lambda row: (-expected[row], row))
        assert rows[question][rows[question] >= 0].tolist() == hits
        np.testing.assert_allclose(scores[question][: len(hits)], [expected[row] for row in hits])


@pytest.mark.parametrize(("embedder", "index"), CONFIGURATIONS)
def test_the_matching_passage_comes_first_and_equal_passages_in_their_order(embedder: str | None, index: str) -> None:
    rows, scores = build_index(table(PASSAGES), embedder, index).search(QUERIES, 3)
    assert rows.dtype == np.int64
    assert scores.dtype == np.float64
    assert rows.shape == scores.shape == (6, 3)
    assert rows[0, 0] == 0
    assert rows[1, :2].tolist() == [1, 6]


@pytest.mark.parametrize(("embedder", "index"), [("tfidf", "dense"), (None, "bm25"), ("tfidf", "hybrid")])
def test_a_query_without_a_known_word_finds_nothing(embedder: str | None, index: str) -> None:
    rows, scores = build_index(table(PASSAGES), embedder, index).search(["zebra quagga", "", "?!"], 4)
    assert (rows == -1).all()
    assert np.isnan(scores).all()


def test_dense_fills_its_last_ranks_with_passages_of_cosine_zero_and_the_others_do_not() -> None:
    chunks = table(["blue sky", "red fish", "!!!", "green tea"])
    rows, scores = build_index(chunks, "tfidf", "dense").search(["red"], 4)
    assert rows[0].tolist() == [1, 0, 3, -1]
    assert scores[0, 1:3].tolist() == [0, 0]
    for embedder, index in ((None, "bm25"), ("tfidf", "hybrid")):
        assert build_index(chunks, embedder, index).search(["red"], 4)[0].tolist() == [[1, -1, -1, -1]]


@pytest.mark.parametrize(("embedder", "index"), CONFIGURATIONS)
def test_a_depth_beyond_the_corpus_is_padded(embedder: str | None, index: str) -> None:
    rows, scores = build_index(table(["one red fish", "two red fish"]), embedder, index).search(["red fish"], 50)
    assert rows[0].tolist() == [0, 1] + [-1] * 48 or rows[0].tolist() == [1, 0] + [-1] * 48
    assert np.isfinite(scores[0, :2]).all()
    assert np.isnan(scores[0, 2:]).all()


@settings(max_examples=60)
@given(
    passages=st.lists(TEXTS, min_size=1, max_size=12),
    queries=st.lists(TEXTS, max_size=5),
    configuration=st.sampled_from(CONFIGURATIONS),
)
def test_a_shorter_list_and_a_query_alone_give_the_same_ranking(
    passages: list[str], queries: list[str], configuration: tuple[str | None, str]
) -> None:
    built = build_index(table([*passages, "red"]), *configuration)
    rows, scores = built.search(queries, 10)
    for depth in (1, 3):
        shorter = built.search(queries, depth)
        assert np.array_equal(shorter[0], rows[:, :depth])
        assert np.array_equal(shorter[1], scores[:, :depth], equal_nan=True)
    for position, query in enumerate(queries):
        alone = built.search([query], 10)
        assert np.array_equal(alone[0][0], rows[position])
        assert np.array_equal(alone[1][0], scores[position], equal_nan=True)
    found = np.where(rows >= 0, scores, -np.inf)
    assert (found[:, :-1] >= found[:, 1:]).all()
    tied = (found[:, :-1] == found[:, 1:]) & (rows[:, 1:] >= 0)
    assert (rows[:, :-1] < rows[:, 1:])[tied].all()


@settings(max_examples=40)
@given(st.data())
def test_top_k_is_the_sorted_head_and_never_returns_what_is_not_finite(data: st.DataObject) -> None:
    values = st.sampled_from([-1.0, 0.0, 0.5, 0.5, 2.0, math.nan, math.inf, -math.inf])
    n_queries, n_passages = data.draw(st.integers(0, 4)), data.draw(st.integers(1, 9))
    flat = data.draw(st.lists(values, min_size=n_queries * n_passages, max_size=n_queries * n_passages))
    given_scores = np.array(flat, dtype=np.float64).reshape(n_queries, n_passages)
    depth = data.draw(st.integers(1, 12))

    def score(block: slice) -> NDArray[np.float64]:
        return given_scores[block]

    rows, scores = rank_in_blocks(n_queries, n_passages, depth, score)
    for question in range(n_queries):
        expected = sorted((-s, row) for row, s in enumerate(given_scores[question]) if np.isfinite(s))[:depth]
        assert rows[question].tolist() == [row for _, row in expected] + [-1] * (depth - len(expected))
        assert scores[question][: len(expected)].tolist() == [-s for s, _ in expected]


def test_questions_beyond_one_block_of_scores_are_ranked_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    built = build_index(table(PASSAGES), "tfidf", "hybrid")
    whole = built.search(QUERIES, 5)
    monkeypatch.setattr("contextgrid.index.ranking._BLOCK", 8)
    parts = built.search(QUERIES, 5)
    assert np.array_equal(whole[0], parts[0])
    assert np.array_equal(whole[1], parts[1], equal_nan=True)


@pytest.mark.parametrize(("embedder", "index"), CONFIGURATIONS)
def test_an_index_survives_its_file(embedder: str | None, index: str, tmp_path: Path) -> None:
    built = build_index(table(PASSAGES), embedder, index)
    built.save(tmp_path / "index")
    again = PassageIndex.load(tmp_path / "index")
    assert again.chunks.equals(built.chunks)
    assert again.chunks.schema == CHUNKS
    assert (again.embedder, again.index) == (built.embedder, built.index)
    assert again.fingerprint() == built.fingerprint()
    assert again.to_bytes() == built.to_bytes() == (tmp_path / "index").read_bytes()
    for before, after in zip(built.search(QUERIES, 5), again.search(QUERIES, 5), strict=True):
        assert np.array_equal(before, after, equal_nan=True)
    stream = io.BytesIO()
    again.save(stream)
    stream.seek(0)
    assert PassageIndex.load(stream).fingerprint() == built.fingerprint()


def test_the_fingerprint_is_the_same_in_another_process_and_follows_the_content() -> None:
    code = (
        "import pyarrow as pa; from contextgrid.core.tables import CHUNKS; from contextgrid.index import build_index\n"
        f"p = {PASSAGES!r}; n = len(p); s = list(range(n))\n"
        "t = pa.table([[f'doc:{i}-{i + 1}' for i in s], ['doc'] * n, s, [i + 1 for i in s], p], schema=CHUNKS)\n"
        "print(build_index(t, 'tfidf', 'hybrid').fingerprint())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    built = build_index(table(PASSAGES), "tfidf", "hybrid")
    assert run.stdout.strip() == built.fingerprint()
    assert build_index(table(PASSAGES[:-1]), "tfidf", "hybrid").fingerprint() != built.fingerprint()
    assert build_index(table(PASSAGES), "tfidf:2", "hybrid").fingerprint() != built.fingerprint()
    assert build_index(table(PASSAGES), "tfidf", "dense").fingerprint() != built.fingerprint()


def test_an_index_that_needs_no_embedder_ignores_it() -> None:
    with_embedder = build_index(table(PASSAGES), "tfidf", "bm25")
    assert with_embedder.embedder is None
    assert with_embedder.fingerprint() == build_index(table(PASSAGES), None, "bm25").fingerprint()


def test_bm25_prints_nothing_and_needs_no_numba() -> None:
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "from contextgrid.index import INDEXES\n"
        "print(INDEXES.build('bm25').build(['red fish', 'blue']).search(['fish'], 1)[0])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[[0]]"
    assert run.stderr == ""


@pytest.mark.parametrize("damage", [b"", b"not a zip", None])
def test_a_damaged_file_is_an_error_that_says_what_to_do(damage: bytes | None) -> None:
    content = build_index(table(PASSAGES), None, "bm25").to_bytes()
    with pytest.raises(StageError, match="build it again"):
        PassageIndex.from_bytes(content[: len(content) // 2] if damage is None else damage)


@pytest.mark.parametrize("index", ["dense", "hybrid"])
def test_an_index_without_the_embedder_it_needs_is_refused(index: str) -> None:
    with pytest.raises(ConfigError, match=f"index '{index}' needs an embedder"):
        build_index(table(PASSAGES), None, index)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("bm25:k1=-1", "bm25: k1 must be at least 0, got -1"),
        ("bm25:b=1.5", "bm25: b must be from 0 to 1, got 1.5"),
        ("bm25:k1=nan", "k1 must be a finite number, got 'nan'"),
        ("hybrid:-1", "hybrid: rrf_k must be at least 0, got -1"),
        ("hybrid:window=0", "hybrid: window must be at least 1, got 0"),
        ("bm52", "did you mean 'bm25'"),
    ],
)
def test_parameters_that_cannot_work_are_refused(index: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_index(table(PASSAGES), "tfidf", index)


@pytest.mark.parametrize("depth", [0, -3])
def test_a_depth_below_one_is_refused(depth: int) -> None:
    with pytest.raises(ConfigError, match="depth must be at least 1"):
        build_index(table(PASSAGES), None, "bm25").search(QUERIES, depth)


def test_a_search_deeper_than_the_window_of_a_hybrid_is_refused() -> None:
    built = build_index(table(PASSAGES), "tfidf", "hybrid:window=3")
    assert built.search(QUERIES, 3)[0].shape == (6, 3)
    with pytest.raises(ConfigError, match="raise window"):
        built.search(QUERIES, 4)


@pytest.mark.parametrize(("embedder", "index"), [("tfidf", "dense"), (None, "bm25")])
def test_nothing_to_index_is_an_error(embedder: str | None, index: str) -> None:
    with pytest.raises(CorpusError, match="no passages"):
        build_index(table([]), embedder, index)
    with pytest.raises(CorpusError, match="no words"):
        build_index(table(["!!!", "…"]), embedder, index)
