"""How far scores of answers agree with people's ratings of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contextgrid.core.errors import ConfigError
from contextgrid.score.statistics import as_floats

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_FOLDS = 10
_FEWEST = 3  # two points always correlate perfectly


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval; each is ``None`` where the data cannot give it."""

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class MetricAgreement:
    """How far one metric agrees with the ratings.

    Attributes:
        metric: its name.
        n: answers that have both a score and a rating.
        total: answers that have a rating.
        overall: Spearman's rank correlation over all ``n`` answers.
        within: mean of the Spearman correlations of the systems, each over its own answers.
        systems: the correlation of each system; ``None`` where scores or ratings do not vary, or for fewer than
            three answers, which leaves the system out of ``within``.
        threshold: the score that best parts good from bad answers; good are scores at or above it.
        balanced_accuracy: mean of the shares of good and of bad answers that the threshold puts on their side. 0.5 is
            chance. The threshold was chosen on the same answers, so this is optimistic.
        held_out: the same with thresholds chosen on other questions than those they are tried on (ten folds).
        base_rate: share of the ``n`` answers that people find good.
        behind: how much lower ``within`` is than that of the best metric, on the answers that both scored; ``None``
            for the best itself. Where systems cannot be compared, the overall correlations take their place.
    """

    metric: str
    n: int
    total: int
    overall: Estimate
    within: Estimate
    systems: Mapping[str, float | None]
    threshold: float | None
    balanced_accuracy: float | None
    held_out: float | None
    base_rate: float | None
    behind: Estimate | None = None

    @property
    def like_the_best(self) -> bool:
        """Whether it is the best metric, or cannot be told from it: no interval of ``behind`` lies above 0."""
        if self.within.value is None and self.overall.value is None:
            return False
        return self.behind is None or self.behind.low is None or self.behind.low <= 0


@dataclass(frozen=True)
class Ratings:
    """What people think of some answers.

    Attributes:
        ratings: (answers,) mean rating, nan where there is none.
        questions: (answers,) the question of each; answers to one question are resampled together.
        systems: (answers,) who answered; ``None`` where nobody says.
        good: the rating at and above which an answer is good.
    """

    ratings: Floats
    questions: Sequence[str]
    systems: Sequence[str | None]
    good: float


def agreement(
    scores: Mapping[str, Any], ratings: Ratings, *, resamples: int = 2_000, seed: int = 0
) -> list[MetricAgreement]:
    """How far each metric agrees with the ratings, best first.

    Intervals are percentiles of a bootstrap over questions: all answers to a question are drawn together, since
    several systems answer it from the same passages. All metrics see the same draws.

    Args:
        scores: by metric one value per answer: numbers, ``None`` or nan.
        ratings: the same answers, rated.
        resamples: how many bootstrap samples of the questions.

    Returns:
        One entry per metric, by descending correlation within systems, or overall where systems cannot be compared.
        Metrics that scored less than half of the rated answers come after the others.

    Raises:
        ConfigError: for scores of another length than the ratings, or bad ``resamples``.
    """
    if resamples < 1:
        raise ConfigError(f"resamples must be at least 1, got {resamples}")
    columns = {name: as_floats(values) for name, values in scores.items()}
    for name, column in columns.items():
        if len(column) != len(ratings.ratings):
            raise ConfigError(f"{name}: {len(column)} scores for {len(ratings.ratings)} answers; give one per answer")
    draws = _draws(ratings.questions, resamples, seed)
    found = {name: _measured(name, column, ratings, draws) for name, column in columns.items()}
    order = sorted(found, key=lambda name: _standing(found[name]))
    if not order:
        return []
    best = columns[order[0]]
    return [found[order[0]], *(_with_gap(found[name], columns[name], best, ratings, draws) for name in order[1:])]


