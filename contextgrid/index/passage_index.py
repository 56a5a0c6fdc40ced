"""An index together with the passages it ranks, in memory or as one file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from contextgrid.core.errors import ConfigError, CorpusError
from contextgrid.core.registry import Spec
from contextgrid.index.base import INDEXES, Searcher

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class PassageIndex:
    """Passages and the searcher built over them.

    Attributes:
        chunks: a ``CHUNKS`` table; search results are rows of it.
        embedder: spec of the embedder, ``None`` if the index uses none.
        index: spec of the index.
    """

    chunks: pa.Table
    embedder: str | None
    index: str
    searcher: Searcher

    def search(self, queries: Sequence[str], depth: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The best passages for all queries at once.

        Passages are ordered by score and then by row, so the first five of ten are the best five, whatever else
        is asked together.

        Returns:
            Row numbers in ``chunks`` and scores, both of shape ``(n_queries, depth)``, padded with -1 and nan
            where fewer passages were found.

        Raises:
            ConfigError: if ``depth`` is below 1 or beyond what the index can rank.
        """
        if depth < 1:
            raise ConfigError(f"depth must be at least 1, got {depth}")
        return self.searcher.search(queries, depth)

    def fingerprint(self) -> str:
        """32 hex digits of the content: specs, passages and everything fitted to them. The same in any process."""
        import json

        import numpy as np

        from contextgrid.core.fingerprint import fingerprint, hash_bytes

        parts: list[object] = [self.embedder, self.index, fingerprint(self.chunks)]
        for name, array in sorted(self.searcher.state().items()):
            content = hash_bytes(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
            parts.append([name, array.dtype.str, list(array.shape), content])
        return hash_bytes(json.dumps(parts).encode())

    def to_bytes(self) -> bytes:
        """The whole index as one self-contained file; equal indexes give equal bytes."""
        from contextgrid.index.container import write_container

        settings = {"embedder": self.embedder, "index": self.index}
        return write_container(settings, self.chunks, self.searcher.state())

    @classmethod
    def from_bytes(cls, content: bytes) -> PassageIndex:
        """The index that :meth:`to_bytes` wrote.

        Raises:
            StageError: if the bytes are not a complete index.
        """
        from contextgrid.embed import EMBEDDERS
        from contextgrid.index.container import read_container

        settings, chunks, state = read_container(content)
        embedder, index = settings["embedder"], settings["index"]
        plugin = None if embedder is None else EMBEDDERS.build(embedder)
        return cls(chunks, embedder, index, INDEXES.build(index).restore(state, plugin))

    def save(self, target: str | Path | IO[bytes]) -> None:
        """Write the index to a path or an open binary file."""
        if isinstance(target, str | Path):
            Path(target).write_bytes(self.to_bytes())
        else:
            target.write(self.to_bytes())

    @classmethod
    def load(cls, source: str | Path | IO[bytes]) -> PassageIndex:
        """Read an index from a path or an open binary file. Raises as :meth:`from_bytes` does."""
        return cls.from_bytes(Path(source).read_bytes() if isinstance(source, str | Path) else source.read())


def build_index(chunks: pa.Table, embedder: str | None, index: str) -> PassageIndex:
    """Index passages.

    Args:
        chunks: a ``CHUNKS`` table.
        embedder: a spec such as ``tfidf``; ignored by an index that needs none.
        index: a spec such as ``dense`` or ``bm25:k1=1.2``.

    Raises:
        ConfigError: for a plugin that does not exist or cannot be built, or an index without the embedder it needs.
        CorpusError: if there is no passage, or none that holds words.
    """
    from contextgrid.embed import EMBEDDERS

    plugin = INDEXES.build(index)
    embedder = embedder if plugin.needs_embedder else None
    fitted = None if embedder is None else EMBEDDERS.build(embedder)
    if chunks.num_rows == 0:
        raise CorpusError("there are no passages to index; chunk some documents first")
    searcher = plugin.build(chunks["text"].to_pylist(), fitted)
    return PassageIndex(chunks, _canonical(embedder), str(Spec.parse(index)), searcher)


def _canonical(spec: str | None) -> str | None:
    return None if spec is None else str(Spec.parse(spec))
