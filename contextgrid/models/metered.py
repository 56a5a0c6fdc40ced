"""A model whose calls are counted, priced, limited, repeated where that helps, and never paid twice."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from contextgrid.models.base import LLM, LLMError
from contextgrid.models.concurrency import is_ordered
from contextgrid.models.ledger import Entry
from contextgrid.models.limiter import limiter
from contextgrid.models.meter import Meter, meters_of_context
from contextgrid.models.prices import Price
from contextgrid.models.reply import Reply
from contextgrid.models.retrying import abandon_after, call_with_retries
from contextgrid.models.session import Session

# Tokens that a provider adds to each message.
_MESSAGE_TOKENS = 16


class ReplayMiss(LLMError):  # noqa: N818 - the name that callers catch
    """A replay asks for a call that the ledger does not hold."""


class MeteredLLM:
    """A model behind the ledger, the limiter of its provider, the retry loop and the budget.

    Attributes:
        name: the model's own name.
        meter: what its calls took.
        in_order: whether calls have to be made one after another.
        concurrency: calls that may be made side by side.
        price: dollars per million tokens, ``None`` where unknown.
    """

    def __init__(
        self,
        model: LLM,
        session: Session,
        *,
        identity: Mapping[str, Any] | None,
        stage: str,
        cell: str | None = None,
        meter: Meter | None = None,
    ) -> None:
        settings = session.settings
        self._model, self._session, self._stage, self._cell = model, session, stage, cell
        self.name = model.name
        self.meter = Meter() if meter is None else meter
        self.in_order = is_ordered(model)
        self.concurrency = 1 if self.in_order else settings.concurrency
        self.free = bool(getattr(model, "free", False))
        self.price = Price(0.0, 0.0) if self.free else session.costs.price(model.name)
        # A script has no identity: what it replies depends on what was called before.
        self._base = None if identity is None or self.free else hash_of("completion", identity)
        self._ledger = None if self._base is None else session.ledger
        self._limiter = limiter(getattr(model, "limit_group", (model.name,)), settings.concurrency)
        self._fetched: dict[str, Reply] = {}

    @property
    def is_paid(self) -> bool:
        """Whether calls go through the ledger and may cost something."""
        return self._base is not None

    def complete(self, prompt: str, *, max_tokens: int = 512, system: str | None = None) -> str:
        """The model's reply.

        Args:
            system: a system prompt.

        Raises:
            LLMError: if there is no reply; ``BudgetExceeded`` where it would cost too much, ``ReplayMiss`` where
                a replay does not hold it.
        """
        return self.reply(prompt, max_tokens=max_tokens, system=system).text

    def reply(self, prompt: str, *, max_tokens: int = 512, system: str | None = None) -> Reply:
        """As :meth:`complete`, with tokens and cost."""
        try:
            reply = self._reply(prompt, max_tokens, system)
        except Exception:
            for meter in (self.meter, *meters_of_context()):
                meter.add_failure()
            raise
        for meter in (self.meter, *meters_of_context()):
            meter.add(reply)
        return reply

    def key(self, prompt: str, *, max_tokens: int = 512, system: str | None = None) -> str:
        """32 hex digits that stand for all that determines the reply. Only for models that are paid."""
        assert self._base is not None
        digest = self._base.copy()
        digest.update(json.dumps([max_tokens, system]).encode())
        digest.update(b"\0")
        digest.update(prompt.encode("utf-8", "surrogatepass"))
        return str(digest.hexdigest())

    def prefetch(self, prompts: Iterable[str], *, max_tokens: int = 512, system: str | None = None) -> None:
        """Read what the ledger holds for these prompts in a few queries; each is then served once from memory."""
        if self._ledger is not None and self._session.settings.mode != "fresh":
            keys = [self.key(prompt, max_tokens=max_tokens, system=system) for prompt in prompts]
            self._fetched.update(self._ledger.get_many(keys))

    def worst_case(self, prompt: str, *, max_tokens: int = 512, system: str | None = None) -> float | None:
        """The most dollars that a call can cost: no tokeniser makes more tokens of a text than it has bytes."""
        if self.price is None:
            return None
        sent = len(prompt.encode("utf-8", "replace")) + len((system or "").encode("utf-8", "replace"))
        return self.price.usd(sent + 2 * _MESSAGE_TOKENS, max_tokens)

    def _reply(self, prompt: str, max_tokens: int, system: str | None) -> Reply:
        if self._base is None:
            return self._call(prompt, max_tokens, system, None)
        key = self.key(prompt, max_tokens=max_tokens, system=system)
        stored = self._stored(key)
        if stored is not None:
            return stored
        if self._session.settings.mode == "replay":
            raise ReplayMiss(
                f"replay: the ledger {self._ledger.name if self._ledger else ''} holds no reply of model"
                f" {self.name!r} to this call ({key}); record it by running once without replay"
            )
        return self._session.flights.once(key, lambda: self._pay(key, prompt, max_tokens, system))

    def _stored(self, key: str) -> Reply | None:
        if self._ledger is None:
            return None
        if self._session.settings.mode == "fresh" and key not in self._session.refreshed:
            return None
        return self._fetched.pop(key, None) or self._ledger.get(key)

    def _pay(self, key: str, prompt: str, max_tokens: int, system: str | None) -> Reply:
        stored = self._stored(key)  # an identical call may have ended since it was looked up
        if stored is not None:
            return stored
        worst = self.worst_case(prompt, max_tokens=max_tokens, system=system)
        budget, spent = self._session.budget, 0.0
        budget.reserve(worst or 0.0)
        try:
            reply = self._repeated(prompt, max_tokens, system)
            # What a reply without counted tokens cost is unknown; the budget takes the worst.
            spent = (worst or 0.0) if reply.usd is None else reply.usd
        finally:
            budget.settle(worst or 0.0, spent)
        return self._written_down(key, prompt, system, reply)

    def _written_down(self, key: str, prompt: str, system: str | None, reply: Reply) -> Reply:
        if self._ledger is None:
            return reply
        settings = self._session.settings
        sent = None
        if settings.keep_inputs:
            sent = _clean(prompt if system is None else f"{system}\n\n{prompt}")
        entry = Entry(key, "completion", self.name, self._stage, self._cell, reply, time.time(), sent)
        served = self._ledger.record(entry, fresh=settings.mode == "fresh")
        if settings.mode == "fresh":
            self._session.refreshed.add(key)
        if served.text == reply.text:
            return reply
        # Another process was first: its reply counts, this one's dollars do too.
        return Reply(served.text, reply.prompt_tokens, reply.completion_tokens, reply.usd, reply.seconds)

    def _repeated(self, prompt: str, max_tokens: int, system: str | None) -> Reply:
        settings = self._session.settings
        if self.in_order:
            return self._call(prompt, max_tokens, system, None)
        prepare = getattr(self._model, "prepare", None)
        if prepare is not None:
            prepare()
        begin = time.monotonic()

        def attempt(left: float) -> Reply:
            seconds = min(left, float(getattr(self._model, "timeout", left)))
            return abandon_after(seconds, lambda: self._call(prompt, max_tokens, system, seconds), self.name)

        reply = call_with_retries(
            attempt, self._limiter, retries=settings.retries, deadline=settings.deadline, name=self.name
        )
        seconds = time.monotonic() - begin
        return Reply(reply.text, reply.prompt_tokens, reply.completion_tokens, reply.usd, seconds)

    def _call(self, prompt: str, max_tokens: int, system: str | None, timeout: float | None) -> Reply:
        """One attempt."""
        begin = time.monotonic()
        detailed = getattr(self._model, "reply", None)
        if detailed is not None:
            reply = detailed(prompt, max_tokens=max_tokens, system=system, timeout=timeout)
            text, tokens, usd = reply.text, (reply.prompt_tokens, reply.completion_tokens), reply.usd
        else:
            # A model without system prompts reads it in front of the prompt.
            text = self._model.complete(prompt if system is None else f"{system}\n\n{prompt}", max_tokens=max_tokens)
            tokens, usd = (None, None), None
        if not isinstance(text, str):
            raise LLMError(f"model {self.name!r} returned {type(text).__name__} instead of text")
        if usd is None and self.price is not None:
            if self.free:
                usd = 0.0
            elif tokens[0] is not None and tokens[1] is not None:
                usd = self.price.usd(tokens[0], tokens[1])
        return Reply(_clean(text), *tokens, usd, time.monotonic() - begin)


def hash_of(kind: str, identity: Mapping[str, Any]) -> Any:
    """A digest, to be copied and continued, of what calls of one kind to one model have in common."""
    canonical = json.dumps([kind, identity], sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(canonical.encode() + b"\0", digest_size=16)


def _clean(text: str) -> str:
    # Half a surrogate pair cannot be stored, and what is served must be what was stored.
    return text.encode("utf-8", "replace").decode("utf-8")