def rater_agreement(
    human: Sequence[Sequence[float]], ratings: Ratings, *, resamples: int = 2_000, seed: int = 0
) -> tuple[Estimate, Estimate] | None:
    """How far one rater agrees with the mean of the others, overall and within systems: a yardstick for metrics.

    Raters are told apart by their place in each answer's list. The correlations of all places are averaged, weighted
    by their answers. ``None`` without answers that at least two people rated.
    """
    most = max(map(len, human), default=0)
    table = np.full((len(human), most), np.nan)
    for row, given in enumerate(human):
        table[row, : len(given)] = given
    counts = (~np.isnan(table)).sum(axis=1)
    weights = _with_original(_draws(ratings.questions, resamples, seed))
    overall, within, sizes = [], [], []
    for place in range(most):
        both = (counts >= 2) & ~np.isnan(table[:, place])
        others = np.full(len(table), np.nan)
        others[both] = np.nanmean(np.delete(table, place, axis=1)[both], axis=1)
        against = replace(ratings, ratings=others)
        correlation = _spearman(table[both, place], others[both], weights[:, both])
        if not np.isnan(correlation[0]):
            sizes.append(both.sum())
            overall.append(correlation)
            within.append(_mean(_by_system(table[:, place], against, both, weights)))
    if not sizes:
        return None
    usable = [values if len(values) > 1 else np.full(len(weights), np.nan) for values in within]
    return _estimate(np.average(overall, axis=0, weights=sizes)), _estimate(np.average(usable, axis=0, weights=sizes))


def middle_of_scale(human: Sequence[Sequence[float]]) -> float | None:
    """Midway between the lowest and the highest rating that anyone gave; ``None`` without ratings."""
    given = [rating for ratings in human for rating in ratings]
    return (min(given) + max(given)) / 2 if given else None


def spearman(x: Any, y: Any) -> float | None:
    """Spearman's rank correlation of the pairs in which both are measured; tied values share their mean rank.

    ``None`` for fewer than three pairs, or if either side does not vary.
    """
    first, second = as_floats(x), as_floats(y)
    paired = np.isfinite(first) & np.isfinite(second)
    value = _spearman(first[paired], second[paired], np.ones((1, int(paired.sum()))))[0]
    return None if np.isnan(value) else float(value)


def balanced_accuracy(scores: Floats, good: Bools, threshold: float) -> float | None:
    """Mean of the shares of good answers at or above a threshold and of bad ones below; ``None`` without both."""
    if not good.any() or good.all():
        return None
    return float(((scores[good] >= threshold).mean() + (scores[~good] < threshold).mean()) / 2)


def best_threshold(scores: Floats, good: Bools) -> float | None:
    """The threshold of highest balanced accuracy, midway between two scores; ``None`` without both kinds."""
    if not good.any() or good.all():
        return None
    values, row = np.unique(scores, return_inverse=True)
    kept_good = 1 - np.concatenate(([0], np.cumsum(np.bincount(row, good)))) / good.sum()
    kept_bad = 1 - np.concatenate(([0], np.cumsum(np.bincount(row, ~good)))) / (~good).sum()
    cuts = np.concatenate(([values[0]], (values[1:] + values[:-1]) / 2, [np.inf]))
    return float(cuts[int((kept_good - kept_bad).argmax())])


def _measured(name: str, scores: Floats, ratings: Ratings, draws: Ints) -> MetricAgreement:
    rated = np.isfinite(ratings.ratings)
    both = rated & np.isfinite(scores)
    good = ratings.ratings[both] >= ratings.good
    overall = _spearman(scores[both], ratings.ratings[both], _with_original(draws)[:, both])
    by_system = _by_system(scores, ratings, both, _with_original(draws))
    threshold = best_threshold(scores[both], good)
    return MetricAgreement(
        metric=name,
        n=int(both.sum()),
        total=int(rated.sum()),
        overall=_estimate(overall),
        within=_estimate(_mean(by_system)),
        systems={system: _number(values[0]) for system, values in by_system.items()},
        threshold=threshold,
        balanced_accuracy=None if threshold is None else balanced_accuracy(scores[both], good, threshold),
        held_out=_held_out(scores[both], good, np.asarray(_numbered(ratings.questions))[both]),
        base_rate=float(good.mean()) if len(good) else None,
    )


def _with_gap(found: MetricAgreement, scores: Floats, best: Floats, ratings: Ratings, draws: Ints) -> MetricAgreement:
    both = np.isfinite(ratings.ratings) & np.isfinite(scores) & np.isfinite(best)
    weights = _with_original(draws)
    by_system = [_by_system(column, ratings, both, weights) for column in (best, scores)]
    gaps = {system: values - by_system[1][system] for system, values in by_system[0].items()}
    gap = _mean(gaps)
    if np.isnan(gap[0]):
        rating = ratings.ratings[both]
        gap = _spearman(best[both], rating, weights[:, both]) - _spearman(scores[both], rating, weights[:, both])
    return replace(found, behind=_estimate(gap))


