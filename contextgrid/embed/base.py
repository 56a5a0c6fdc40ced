"""What an embedder is: something that can be fitted to passages and then turns texts into unit vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from contextgrid.core.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from contextgrid.core.state import State

    # One row per text, of length 1, or all zeros for a text without anything to go by.
    Vectors: TypeAlias = NDArray[np.float32] | csr_array[Any, tuple[int, int]]


class FittedEmbedder(Protocol):
    """An embedder ready for queries."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of some texts, shape ``(n_texts, n_dimensions)``, dense or sparse."""
        ...

    def state(self) -> State:
        """All that ``Embedder.restore`` needs to make the same embedder again."""
        ...


class Embedder(Protocol):
    """Turns texts into vectors whose inner product is their similarity."""

    def fit(self, passages: Sequence[str]) -> tuple[FittedEmbedder, Vectors]:
        """The embedder fitted to the passages of a corpus, and their vectors.

        Raises:
            CorpusError: if the passages hold nothing to fit to.
        """
        ...

    def restore(self, state: State) -> FittedEmbedder:
        """The fitted embedder whose ``state`` this is."""
        ...


EMBEDDERS: Registry[Embedder] = Registry("embedder", "contextgrid.embed")
