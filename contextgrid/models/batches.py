"""Calls that take many inputs at once, each input paid once: embeddings and reranking."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from contextgrid.core.errors import ConfigError
from contextgrid.models.base import LLMError
from contextgrid.models.calls import unpriced
from contextgrid.models.concurrency import map_in_order
from contextgrid.models.ledger import Entry
from contextgrid.models.limiter import limiter
from contextgrid.models.meter import Meter, meters_of_context
from contextgrid.models.metered import ReplayMiss, hash_of
from contextgrid.models.prices import Tariff
from contextgrid.models.purpose import may_call, purpose
from contextgrid.models.reply import Reply
from contextgrid.models.retrying import abandon_after, call_with_retries
from contextgrid.models.session import Session, session_of


class Endpoint(Protocol):
    """A hosted service that replies to each of several inputs."""

    @property
    def kind(self) -> str:
        """What the ledger calls its entries: ``embedding`` or ``rerank``."""
        ...

    @property
    def name(self) -> str:
        """Provider and model, as ``openai:text-embedding-3-small``."""
        ...

    @property
    def identity(self) -> Mapping[str, Any]:
        """All that determines a reply beside its input."""
        ...

    @property
    def limit_group(self) -> tuple[str, str]:
        """What shares a provider's limits."""
        ...

    @property
    def timeout(self) -> float:
        """Seconds that one attempt may take."""
        ...

    @property
    def batch(self) -> int:
        """Inputs that go into one call, at most."""
        ...

    def prepare(self) -> None:
        """Do what takes time but is no part of a call."""
        ...

    def worst_case(self, text: str, tariff: Tariff) -> float:
        """The most dollars that an input can cost."""
        ...

    def call(self, inputs: Sequence[str], *, timeout: float, tariff: Tariff | None) -> list[Reply]:
        """One attempt: a reply for each input, in order.

        Raises:
            LLMError: if any of them has no reply.
        """
        ...