def _by_system(scores: Floats, ratings: Ratings, both: Bools, weights: Floats) -> dict[str, Floats]:
    """By system the correlation under each row of weights."""
    systems = np.array(ratings.systems, dtype=object)
    found = {}
    for system in sorted({system for system in ratings.systems if system is not None}):
        own = both & (systems == system)
        found[system] = _spearman(scores[own], ratings.ratings[own], weights[:, own])
    return found


def _mean(by_system: Mapping[str, Floats]) -> Floats:
    """Mean over the systems whose correlation can be measured on all answers."""
    usable = [values for values in by_system.values() if not np.isnan(values[0])]
    return np.mean(usable, axis=0) if usable else np.full(1, np.nan)


def _spearman(x: Floats, y: Floats, weights: Floats) -> Floats:
    """(samples,) rank correlations where pair ``j`` occurs ``weights[i, j]`` times in sample ``i``; nan if none."""
    if len(x) < _FEWEST:
        return np.full(len(weights), np.nan)
    ranks = [_mid_ranks(values, weights) for values in (x, y)]
    size = weights.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        first, second = (rank - (weights * rank).sum(axis=1, keepdims=True) / size for rank in ranks)
        spread = (weights * first**2).sum(axis=1) * (weights * second**2).sum(axis=1)
        # Ranks are multiples of one half: less spread than this is rounding.
        spread[spread < 1e-6] = np.nan
        found: Floats = (weights * first * second).sum(axis=1) / np.sqrt(spread)
    return found


def _mid_ranks(values: Floats, weights: Floats) -> Floats:
    """(samples, pairs) mean rank of each value among the weighted values of a sample."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    tied = np.add.reduceat(weights[:, order], first, axis=1)
    ranks = np.empty_like(weights)
    middle = np.cumsum(tied, axis=1) - tied / 2
    ranks[:, order] = np.repeat(middle, np.diff(np.append(first, len(values))), axis=1)
    return ranks


def _draws(questions: Sequence[str], resamples: int, seed: int) -> Ints:
    """(resamples, answers) how often a bootstrap sample of the questions holds each answer."""
    question = _numbered(questions)
    n = int(question.max(initial=-1)) + 1
    if not n:
        return np.zeros((resamples, 0), dtype=np.int64)
    counts = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=resamples)
    drawn: Ints = counts[:, question]
    return drawn


def _with_original(draws: Ints) -> Floats:
    """The draws, with the answers themselves as the first row."""
    return np.concatenate((np.ones((1, draws.shape[1])), draws))


def _numbered(questions: Sequence[str]) -> Ints:
    # Sorted, so that nothing depends on the order of the answers.
    return np.unique(np.array(questions, dtype=np.str_), return_inverse=True)[1].astype(np.int64)


def _held_out(scores: Floats, good: Bools, question: Ints) -> float | None:
    """Balanced accuracy of thresholds that were chosen without the questions they are tried on."""
    distinct = np.unique(question)
    folds = min(_FOLDS, len(distinct))
    if folds < 2:
        return None
    fold_of = dict(
        zip(np.random.default_rng(0).permutation(distinct).tolist(), np.arange(len(distinct)) % folds, strict=True)
    )
    fold = np.array([fold_of[number] for number in question.tolist()])
    accepted = np.zeros(len(scores), dtype=np.bool_)
    for number in range(folds):
        own = fold == number
        threshold = best_threshold(scores[~own], good[~own])
        if threshold is None:
            return None
        accepted[own] = scores[own] >= threshold
    return balanced_accuracy(accepted.astype(np.float64), good, 0.5)


def _estimate(values: Floats) -> Estimate:
    """The first value, with the interval that the others give if at least half of them could be measured."""
    value, resampled = _number(values[0]), values[1:][~np.isnan(values[1:])]
    if value is None or len(resampled) < max(2, (len(values) - 1) / 2):
        return Estimate(value)
    low, high = np.quantile(resampled, (0.025, 0.975))
    return Estimate(value, float(low), float(high))


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _standing(found: MetricAgreement) -> tuple[object, ...]:
    """Sorts best first. Who scored few answers may have picked the easy ones, and is not held up as the best."""
    values = (found.within.value, found.overall.value)
    return (2 * found.n < found.total, *((value is None, -(value or 0.0)) for value in values), found.metric)
