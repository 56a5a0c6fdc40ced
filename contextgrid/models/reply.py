"""What one paid call gave, and what it took."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply with its cost.

    Attributes:
        text: the reply; for calls that return no text, its JSON.
        prompt_tokens: tokens the provider counted in; ``None`` where it did not say.
        completion_tokens: tokens the provider counted out; ``None`` where it did not say.
        usd: dollars it cost when it was made; ``None`` where there is no price, which is not the same as free.
        seconds: how long the call took when it was made, waiting and repeated attempts included.
        stored: whether it came from the ledger, so that it cost nothing now.
    """

    text: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    usd: float | None = None
    seconds: float = 0.0
    stored: bool = False
