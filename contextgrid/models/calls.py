"""Calling models: what stages, judges and people use. How it works is in the files beside this one.

``open_model`` gives a model whose calls are written into the ledger the moment they are answered, priced, held
within the budget, limited per provider, and repeated where that helps. ``map_in_order`` makes many of them side by
side. ``count_calls`` counts what happens inside a block.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contextgrid.core.errors import ConfigError
from contextgrid.core.registry import Spec
from contextgrid.models.base import LLM, ModelSpecError, build_model
from contextgrid.models.budget import Budget, BudgetExceeded
from contextgrid.models.concurrency import is_ordered, map_in_order
from contextgrid.models.ledger import LedgerError
from contextgrid.models.meter import Meter, count_calls
from contextgrid.models.metered import MeteredLLM, ReplayMiss
from contextgrid.models.prices import CostModel, Price
from contextgrid.models.reply import Reply
from contextgrid.models.session import session_of
from contextgrid.models.settings import CallMode, CallSettings

__all__ = [
    "Budget",
    "BudgetExceeded",
    "CallMode",
    "CallSettings",
    "LedgerError",
    "Meter",
    "MeteredLLM",
    "ReplayMiss",
    "Reply",
    "begin_repetition",
    "begin_run",
    "count_calls",
    "has_price",
    "is_free",
    "is_ordered",
    "map_in_order",
    "open_model",
    "spent",
    "unpriced",
]


def open_model(
    model: str | LLM,
    *,
    calls: CallSettings,
    stage: str,
    cell: str | None = None,
    meter: Meter | None = None,
) -> MeteredLLM:
    """A model whose calls are metered; nothing is called yet.

    Args:
        model: a spec such as ``openai:gpt-4o-mini``, or an object. A model that does not say ``in_order = False``
            may follow a script: each of its calls is made, in order, and none comes from the ledger.
        calls: how calls are made.
        stage: what they are for, as ``answers``: noted in the ledger.
        cell: the cell of the grid they are for, noted in the ledger.
        meter: what counts them, by default a new one.

    Raises:
        ConfigError: for a bad spec, and under a budget for a model without a price.
        LedgerError: if the ledger cannot be opened.
    """
    if isinstance(model, MeteredLLM):
        return model
    built = build_model(model) if isinstance(model, str) else model
    metered = MeteredLLM(
        built, session_of(calls), identity=_identity(model, built), stage=stage, cell=cell, meter=meter
    )
    if calls.budget_usd is not None and calls.mode != "replay" and metered.is_paid and metered.price is None:
        raise ConfigError(unpriced(built.name))
    return metered


def is_free(spec: str) -> bool:
    """Whether a model answers in this process and costs nothing, as the offline reader does.

    A model whose provider is not registered in this process, as on a worker, is not free.
    """
    try:
        return bool(getattr(build_model(spec), "free", False))
    except ModelSpecError:
        return False


def has_price(spec: str, calls: CallSettings) -> bool:
    """Whether it is known what a model's calls cost. Models that may follow a script are not asked for a price."""
    built = build_model(spec)
    if is_ordered(built) or is_free(spec):
        return True
    return CostModel({name: Price(*price) for name, *price in calls.prices}).price(built.name) is not None


def unpriced(model: str) -> str:
    """Why a model without a price cannot run under a budget, and what to do."""
    return (
        f"run.budget_usd is set, but there is no price for model {model!r}; write its dollars per million tokens"
        f" under run.prices, as {{{model!r}: [0.15, 0.60]}}, or [0, 0] if it is free"
    )


def begin_run(calls: CallSettings) -> None:
    """Start a run: its budget is whole again, and ``fresh`` makes every call once more."""
    session_of(calls).begin()


def begin_repetition(calls: CallSettings) -> None:
    """Within a run that calls afresh, make every call once more. What is left of the budget stays as it is."""
    session_of(calls).refreshed = set()


def spent(calls: CallSettings) -> float:
    """Dollars spent since the run began."""
    return session_of(calls).budget.spent


def _identity(model: str | LLM, built: LLM) -> Mapping[str, Any] | None:
    """All that determines a model's replies beside the prompt; ``None`` where they may follow a script."""
    if is_ordered(built):
        return None
    own = getattr(built, "identity", None)
    if own is not None:
        return dict(own)
    return {"spec": str(Spec.parse(model))} if isinstance(model, str) else None
