"""What a call costs, and what is said where nobody knows."""

from __future__ import annotations

import sys

import pytest

from contextgrid.models import prices
from contextgrid.models.prices import PRICES, CostModel, Price


def test_input_and_output_are_priced_apart() -> None:
    assert Price(2.0, 10.0).usd(1_000_000, 0) == 2.0
    assert Price(2.0, 10.0).usd(1_000, 1_000) == pytest.approx(0.012)
    assert CostModel().usd("openai:gpt-4o-mini", 1_000_000, 1_000_000) == pytest.approx(0.75)


def test_own_prices_come_before_the_table_of_litellm(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("litellm")
    listed = CostModel().price("openai:gpt-3.5-turbo")
    assert listed is not None
    assert listed.output > listed.input > 0
    monkeypatch.setitem(PRICES, "openai:gpt-3.5-turbo", Price(7.0, 8.0))
    assert CostModel().price("openai:gpt-3.5-turbo") == (7.0, 8.0)
    assert CostModel({"gpt-3.5-turbo": Price(1.0, 2.0)}).price("openai:gpt-3.5-turbo") == (1.0, 2.0)


@pytest.mark.parametrize(
    "name", ["openai:gpt-4o-mini", "openai:gpt-4o-mini,temperature=1", "litellm:openai/gpt-4o-mini"]
)
def test_a_model_is_found_under_every_spelling(name: str) -> None:
    assert CostModel().price(name) == (0.15, 0.60)


def test_a_price_belongs_to_a_provider() -> None:
    pytest.importorskip("litellm")
    assert CostModel().price("openai:gpt-3.5-turbo") is not None
    assert CostModel().price("ollama:gpt-3.5-turbo") is None
    assert CostModel().price("gemini:gemini-2.5-flash") == CostModel().price("litellm:gemini/gemini-2.5-flash")


def test_unpriced_is_not_free() -> None:
    assert CostModel().price("hosted_vllm:our-own-model") is None
    assert CostModel().usd("hosted_vllm:our-own-model", 10, 10) is None
    assert CostModel().usd("openai:gpt-4o-mini", None, 10) is None
    assert CostModel({"hosted_vllm:our-own-model": Price(0, 0)}).usd("hosted_vllm:our-own-model", 10, 10) == 0
    assert CostModel().usd("offline:reader", 10, 10) == 0


def test_prices_need_no_import_of_litellm(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("litellm")
    before = CostModel().price("openai:gpt-3.5-turbo")
    monkeypatch.delitem(sys.modules, "litellm")
    assert CostModel().price("openai:gpt-3.5-turbo") == before
    assert "litellm" not in sys.modules
    prices._litellm_file.cache_clear()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert CostModel().price("openai:gpt-3.5-turbo") is None  # where LiteLLM is not installed
    assert CostModel().price("openai:gpt-4o-mini") is not None
    prices._litellm_file.cache_clear()
