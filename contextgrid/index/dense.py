"""``dense``: exact cosine similarity of query and passage vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from contextgrid.core.state import State, nest, unnest
from contextgrid.index.base import INDEXES, require_embedder
from contextgrid.index.ranking import rank_in_blocks
from contextgrid.index.sparse import pack_sparse, sparse_products, unpack_sparse

if TYPE_CHECKING:
    from contextgrid.embed import Embedder, FittedEmbedder
    from contextgrid.embed.base import Vectors
    from contextgrid.index.sparse import Sparse

_PRECISION = 8  # decimals of a cosine; more than float32 vectors carry
_COLUMNS = 1 << 14  # passages multiplied at once in double precision


@INDEXES.register("dense")
@dataclass(frozen=True)
class Dense:
    """Every passage compared with every query, without approximation; scores are cosines from -1 to 1.

    Sparse vectors stay sparse; a passage that shares no term with the query has cosine 0 and fills the last ranks in
    passage order. A query without a vector (nothing in it is known to the embedder) has no hits, and a passage
    without one is never a hit.
    """

    needs_embedder: ClassVar[bool] = True

    def build(self, passages: Sequence[str], embedder: Embedder | None) -> DenseSearcher:
        return DenseSearcher(*require_embedder("dense", embedder).fit(passages))

    def restore(self, state: State, embedder: Embedder | None) -> DenseSearcher:
        fitted = require_embedder("dense", embedder).restore(unnest("embedder", state))
        return DenseSearcher(fitted, _unpack(unnest("vectors", state)))


@dataclass(frozen=True)
class DenseSearcher:
    """Passage vectors, one per row."""

    embedder: FittedEmbedder
    vectors: Vectors

    def search(self, queries: Sequence[str], depth: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        asked, vectors = self.embedder.embed(queries), self.vectors
        if isinstance(vectors, np.ndarray):
            product = partial(_dense_products, cast("NDArray[np.float32]", asked), vectors)
        else:
            product = partial(sparse_products, cast("Sparse", asked), self._by_term)
        known, comparable = _has_vector(asked), _has_vector(vectors)

        def score(block: slice) -> NDArray[np.float64]:
            cosines = product(block)
            cosines[~known[block]] = -np.inf
            cosines[:, ~comparable] = -np.inf
            return cosines

        return rank_in_blocks(len(queries), vectors.shape[0], depth, score)

    @cached_property
    def _by_term(self) -> Sparse:
        return cast("Sparse", self.vectors).T.tocsr()

    def state(self) -> State:
        return nest("embedder", self.embedder.state()) | nest("vectors", _pack(self.vectors))


def _dense_products(queries: NDArray[np.float32], passages: NDArray[np.float32], block: slice) -> NDArray[np.float64]:
    asked = queries[block].astype(np.float64)
    cosines = np.empty((len(asked), len(passages)))
    for first in range(0, len(passages), _COLUMNS):
        columns = slice(first, first + _COLUMNS)
        cosines[:, columns] = asked @ passages[columns].T.astype(np.float64)
    # A matrix product may add in another order for another number of queries. Rounded, equal passages stay equal.
    return np.round(cosines, _PRECISION, out=cosines)


def _has_vector(vectors: Vectors) -> NDArray[np.bool_]:
    """Which rows are not all zeros, so that a cosine with them means something."""
    if isinstance(vectors, np.ndarray):
        return np.asarray(vectors.any(axis=1))
    return np.diff(vectors.indptr) > 0


def _pack(vectors: Vectors) -> State:
    if isinstance(vectors, np.ndarray):
        return {"dense": vectors}
    return pack_sparse(vectors)


def _unpack(state: State) -> Vectors:
    return state["dense"] if "dense" in state else unpack_sparse(state)
