"""Embedders: unit vectors, languages, restoring without pickle, and no network."""

from __future__ import annotations

import logging
import math
import subprocess
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from contextgrid.core.errors import ConfigError, CorpusError
from contextgrid.core.words import words
from contextgrid.embed import EMBEDDERS

PASSAGES = [
    "Refunds take thirty days. Refunds are paid in full.",
    "Die Straße ist gesperrt.",
    "退款需要三十天。",
    "Express shipping arrives the next day.",
]


def dense(vectors: Any) -> NDArray[np.float64]:
    return np.asarray(vectors.toarray() if hasattr(vectors, "toarray") else vectors, dtype=np.float64)


def plain_tfidf(passages: list[str], queries: list[str], *, sublinear: bool) -> NDArray[np.float64]:
    """Cosines of queries and passages, word by word, straight from the definition."""
    documents = [Counter(words(passage)) for passage in passages]
    df = Counter(word for document in documents for word in document)
    idf = {word: math.log((1 + len(passages)) / (1 + n)) + 1 for word, n in df.items()}

    def vector(counts: Counter[str]) -> dict[str, float]:
        weights = {word: (1 + math.log(n) if sublinear else n) * idf[word] for word, n in counts.items() if word in idf}
        length = math.sqrt(sum(weight**2 for weight in weights.values())) or 1.0
        return {word: weight / length for word, weight in weights.items()}

    rows = [vector(document) for document in documents]
    asked = [vector(Counter(words(query))) for query in queries]
    return np.array([[sum(w * row.get(word, 0.0) for word, w in query.items()) for row in rows] for query in asked])


@pytest.mark.parametrize("sublinear", [False, True])
def test_tfidf_cosines_follow_the_definition(sublinear: bool) -> None:
    queries = ["how many days do refunds take", "express REFUNDS refunds", "退款", "nothing-known"]
    fitted, vectors = EMBEDDERS.build(f"tfidf:sublinear={sublinear}".lower()).fit(PASSAGES)
    found = dense(fitted.embed(queries)) @ dense(vectors).T
    np.testing.assert_allclose(found, plain_tfidf(PASSAGES, queries, sublinear=sublinear), atol=1e-12)


def test_tfidf_reads_unspaced_scripts_and_folds_case() -> None:
    fitted, vectors = EMBEDDERS.build("tfidf").fit(PASSAGES)
    best = (dense(fitted.embed(["退款要多久", "STRASSE"])) @ dense(vectors).T).argmax(axis=1)
    assert best.tolist() == [2, 1]


def test_tfidf_counts_runs_of_words_where_asked_to() -> None:
    passages = ["new york pizza", "york has a new pizza"]
    fitted, vectors = EMBEDDERS.build("tfidf:2").fit(passages)
    cosines = dense(fitted.embed(["new york"])) @ dense(vectors).T
    assert cosines[0, 0] > cosines[0, 1] + 0.2


def test_tfidf_stays_sparse() -> None:
    fitted, vectors = EMBEDDERS.build("tfidf").fit(PASSAGES)
    assert hasattr(vectors, "tocsr")
    assert hasattr(fitted.embed(["refunds"]), "tocsr")


@given(st.lists(st.text(max_size=20), min_size=1, max_size=6), st.lists(st.text(max_size=20), max_size=4))
def test_restored_tfidf_embeds_alike(passages: list[str], queries: list[str]) -> None:
    embedder = EMBEDDERS.build("tfidf:2")
    passages = [*passages, "at least one word"]
    fitted, _ = embedder.fit(passages)
    again = embedder.restore(fitted.state())
    texts = [*queries, *passages]
    assert np.array_equal(dense(fitted.embed(texts)), dense(again.embed(texts)))


def test_tfidf_of_passages_without_words_is_an_error() -> None:
    with pytest.raises(CorpusError, match="no words"):
        EMBEDDERS.build("tfidf").fit(["!!!", "…"])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("tfidf:0", "tfidf: ngrams must be from 1 to 5, got 0"),
        ("wordllama:100", "wordllama: dim must be one of 64, 128, 256, got 100"),
        ("tfidf:ngram=2", "did you mean 'ngrams'"),
        ("tfidff", "did you mean 'tfidf'"),
    ],
)
def test_parameters_that_cannot_work_are_refused(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EMBEDDERS.build(spec)


@pytest.mark.parametrize("dim", [64, 128, 256])
def test_wordllama_gives_unit_vectors_and_nothing_for_nothing(dim: int) -> None:
    fitted, vectors = EMBEDDERS.build(f"wordllama:{dim}").fit([*PASSAGES, ""])
    found = dense(vectors)
    assert found.shape == (5, dim)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [1, 1, 1, 1, 0], atol=1e-6)
    assert np.argmax(dense(fitted.embed(["when does my parcel get here"])) @ found.T) == 3


def test_wordllama_agrees_with_its_library() -> None:
    from contextgrid.embed.wordllama import _model

    tokenizer, embedding, _ = _model()
    expected = [embedding[tokenizer.encode(text, add_special_tokens=False).ids].mean(axis=0) for text in PASSAGES]
    expected = [vector / np.linalg.norm(vector) for vector in expected]
    _, vectors = EMBEDDERS.build("wordllama").fit(PASSAGES)
    np.testing.assert_allclose(dense(vectors), np.stack(expected), atol=1e-6)


def test_wordllama_embeds_a_text_alike_whatever_is_embedded_with_it() -> None:
    fitted, vectors = EMBEDDERS.build("wordllama").fit([*PASSAGES, "long " * 5000])
    alone = np.vstack([dense(fitted.embed([passage])) for passage in PASSAGES])
    assert np.array_equal(alone, dense(vectors)[:4])


def test_wordllama_refuses_an_index_built_with_other_weights() -> None:
    embedder = EMBEDDERS.build("wordllama")
    state = {"weights": np.frombuffer(b"other", dtype=np.uint8)}
    with pytest.raises(ConfigError, match="build it again"):
        embedder.restore(state).embed(["x"])


def test_wordllama_opens_no_connection_and_leaves_logging_alone(tmp_path: Any) -> None:
    code = (
        "import logging, socket\n"
        "def refuse(*args, **kwargs): raise AssertionError('network')\n"
        "socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse\n"
        "from contextgrid.embed import EMBEDDERS\n"
        "EMBEDDERS.build('wordllama').fit(['some text'])\n"
        "print(len(logging.getLogger().handlers), logging.getLogger().level)\n"
    )
    environment = {"HOME": str(tmp_path), "PATH": ""}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["0", str(logging.WARNING)]
    assert list(tmp_path.iterdir()) == []
