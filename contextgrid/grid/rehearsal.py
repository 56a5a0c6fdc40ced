"""A stand-in for a model: it notes each call and replies from the ledger, or with something made up."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import ClassVar

from contextgrid.grid.costs import Estimator
from contextgrid.models.calls import MeteredLLM, Reply, open_model
from contextgrid.models.session import session_of


@dataclass(frozen=True)
class StandIn:
    """Takes a model's place in a stage to find out which calls the stage would make.

    Args:
        model: whose place it takes; it is never called.
        stage: the stage, as ``answers``.
        estimator: notes the calls.
        made_up: the reply to a call that the ledger does not hold, from all that determines it.
    """

    model: MeteredLLM
    stage: str
    estimator: Estimator
    made_up: Callable[[str], str]

    in_order: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model.name

    def complete(self, prompt: str, *, max_tokens: int = 512) -> str:
        """See :meth:`reply`."""
        return self.reply(prompt, max_tokens=max_tokens).text

    def reply(
        self, prompt: str, *, max_tokens: int = 512, system: str | None = None, timeout: float | None = None
    ) -> Reply:
        """What the model would reply, as far as that is known."""
        calls = self.estimator.calls
        call, held = f"{self.name}\n{system}\n{prompt}", None
        if self.model.is_paid:
            # What is quoted of replies that are made up may turn out as long as those may be.
            quoted = sum(self.estimator.made_up.get(mark, 0) for mark in _MARK.findall(prompt))
            self.estimator.add(
                self.stage, self.model, [prompt], max_tokens=max_tokens, system=system, quoted_tokens=quoted
            )
            call = self.model.key(prompt, max_tokens=max_tokens, system=system)
            ledger = session_of(calls).ledger
            if ledger is not None and calls.mode != "fresh":
                held = ledger.get(call)
        if held is None:
            self.estimator.made_up[_mark(call)] = max_tokens
        return held or Reply(self.made_up(call))


def stand_in(spec: str, stage: str, estimator: Estimator, made_up: Callable[[str], str]) -> StandIn | None:
    """A stand-in for the model of a spec; ``None`` for one that is free to ask."""
    model = open_model(spec, calls=estimator.calls, stage=stage)
    return None if model.free else StandIn(model, stage, estimator, made_up)


def made_up_answer(call: str) -> str:
    """A different one for every call, or a judge would be asked once about all of them."""
    return f"Answer {_mark(call)} {'with some words ' * 20}"


def made_up_verdict(call: str) -> str:
    """All that DeepEval asks for at one place or another; a rubric judge cannot read it, which costs nothing.

    A different one for every call, and with a complaint: DeepEval quotes the reasons of complaints only, so the calls
    that ask for a summary would else look alike.
    """
    mark = _mark(call)
    complaint = {"verdict": "no", "statement": f"Statement {mark} of the answer.", "reason": f"The reason {mark}."}
    return json.dumps(
        {
            "truths": [f"Truth {mark} of the passages."],
            "claims": [f"Claim {mark} of the answer."],
            "statements": [f"Statement {mark} of the answer."],
            "verdicts": [complaint],
            "reason": f"The reason {mark} in one sentence.",
        }
    )


def _mark(call: str) -> str:
    """16 hex digits by which a made-up reply is found again in the prompts that quote it."""
    return blake2b(call.encode(errors="replace"), digest_size=8).hexdigest()


_MARK = re.compile(r"\b[0-9a-f]{16}\b")
