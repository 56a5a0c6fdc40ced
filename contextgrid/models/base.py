"""What a model is to this package, and the providers that models come from."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar, runtime_checkable

from contextgrid.core.errors import ConfigError, ContextGridError
from contextgrid.core.registry import Spec, nearest


@runtime_checkable
class LLM(Protocol):
    """A language model."""

    @property
    def name(self) -> str:
        """What reports call it; never holds a key."""
        ...

    def complete(self, prompt: str, *, max_tokens: int = 512) -> str:
        """The model's reply to ``prompt``, at most ``max_tokens`` long.

        Raises:
            LLMError: if there is no reply.
        """
        ...


class LLMError(ContextGridError):
    """A model is missing, cannot be used, or gave no reply.

    ``status`` is the HTTP status of a hosted model's refusal and ``retry_after`` the seconds it asked to wait,
    where it gave them.
    """

    __module__ = "contextgrid.evalset.llm"  # the documented import path

    def __init__(self, message: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class ModelSpecError(LLMError, ConfigError):
    """A model spec cannot be used as written."""


# Makes a model from the part of a spec behind the colon and its options, both as written.
ModelFactory = Callable[[str, Mapping[str, str]], LLM]
F = TypeVar("F", bound=ModelFactory)

_FACTORIES: dict[str, ModelFactory] = {}
_loaded = False


def register_provider(*names: str) -> Callable[[F], F]:
    """Decorator that lets specs ``name:model,key=value`` be built by a function ``(model, options) -> LLM``."""

    def add(factory: F) -> F:
        _FACTORIES.update(dict.fromkeys(names, factory))
        return factory

    return add


def available_providers() -> tuple[str, ...]:
    """Names of all providers, sorted."""
    _load()
    return tuple(sorted(_FACTORIES))


def build_model(spec: str) -> LLM:
    """The model that ``provider:model`` or ``provider:model,key=value`` describes; nothing is called yet.

    Raises:
        ModelSpecError: for a malformed spec, an unknown provider (naming the nearest) or a bad option.
    """
    _load()
    shown = _SECRET_OPTION.sub(r"\1=...", spec)
    try:
        parsed = Spec.parse(spec)
        if ":" not in spec:
            raise ConfigError("names no provider; write provider:model, as in openai:gpt-4o-mini")
        if parsed.name not in _FACTORIES:
            raise ConfigError(f"unknown provider {parsed.name!r}{nearest(parsed.name, _FACTORIES)}")
        if not parsed.argument:
            raise ConfigError(f"names no model; write {parsed.name}:<model>")
        return _FACTORIES[parsed.name](parsed.argument, dict(parsed.options))
    except (ConfigError, ValueError) as error:
        # Not chained: the original may repeat a key that was written into the spec.
        raise ModelSpecError(f"model {shown!r}: {str(error).replace(spec, shown)}") from None


_SECRET_OPTION = re.compile(r"(\w*(?:key|token|secret|password)\w*)\s*=[^,]*", re.IGNORECASE)


def _load() -> None:
    global _loaded
    if not _loaded:
        _loaded = True
        package = importlib.import_module("contextgrid.models")
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"contextgrid.models.{module.name}")
