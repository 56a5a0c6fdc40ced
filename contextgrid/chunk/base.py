"""What a chunker is, and the rules that every chunker keeps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from contextgrid.core.documents import Document
from contextgrid.core.errors import ConfigError
from contextgrid.core.registry import Registry


class Chunker(Protocol):
    """Cuts a document into passages."""

    def spans(self, document: Document) -> list[tuple[int, int]]:
        """Half-open code-point ranges of the passages, in reading order.

        Both starts and ends strictly increase. No range is blank or begins or ends with white space, and together
        they cover all text but white space. A blank document has none.
        """
        ...


CHUNKERS: Registry[Chunker] = Registry("chunker", "contextgrid.chunk")


# Characters. A passage longer than this is a mistake: it holds more than any model reads.
MAX_SIZE = 10_000_000


def check_window(name: str, size: int, overlap: int) -> None:
    """Refuse a size and overlap that cannot advance through a text.

    Raises:
        ConfigError: unless ``1 <= size <= MAX_SIZE`` and ``0 <= overlap < size``.
    """
    if size < 1:
        raise ConfigError(f"{name}: size must be at least 1, got {size}")
    if size > MAX_SIZE:
        raise ConfigError(f"{name}: size must be at most {MAX_SIZE} characters, got {size}")
    if not 0 <= overlap < size:
        raise ConfigError(f"{name}: overlap must be from 0 to {size - 1} (below size={size}), got {overlap}")


def tidy(text: str, ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges in order of start, without outer white space, blanks, and ranges that lie within a neighbour."""
    kept: list[tuple[int, int]] = []
    for start, end in ranges:
        body = text[start:end].strip()
        if not body:
            continue
        start += text[start:end].index(body[0])
        end = start + len(body)
        if kept and end <= kept[-1][1]:
            continue
        if kept and start <= kept[-1][0]:
            kept.pop()
        kept.append((start, end))
    return kept
