"""Arithmetic on arrays of half-open integer intervals, all at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def overlapping(start: Ints, end: Ints, other_start: Ints, other_end: Ints) -> tuple[Ints, Ints]:
    """Every pair of an interval and an other interval that share at least one integer.

    Returns:
        Row numbers of the intervals and row numbers of the others, one of each per pair.
    """
    order = np.lexsort((other_end, other_start))
    sorted_start, sorted_end = other_start[order], other_end[order]
    # Others that start before an interval ends form a prefix. Of those, the ones before the first whose running
    # maximum of ends exceeds the interval's start all end too early; nested others in between are filtered below.
    first = np.searchsorted(np.maximum.accumulate(sorted_end), start, side="right")
    count = np.maximum(np.searchsorted(sorted_start, end, side="left") - first, 0)
    row = np.repeat(np.arange(len(start)), count)
    other = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    common = np.minimum(end[row], sorted_end[other]) > np.maximum(start[row], sorted_start[other])
    return row[common], order[other[common]]


def union(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The same integers as disjoint intervals in ascending order; empty intervals vanish."""
    kept = end > start
    start, end = start[kept], end[kept]
    if not len(start):
        return start, end
    order = np.argsort(start)
    start, reach = start[order], np.maximum.accumulate(end[order])
    opens = np.concatenate(([True], start[1:] > reach[:-1]))
    closes = np.concatenate((opens[1:], [True]))
    return start[opens], reach[closes]


def covered(start: Ints, end: Ints, union_start: Ints, union_end: Ints) -> Ints:
    """How many integers of each interval lie in a union, given as :func:`union` returns it."""
    before = np.concatenate(([0], np.cumsum(union_end - union_start)))

    def covered_below(position: Ints) -> Ints:
        index = np.searchsorted(union_start, position, side="left")
        last = np.maximum(index - 1, 0)
        inside = np.minimum(position, union_end[last]) - union_start[last] if len(union_start) else 0
        below: Ints = before[last] + np.where(index > 0, inside, 0)
        return below

    return covered_below(end) - covered_below(start)
