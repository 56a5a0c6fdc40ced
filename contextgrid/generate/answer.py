"""What a generator returns."""

from __future__ import annotations

from dataclasses import dataclass

from contextgrid.generate.abstention import is_abstention


@dataclass(frozen=True)
class Answer:
    """A generated answer.

    Attributes:
        text: the answer.
        prompt_tokens: estimated tokens of the context it was generated from.
        completion_tokens: always 0 from the built-in generators.
        citations: numbers of the passages it cites; passage 1 is ``context.chunks[0]``.
    """

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    citations: tuple[int, ...] = ()

    @property
    def is_abstention(self) -> bool:
        """Whether the answer declines rather than guesses."""
        return is_abstention(self.text)
