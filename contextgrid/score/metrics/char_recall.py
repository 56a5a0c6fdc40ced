from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contextgrid.score.intervals import covered, union
from contextgrid.score.judged import JudgedRankings, ratio
from contextgrid.score.metrics import METRICS


@METRICS.register("char_recall")
@dataclass(frozen=True)
class CharRecall:
    """The share of the question's gold characters that the union of the top ``k`` chunks covers.

    Of an anchor that occurs several times the best covered occurrence counts, with the weight of its longest
    one, so that a deeper cut-off never lowers the score. Characters that two anchors quote count for each.
    """

    k: int

    def values(self, judged: JudgedRankings) -> NDArray[np.float64]:
        top = judged.found_rank <= self.k
        seen = union(judged.found_start[top], judged.found_end[top])
        length = judged.gold_end - judged.gold_start
        share = ratio(covered(judged.gold_start, judged.gold_end, *seen), length)
        best_share = np.zeros(len(judged.anchor_question))
        np.maximum.at(best_share, judged.gold_anchor, share)
        weight = np.zeros(len(judged.anchor_question))
        np.maximum.at(weight, judged.gold_anchor, length)
        return ratio(
            judged.per_question(judged.anchor_question, best_share * weight),
            judged.per_question(judged.anchor_question, weight),
        )
