"""How calls are made: the part of an experiment's settings that never changes a result."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Literal

from contextgrid.core.errors import ConfigError
from contextgrid.core.registry import nearest

CallMode = Literal["normal", "fresh", "replay"]

LEDGER_VARIABLE, MODE_VARIABLE = "CONTEXTGRID_LEDGER", "CONTEXTGRID_CALLS"


@dataclass(frozen=True)
class CallSettings:
    """How calls to models are made.

    Attributes:
        ledger: a file for SQLite or an SQLAlchemy URL; ``None`` keeps no ledger. The environment variable
            ``CONTEXTGRID_LEDGER`` wins.
        mode: ``normal`` calls what the ledger does not hold; ``fresh`` calls everything once more and keeps the
            new replies beside the old; ``replay`` calls nothing. By default what ``CONTEXTGRID_CALLS`` says, else
            ``normal``.
        concurrency: calls side by side, at most, to one provider.
        budget_usd: dollars that one run may spend; ``None`` sets no limit.
        retries: how often a call that may succeed later is repeated.
        deadline: seconds after which a call is given up, repeated attempts included.
        prices: dollars per million tokens in and out, by model, beside the known ones.
        keep_inputs: whether the ledger stores prompts, and not only their hash.
    """

    ledger: str | None = None
    mode: CallMode | None = None
    concurrency: int = 8
    budget_usd: float | None = None
    retries: int = 5
    deadline: float = 300.0
    prices: tuple[tuple[str, float, float], ...] = ()
    keep_inputs: bool = False

    def __post_init__(self) -> None:
        for name, least in (("concurrency", 1), ("retries", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if not self.deadline > 0:
            raise ConfigError(f"deadline must be more than 0 seconds, got {self.deadline}")
        check_budget(self.budget_usd)
        if self.mode is None:
            object.__setattr__(self, "mode", mode_of_environment() or "normal")
        if os.environ.get(LEDGER_VARIABLE):
            object.__setattr__(self, "ledger", os.environ[LEDGER_VARIABLE])
        if self.mode == "replay" and self.ledger is None:
            raise ConfigError("replay needs a ledger: set run.ledger or CONTEXTGRID_LEDGER")


def mode_of_environment() -> CallMode | None:
    """What ``CONTEXTGRID_CALLS`` says.

    Raises:
        ConfigError: if that is no mode.
    """
    written = os.environ.get(MODE_VARIABLE)
    for mode in _MODES:
        if written == mode:
            return mode
    if written:
        raise ConfigError(f"{MODE_VARIABLE}: no mode {written!r}{nearest(written, _MODES)}")
    return None


_MODES: tuple[CallMode, ...] = ("normal", "fresh", "replay")


def check_budget(usd: float | None) -> None:
    """Refuse what is no sum of dollars.

    Raises:
        ConfigError: for a budget that is negative or not finite.
    """
    if usd is not None and not 0 <= usd < math.inf:
        raise ConfigError(f"a budget is a number of dollars, at least 0, got {usd}; leave it out to set no limit")
