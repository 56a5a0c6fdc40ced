"""Sources as they lie on disk, documents as parsers read them, chunks as chunkers cut them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from contextgrid.core.span import Span


class MediaType(StrEnum):
    """What kind of file a source is; decides which parser reads it."""

    TEXT = "text/plain"
    MARKDOWN = "text/markdown"
    HTML = "text/html"
    PDF = "application/pdf"


@dataclass(frozen=True)
class Source:
    """One file of a corpus before parsing.

    ``id`` is its path below the corpus root with forward slashes, ``content`` its raw bytes.
    """

    id: str
    media_type: MediaType
    content: bytes = field(repr=False)


@dataclass(frozen=True)
class Heading:
    """A heading of a document: its nesting ``level`` (1 is outermost) and the characters it occupies."""

    level: int
    start: int
    end: int


@dataclass(frozen=True)
class Document:
    """A parsed source: plain text whose every character has an offset, and the headings found in it."""

    source_id: str
    text: str
    headings: tuple[Heading, ...] = ()


@dataclass(frozen=True)
class Chunk:
    """A passage: a literal slice of a document, with the span it was cut from."""

    id: str
    span: Span
    text: str
