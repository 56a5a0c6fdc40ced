"""The ``html`` parser: what a reader sees of a web page, without its navigation."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar

from contextgrid.core.documents import Document, Heading, MediaType, Source
from contextgrid.parse._decode import decode_web_page
from contextgrid.parse.base import PARSERS

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_INVISIBLE = frozenset(
    "head script style template noscript nav svg iframe object canvas audio video select datalist textarea".split()
)
_PARAGRAPHS = frozenset(
    "address article aside blockquote body details dialog div dl fieldset figcaption figure footer form h1 h2 h3 h4 h5 "
    "h6 header hr main menu ol p pre section summary table ul".split()
)
_LINES = frozenset("br caption dd dt legend li option tr".split())
_CELLS = frozenset({"td", "th"})
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
# Class names that page makers give to blocks of links: navbar, site-nav, navheader, breadcrumbs, pager...
_NAVIGATION = re.compile(
    r"(?:(?:site|page|main|top|bottom|side|global|primary|secondary)[-_]?)?"
    r"(?:nav(?:igation)?(?:[-_]?(?:bar|header|footer|menu|links?|list|top|bottom))?|breadcrumbs?|pagination|pager)$",
    re.I,
)
_NAVIGATION_ROLES = frozenset({"navigation", "menu", "menubar", "search"})
_HIDING_STYLE = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.I)
_WHITESPACE = re.compile(r"[ \t\n\r\f\xa0]+")
_ZERO_WIDTH = str.maketrans(dict.fromkeys("\u00ad\u200b\u2060\ufeff"))


@PARSERS.register("html")
@dataclass(frozen=True)
class HtmlParser:
    """The visible text: one blank line between paragraphs, one line per list item and table row, cells by tabs.

    Left out are scripts, styles, hidden elements, form choices and blocks marked as navigation (``nav``, its roles and
    customary class names) that hold no prose. Preformatted text stays verbatim.
    """

    accepts: ClassVar[frozenset[MediaType]] = frozenset({MediaType.HTML})

    def parse(self, source: Source) -> Document:
        """The visible text, and ``h1`` to ``h6`` as headings."""
        from selectolax.lexbor import LexborHTMLParser

        root = LexborHTMLParser(decode_web_page(source)).root
        writer = _Writer()
        if root is not None:
            _walk(root, writer)
        return writer.document(source.id)


def _walk(root: LexborNode, writer: _Writer) -> None:
    # Depth first without recursion: real pages nest deeper than Python's stack.
    node: LexborNode | None = root
    while node is not None:
        following: LexborNode | None = None
        if node.is_text_node:
            writer.text(node.text_content or "")
        elif node.is_element_node and not _is_left_out(node):
            writer.open(node)
            following = node.child
            if following is None:
                writer.close(node)
        while following is None and node is not None and node.mem_id != root.mem_id:
            following = node.next
            if following is None:
                node = node.parent
                if node is not None:
                    writer.close(node)
        node = following


def _is_left_out(node: LexborNode) -> bool:
    if node.tag in _INVISIBLE:
        return True
    attributes = node.attributes
    if not attributes:
        return False
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return True
    if _HIDING_STYLE.search(attributes.get("style") or ""):
        return True
    names = (attributes.get("class") or "").split()
    marked = attributes.get("role") in _NAVIGATION_ROLES or any(_NAVIGATION.match(name) for name in names)
    return marked and node.css_first("p, h1, main, article") is None


class _Break(IntEnum):
    """What separates the next text from the last; the strongest one asked for wins."""

    NONE = 0
    SPACE = 1
    LINE = 2
    PARAGRAPH = 3


_SEPARATORS = {_Break.NONE: "", _Break.SPACE: " ", _Break.LINE: "\n", _Break.PARAGRAPH: "\n\n"}


@dataclass
class _Writer:
    parts: list[str] = field(default_factory=list)
    length: int = 0
    pending: _Break = _Break.NONE
    marker: str = ""  # of a list item whose text has not begun
    next_cell: bool = False  # a cell began in a row that already has text
    row_start: int = -1
    preformatted: int = 0
    held: str = ""  # line ends of preformatted text, written once more of it follows
    lists: list[int | None] = field(default_factory=list)  # next number of each open list; None for bullets
    heading: tuple[int, int | None] | None = None  # level, and start once its text has begun
    headings: list[Heading] = field(default_factory=list)

    def open(self, node: LexborNode) -> None:
        tag = node.tag or ""
        self._break(tag)
        if tag == "pre":
            self.preformatted, self.held = self.preformatted + 1, ""
        elif tag in ("ul", "menu", "ol"):
            self.lists.append(_first_number(node) if tag == "ol" else None)
        elif tag == "li":
            self.marker = self._marker()
        elif tag == "tr":
            self.row_start = self.length
        elif tag in _CELLS:
            self.next_cell = self.length > self.row_start >= 0
            self.pending = _Break.NONE if self.next_cell else self.pending
        elif tag in _HEADINGS and self.heading is None:
            self.heading = (_HEADINGS[tag], None)

    def close(self, node: LexborNode) -> None:
        tag = node.tag or ""
        if tag == "pre":
            self.preformatted = max(0, self.preformatted - 1)
        elif tag in ("ul", "menu", "ol") and self.lists:
            self.lists.pop()
        elif tag == "li":
            self.marker = ""
        elif tag == "tr":
            self.row_start, self.next_cell, self.pending = -1, False, _Break.LINE
        elif tag in _HEADINGS and self.heading is not None and self.heading[0] == _HEADINGS[tag]:
            if self.heading[1] is not None:
                self.headings.append(Heading(self.heading[0], self.heading[1], self.length))
            self.heading = None
        if tag != "br":
            self._break(tag)

    def text(self, raw: str) -> None:
        if self.preformatted:
            raw = self.held + raw
            verbatim = raw.rstrip("\n")
            self.held = raw[len(verbatim) :]
            if verbatim:
                self._write(verbatim.lstrip("\n") if self.pending is _Break.PARAGRAPH else verbatim)
            return
        text = _WHITESPACE.sub(" ", raw).translate(_ZERO_WIDTH)
        if text.startswith(" "):
            self.pending = max(self.pending, _Break.SPACE)
        if inner := text.strip(" "):
            self._write(inner)
            if text.endswith(" "):
                self.pending = _Break.SPACE

    def document(self, source_id: str) -> Document:
        return Document(source_id, "".join(self.parts), tuple(self.headings))

    def _break(self, tag: str) -> None:
        if tag == "br" and self.preformatted:
            self.held += "\n"
        elif tag == "br" and self.pending is _Break.LINE:
            self.pending = _Break.PARAGRAPH  # an empty line
        elif tag in _LINES or (tag in _PARAGRAPHS and self.length == self.row_start):
            self.pending = max(self.pending, _Break.LINE)  # a block that opens a table row does not part the rows
        elif tag in _PARAGRAPHS:
            self.pending = _Break.PARAGRAPH

    def _marker(self) -> str:
        number = self.lists[-1] if self.lists else None
        if number is None:
            return "- "
        self.lists[-1] = number + 1
        return f"{number}. "

    def _write(self, text: str) -> None:
        separator = "\t" if self.next_cell else _SEPARATORS[self.pending]
        if not self.length:
            separator = ""
        start = self.length + len(separator)
        if self.heading is not None and self.heading[1] is None:
            self.heading = (self.heading[0], start)
        self.parts += [separator, self.marker, text]
        self.length = start + len(self.marker) + len(text)
        self.pending, self.marker, self.next_cell = _Break.NONE, "", False


def _first_number(node: LexborNode) -> int:
    attributes: dict[str, Any] = dict(node.attributes)
    try:
        return int(attributes.get("start") or 1)
    except ValueError:
        return 1
