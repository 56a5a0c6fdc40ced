"""``structural:512``: one passage for each section, as the headings divide the document."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from contextgrid.chunk.base import CHUNKERS, check_window, tidy
from contextgrid.chunk.recursive import split_recursively
from contextgrid.core.documents import Document


@CHUNKERS.register("structural")
@dataclass(frozen=True)
class Structural:
    """Passages that follow the outline: no passage runs from one section into a section that is not below it.

    A heading with everything below it is one passage if that fits ``size``, and so is a whole document. Otherwise
    the heading with its own text is one passage and each of its subsections is treated in turn; neighbouring
    subsections are not joined. A heading without text of its own goes with its first subsection. A passage longer
    than ``size`` is cut as ``recursive`` cuts, its heading staying with the first piece. A document without
    headings is one section.

    Args:
        size: most characters in a passage.
        overlap: most characters repeated between the pieces of a section that is cut. ``0 <= overlap < size``.
    """

    size: int = 512
    overlap: int = 0

    def __post_init__(self) -> None:
        check_window("structural", self.size, self.overlap)

    def spans(self, document: Document) -> list[tuple[int, int]]:
        text = document.text
        headings = sorted(document.headings, key=lambda heading: heading.start)
        starts = [heading.start for heading in headings]
        found: list[tuple[int, int]] = []
        for start, end in self._blocks(document):
            if self._fits(text, start, end):
                found.append((start, end))
            else:
                inside = headings[bisect_left(starts, start) : bisect_left(starts, end)]
                found += split_recursively(text, start, end, size=self.size, overlap=self.overlap, headings=inside)
        return tidy(text, found)

    def _fits(self, text: str, start: int, end: int) -> bool:
        return len(text[start:end].strip()) <= self.size

    def _blocks(self, document: Document) -> Iterator[tuple[int, int]]:
        """Passages before long ones are cut."""
        text = document.text
        sections = _sections(document)
        if self._fits(text, 0, len(text)):
            yield 0, len(text)
            return
        start = position = 0
        while position < len(sections):
            section = sections[position]
            if self._fits(text, start, section.below):
                end = section.below
            elif text[section.body : section.end].strip() or section.below == section.end:
                end = section.end
            else:
                position += 1  # a bare heading waits for its first subsection
                continue
            yield start, end
            start = end
            while position < len(sections) and sections[position].end <= start:
                position += 1


@dataclass(frozen=True)
class _Section:
    body: int  # where the text after the heading begins
    end: int  # where the next section begins
    below: int  # where the next section that is not below this one begins


def _sections(document: Document) -> list[_Section]:
    """Sections in order; text before the first heading is a section of its own, with nothing below it."""
    size = len(document.text)
    headings = sorted((h for h in document.headings if h.start < size), key=lambda heading: heading.start)
    starts = [heading.start for heading in headings] + [size]
    below = [size] * len(headings)
    open_: list[int] = []
    for position, heading in enumerate(headings):
        while open_ and headings[open_[-1]].level >= heading.level:
            below[open_.pop()] = heading.start
        open_.append(position)
    preamble = [_Section(0, starts[0], starts[0])] if starts[0] > 0 else []
    return preamble + [
        _Section(min(heading.end, starts[i + 1]), starts[i + 1], below[i]) for i, heading in enumerate(headings)
    ]
