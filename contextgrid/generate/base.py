"""The generation axis: what a generator is, and how one is built from its spec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from contextgrid.core.errors import ConfigError
from contextgrid.core.registry import Registry, Spec, nearest
from contextgrid.models import LLM, LLMError

if TYPE_CHECKING:
    from contextgrid.assemble.context import AssembledContext
    from contextgrid.generate.answer import Answer
    from contextgrid.generate.llm import LLMGenerator


class Generator(Protocol):
    """Answers a question from assembled passages."""

    def answer(self, question: str, context: AssembledContext) -> Answer:
        """The answer; may raise where there is none."""
        ...


GENERATORS: Registry[Generator] = Registry("generator", "contextgrid.generate")

# Generators that need a model and so cannot be built from a spec alone.
MODEL_BACKED = ("llm",)


def available_generators() -> tuple[str, ...]:
    """Names of all generators, sorted, with and without a model."""
    return tuple(sorted({*GENERATORS.names(), *MODEL_BACKED}))


def get_generator(
    spec: str | None, llm: LLM | None = None, *, prompt: str | None = None, max_tokens: int | None = None
) -> Generator | None:
    """The generator a spec describes; ``None`` for ``None``, because there is no identity to generation.

    Args:
        spec: ``extractive``, ``extractive:3``, ``llm`` or ``llm:max_tokens=200``.
        llm: the model of a model-backed generator; others ignore it.
        prompt: its template, by default the built-in one.
        max_tokens: cap on its answers where the spec does not set one.

    Raises:
        ConfigError: for an unknown generator, option or value, naming the nearest valid one.
        LLMError: if a model-backed generator has no model.
    """
    if spec is None:
        return None
    check_generator(spec)
    parsed = Spec.parse(spec)
    if parsed.name not in MODEL_BACKED:
        return GENERATORS.build(spec)
    if llm is None:
        raise LLMError(
            f"the {parsed.name!r} generator needs a model. Set `run.model` in your config, or use one of the"
            f" model-free generators: {', '.join(GENERATORS.names())}"
        )
    return _llm_generator(parsed, llm, prompt, max_tokens)


def check_generator(spec: str) -> None:
    """Make sure that a generator's spec is usable; needs no model.

    Raises:
        ConfigError: as ``get_generator`` does.
    """
    parsed = Spec.parse(spec)
    if parsed.name not in available_generators():
        raise ConfigError(f"unknown generator {parsed.name!r}{nearest(parsed.name, available_generators())}")
    if parsed.name in MODEL_BACKED:
        _llm_generator(parsed, _NoModel(), None, None)
    else:
        GENERATORS.build(spec)


def _llm_generator(spec: Spec, llm: LLM, prompt: str | None, max_tokens: int | None) -> LLMGenerator:
    from contextgrid.generate.llm import LLMGenerator
    from contextgrid.generate.prompts import DEFAULT_PROMPT

    if spec.argument is not None:
        raise ConfigError(f"generator {str(spec)!r}: the model is set by `run.model` or `grid.model`, not here")
    options = dict(spec.options)
    written = options.pop("max_tokens", None)
    if options:
        unknown = next(iter(options))
        raise ConfigError(f"generator {str(spec)!r} has no option {unknown!r}{nearest(unknown, ['max_tokens'])}")
    if written is not None:
        if not written.isdecimal():
            raise ConfigError(f"generator {str(spec)!r}: max_tokens must be a whole number, got {written!r}")
        max_tokens = int(written)
    return LLMGenerator(llm, DEFAULT_PROMPT if prompt is None else prompt, 400 if max_tokens is None else max_tokens)


class _NoModel:
    """Stands in while a spec is only being checked."""

    name = "none"

    def complete(self, prompt: str, *, max_tokens: int = 512) -> str:
        raise LLMError("no model was given")
