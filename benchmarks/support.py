"""How well ``support`` agrees with people on answers that had no part in choosing its settings.

Run with ``python -m benchmarks.support [labels.jsonl]``. For each fold of questions, the settings that agree best
with people on the other folds score its answers; the scores of all folds together are then held against the
ratings. The same is done with folds of whole conversations, whose questions share passages. Prints Spearman's
correlation within systems (mean over systems) of these held-out scores, of the settings in use, and of groundedness.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from contextgrid.evalset.labels import LabelledAnswer, load_labels
from contextgrid.generate.scores import groundedness
from contextgrid.generate.support import DEFAULT, Support
from contextgrid.score.agreement import spearman
from contextgrid.score.statistics import as_floats

LABELS = "../shared/data/mtrag_labels/labels.jsonl"
FOLDS, SHUFFLES = 10, 20
SETTINGS = [
    Support(window, number_weight, negation_penalty, inflections)
    for window, number_weight, negation_penalty, inflections in product(
        (1, 2, 3, 4, 5, 6), (1.0, 2.0), (0.0, 0.25, 0.5), (False, True)
    )
]
Floats = NDArray[np.float64]


def main(path: str = LABELS) -> None:
    answers = load_labels(path)
    ratings = as_floats([answer.rating("faithfulness") for answer in answers])
    systems = np.array([answer.model for answer in answers], dtype=np.str_)
    grid = np.stack([as_floats([setting.score(a.answer, a.contexts) for a in answers]) for setting in SETTINGS])
    used = grid[SETTINGS.index(DEFAULT)]
    grounded = as_floats([groundedness(a.answer, "\n".join(a.contexts)) for a in answers])
    grounded[np.isnan(used)] = np.nan
    in_sample = np.array([within(scores, ratings, systems) for scores in grid])
    print(f"{len(answers)} answers, {np.isfinite(used).sum()} scored, {len(SETTINGS)} settings")
    print(f"groundedness on the same answers      {within(grounded, ratings, systems):.3f}")
    print(f"support, settings in use              {within(used, ratings, systems):.3f}")
    print(f"worst, median and best settings       {np.quantile(in_sample, (0, 0.5, 1)).round(3)}")
    print(f"best on all answers (optimistic)      {SETTINGS[int(in_sample.argmax())]}")
    for name, groups in (("questions", _questions(answers)), ("conversations", _conversations(answers))):
        found = [held_out(grid, ratings, systems, groups, seed) for seed in range(SHUFFLES)]
        print(f"held out over {name:13}           {np.mean(found):.3f} ({min(found):.3f} to {max(found):.3f})")


def within(scores: Floats, ratings: Floats, systems: NDArray[np.str_]) -> float:
    """Mean over the systems of Spearman's correlation."""
    found = [spearman(scores[systems == system], ratings[systems == system]) for system in np.unique(systems)]
    return float(np.mean([value for value in found if value is not None]))


def held_out(grid: Floats, ratings: Floats, systems: NDArray[np.str_], groups: Sequence[str], seed: int) -> float:
    """Agreement of scores whose settings were chosen without the group they are for."""
    names, group = np.unique(np.array(groups), return_inverse=True)
    fold = (np.random.default_rng(seed).permutation(len(names)) % FOLDS)[group]
    scores = np.empty(len(ratings))
    for number in range(FOLDS):
        own = fold == number
        chosen = int(np.argmax([within(column[~own], ratings[~own], systems[~own]) for column in grid]))
        scores[own] = grid[chosen, own]
    return within(scores, ratings, systems)


def _questions(answers: Sequence[LabelledAnswer]) -> list[str]:
    return [answer.question_id for answer in answers]


def _conversations(answers: Sequence[LabelledAnswer]) -> list[str]:
    # MTRAG numbers the turns of a conversation: "<conversation><::><turn>".
    return [answer.question_id.partition("<::>")[0] for answer in answers]


if __name__ == "__main__":
    main(*sys.argv[1:])
