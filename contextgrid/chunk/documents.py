"""The stage function of this axis: a table of documents in, a table of passages out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contextgrid.chunk.base import CHUNKERS
from contextgrid.core.documents import Document, Heading
from contextgrid.core.errors import CorpusError

if TYPE_CHECKING:
    import pyarrow as pa


def chunk_documents(documents: pa.Table, chunker: str) -> pa.Table:
    """Cut every readable document into passages.

    Args:
        documents: a ``DOCUMENTS`` table. Rows without text (unreadable sources) are skipped.
        chunker: a spec such as ``recursive:512,overlap=64``.

    Returns:
        A ``CHUNKS`` table in document and reading order. ``chunk_id`` is ``source_id:start-end``.

    Raises:
        ConfigError: for a chunker that does not exist or cannot be built.
        CorpusError: if no document has any text to cut.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from contextgrid.core.tables import CHUNKS

    plugin = CHUNKERS.build(chunker)
    readable = documents.filter(pc.is_valid(documents["text"]))
    ranges: list[tuple[int, int]] = []
    texts: list[str] = []
    counts: list[int] = []
    for source_id, text, headings in zip(
        readable["source_id"].to_pylist(), readable["text"].to_pylist(), readable["headings"].to_pylist(), strict=True
    ):
        found = plugin.spans(Document(source_id, text, tuple(Heading(**heading) for heading in headings or ())))
        ranges += found
        texts += [text[start:end] for start, end in found]
        counts.append(len(found))
    if not texts:
        raise CorpusError("the documents hold no text to cut into passages; check the corpus folder and the parser")
    offsets = np.array(ranges, dtype=np.int64)
    sources = readable["source_id"].combine_chunks().take(np.repeat(np.arange(len(counts)), counts))
    start, end = pa.array(offsets[:, 0]), pa.array(offsets[:, 1])
    position = pc.binary_join_element_wise(start.cast(pa.string()), end.cast(pa.string()), "-")
    ids = pc.binary_join_element_wise(sources, position, ":")
    return pa.table([ids, sources, start, end, pa.array(texts, pa.string())], schema=CHUNKS)
