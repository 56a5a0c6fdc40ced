"""The protocol every model satisfies, models by spec string, and a model with scripted replies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from contextgrid.models import LLM, LLMError, ModelSpecError, build_model

__all__ = ["LLM", "LLMError", "ModelSpecError", "RecordingLLM", "get_llm"]


def get_llm(spec: str) -> LLM:
    """The model a spec string describes, such as ``openai:gpt-4o-mini`` or ``offline:reader``.

    Options follow the model: ``openai:my-model,api_base=http://localhost:8000/v1,temperature=0.2``. Nothing is
    called, and no key is needed, before the model's first completion.

    Raises:
        ModelSpecError: (an ``LLMError`` and a ``ConfigError``) for a spec that cannot be used as written.
    """
    return build_model(spec)


@dataclass(repr=False)
class RecordingLLM:
    """A model with scripted replies that keeps every prompt it was given; no network.

    Args:
        replies: given in this order, one per call.
        default: given once ``replies`` are used up.
        name: what reports call it.

    Attributes:
        prompts: every prompt so far, in order.
    """

    replies: Sequence[str] = ()
    default: str | None = None
    name: str = "recording"
    prompts: list[str] = field(default_factory=list, init=False)

    # Replies belong to calls by position, so callers must not run calls side by side.
    in_order: ClassVar[bool] = True

    def complete(self, prompt: str, *, max_tokens: int = 512) -> str:
        """The next scripted reply, whole: ``max_tokens`` is not applied to a script.

        Raises:
            LLMError: if the replies are used up and there is no default.
        """
        self.prompts.append(prompt)
        call = len(self.prompts)
        if call <= len(self.replies):
            return self.replies[call - 1]
        if self.default is None:
            raise LLMError(
                f"model {self.name!r} has no reply for call {call}: {len(self.replies)} were scripted;"
                " script more or set a default"
            )
        return self.default

    def __repr__(self) -> str:
        return f"RecordingLLM(name={self.name!r}, replies={len(self.replies)}, calls={len(self.prompts)})"
