from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contextgrid.score.intervals import covered, union
from contextgrid.score.judged import JudgedRankings, ratio
from contextgrid.score.metrics import METRICS


@METRICS.register("char_precision")
@dataclass(frozen=True)
class CharPrecision:
    """The share of the characters in the union of the top ``k`` chunks that are gold; 0 if nothing was retrieved.

    Characters of every occurrence of every anchor are gold. Low values mean that a reader, or a paid model, is
    given much text that is not evidence.
    """

    k: int

    def values(self, judged: JudgedRankings) -> NDArray[np.float64]:
        top = judged.found_rank <= self.k
        start, end = union(judged.found_start[top], judged.found_end[top])
        gold = covered(start, end, *union(judged.gold_start, judged.gold_end))
        question = judged.question_at(start)
        return ratio(judged.per_question(question, gold), judged.per_question(question, end - start))
