from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contextgrid.score.judged import JudgedRankings, ratio
from contextgrid.score.metrics import METRICS


@METRICS.register("recall")
@dataclass(frozen=True)
class Recall:
    """The share of the question's pieces of evidence (anchors) of which the top ``k`` hold an occurrence.

    Evidence that a chunker cut into three chunks is still one piece. Where each anchor is held by exactly one
    chunk and no two by the same, this is ``recall_k`` of trec_eval.
    """

    k: int

    def values(self, judged: JudgedRankings) -> NDArray[np.float64]:
        held = judged.per_question(judged.anchor_question, (judged.anchor_rank <= self.k).astype(np.float64))
        return ratio(held, judged.per_question(judged.anchor_question))
