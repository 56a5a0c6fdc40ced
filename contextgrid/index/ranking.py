"""Exact top-k with one total order: higher scores first, equal scores in passage order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1 << 22  # scores held at once: 32 MB


def rank_in_blocks(
    n_queries: int, n_passages: int, depth: int, score: Callable[[slice], NDArray[np.float64]]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rank all passages for all queries without holding all scores.

    Args:
        score: scores of a slice of the queries, shape ``(len(slice), n_passages)``; what is not finite is no hit.

    Returns:
        Rows and scores of shape ``(n_queries, depth)``, padded with -1 and nan.
    """
    rows = np.full((n_queries, depth), -1, dtype=np.int64)
    scores = np.full((n_queries, depth), np.nan)
    step = max(1, _BLOCK // max(1, n_passages))
    for first in range(0, n_queries, step):
        block = slice(first, min(first + step, n_queries))
        _fill_best(score(block), rows[block], scores[block])
    return rows, scores


def _fill_best(found: NDArray[np.float64], rows: NDArray[np.int64], scores: NDArray[np.float64]) -> None:
    n_passages = found.shape[1]
    depth = min(rows.shape[1], n_passages)
    found = np.where(np.isfinite(found), found, -np.inf)
    least = np.partition(found, n_passages - depth, axis=1)[:, n_passages - depth, None]
    above = found > least
    tied = (found == least) & (found > -np.inf)
    # Of the passages tied for the last places, the first ones; there may be as many as there are passages.
    places = depth - above.sum(axis=1, keepdims=True)
    query, passage = np.nonzero(above | (tied & (np.cumsum(tied, axis=1, dtype=np.int32) <= places)))
    values = found[query, passage]
    order = np.lexsort((passage, -values, query))
    query, passage, values = query[order], passage[order], values[order]
    position = np.arange(len(query)) - np.searchsorted(query, query)
    rows[query, position] = passage
    scores[query, position] = values
