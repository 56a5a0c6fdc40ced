"""The generator that asks a model."""

from __future__ import annotations

from dataclasses import dataclass

from contextgrid.assemble.context import AssembledContext
from contextgrid.core.errors import ConfigError
from contextgrid.generate.answer import Answer
from contextgrid.generate.citations import find_citations
from contextgrid.generate.prompts import DEFAULT_PROMPT, check_prompt, fill_prompt
from contextgrid.models import LLM, LLMError

# Stands where the passages would, so that a blank in the prompt does not read as a mistake.
NO_PASSAGES = "(no passages were found)"


@dataclass(frozen=True)
class LLMGenerator:
    """Fills a prompt with passages and question, and reads the citations out of the model's reply.

    The model is called even when no passage was retrieved: whether it then declines or answers from memory is
    one of the things worth measuring, and declining on its behalf would score a behaviour it never showed.

    Args:
        llm: the model.
        prompt: a template with ``{context}`` and ``{question}``.
        max_tokens: cap on the answer's length.

    Raises:
        ConfigError: for a template without its placeholders or a cap below 1.
    """

    llm: LLM
    prompt: str = DEFAULT_PROMPT
    max_tokens: int = 400

    def __post_init__(self) -> None:
        check_prompt(self.prompt, "llm generator")
        if self.max_tokens < 1:
            raise ConfigError(f"llm generator: max_tokens must be at least 1, got {self.max_tokens}")

    def answer(self, question: str, context: AssembledContext) -> Answer:
        """The model's answer.

        Raises:
            LLMError: if the model gives no text.
        """
        reply = self.llm.complete(self.prompt_for(question, context), max_tokens=self.max_tokens)
        if not isinstance(reply, str):
            raise LLMError(f"model {self.llm.name!r} returned {type(reply).__name__} instead of text")
        text = reply.strip()
        return Answer(text, prompt_tokens=context.tokens, citations=find_citations(text))

    def prompt_for(self, question: str, context: AssembledContext) -> str:
        """What the model is sent."""
        return fill_prompt(self.prompt, context.text or NO_PASSAGES, question)
