"""``recursive:512``: the largest natural units that fit, from paragraphs down to characters."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from contextgrid.chunk.base import CHUNKERS, check_window, tidy
from contextgrid.core.documents import Document, Heading

_NOT_SPACE = re.compile(r"\S")
_WORD_START = re.compile(r"(?<!\S)\S")
_BREAKS = ("\n\n", "\n", ". ", "。", "! ", "? ", "！", "？")
_SHORTEST_STRETCH = 512


@CHUNKERS.register("recursive")
@dataclass(frozen=True)
class Recursive:
    """Passages filled with whole paragraphs, else lines, sentences, words or characters, whichever fit.

    The cuts are those of the library semantic-text-splitter, except that no passage ends with a heading: a heading
    moves on to the text it stands above.

    Args:
        size: most characters in a passage.
        overlap: most characters that a passage repeats from before its own beginning; the repeated text begins
            with a word where the script separates words. ``0 <= overlap < size``.
    """

    size: int = 512
    overlap: int = 0

    def __post_init__(self) -> None:
        check_window("recursive", self.size, self.overlap)

    def spans(self, document: Document) -> list[tuple[int, int]]:
        text, headings = document.text, document.headings
        return split_recursively(text, 0, len(text), size=self.size, overlap=self.overlap, headings=headings)


def split_recursively(
    text: str, start: int, end: int, *, size: int, overlap: int = 0, headings: Sequence[Heading] = ()
) -> list[tuple[int, int]]:
    """Ranges of at most ``size`` characters that cover ``text[start:end]``; see ``Recursive``."""
    # The splitter's own overlap consists of whole units and is empty wherever sentences are longer than it, so
    # that a configuration with overlap could not be told from one without.
    ordered = sorted(headings, key=lambda heading: heading.start)
    own = tidy(text, _split_at_headings(text, start, end, size - overlap, ordered))
    return tidy(text, ((_overlap_start(text, start, begin, overlap), stop) for begin, stop in own)) if overlap else own


def _split_at_headings(
    text: str, start: int, end: int, size: int, headings: Sequence[Heading]
) -> Iterator[tuple[int, int]]:
    """Pieces of which none ends with a heading, unless nothing follows it or it fills the piece."""
    starts = [heading.start for heading in headings]
    end = start + len(text[start:end].rstrip())
    restart: int | None = start
    while restart is not None:
        start, restart = restart, None
        for first, last in _split(text, start, end, size):
            tail = _trailing_headings(text, first, last, headings, starts) if last < end else last
            if tail > first:
                yield first, tail
                if tail < last:
                    restart = tail
                    break
                continue
            # Nothing but headings: they go with as much of the text below as fits beside them.
            body = _NOT_SPACE.search(text, last, end)
            room = size - (body.start() - first) if body else 0
            below = next(_split(text, last, min(end, last + 4 * size), room), None)
            restart = below[1] if below else last
            yield first, restart
            break


def _trailing_headings(text: str, first: int, last: int, headings: Sequence[Heading], starts: list[int]) -> int:
    """Where the headings at the end of ``text[first:last]`` begin; ``last`` if it ends with none."""
    tail = last
    for position in range(bisect_left(starts, last) - 1, -1, -1):
        heading = headings[position]
        if heading.start < first or text[heading.end : tail].strip():
            break
        tail = heading.start
    return tail


def _split(text: str, start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    """The library's pieces of ``text[start:end]``, trimmed; none if ``size`` leaves no room."""
    from semantic_text_splitter import TextSplitter

    if size < 1:
        return
    splitter = TextSplitter(size)
    for first, last in _stretches(text, start, end, size):
        for offset, piece in splitter.chunk_indices(text[first:last]):
            yield first + offset, first + offset + len(piece)


def _stretches(text: str, start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    """Cut long texts at their strongest breaks, because the splitter's time is quadratic in unbroken text."""
    longest = max(16 * size, _SHORTEST_STRETCH)
    unbroken = max(4 * size, _SHORTEST_STRETCH)
    while end - start > longest:
        cut = _last_break(text, start + longest // 2, start + longest, _BREAKS)
        if cut is None:
            cut = _last_break(text, start + unbroken // 2, start + unbroken, (" ",)) or start + unbroken
        yield start, cut
        start = cut
    yield start, end


def _last_break(text: str, low: int, high: int, separators: tuple[str, ...]) -> int | None:
    """The end of the last of the first separator that occurs at all between ``low`` and ``high``."""
    for separator in separators:
        found = text.rfind(separator, low, high)
        if found >= 0:
            return found + len(separator)
    return None


def _overlap_start(text: str, first: int, begin: int, overlap: int) -> int:
    """Where a passage that begins at ``begin`` starts once it repeats up to ``overlap`` characters."""
    earliest = max(first, begin - overlap)
    word = _WORD_START.search(text, earliest, begin)
    return word.start() if word else earliest
