"""Means with coverage, and paired comparisons of configurations over the same questions.

All functions drop missing values (``None``, nan, infinite) and are deterministic for a seed. None of them
depends on the order of the questions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contextgrid.core.errors import ConfigError

Floats = NDArray[np.float64]

_BLOCK = 1 << 20  # elements per block of resamples: a few megabytes, whatever the number of questions


@dataclass(frozen=True)
class Mean:
    """A mean over the ``n`` of ``total`` values that were measured; ``None`` if none was."""

    mean: float | None
    n: int
    total: int

    def __str__(self) -> str:
        return f"{'absent' if self.mean is None else f'{self.mean:.3f}'} ({self.n} of {self.total})"


def mean_of(values: Any) -> Mean:
    """The mean of the measured values.

    Args:
        values: numbers, ``None`` and nan: a sequence, an array or a pyarrow column. Booleans count as 0 and 1.
    """
    array = as_floats(values)
    measured = array[np.isfinite(array)]
    # Summed exactly, so that the order of the questions cannot decide a tie.
    return Mean(math.fsum(measured) / len(measured) if len(measured) else None, len(measured), len(array))


def as_floats(values: Any) -> Floats:
    """Numbers as a one-dimensional float array in which everything that was not measured is nan."""
    if hasattr(values, "null_count"):  # a pyarrow column
        values = values.to_numpy(zero_copy_only=False)
    array = np.array(values if isinstance(values, np.ndarray) else list(values), dtype=np.float64)
    array[~np.isfinite(array)] = np.nan
    return array


def paired_bootstrap(
    differences: Any, *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> tuple[float, float] | None:
    """Bootstrap confidence interval of a mean of paired differences.

    The bias-corrected and accelerated interval (Efron, JASA 82, 1987), which stays close to its nominal
    coverage for the skewed differences that retrieval gives: mostly 0, a few large.

    Args:
        differences: one per question, for example own score minus baseline score.
        confidence: between 0 and 1.
        resamples: how many bootstrap samples of the questions.

    Returns:
        The interval's ends; swapping the two sides mirrors them exactly. ``None`` for fewer than two
        differences, which say nothing about spread.

    Raises:
        ConfigError: for a bad ``confidence`` or ``resamples``.
    """
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence must lie between 0 and 1, got {confidence}")
    _check_resamples(resamples)
    values = np.sort(_measured(differences))
    if len(values) < 2:
        return None
    swapped = -values[::-1]
    if swapped.tolist() > values.tolist():
        # The same draws whichever side is subtracted from the other, so that swapping sides mirrors the interval.
        low, high = _bca_interval(swapped, confidence, resamples, seed)
        return 0.0 - high, 0.0 - low
    return _bca_interval(values, confidence, resamples, seed)


def paired_permutation(differences: Any, *, resamples: int = 10_000, seed: int = 0) -> float | None:
    """Two-sided p-value of a mean of paired differences under random sign flips.

    The chance, were both sides interchangeable, of a mean at least as far from 0 as the one seen. All sign
    patterns are enumerated if there are no more than ``resamples``; else they are sampled and the p-value is
    (as extreme + 1) / (sampled + 1), which is never 0 (Phipson and Smyth, 2010).

    Returns:
        The p-value; ``None`` without differences.

    Raises:
        ConfigError: for a bad ``resamples``.
    """
    _check_resamples(resamples)
    values = _measured(differences)
    return float(_sign_flip_p_values(values[np.newaxis], resamples, seed)[0]) if len(values) else None


def holm(p_values: Sequence[float] | Floats) -> Floats:
    """P-values adjusted so that all of them together keep the error rate of one (Holm, 1979).

    nan (nothing compared) stays nan and does not count as a comparison.
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)[: np.count_nonzero(~np.isnan(p))]
    factor = np.arange(len(order), 0, -1)
    adjusted = np.full(len(p), np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * factor), 1.0)
    return adjusted


def indistinguishable_from_best(
    scores: Floats, *, alpha: float = 0.05, resamples: int = 10_000, seed: int = 0
) -> list[bool]:
    """The cells that cannot be told from the best: the cell with the highest mean over its scored questions.

    Each cell is compared with the best by :func:`paired_permutation` on the questions that both have a score
    for; a cell is told apart if its Holm-adjusted p-value is at most ``alpha``.

    Args:
        scores: (cells, questions), larger is better, nan where a cell has no score.

    Returns:
        One bool per cell: ``True`` for the best and for those not told from it, also where too few common
        questions allow no verdict; ``False`` for cells without any score.
    """
    scores = np.where(np.isfinite(scores), scores, np.nan)
    counts = np.count_nonzero(~np.isnan(scores), axis=1)
    if not counts.any():
        return [False] * len(scores)
    means = np.divide(np.nansum(scores, axis=1), counts, out=np.full(len(scores), -np.inf), where=counts > 0)
    best = int(means.argmax())
    others = np.flatnonzero((counts > 0) & (np.arange(len(scores)) != best))
    # The smallest sampled p-value, times the number of comparisons, must be able to fall below alpha.
    resamples = max(resamples, math.ceil(2 * len(others) / alpha))
    differences = np.nan_to_num(scores[best] - scores[others])  # a difference of 0 leaves the test unchanged
    told_apart = np.zeros(len(scores), dtype=np.bool_)
    told_apart[others] = holm(_sign_flip_p_values(differences, resamples, seed)) <= alpha
    return [bool(measured and not apart) for measured, apart in zip(counts > 0, told_apart, strict=True)]


