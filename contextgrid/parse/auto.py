"""The ``auto`` parser: each file by the parser made for its kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from contextgrid.core.documents import Document, MediaType, Source
from contextgrid.parse.base import NATIVE, PARSERS


@PARSERS.register("auto")
@dataclass(frozen=True)
class AutoParser:
    """Reads each source by the native parser of its media type."""

    accepts: ClassVar[frozenset[MediaType]] = frozenset(MediaType)

    def parse(self, source: Source) -> Document:
        """The document as the native parser reads it."""
        return PARSERS.build(NATIVE[source.media_type]).parse(source)
