from __future__ import annotations

import math
import time
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextgrid.core.errors import ConfigError
from contextgrid.score.statistics import (
    Mean,
    holm,
    indistinguishable_from_best,
    mean_of,
    paired_bootstrap,
    paired_permutation,
)

differences = st.lists(st.floats(-1, 1).map(lambda d: round(d, 3)), min_size=1, max_size=30)
p_values = st.lists(st.floats(0, 1), max_size=12)


def skewed(n: int = 200, seed: int = 1) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 0.9, 0.0, rng.exponential(0.5, n))


def test_a_mean_counts_only_what_was_measured() -> None:
    assert mean_of([1.0, None, float("nan"), 0.0, float("inf")]) == Mean(0.5, 2, 5)
    assert mean_of([None, float("nan")]) == Mean(None, 0, 2)
    assert mean_of([]) == Mean(None, 0, 0)
    assert mean_of(pa.chunked_array([[0.5, None], [1.0]])) == Mean(0.75, 2, 3)
    assert mean_of(pa.array([True, None, False])) == Mean(0.5, 2, 3)
    assert mean_of(np.array([0.25, np.nan])) == Mean(0.25, 1, 2)
    assert str(mean_of([1, None])) == "1.000 (1 of 2)"
    assert str(mean_of([None])) == "absent (0 of 1)"


