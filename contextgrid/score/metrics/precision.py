from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contextgrid.score.judged import JudgedRankings
from contextgrid.score.metrics import METRICS


@METRICS.register("precision")
@dataclass(frozen=True)
class Precision:
    """The share of the first ``k`` ranks whose chunk holds evidence; ``P_k`` of trec_eval.

    Ranks that a shorter ranking leaves empty count as misses.
    """

    k: int

    def values(self, judged: JudgedRankings) -> NDArray[np.float64]:
        hits: NDArray[np.int64] = judged.relevant[:, : self.k].sum(axis=1)
        return hits / self.k
