from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contextgrid.score.judged import JudgedRankings
from contextgrid.score.metrics import METRICS


@METRICS.register("hit_rate")
@dataclass(frozen=True)
class HitRate:
    """1 if any of the top ``k`` chunks holds evidence, else 0; ``success_k`` of trec_eval."""

    k: int

    def values(self, judged: JudgedRankings) -> NDArray[np.float64]:
        return np.where(judged.relevant[:, : self.k].any(axis=1), 1.0, 0.0)
