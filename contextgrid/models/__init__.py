"""Models that answer prompts: hosted ones, and an offline reader that needs no network."""

from contextgrid.models.base import (
    LLM,
    LLMError,
    ModelFactory,
    ModelSpecError,
    available_providers,
    build_model,
    register_provider,
)

__all__ = [
    "LLM",
    "LLMError",
    "ModelFactory",
    "ModelSpecError",
    "available_providers",
    "build_model",
    "register_provider",
]
