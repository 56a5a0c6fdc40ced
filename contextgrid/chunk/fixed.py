"""``fixed:512``: windows of a fixed number of characters."""

from __future__ import annotations

from dataclasses import dataclass

from contextgrid.chunk.base import CHUNKERS, check_window, tidy
from contextgrid.core.documents import Document


@CHUNKERS.register("fixed")
@dataclass(frozen=True)
class Fixed:
    """Windows that start every ``size - overlap`` characters, wherever that falls; the baseline of chunking.

    Args:
        size: characters in a window; fewer once white space at its ends is trimmed.
        overlap: characters that neighbouring windows share. ``0 <= overlap < size``.
    """

    size: int = 512
    overlap: int = 0

    def __post_init__(self) -> None:
        check_window("fixed", self.size, self.overlap)

    def spans(self, document: Document) -> list[tuple[int, int]]:
        text = document.text
        # A window that starts within the last overlap would lie inside its predecessor.
        starts = range(0, max(1, len(text) - self.overlap), self.size - self.overlap)
        return tidy(text, ((start, min(start + self.size, len(text))) for start in starts))
