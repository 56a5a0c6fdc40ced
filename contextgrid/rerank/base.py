"""What a reranker is: a second, closer look at the passages that an index found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from contextgrid.core.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Reranker(Protocol):
    """Scores the candidate passages of many questions at once."""

    def scores(self, questions: Sequence[str], passages: Sequence[Sequence[str]]) -> list[NDArray[np.float64]]:
        """Scores of each question's passages, higher is better; equal scores keep the order passages came in.

        Args:
            questions: the questions as asked.
            passages: the candidate texts of each question, in the order the index ranked them.

        Returns:
            One finite float64 array for each question, as long as its candidates.
        """
        ...


RERANKERS: Registry[Reranker] = Registry("reranker", "contextgrid.rerank")


@dataclass(frozen=True)
class NoReranker:
    """What ``null`` stands for: all scores equal, so the index's order stays."""

    def scores(self, questions: Sequence[str], passages: Sequence[Sequence[str]]) -> list[NDArray[np.float64]]:
        import numpy as np

        return [np.zeros(len(candidates)) for candidates in passages]


def get_reranker(spec: str | None) -> Reranker:
    """The reranker that a spec describes; ``None`` changes nothing."""
    return NoReranker() if spec is None else RERANKERS.build(spec)
