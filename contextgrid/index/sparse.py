"""Sparse score matrices: products with queries, and storage as plain arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from contextgrid.core.state import State

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    Sparse: TypeAlias = csr_array[Any, tuple[int, int]]


def sparse_products(queries: Sparse, terms: Sparse, block: slice) -> NDArray[np.float64]:
    """Scores of a slice of the queries, shape ``(len(slice), n_passages)``.

    Args:
        queries: shape ``(n_queries, n_terms)``.
        terms: shape ``(n_terms, n_passages)``.
    """
    scores: NDArray[np.float64] = (queries[block] @ terms).toarray()
    return scores


def pack_sparse(matrix: Sparse) -> State:
    """The arrays of a compressed sparse row matrix."""
    return {
        "data": matrix.data,
        "indices": matrix.indices,
        "indptr": matrix.indptr,
        "shape": np.array(matrix.shape, dtype=np.int64),
    }


def unpack_sparse(state: State) -> Sparse:
    """The matrix of :func:`pack_sparse`."""
    from scipy.sparse import csr_array

    rows, columns = map(int, state["shape"])
    return csr_array((state["data"], state["indices"], state["indptr"]), shape=(rows, columns))
