"""DeepEval, imported at the first judgement and kept quiet: no telemetry, no files, no progress bars."""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from contextgrid.models import LLM
from contextgrid.models.budget import BudgetExceeded
from contextgrid.models.metered import ReplayMiss

# Read while DeepEval is imported; a value that the user has set stays. Without the first it reports usage and
# makes a .deepeval folder where it runs; without the others it reads keys from files in that folder.
_QUIET = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
    "DEEPEVAL_DISABLE_DOTENV": "1",
    "DEEPEVAL_DISABLE_LEGACY_KEYFILE": "1",
}
_CLASSES = {
    "answer_relevancy": "AnswerRelevancyMetric",
    "contextual_recall": "ContextualRecallMetric",
    "contextual_relevancy": "ContextualRelevancyMetric",
    "faithfulness": "FaithfulnessMetric",
}
# What DeepEval first takes apart into a list, by the key of the reply. From an empty list it would conclude 1.0.
_LISTS = {
    "claims": "the answer claims nothing",
    "statements": "the answer states nothing",
    "truths": "the passages state nothing that a claim could be held against",
}


class MalformedReplyError(Exception):
    """A reply is not the JSON that was asked for."""


class NothingToJudgeError(Exception):
    """The judge found no claim in the answer, or no statement in the passages."""


@dataclass(frozen=True)
class DeepEval:
    """What is used of the library."""

    model: type[Any]
    test_case: type[Any]
    metrics: Mapping[str, type[Any]]


@lru_cache(maxsize=1)
def load() -> DeepEval:
    """Import DeepEval.

    Raises:
        Exception: whatever stops it from being imported.
    """
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    from deepeval import metrics
    from deepeval.models import DeepEvalBaseLLM
    from deepeval.test_case import LLMTestCase

    return DeepEval(
        _model_class(DeepEvalBaseLLM), LLMTestCase, {name: getattr(metrics, own) for name, own in _CLASSES.items()}
    )


@dataclass(frozen=True)
class Measurement:
    """One metric of one answer, as DeepEval gave it."""

    score: float | None
    reason: str | None
    verdicts: int
    listed: int | None


def measure(
    name: str,
    model: Any,
    *,
    question: str,
    answer: str,
    contexts: Sequence[str],
    reference: str | None,
    threshold: float,
) -> Measurement:
    """Score one answer by one metric, synchronously.

    Args:
        model: a fresh ``load().model(llm, max_tokens)``; it keeps what the calls gave, also if this raises.

    Raises:
        Exception: whatever DeepEval raises; ``model.problem`` is the cause where a call or its reply was it.
    """
    deepeval = load()
    kind = deepeval.metrics[name]
    options: dict[str, Any] = {"model": model, "threshold": threshold, "include_reason": True, "async_mode": False}
    if "eval_mode" in inspect.signature(kind.__init__).parameters:
        # Else an environment variable could hand the verdicts to another model than the one chosen here.
        options["eval_mode"] = "llm"
    case = deepeval.test_case(
        input=question, actual_output=answer, retrieval_context=list(contexts), expected_output=reference
    )
    # Documents are only ever text: DeepEval would open a file or an address written as [DEEPEVAL:IMAGE:...] in one.
    case.multimodal = False
    metric = kind(**options)
    metric.measure(case, _show_indicator=False)
    return Measurement(metric.score, metric.reason, model.verdicts, model.listed)


def _model_class(base: type[Any]) -> type[Any]:
    class JudgeModel(base):  # type: ignore[misc]
        """A model as DeepEval calls it: counts calls, keeps replies, and reads them itself."""

        def __init__(self, llm: LLM, max_tokens: int) -> None:
            self._llm = llm
            self._max_tokens = max_tokens
            self.name = llm.name
            self.model = self
            self.replies: list[str] = []
            self.calls = 0
            self.verdicts = 0
            self.listed: int | None = None
            self.problem: Exception | None = None

        def load_model(self) -> Any:
            return self

        def get_model_name(self) -> str:
            return self.name

        def generate(self, prompt: str, schema: Any = None) -> Any:
            try:
                self.calls += 1
                reply = self._llm.complete(prompt, max_tokens=self._max_tokens)
                if not isinstance(reply, str):
                    raise MalformedReplyError(f"the model returned {type(reply).__name__} instead of text")
                self.replies.append(reply)
                return reply if schema is None else self._read(reply, schema)
            except Exception as error:
                self.problem = error
                if isinstance(error, BudgetExceeded | ReplayMiss):
                    self.calls -= 1  # refused before it was made
                # DeepEval would take a TypeError for an unsupported argument, and call again.
                raise RuntimeError(type(error).__name__) from error

        async def a_generate(self, prompt: str, schema: Any = None) -> Any:
            return self.generate(prompt, schema)

        def _read(self, reply: str, schema: Any) -> Any:
            found = parse_reply(reply, schema)
            for key, nothing in _LISTS.items():
                if key in schema.model_fields:
                    listed = [text for text in getattr(found, key) if text.strip()]
                    if not listed:
                        raise NothingToJudgeError(nothing)
                    self.listed = len(listed)
            if "verdicts" in schema.model_fields:
                self.verdicts += len(found.verdicts)
            return found

    return JudgeModel


def parse_reply(reply: str, schema: Any) -> Any:
    """A judge's reply as the pydantic model ``schema``: JSON, fenced or with words around it.

    Raises:
        MalformedReplyError: for anything else, such as prose, JSON that was cut off, or a verdict that is none.
    """
    text = _THOUGHT.sub("", reply)
    start, end = text.find("{"), text.rfind("}") + 1
    if not reply.strip():
        raise MalformedReplyError("the reply is empty")
    if start < 0:
        raise MalformedReplyError("the reply holds no JSON")
    try:
        content, _ = json.JSONDecoder().raw_decode(text, start)
    except ValueError:
        try:
            content = json.loads(_TRAILING_COMMA.sub(r"\1", text[start:end]))
        except (ValueError, RecursionError):
            raise MalformedReplyError("the reply is not complete JSON") from None
    except RecursionError:
        raise MalformedReplyError("the reply is not complete JSON") from None
    if "verdicts" in schema.model_fields and isinstance(content.get("verdicts"), list):
        content = {**content, "verdicts": [_spelled(verdict) for verdict in content["verdicts"]]}
    try:
        return schema.model_validate(content)
    except ValueError as error:
        places = [".".join(str(part) for part in problem["loc"]) for problem in getattr(error, "errors", list)()]
        raise MalformedReplyError(f"the reply's JSON lacks what was asked for: {', '.join(places[:3])}") from None


def _spelled(verdict: Any) -> Any:
    """A verdict with "Yes, because ..." as ``yes`` and the older ``idk`` as ``borderline``."""
    if not isinstance(verdict, dict) or not isinstance(verdict.get("verdict"), str):
        return verdict
    word = _WORD.match(verdict["verdict"].strip().lower())
    spelled = word[0] if word else ""
    return {**verdict, "verdict": "borderline" if spelled == "idk" else spelled}


_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_TRAILING_COMMA = re.compile(r",\s*([\]}])")
_WORD = re.compile(r"[a-z]+")
