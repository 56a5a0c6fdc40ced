"""``sentence:512``: whole sentences, as many as fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from contextgrid.chunk.base import CHUNKERS, check_window, tidy
from contextgrid.chunk.recursive import split_recursively
from contextgrid.core.documents import Document
from contextgrid.core.sentences import sentence_spans


@CHUNKERS.register("sentence")
@dataclass(frozen=True)
class Sentence:
    """Passages of consecutive whole sentences; only a sentence longer than ``size`` is cut.

    Args:
        size: most characters in a passage.
        overlap: most characters that a passage repeats of the one before, in whole sentences: none where the
            last sentence is longer than that. ``0 <= overlap < size``.
    """

    size: int = 512
    overlap: int = 0

    def __post_init__(self) -> None:
        check_window("sentence", self.size, self.overlap)

    def spans(self, document: Document) -> list[tuple[int, int]]:
        return tidy(document.text, self._pack(list(self._units(document.text))))

    def _units(self, text: str) -> Iterator[tuple[int, int]]:
        # Pieces of a long sentence are no longer than the overlap, so that they can be repeated as well; the lower
        # bound keeps a tiny overlap from cutting it into single characters.
        piece = max(self.overlap, self.size // 16) if self.overlap else self.size
        for start, end in sentence_spans(text):
            if end - start <= self.size:
                yield start, end
            else:
                yield from split_recursively(text, start, end, size=max(1, piece))

    def _pack(self, units: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        first = 0
        for last, (_, end) in enumerate(units):
            following = units[last + 1][1] if last + 1 < len(units) else None
            if following is not None and following - units[first][0] <= self.size:
                continue
            yield units[first][0], end
            first = last + 1
            while following is not None and first > 0:
                repeated = units[first - 1][0]
                if end - repeated > self.overlap or following - repeated > self.size:
                    break
                first -= 1
