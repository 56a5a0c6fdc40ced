from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contextgrid.score.judged import JudgedRankings, ratio
from contextgrid.score.metrics import METRICS


@METRICS.register("map")
@dataclass(frozen=True)
class AveragePrecision:
    """Precision at the rank of each relevant chunk in the top ``k``, averaged over all relevant chunks of the corpus.

    ``map_cut_k`` of trec_eval; its mean over questions is the mean average precision.
    """

    k: int

    def values(self, judged: JudgedRankings) -> NDArray[np.float64]:
        top = judged.relevant[:, : self.k]
        precision = top.cumsum(axis=1) / np.arange(1, top.shape[1] + 1)
        return ratio((precision * top).sum(axis=1), judged.n_relevant)
