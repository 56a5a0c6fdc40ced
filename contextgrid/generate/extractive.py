"""The generator without a model: the best passage speaks for itself."""

from __future__ import annotations

from dataclasses import dataclass

from contextgrid.assemble.context import AssembledContext
from contextgrid.core.errors import ConfigError
from contextgrid.generate.answer import Answer
from contextgrid.generate.base import GENERATORS


@GENERATORS.register("extractive")
@dataclass(frozen=True)
class ExtractiveGenerator:
    """The first ``sentences`` sentences of the best-ranked passage, verbatim and cited.

    The ceiling that retrieval alone can reach: what a model adds shows against it. An empty context gives an
    empty answer, which is an abstention.
    """

    sentences: int = 2

    def __post_init__(self) -> None:
        if self.sentences < 1:
            raise ConfigError(f"extractive: sentences must be at least 1, got {self.sentences}")

    def answer(self, question: str, context: AssembledContext) -> Answer:
        """The opening of the best passage; the question is not looked at."""
        from contextgrid.core.sentences import sentence_spans

        if not context.chunks:
            return Answer("", prompt_tokens=context.tokens)
        passage = context.chunks[context.best].text
        spans = sentence_spans(passage)[: self.sentences]
        text = passage[spans[0][0] : spans[-1][1]] if spans else passage.strip()
        return Answer(text, prompt_tokens=context.tokens, citations=(context.best + 1,))
