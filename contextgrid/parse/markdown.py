"""The ``markdown`` parser: the text as written, with its headings found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from contextgrid.core.documents import Document, Heading, MediaType, Source
from contextgrid.parse._decode import decode
from contextgrid.parse.base import PARSERS

_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]|$)")
_UNDERLINE = re.compile(r" {0,3}(={2,}|-{2,})[ \t]*$")  # a lone dash is an empty list item more often
# Lines that an underline of dashes does not turn into a heading: lists, quotes, tables, indented code, rules.
_NO_TITLE = re.compile(r"\s*$| {4}|\t| {0,3}(?:[-+*>|#]|\d{1,9}[.)](?:\s|$))|[ \t]*[=_*-]+[ \t]*$")


@PARSERS.register("markdown")
@dataclass(frozen=True)
class MarkdownParser:
    """The raw text, character for character, with ATX (``##``) and underlined headings.

    A heading's span covers its line with the marks, or both lines of an underlined one. Fenced code and YAML front
    matter hold no headings. Source of the definitions: CommonMark 0.31, sections 4.2, 4.3 and 4.5.
    """

    accepts: ClassVar[frozenset[MediaType]] = frozenset({MediaType.MARKDOWN, MediaType.TEXT})

    def parse(self, source: Source) -> Document:
        """The text and its headings."""
        text = decode(source)
        return Document(source.id, text, tuple(_headings(text)))


def _headings(text: str) -> Iterator[Heading]:
    fence = ""
    title = (0, "")
    offset = _after_front_matter(text)
    while offset < len(text):
        line_end = text.find("\n", offset)
        line_end = len(text) if line_end < 0 else line_end
        # A longer line can be no heading anyone wrote, and need not be copied for every pattern.
        line = text[offset : min(line_end, offset + 2000)]
        start, offset = offset, line_end + 1
        opened = _FENCE.match(line)
        if fence:
            closes = opened and opened[1].startswith(fence) and not line[opened.end() :].strip()
            fence = "" if closes else fence
            title = (0, "")
            continue
        atx = _ATX.match(line)
        underline = _UNDERLINE.match(line) if title[1] else None
        if opened:
            fence = opened[1]
        elif atx:
            yield Heading(len(atx[1]), start, line_end)
        elif underline:
            yield Heading(1 if underline[1][0] == "=" else 2, title[0], line_end)
        is_title = not (opened or atx or underline or _NO_TITLE.match(line))
        title = (start, line) if is_title else (0, "")


def _after_front_matter(text: str) -> int:
    if not re.match(r"---\n[\w-]+[ \t]*:", text):
        return 0
    close = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.M).search(text, 4)
    return close.end() + 1 if close else 0
