"""``hybrid``: dense and BM25 rankings fused by rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from contextgrid.core.errors import ConfigError
from contextgrid.core.state import State, nest, unnest
from contextgrid.index.base import INDEXES, Searcher, require_embedder
from contextgrid.index.bm25 import BM25
from contextgrid.index.dense import Dense
from contextgrid.index.ranking import rank_in_blocks

if TYPE_CHECKING:
    from contextgrid.embed import Embedder


@INDEXES.register("hybrid")
@dataclass(frozen=True)
class Hybrid:
    """Reciprocal rank fusion: a passage scores the sum of ``1 / (rrf_k + rank)`` over the rankings that list it.

    The rankings are ``dense`` with the configured embedder and ``bm25`` with its defaults; a passage that neither
    matches is no hit. Source: Cormack, Clarke
    and Buettcher, Reciprocal Rank Fusion outperforms Condorcet (SIGIR 2009).

    Args:
        rrf_k: how little the first ranks stand out; 60 in the paper.
        window: ranks of each ranking that count. It bounds how deep a search can go.
    """

    needs_embedder: ClassVar[bool] = True

    rrf_k: float = 60.0
    window: int = 1000

    def __post_init__(self) -> None:
        if self.rrf_k < 0:
            raise ConfigError(f"hybrid: rrf_k must be at least 0, got {self.rrf_k}")
        if self.window < 1:
            raise ConfigError(f"hybrid: window must be at least 1, got {self.window}")

    def build(self, passages: Sequence[str], embedder: Embedder | None) -> HybridSearcher:
        rankings = (Dense().build(passages, require_embedder("hybrid", embedder)), BM25().build(passages))
        return HybridSearcher(rankings, self.rrf_k, self.window, len(passages))

    def restore(self, state: State, embedder: Embedder | None) -> HybridSearcher:
        rankings = (Dense().restore(unnest("dense", state), embedder), BM25().restore(unnest("bm25", state)))
        return HybridSearcher(rankings, self.rrf_k, self.window, int(state["n_passages"][0]))


@dataclass(frozen=True)
class HybridSearcher:
    """The dense and the BM25 searcher over the same passages."""

    rankings: tuple[Searcher, Searcher]
    rrf_k: float
    window: int
    n_passages: int

    def search(self, queries: Sequence[str], depth: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        window = min(self.window, self.n_passages)
        if min(depth, self.n_passages) > window:
            raise ConfigError(f"hybrid: {depth} passages are asked for, but window={self.window}; raise window")
        # The window does not follow the depth: otherwise the first five would depend on how many are asked for.
        ranked = [_matches(*ranking.search(queries, window)) for ranking in self.rankings]
        gains = 1 / (self.rrf_k + np.arange(1, window + 1))

        def fuse(block: slice) -> NDArray[np.float64]:
            fused = np.zeros((block.stop - block.start, self.n_passages))
            for rows in ranked:
                query, position = np.nonzero(rows[block] >= 0)
                fused[query, rows[block][query, position]] += gains[position]
            fused[fused == 0] = -np.inf
            return fused

        return rank_in_blocks(len(queries), self.n_passages, depth, fuse)

    def state(self) -> State:
        dense, bm25 = self.rankings
        n_passages = {"n_passages": np.array([self.n_passages], dtype=np.int64)}
        return nest("dense", dense.state()) | nest("bm25", bm25.state()) | n_passages


def _matches(rows: NDArray[np.int64], scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rows without those of score 0: passages that share nothing with the query are in no meaningful order."""
    return np.where(scores == 0, -1, rows)