class MeteredBatches:
    """An endpoint behind the ledger, the limiter of its provider, the retry loop and the budget.

    Attributes:
        meter: what its calls took; every input counts as a call.
        concurrency: calls that may be made side by side.
    """

    in_order = False

    def __init__(self, endpoint: Endpoint, session: Session, *, stage: str, cell: str | None = None) -> None:
        settings = session.settings
        self._endpoint, self._session, self._stage, self._cell = endpoint, session, stage, cell
        self.name, self.concurrency, self.meter = endpoint.name, settings.concurrency, Meter()
        self._tariff = session.costs.tariff(endpoint.name)
        if settings.budget_usd is not None and settings.mode != "replay" and self._tariff is None:
            raise ConfigError(unpriced(endpoint.name))
        self._base = hash_of(endpoint.kind, endpoint.identity)
        self._ledger = session.ledger
        self._limiter = limiter(endpoint.limit_group, settings.concurrency)

    def key(self, text: str) -> str:
        """32 hex digits that stand for all that determines the reply to an input."""
        digest = self._base.copy()
        digest.update(text.encode("utf-8", "surrogatepass"))
        return str(digest.hexdigest())

    def replies(self, inputs: Sequence[str]) -> list[Reply]:
        """The reply to each input, in order. What the ledger does not hold is called in batches, side by side.

        Raises:
            LLMError: if any input has no reply. Batches that were answered are in the ledger by then; no further
                one is started.
        """
        keys = [self.key(text) for text in inputs]
        texts = dict(zip(keys, inputs, strict=True))
        found = self._held(list(texts))
        missing = [key for key in texts if key not in found]
        if missing and self._session.settings.mode == "replay":
            raise ReplayMiss(
                f"replay: the ledger {self._ledger.name if self._ledger else ''} holds no {self._endpoint.kind} of"
                f" model {self.name!r} for {len(missing)} of {len(texts)} inputs (the first: {missing[0]});"
                " record them by running once without replay"
            )
        if missing and not may_call():
            raise LLMError(
                f"{len(missing)} of {len(texts)} inputs of {self._endpoint.kind} model {self.name!r} are not in the"
                " ledger, and nothing is called here; run once to pay for them"
            )
        found |= self._pay_all(missing, texts)
        # What was paid was counted when it arrived; repeated inputs cost nothing.
        counted = {key for key, reply in found.items() if not reply.stored}
        for key in keys:
            if key in counted:
                counted.remove(key)
            else:
                self._count(replace(found[key], stored=True))
        return [found[key] for key in keys]

    def _pay_all(self, missing: Sequence[str], texts: Mapping[str, str]) -> dict[str, Reply]:
        if not missing:
            return {}
        self._endpoint.prepare()
        size = self._endpoint.batch
        batches = [missing[first : first + size] for first in range(0, len(missing), size)]
        failed = threading.Event()

        def pay(keys: Sequence[str]) -> dict[str, Reply]:
            if failed.is_set():
                return {}
            try:
                return self._pay(keys, texts)
            except Exception:
                failed.set()
                for _ in keys:
                    for meter in (self.meter, *meters_of_context()):
                        meter.add_failure()
                raise

        paid: dict[str, Reply] = {}
        for result in map_in_order(self, pay, batches):
            if isinstance(result, Exception):
                raise result
            paid.update(result)
        return paid

    def _pay(self, keys: Sequence[str], texts: Mapping[str, str]) -> dict[str, Reply]:
        paid = self._held(keys)  # another process may have called for them since they were looked up
        keys = [key for key in keys if key not in paid]
        if not keys:
            return paid
        inputs = [texts[key] for key in keys]
        tariff, budget, spent = self._tariff, self._session.budget, 0.0
        worst = 0.0 if tariff is None else sum(self._endpoint.worst_case(text, tariff) for text in inputs)
        budget.reserve(worst)
        try:
            replies = self._repeated(inputs)
            known = [reply.usd for reply in replies if reply.usd is not None]
            # What a reply without counted tokens cost is unknown; the budget takes the worst.
            spent = sum(known) if len(known) == len(replies) else worst
        finally:
            budget.settle(worst, spent)
        for key, text, reply in zip(keys, inputs, replies, strict=True):
            paid[key] = self._written_down(key, text, reply)
            self._count(paid[key])
        return paid

    def _repeated(self, inputs: Sequence[str]) -> list[Reply]:
        settings, endpoint = self._session.settings, self._endpoint
        begin = time.monotonic()

        def attempt(left: float) -> list[Reply]:
            seconds = min(left, endpoint.timeout)
            return abandon_after(
                seconds, lambda: endpoint.call(inputs, timeout=seconds, tariff=self._tariff), self.name
            )

        replies = call_with_retries(
            attempt, self._limiter, retries=settings.retries, deadline=settings.deadline, name=self.name
        )
        # Shared out, so that the ledger's sum is the time that calls took.
        seconds = (time.monotonic() - begin) / len(inputs)
        return [replace(reply, seconds=seconds) for reply in replies]

    def _held(self, keys: Sequence[str]) -> dict[str, Reply]:
        if self._ledger is None:
            return {}
        if self._session.settings.mode == "fresh":
            keys = [key for key in keys if key in self._session.refreshed]
        return self._ledger.get_many(keys)

    def _written_down(self, key: str, text: str, reply: Reply) -> Reply:
        if self._ledger is None:
            return reply
        settings = self._session.settings
        sent = text.encode("utf-8", "replace").decode() if settings.keep_inputs else None
        entry = Entry(key, self._endpoint.kind, self.name, self._stage, self._cell, reply, time.time(), sent)
        served = self._ledger.record(entry, fresh=settings.mode == "fresh")
        if settings.mode == "fresh":
            self._session.refreshed.add(key)
        # Another process may have been first: its reply counts, this one's dollars do too.
        return replace(reply, text=served.text)

    def _count(self, reply: Reply) -> None:
        for meter in (self.meter, *meters_of_context()):
            meter.add(reply)


def open_endpoint(endpoint: Endpoint) -> MeteredBatches:
    """An endpoint under the settings of the stage that is running; nothing is called yet.

    Raises:
        ConfigError: under a budget for a model without a price.
        LedgerError: if the ledger cannot be opened.
    """
    here = purpose()
    return MeteredBatches(endpoint, session_of(here.settings()), stage=here.stage, cell=here.cell)
