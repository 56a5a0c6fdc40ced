"""What calls cost: the project's own prices first, then LiteLLM's table, and nothing where neither knows a model."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

_MILLION = 1_000_000


class Price(NamedTuple):
    """Dollars per million tokens, in and out."""

    input: float
    output: float

    def usd(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Dollars of one call."""
        return (prompt_tokens * self.input + completion_tokens * self.output) / _MILLION


class Tariff(NamedTuple):
    """What embedding and reranking cost: dollars per million tokens read, and dollars per search."""

    tokens: float
    search: float = 0.0

    def usd(self, tokens: int | None, searches: int | None) -> float | None:
        """Dollars; ``None`` if what is charged for was not counted."""
        if (self.tokens and tokens is None) or (self.search and searches is None):
            return None
        return (tokens or 0) * self.tokens / _MILLION + (searches or 0) * self.search


# Dollars per million tokens, as the providers list them. Add to it, or set ``run.prices``, for any other model.
PRICES: dict[str, Price] = {
    "openai:gpt-4o": Price(2.50, 10.00),
    "openai:gpt-4o-mini": Price(0.15, 0.60),
    "openai:gpt-4.1": Price(2.00, 8.00),
    "openai:gpt-4.1-mini": Price(0.40, 1.60),
    "openai:gpt-4.1-nano": Price(0.10, 0.40),
    "offline:reader": Price(0.0, 0.0),
}


@dataclass(frozen=True)
class CostModel:
    """Prices of models by name.

    Args:
        prices: prices that come before ``PRICES`` and LiteLLM's table.
    """

    prices: Mapping[str, Price] = field(default_factory=dict)

    def price(self, model: str) -> Price | None:
        """Dollars per million tokens of a model, ``None`` where nothing is known: unpriced is not free.

        Args:
            model: ``provider:model`` as in a spec, options and all, or the bare name.
        """
        return self._own(model) or _litellm_price(model)

    def tariff(self, model: str) -> Tariff | None:
        """What an embedding or reranking model costs, ``None`` where nothing is known."""
        own = self._own(model)
        if own is not None:
            return Tariff(own.input)
        entry = _litellm_entry(model) or {}
        tokens, search = entry.get("input_cost_per_token"), entry.get("input_cost_per_query")
        if tokens is None and search is None:
            return None
        return Tariff(float(tokens or 0.0) * _MILLION, float(search or 0.0))

    def usd(self, model: str, prompt_tokens: int | None, completion_tokens: int | None) -> float | None:
        """Dollars of one call; ``None`` without a price or without counted tokens."""
        price = self.price(model)
        if price is None or prompt_tokens is None or completion_tokens is None:
            return None
        return price.usd(prompt_tokens, completion_tokens)

    def _own(self, model: str) -> Price | None:
        names = list(_names(model))
        for table in (self.prices, PRICES):
            for name in names:
                if name in table:
                    return Price(*table[name])
        return None


def _names(model: str) -> Iterator[str]:
    """Names under which a model's price may stand: the spec, without options, and the bare model."""
    name = model.partition(",")[0]
    provider, colon, bare = name.partition(":")
    yield model
    yield name
    if not colon:
        return
    if provider == "litellm":
        provider, slash, bare = bare.partition("/")
        if not slash:
            provider, bare = "", provider
        else:
            yield f"{provider}:{bare}"
    yield bare


def _litellm_entry(model: str) -> Mapping[str, Any] | None:
    table = _litellm_table()
    name = model.partition(",")[0]
    provider, colon, bare = name.partition(":")
    if not colon:
        provider, bare = "", name
    elif provider == "litellm":
        provider, bare = "", bare  # carries LiteLLM's own prefix
    entry: Mapping[str, Any] | None = table.get(f"{provider}/{bare}") if provider else None
    if entry is None:
        entry = table.get(bare)
        # The same model may cost something else elsewhere.
        if entry is not None and provider and not str(entry.get("litellm_provider", "")).startswith(provider):
            entry = None
    return entry


def _litellm_price(model: str) -> Price | None:
    entry = _litellm_entry(model)
    if entry is None:
        return None
    costs = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
    if costs[0] is None or costs[1] is None:
        return None
    return Price(float(costs[0]) * _MILLION, float(costs[1]) * _MILLION)


def _litellm_table() -> Mapping[str, Any]:
    loaded = sys.modules.get("litellm")
    table = getattr(loaded, "model_cost", None)
    return table if isinstance(table, dict) and table else _litellm_file()


@lru_cache(maxsize=1)
def _litellm_file() -> Mapping[str, Any]:
    # Read as a file: importing LiteLLM takes seconds.
    found = importlib.util.find_spec("litellm")
    if found is None or not found.submodule_search_locations:
        return {}
    file = Path(found.submodule_search_locations[0]) / "model_prices_and_context_window_backup.json"
    try:
        table: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return table