def _measured(values: Any) -> Floats:
    array = as_floats(values)
    return array[np.isfinite(array)]


def _check_resamples(resamples: int) -> None:
    if resamples < 1:
        raise ConfigError(f"resamples must be at least 1, got {resamples}")


def _bca_interval(values: Floats, confidence: float, resamples: int, seed: int) -> tuple[float, float]:
    if values[0] == values[-1]:
        return float(values[0]), float(values[0])
    means = _resampled_means(values, resamples, np.random.default_rng(seed))
    low, high = np.quantile(means, _bca_levels(values, means, confidence))
    return float(low), float(high)


def _bca_levels(values: Floats, means: Floats, confidence: float) -> Floats:
    """The quantiles of the resampled means that are the interval's ends."""
    normal = NormalDist()
    centred = values - values.mean()
    spread = np.abs(centred).max()
    centred /= spread  # so that powers of tiny differences do not vanish
    acceleration = (centred**3).sum() / (6 * (centred**2).sum() ** 1.5)
    # Resampled means that equal the mean up to rounding count half: recall takes few values, so they are many.
    above = (means - values.mean()) / spread
    below = ((above < -1e-9).mean() + (above <= 1e-9).mean()) / 2
    bias = normal.inv_cdf(min(max(below, 0.5 / len(means)), 1 - 0.5 / len(means)))
    levels = []
    for tail in ((1 - confidence) / 2, (1 + confidence) / 2):
        z = bias + normal.inv_cdf(tail)
        levels.append(normal.cdf(bias + z / (1 - acceleration * z)))
    return np.array(levels)


def _resampled_means(values: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    n = len(values)
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= 32:
        # Few distinct values, as recall gives: draw how often each occurs instead of which question is drawn.
        return rng.multinomial(n, counts / n, size=resamples) @ distinct / n
    return np.concatenate(
        [values[rng.integers(0, n, size=(block, n), dtype=np.int32)].mean(axis=1) for block in _blocks(resamples, n)]
    )


def _blocks(total: int, width: int) -> Iterator[int]:
    """Block sizes that add up to ``total`` and keep each block of rows of ``width`` within memory."""
    size = max(1, _BLOCK // max(width, 1))
    for start in range(0, total, size):
        yield min(size, total - start)


def _sign_flip_p_values(differences: Floats, resamples: int, seed: int) -> Floats:
    """P-values of paired sign-flip tests, one per row of (tests, questions)."""
    # Flipping signs of differences and of their sizes gives the same distribution; sorted sizes do not depend on
    # the order of questions, and differences of 0 can be left out because no flip changes them.
    sizes = np.sort(np.abs(differences), axis=1)
    seen = np.abs(np.sort(differences, axis=1).sum(axis=1))
    # Sums that differ only by rounding are ties, and ties count as extreme.
    seen = seen - 1e-10 * sizes.sum(axis=1)
    n_flipped = np.count_nonzero(sizes, axis=1)
    p_values = np.empty(len(sizes))
    exact = n_flipped <= math.log2(resamples)
    for row in np.flatnonzero(exact):
        p_values[row] = _exact_p_value(sizes[row, sizes.shape[1] - n_flipped[row] :], seen[row])
    if not exact.all():
        width = int(n_flipped[~exact].max())
        p_values[~exact] = _sampled_p_values(sizes[~exact, sizes.shape[1] - width :], seen[~exact], resamples, seed)
    return p_values


def _exact_p_value(sizes: Floats, seen: float) -> float:
    sums = np.zeros(1)
    for size in sizes:
        sums = np.concatenate((sums + size, sums - size))
    return float((np.abs(sums) >= seen).mean())


def _sampled_p_values(sizes: Floats, seen: Floats, resamples: int, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    tests, n = sizes.shape
    total = sizes.sum(axis=1)
    extreme = np.zeros(tests, dtype=np.int64)
    for block in _blocks(resamples, max(n, tests)):
        bits = rng.integers(0, 256, size=(block, -(-n // 8)), dtype=np.uint8)
        kept = np.unpackbits(bits, axis=1, count=n).astype(np.float64)
        # Sizes with a plus sign, less those with a minus sign.
        sums = 2 * (kept @ sizes.T) - total
        extreme += (np.abs(sums) >= seen).sum(axis=0)
    p_values: Floats = (extreme + 1) / (resamples + 1)
    return p_values
