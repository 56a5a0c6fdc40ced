from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contextgrid.score.judged import JudgedRankings, ratio
from contextgrid.score.metrics import METRICS


@METRICS.register("ndcg")
@dataclass(frozen=True)
class Ndcg:
    """Gain 1 / log2(rank + 1) of each relevant chunk in the top ``k``, relative to the best possible ranking's.

    ``ndcg_cut_k`` of trec_eval on binary relevance (Järvelin and Kekäläinen, ACM TOIS 20(4), 2002).
    """

    k: int

    def values(self, judged: JudgedRankings) -> NDArray[np.float64]:
        top = judged.relevant[:, : self.k]
        # No ranking gains more than one filled with relevant chunks, so the table ends at the most there are.
        best = np.minimum(judged.n_relevant, self.k)
        discount = 1.0 / np.log2(np.arange(2, max(top.shape[1], best.max(initial=0)) + 2))
        ideal = np.concatenate(([0.0], np.cumsum(discount)))
        return ratio(top @ discount[: top.shape[1]], ideal[best])
