"""``bm25``: ranking by words alone, without an embedder."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from contextgrid.core.errors import ConfigError, CorpusError
from contextgrid.core.state import State, nest, pack_words, unnest, unpack_words
from contextgrid.core.words import words
from contextgrid.index.base import INDEXES
from contextgrid.index.ranking import rank_in_blocks
from contextgrid.index.sparse import pack_sparse, sparse_products, unpack_sparse

if TYPE_CHECKING:
    from contextgrid.embed import Embedder
    from contextgrid.index.sparse import Sparse


@INDEXES.register("bm25")
@dataclass(frozen=True)
class BM25:
    """Okapi BM25 in Lucene's variant over the words of ``contextgrid.core.words``.

    A passage scores the sum over the query's words of ``ln(1 + (N - df + 0.5) / (df + 0.5)) * tf / (tf + k1 *
    (1 - b + b * length / mean length))``. A passage without any of them is no hit. Source: Kamphuis et al.,
    Which BM25 Do You Mean? (ECIR 2020), computed with bm25s.

    Args:
        k1: how slowly repetition of a word stops counting; 0 counts presence only.
        b: how much long passages are marked down, 0 (not) to 1 (in full).
    """

    needs_embedder: ClassVar[bool] = False

    k1: float = 1.5
    b: float = 0.75

    def __post_init__(self) -> None:
        if self.k1 < 0:
            raise ConfigError(f"bm25: k1 must be at least 0, got {self.k1}")
        if not 0 <= self.b <= 1:
            raise ConfigError(f"bm25: b must be from 0 to 1, got {self.b}")

    def build(self, passages: Sequence[str], embedder: Embedder | None = None) -> BM25Searcher:
        import bm25s
        from scipy.sparse import csr_array

        vocabulary: dict[str, int] = {}
        ids = [[vocabulary.setdefault(word, len(vocabulary)) for word in words(passage)] for passage in passages]
        if not vocabulary:
            raise CorpusError("bm25: the passages hold no words to index; check what the parser returned")
        # The library asks for its debug messages on import; they follow the application's level instead.
        logging.getLogger("bm25s").setLevel(logging.NOTSET)
        model = bm25s.BM25(k1=self.k1, b=self.b, method="lucene", dtype="float64", backend="numpy")
        model.index((ids, dict(vocabulary)), create_empty_token=False, show_progress=False)
        # One column per word in bm25s's matrix is one row per word here.
        weights = (model.scores["data"], model.scores["indices"], model.scores["indptr"])
        return BM25Searcher(vocabulary, csr_array(weights, shape=(len(vocabulary), len(passages))))

    def restore(self, state: State, embedder: Embedder | None = None) -> BM25Searcher:
        vocabulary = {word: row for row, word in enumerate(unpack_words(state["vocabulary"]))}
        return BM25Searcher(vocabulary, unpack_sparse(unnest("weights", state)))


@dataclass(frozen=True)
class BM25Searcher:
    """The weight of each word in each passage, shape ``(n_words, n_passages)``."""

    vocabulary: dict[str, int]
    weights: Sparse

    def search(self, queries: Sequence[str], depth: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        from scipy.sparse import csr_array

        ids = [[self.vocabulary[word] for word in words(query) if word in self.vocabulary] for query in queries]
        ends = np.cumsum([0, *map(len, ids)])
        flat = np.fromiter(chain.from_iterable(ids), np.int64, ends[-1])
        asked = csr_array((np.ones(len(flat)), flat, ends), shape=(len(queries), len(self.vocabulary)))

        def score(block: slice) -> NDArray[np.float64]:
            scores = sparse_products(asked, self.weights, block)
            scores[scores <= 0] = -np.inf
            return scores

        return rank_in_blocks(len(queries), self.weights.shape[1], depth, score)

    def state(self) -> State:
        return {"vocabulary": pack_words(self.vocabulary)} | nest("weights", pack_sparse(self.weights))