@pytest.mark.parametrize("values", [skewed(), np.random.default_rng(2).normal(0.05, 0.2, 60), skewed().round(0)])
def test_the_bootstrap_interval_agrees_with_scipy(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    from scipy import stats

    expected = stats.bootstrap((values,), np.mean, n_resamples=20_000, method="BCa", rng=np.random.default_rng(3))
    interval = paired_bootstrap(values, resamples=20_000)
    assert interval is not None
    width = expected.confidence_interval.high - expected.confidence_interval.low
    assert interval == pytest.approx(tuple(expected.confidence_interval), abs=0.04 * width)


def test_the_bootstrap_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(4)
    covered = 0
    for _ in range(200):
        interval = paired_bootstrap(rng.exponential(0.3, 50) - 0.3, resamples=1000)
        assert interval is not None
        covered += interval[0] <= 0 <= interval[1]
    assert 0.89 <= covered / 200 <= 0.99


@given(differences.filter(lambda d: len(d) > 1))
@settings(max_examples=40, deadline=None)
def test_the_bootstrap_interval_lies_within_the_data_and_ignores_order(values: list[float]) -> None:
    interval = paired_bootstrap(values, resamples=200)
    assert interval is not None
    low, high = interval
    assert min(values) - 1e-9 <= low <= high <= max(values) + 1e-9
    assert paired_bootstrap(sorted(values), resamples=200) == interval
    assert paired_bootstrap([-v for v in values], resamples=200) == (-high, -low)
    assert paired_bootstrap([*values, None, float("nan")], resamples=200) == interval


def test_too_few_differences_have_no_interval_and_equal_ones_no_width() -> None:
    assert paired_bootstrap([]) is None
    assert paired_bootstrap([0.3]) is None
    assert paired_bootstrap([0.5, 0.5, 0.5]) == (0.5, 0.5)
    assert paired_bootstrap([0.0, 0.0]) == (0.0, 0.0)


@given(differences.filter(lambda d: len(d) <= 8))
@settings(max_examples=60, deadline=None)
def test_the_permutation_test_enumerates_every_sign_pattern_of_few_questions(values: list[float]) -> None:
    sums = [
        abs(sum(s * v for s, v in zip(signs, values, strict=True))) for signs in product((1, -1), repeat=len(values))
    ]
    expected = sum(s >= abs(sum(values)) - 1e-9 for s in sums) / len(sums)
    assert paired_permutation(values) == pytest.approx(expected)


def test_the_permutation_test_agrees_with_scipy() -> None:
    from scipy import stats

    rng = np.random.default_rng(5)
    few, many = rng.normal(0.3, 0.5, 9), rng.normal(0.03, 0.2, 150)
    exact = stats.permutation_test((few,), np.mean, permutation_type="samples", n_resamples=10_000)
    assert paired_permutation(few) == pytest.approx(exact.pvalue)
    sampled = stats.permutation_test((many,), np.mean, permutation_type="samples", n_resamples=20_000, rng=rng)
    assert paired_permutation(many, resamples=20_000) == pytest.approx(sampled.pvalue, abs=0.015)


@given(differences, st.integers(1, 300))
@settings(max_examples=60, deadline=None)
def test_a_permutation_p_value_is_never_0_and_depends_on_neither_order_nor_direction(
    values: list[float], resamples: int
) -> None:
    p = paired_permutation(values, resamples=resamples)
    assert p is not None
    assert 0 < p <= 1
    assert paired_permutation(values[::-1], resamples=resamples) == p
    assert paired_permutation([-v for v in values], resamples=resamples) == p
    assert paired_permutation([*values, 0.0, None], resamples=resamples) == p


def test_sampled_p_values_count_the_sample_itself() -> None:
    assert paired_permutation([1.0] * 100, resamples=999) == 1 / 1000
    assert paired_permutation([0.0] * 100) == 1.0
    assert paired_permutation([]) is None


def test_sampled_p_values_are_uniform_where_nothing_differs() -> None:
    rng = np.random.default_rng(6)
    p = [paired_permutation(rng.normal(0, 1, 40), resamples=400, seed=seed) for seed in range(200)]
    assert 0.01 <= np.mean([value <= 0.05 for value in p if value is not None]) <= 0.1


@pytest.mark.parametrize("options", [{"confidence": 0.0}, {"confidence": 1.0}, {"resamples": 0}])
def test_bad_options_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        paired_bootstrap([0.1, 0.2], **options)  # type: ignore[arg-type]


def holm_by_the_book(values: list[float]) -> list[float]:
    adjusted = []
    for p in values:
        smaller = [q for q in sorted(values) if q <= p]
        adjusted.append(min(1.0, max((len(values) - i) * q for i, q in enumerate(smaller))))
    return adjusted


@given(p_values)
def test_holm_is_monotone_and_never_below_the_p_value(values: list[float]) -> None:
    adjusted = holm(values).tolist()
    assert adjusted == pytest.approx(holm_by_the_book(values))
    assert all(p <= a <= 1 for p, a in zip(values, adjusted, strict=True))
    by_p = [a for _, a in sorted(zip(values, adjusted, strict=True))]
    assert by_p == sorted(by_p)
    assert all(a <= min(1.0, len(values) * p) + 1e-12 for p, a in zip(values, adjusted, strict=True))


def test_holm_leaves_missing_comparisons_out() -> None:
    adjusted = holm([0.01, math.nan, 0.04])
    assert adjusted[[0, 2]].tolist() == pytest.approx([0.02, 0.04])
    assert math.isnan(adjusted[1])


def test_cells_are_told_from_the_best_only_on_evidence() -> None:
    rng = np.random.default_rng(7)
    best = rng.random(200)
    same = best + rng.normal(-0.001, 0.05, 200)
    worse = best - 0.2 + rng.normal(0, 0.05, 200)
    unmeasured = np.full(200, np.nan)
    one_question = np.full(200, np.nan)
    one_question[0] = 0.0
    scores = np.array([worse, best, same, unmeasured, one_question])
    assert indistinguishable_from_best(scores) == [False, True, True, False, True]
    assert indistinguishable_from_best(scores[:, ::-1]) == [False, True, True, False, True]
    assert indistinguishable_from_best(scores[:1]) == [True]
    assert indistinguishable_from_best(np.empty((0, 5))) == []
    assert indistinguishable_from_best(np.full((2, 3), np.nan)) == [False, False]


def test_only_common_questions_decide_whether_cells_differ() -> None:
    # The second cell answers other, harder questions: where both have a score they are equal.
    easy_and_hard = np.array([[1.0] * 30 + [np.nan] * 30, [np.nan] * 20 + [1.0] * 10 + [0.0] * 30])
    assert indistinguishable_from_best(easy_and_hard) == [True, True]


def test_the_number_of_cells_raises_the_bar() -> None:
    best = np.full(60, 0.5)
    worse = best - np.array([0.1] * 14 + [-0.1] * 4 + [0.0] * 42)  # p = 0.031 on its own
    alike = best - np.array([0.1] * 10 + [-0.1] * 9 + [0.0] * 41)
    assert indistinguishable_from_best(np.array([best, worse])) == [True, False]
    assert indistinguishable_from_best(np.array([best, worse, alike])) == [True, True, True]


def test_a_hundred_cells_over_six_hundred_questions_take_less_than_a_second() -> None:
    scores = np.random.default_rng(9).random((100, 600))
    started = time.perf_counter()
    indistinguishable_from_best(scores)
    assert time.perf_counter() - started < 1
