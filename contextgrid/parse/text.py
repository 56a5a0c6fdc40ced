"""The ``text`` parser: every character as it lies in the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from contextgrid.core.documents import Document, MediaType, Source
from contextgrid.parse._decode import decode
from contextgrid.parse.base import PARSERS


@PARSERS.register("text")
@dataclass(frozen=True)
class TextParser:
    """The raw text of any textual source, markup included; knows no headings."""

    accepts: ClassVar[frozenset[MediaType]] = frozenset({MediaType.TEXT, MediaType.MARKDOWN, MediaType.HTML})

    def parse(self, source: Source) -> Document:
        """The source's characters, decoded as UTF-8 with LF line ends."""
        return Document(source.id, decode(source))
