from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contextgrid.score.judged import JudgedRankings
from contextgrid.score.metrics import METRICS


@METRICS.register("mrr")
@dataclass(frozen=True)
class ReciprocalRank:
    """1 / the rank of the first chunk that holds evidence, 0 if it lies beyond ``k``; ``recip_rank`` of trec_eval.

    Its mean over questions is the mean reciprocal rank (Voorhees, TREC-8 question answering track, 1999).
    """

    k: int

    def values(self, judged: JudgedRankings) -> NDArray[np.float64]:
        top = judged.relevant[:, : self.k]
        return np.where(top.any(axis=1), 1.0 / (top.argmax(axis=1) + 1), 0.0)
