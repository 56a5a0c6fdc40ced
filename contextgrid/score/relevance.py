"""The one rule for when a passage holds a piece of evidence; every retrieval and citation score uses it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def holds(start: ArrayLike, end: ArrayLike, gold_start: ArrayLike, gold_end: ArrayLike) -> NDArray[np.bool_]:
    """Whether passages hold gold spans: a majority of one lies inside the other.

    A passage holds a gold span if it covers at least half of the span's characters (evidence cut by a chunk
    boundary), or if at least half of the passage's characters lie inside the span (a small chunk of long
    evidence). Spans without a common character never hold each other, nor do empty ones.

    Args:
        start, end: half-open character ranges of passages.
        gold_start, gold_end: half-open character ranges of evidence in the same documents; the caller pairs
            spans of one document only. All four broadcast against each other as numpy arrays do.

    Returns:
        Booleans of the broadcast shape; a single numpy bool (usable as a Python one) for plain integers.
    """
    start, end = np.asarray(start), np.asarray(end)
    gold_start, gold_end = np.asarray(gold_start), np.asarray(gold_end)
    common = np.minimum(end, gold_end) - np.maximum(start, gold_start)
    smaller = np.minimum(end - start, gold_end - gold_start)
    held: NDArray[np.bool_] = (common > 0) & (2 * common >= smaller)
    return held
