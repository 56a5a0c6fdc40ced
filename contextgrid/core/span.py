"""Half-open character ranges in a parsed document."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Span:
    """Characters ``start`` (included) to ``end`` (excluded) of the parsed text of ``source_id``.

    Offsets count Unicode code points, as Python strings do.

    Raises:
        ValueError: if ``start`` is negative or ``end`` lies before ``start``.
    """

    source_id: str
    start: int
    end: int

    def __post_init__(self) -> None:
        if self.start < 0 or self.end < self.start:
            raise ValueError(f"not a span: {self.start}-{self.end} in {self.source_id!r}")

    def __len__(self) -> int:
        return self.end - self.start

    def overlap(self, other: Span) -> int:
        """Number of characters that both spans cover; 0 across different documents."""
        if self.source_id != other.source_id:
            return 0
        return max(0, min(self.end, other.end) - max(self.start, other.start))

    def contains(self, other: Span) -> bool:
        """Whether every character of ``other`` lies inside this span."""
        return self.source_id == other.source_id and self.start <= other.start and other.end <= self.end

    def slice(self, text: str) -> str:
        """The characters of ``text`` that this span covers."""
        return text[self.start : self.end]
