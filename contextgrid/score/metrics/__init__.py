"""Retrieval metrics: one file per metric, each a definition and a line of array arithmetic.

To add a metric, add a file: a frozen dataclass with the cut-off ``k``, registered under its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from contextgrid.core.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from contextgrid.score.judged import JudgedRankings


class Metric(Protocol):
    """A retrieval metric at a cut-off; larger is better, 0 to 1."""

    @property
    def k(self) -> int:
        """How many of the best ranks count."""

    def values(self, judged: JudgedRankings) -> NDArray[np.float64]:
        """One value per question. Questions without evidence may get any value; the caller blanks them."""


METRICS: Registry[Metric] = Registry("metric", "contextgrid.score.metrics")
