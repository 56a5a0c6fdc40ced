"""A stand-in for a model: it notes each call and replies from the ledger, or with something made up."""

from __future__ import annotations

import json
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
        made_up: the reply to a prompt that the ledger does not hold.
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
        held = None
        if self.model.is_paid:
            self.estimator.add(self.stage, self.model, [prompt], max_tokens=max_tokens, system=system)
            ledger = session_of(calls).ledger
            if ledger is not None and calls.mode != "fresh":
                held = ledger.get(self.model.key(prompt, max_tokens=max_tokens, system=system))
        return held or Reply(self.made_up(prompt))


def stand_in(spec: str, stage: str, estimator: Estimator, made_up: Callable[[str], str]) -> StandIn | None:
    """A stand-in for the model of a spec; ``None`` for one that is free to ask."""
    model = open_model(spec, calls=estimator.calls, stage=stage)
    return None if model.free else StandIn(model, stage, estimator, made_up)


def made_up_answer(prompt: str) -> str:
    """A different one for every prompt, or a judge would be asked once about all of them."""
    return f"Answer {blake2b(prompt.encode(errors='replace'), digest_size=8).hexdigest()} {'with some words ' * 20}"


def made_up_verdict(prompt: str) -> str:
    """All that DeepEval asks for at one place or another; a rubric judge cannot read it, which costs nothing."""
    return _VERDICT


_VERDICT = json.dumps(
    {
        "truths": ["A truth of the passages."],
        "claims": ["A claim of the answer."],
        "statements": ["A statement of the answer."],
        "verdicts": [{"verdict": "yes", "statement": "A statement of the answer.", "reason": "A reason."}],
        "reason": "A reason in one sentence.",
    }
)
