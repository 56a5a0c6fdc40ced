"""What an index is: something that is built over passages and then ranks them for many queries at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

from contextgrid.core.errors import ConfigError
from contextgrid.core.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from contextgrid.core.state import State
    from contextgrid.embed import Embedder


class Searcher(Protocol):
    """An index over passages."""

    def search(self, queries: Sequence[str], depth: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The ``depth`` best passages of each query, best first; equal scores in passage order.

        Returns:
            Passage rows and their scores, both of shape ``(n_queries, depth)``, padded with -1 and nan where a
            query has fewer hits.
        """
        ...

    def state(self) -> State:
        """All that ``Index.restore`` needs to make the same searcher again."""
        ...


class Index(Protocol):
    """Builds a searcher over passages."""

    needs_embedder: ClassVar[bool]

    def build(self, passages: Sequence[str], embedder: Embedder | None) -> Searcher:
        """A searcher over ``passages``. ``embedder`` is ignored where the class needs none.

        Raises:
            ConfigError: if the class needs an embedder and there is none.
            CorpusError: if the passages hold nothing to search for.
        """
        ...

    def restore(self, state: State, embedder: Embedder | None) -> Searcher:
        """The searcher whose ``state`` this is."""
        ...


INDEXES: Registry[Index] = Registry("index", "contextgrid.index")


def require_embedder(index: str, embedder: Embedder | None) -> Embedder:
    """The embedder, or a ``ConfigError`` that says which index lacks one."""
    if embedder is None:
        raise ConfigError(f"index {index!r} needs an embedder, for example tfidf; without one use bm25")
    return embedder
