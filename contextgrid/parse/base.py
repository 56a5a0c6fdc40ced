"""What a parser is, and how a corpus goes through one."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from contextgrid.core.documents import Document, MediaType, Source
from contextgrid.core.errors import CorpusError
from contextgrid.core.registry import Registry

if TYPE_CHECKING:
    import pyarrow as pa


class Parser(Protocol):
    """Reads a source into plain text with headings."""

    accepts: ClassVar[frozenset[MediaType]]

    def parse(self, source: Source) -> Document:
        """The document that a source holds.

        Raises:
            CorpusError: saying why the source cannot be read.
        """
        ...


PARSERS: Registry[Parser] = Registry("parser", "contextgrid.parse")

NATIVE = {MediaType.TEXT: "text", MediaType.MARKDOWN: "markdown", MediaType.HTML: "html", MediaType.PDF: "pdf"}
"""The parser made for each media type; it steps in where the chosen one does not accept a source."""


def parse_corpus(corpus: pa.Table, parser: str) -> pa.Table:
    """All documents of a corpus, parsed.

    A source that the parser does not accept is read by the native parser of its media type, so that any parser
    works on a mixed corpus.

    Args:
        corpus: table of ``tables.CORPUS``.
        parser: spec of a parser, for example ``markdown``.

    Returns:
        Table of ``tables.DOCUMENTS``, one row per source in the corpus's order. A source that cannot be read has a
        null text and says why in ``error``.

    Raises:
        ConfigError: for an unknown parser or a bad parameter.
        CorpusError: if no source can be read, or all documents are blank.
    """
    import pyarrow as pa

    from contextgrid.core.tables import DOCUMENTS

    chosen = PARSERS.build(parser)
    names, kinds = corpus["source_id"].to_pylist(), corpus["media_type"].to_pylist()
    # Contents are turned into bytes one by one: a corpus may be much larger than any of its files.
    contents = (scalar.as_py() for scalar in corpus["content"])
    sources = (
        Source(name, MediaType(kind), content) for name, kind, content in zip(names, kinds, contents, strict=True)
    )
    rows = [_row(source, chosen) for source in sources]
    _check_any_text(rows)
    return pa.Table.from_pylist(rows, schema=DOCUMENTS)


def parser_for(media_type: MediaType, chosen: Parser) -> Parser:
    """The chosen parser if it accepts the media type, else the native one."""
    return chosen if media_type in chosen.accepts else PARSERS.build(NATIVE[media_type])


def _row(source: Source, chosen: Parser) -> dict[str, object]:
    try:
        document = parser_for(source.media_type, chosen).parse(source)
    except Exception as error:  # noqa: BLE001 one bad file must not stop the others, whatever its parser raises
        reason = str(error) if isinstance(error, CorpusError) else f"{type(error).__name__}: {error}"
        return {"source_id": source.id, "text": None, "headings": [], "error": reason}
    headings = [{"level": h.level, "start": h.start, "end": h.end} for h in document.headings]
    return {"source_id": source.id, "text": document.text, "headings": headings, "error": None}


def _check_any_text(rows: list[dict[str, object]]) -> None:
    failed = [row for row in rows if row["text"] is None]
    if rows and len(failed) == len(rows):
        first = f"{failed[0]['source_id']!r}: {failed[0]['error']}"
        raise CorpusError(f"none of the {len(rows)} documents can be read; the first is {first}")
    if not any(str(row["text"]).strip() for row in rows if row["text"] is not None):
        unreadable = f" ({len(failed)} more cannot be read)" if failed else ""
        raise CorpusError(f"all {len(rows) - len(failed)} documents are blank{unreadable}; add documents with text")
