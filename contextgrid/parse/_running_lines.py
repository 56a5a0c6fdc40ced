"""Page numbers and the headers and footers that pages repeat."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextgrid.parse._layout import Line

_PAGE_NUMBER = re.compile(
    r"(?:page|seite)?\s*[-–—\[(]*\s*(?:\d{1,5}|[ivxlcdm]{1,8})\s*[-–—\])]*(?:\s*(?:/|of|von)\s*\d{1,5})?$", re.I
)
_NUMBER = re.compile(r"\d+|\b[ivxlcdm]+\b", re.I)
_WORD = re.compile(r"[^\W\d_]{2,}")
_SAME_HEIGHT = 3.0  # points within which two lines stand at the same height of their pages
_WIDE_GAP = 1.5  # distance to the text over the usual distance of lines, at least
_ROUNDS = 2  # header or footer lines on each side of a page, at most


@dataclass(frozen=True)
class _Row:
    """The outermost lines on one side of a page, which share a baseline."""

    lines: tuple[Line, ...]
    text: str
    baseline: float
    gap: float  # to the next line of the page, over the usual distance


def without_running_lines(pages: Sequence[Sequence[Line]], largest: float, spacing: float) -> list[list[Line]]:
    """Pages without running headers, running footers and bare page numbers.

    Args:
        pages: the lines of each page.
        largest: font size above which a line is a heading and only dropped if others say exactly the same.
        spacing: the usual distance of baselines.
    """
    kept = [list(page) for page in pages]
    headings = {word for page in pages for line in page if line.size > largest for word in _words(line.text)}
    for outermost in (max, min) * _ROUNDS:
        rows = [_outer_row(page, outermost, spacing) for page in kept]
        running = [row is not None and _is_running(row, rows, largest, headings) for row in rows]
        for number, row in enumerate(rows):
            if row is not None and running[number]:
                kept[number] = [line for line in kept[number] if line not in row.lines]
    return kept


def _outer_row(page: Sequence[Line], outermost: Callable[..., float], spacing: float) -> _Row | None:
    if not page:
        return None
    baseline = outermost(line.baseline for line in page)
    row = tuple(line for line in page if abs(line.baseline - baseline) < 2)
    others = [abs(line.baseline - baseline) for line in page if abs(line.baseline - baseline) >= 2]
    gap = min(others) / spacing if others else float("inf")
    return _Row(row, " ".join(line.text for line in row), baseline, gap)


def _is_running(row: _Row, rows: Sequence[_Row | None], largest: float, headings: set[str]) -> bool:
    beside = [
        other
        for other in rows
        if other is not None and other is not row and abs(other.baseline - row.baseline) < _SAME_HEIGHT
    ]
    if _PAGE_NUMBER.match(row.text.strip()):
        return row.gap >= _WIDE_GAP or any(_PAGE_NUMBER.match(other.text.strip()) for other in beside)
    enough = 1 if len(rows) <= 5 else 2
    if sum(other.text == row.text for other in beside) >= enough:
        return True
    if max(line.size for line in row.lines) > largest or row.gap < _WIDE_GAP:
        return False
    pattern = _NUMBER.sub("#", row.text)
    if sum(_NUMBER.sub("#", other.text) == pattern for other in beside) >= enough:
        return True
    return _names_a_section(row, beside, len(rows), headings)


def _names_a_section(row: _Row, beside: Sequence[_Row], pages: int, headings: set[str]) -> bool:
    """Whether a line set apart from the text, at one height on many pages, is made of the words of headings."""
    apart = [other for other in beside if other.gap >= _WIDE_GAP]
    if len(apart) < max(2, 0.25 * pages) or len(apart) < 0.8 * len(beside):
        return False
    said = headings.union(*(_words(other.text) for other in apart))
    words = _words(row.text)
    return bool(words) and sum(word in said for word in words) >= 0.5 * len(words)


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]
