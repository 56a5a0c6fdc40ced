"""From ranked passages to the text a generator reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

from contextgrid.core.documents import Chunk
from contextgrid.core.errors import ConfigError
from contextgrid.core.numbered import escape, header
from contextgrid.core.registry import nearest
from contextgrid.core.words import count_tokens

Ordering = Literal["relevance", "ends", "document", "reversed"]


@dataclass(frozen=True)
class AssembledContext:
    """What a generator sees.

    Attributes:
        text: the passages as one text.
        chunks: the passages in the order shown; passage ``[1]`` is ``chunks[0]``.
        tokens: estimated model tokens of ``text``.
        best: position in ``chunks`` of the best-ranked passage.
    """

    text: str
    chunks: tuple[Chunk, ...] = ()
    tokens: int = 0
    best: int = 0


@dataclass(frozen=True)
class ContextAssembler:
    """Turns passages, best first, into one numbered text.

    Args:
        ordering: ``relevance`` shows the best passage first, ``reversed`` last; ``ends`` puts the best at both
            ends and the worst in the middle, where models read least (Liu et al. 2024, "Lost in the Middle");
            ``document`` shows passages in reading order, documents by their best passage.
        max_tokens: budget of the text in estimated tokens; whole passages are dropped from the worst rank on
            until it fits, even the best one. ``None`` keeps all.
        drop_contained: leave out a passage whose span lies inside that of a better one.
        headers: number the passages and name their sources.
        separator: text between two passages.

    Raises:
        ConfigError: for an unknown ordering, a budget below 1, or a separator after which a header would not
            start a line.
    """

    ordering: Ordering = "relevance"
    max_tokens: int | None = None
    drop_contained: bool = True
    headers: bool = True
    separator: str = "\n\n---\n\n"

    def __post_init__(self) -> None:
        if self.ordering not in get_args(Ordering):
            raise ConfigError(f"unknown ordering {self.ordering!r}{nearest(self.ordering, get_args(Ordering))}")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ConfigError(f"context: max_tokens must be at least 1, got {self.max_tokens}")
        if self.headers and not self.separator.endswith("\n"):
            raise ConfigError(f"context: separator must end with a line break, got {self.separator!r}")

    def assemble(self, chunks: Sequence[Chunk]) -> AssembledContext:
        """The text of ``chunks`` (best first). Blank passages are left out; no passage gives an empty context."""
        ranked = [chunk for chunk in chunks if chunk.text.strip()]
        if self.drop_contained:
            ranked = _without_contained(ranked)
        if self.max_tokens is not None:
            ranked = self._within_budget(ranked, self.max_tokens)
        if not ranked:
            return AssembledContext("")
        order = _order(ranked, self.ordering)
        shown = tuple(ranked[rank] for rank in order)
        text = self.separator.join(self._render(number, chunk) for number, chunk in enumerate(shown, start=1))
        return AssembledContext(text, shown, self._tokens(text, shown), order.index(0))

    def _render(self, number: int, chunk: Chunk) -> str:
        body, _ = _body(chunk.text)
        return f"{header(number, chunk.span.source_id)}\n{body}" if self.headers else body

    def _cost(self, chunk: Chunk) -> int:
        """Tokens of a passage as shown; its number does not matter, as any number is one token."""
        _, tokens = _body(chunk.text)
        return tokens + count_tokens(header(1, chunk.span.source_id)) if self.headers else tokens

    def _tokens(self, text: str, shown: Sequence[Chunk]) -> int:
        # No token reaches across white space, so the parts add up, and their counts are cached across questions.
        if self.separator[:1].isspace() and self.separator[-1:].isspace():
            return sum(map(self._cost, shown)) + (len(shown) - 1) * count_tokens(self.separator)
        return count_tokens(text)

    def _within_budget(self, ranked: Sequence[Chunk], budget: int) -> list[Chunk]:
        between = count_tokens(self.separator)
        used = -between
        for rank, chunk in enumerate(ranked):
            used += between + self._cost(chunk)
            if used > budget:
                return list(ranked[:rank])
        return list(ranked)


def _without_contained(ranked: Sequence[Chunk]) -> list[Chunk]:
    kept: list[Chunk] = []
    for chunk in ranked:
        if not any(better.span.contains(chunk.span) for better in kept):
            kept.append(chunk)
    return kept


def _order(ranked: Sequence[Chunk], ordering: Ordering) -> list[int]:
    """Ranks (from 0) in the order in which the passages are shown."""
    ranks = list(range(len(ranked)))
    if ordering == "reversed":
        return ranks[::-1]
    if ordering == "ends":
        return ranks[::2] + ranks[1::2][::-1]
    if ordering == "document":
        documents: dict[str, int] = {}
        for chunk in ranked:
            documents.setdefault(chunk.span.source_id, len(documents))
        return sorted(ranks, key=lambda rank: (documents[ranked[rank].span.source_id], ranked[rank].span.start))
    return ranks


@lru_cache(maxsize=16384)
def _body(text: str) -> tuple[str, int]:
    """A passage's text as shown, and its tokens."""
    shown = escape(text)
    return shown, count_tokens(shown)
