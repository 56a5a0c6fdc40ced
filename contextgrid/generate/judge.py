"""Whether an answer is supported and to the point, as a model judges it by DeepEval's definitions."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contextgrid.core.errors import ContextGridError
from contextgrid.core.words import words
from contextgrid.generate.abstention import is_abstention
from contextgrid.generate.citations import without_citations
from contextgrid.models import LLM, LLMError
from contextgrid.models.budget import BudgetExceeded
from contextgrid.models.echo import without_texts
from contextgrid.models.meter import Meter, count_calls
from contextgrid.models.metered import ReplayMiss

if TYPE_CHECKING:
    from contextgrid.generate._deepeval import Measurement

DEFAULT_METRICS = ("faithfulness", "answer_relevancy")
# What each metric is about: an answer that declines leaves nothing to judge for those about the answer.
_ABOUT_ANSWER = {
    "answer_relevancy": True,
    "contextual_recall": False,
    "contextual_relevancy": False,
    "faithfulness": True,
}
_NEEDS_REFERENCE = frozenset({"contextual_recall"})
_LONGEST_REASON = 400
NEEDS_DEEPEVAL = 'judge metrics need DeepEval; install it with: pip install "contextgrid-dagster[judge]"'


class JudgeError(ContextGridError):
    """A judge cannot be used as asked for."""


class IncompleteScoresWarning(UserWarning):
    """Some verdicts of a judge failed, so a mean is over fewer answers than there are."""


def available_generation_metrics() -> tuple[str, ...]:
    """Names of the metrics a :class:`GenerationJudge` can score, sorted."""
    return tuple(sorted(_ABOUT_ANSWER))


def deepeval_problem() -> str | None:
    """Why DeepEval cannot be used here; ``None`` if it can. Imports it."""
    from contextgrid.generate._deepeval import load

    try:
        load()
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "deepeval":
            return NEEDS_DEEPEVAL
        return f"DeepEval cannot be imported: {error}"
    except Exception as error:  # noqa: BLE001 - it reads settings while it is imported, which may fail in any way
        return f"DeepEval cannot be imported: {type(error).__name__}: {error}"
    return None


def deepeval_version() -> str | None:
    """The installed version of DeepEval, whose prompts and definitions the scores follow. Imports nothing."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("deepeval")
    except PackageNotFoundError:
        return None


@dataclass(frozen=True)
class Usage:
    """What some calls took; all but ``calls`` and ``seconds`` are ``None`` for a model that does not say.

    Attributes:
        calls: calls made now; those that the ledger answered do not count.
        prompt_tokens, completion_tokens: as the provider counted them.
        usd: what the replies cost when they were made; ``None`` also where there is no price.
        usd_spent: dollars spent now.
        seconds: wall time.
    """

    calls: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    usd: float | None = None
    usd_spent: float | None = None
    seconds: float = 0.0

    @classmethod
    def of(cls, meter: Meter, calls: int, seconds: float) -> Usage:
        """What a meter counted; ``calls`` were made in all, if the model is not metered."""
        if not meter.replies:
            return cls(0 if meter.failed else calls, seconds=seconds)
        tokens = (meter.prompt_tokens, meter.completion_tokens)
        return cls(meter.calls, *tokens, meter.price, meter.spent, seconds)


@dataclass(frozen=True)
class Verdict:
    """One metric of one answer.

    Attributes:
        metric: its name.
        status: ``scored``, ``abstained``, ``empty_context``, ``vacuous`` (nothing to judge), ``failed`` or
            ``skipped_budget``.
        score: ``None`` unless ``scored``.
        reason: the judge's reason, or why there is no score.
        raw_reply: the reply that could not be used, where one was the failure.
        passed: whether the score reaches the judge's threshold; ``None`` without one.
        calls: calls of the model that it took, whoever answered them.
        usage: what those calls took now.
    """

    metric: str
    status: str
    score: float | None = None
    reason: str | None = None
    raw_reply: str | None = None
    passed: bool | None = None
    calls: int = 0
    usage: Usage = Usage()


@dataclass(frozen=True)
class JudgedAnswer:
    """What a judge says about one answer; ``verdicts`` has one entry per metric, in the judge's order."""

    query_id: str
    verdicts: tuple[Verdict, ...]

    @property
    def scores(self) -> dict[str, float]:
        """Scores by metric, 0 to 1; metrics without a score are absent."""
        return {verdict.metric: verdict.score for verdict in self.verdicts if verdict.score is not None}

    @property
    def failed(self) -> dict[str, str]:
        """By metric, why it has no score although there was something to judge."""
        return {
            verdict.metric: verdict.reason or ""
            for verdict in self.verdicts
            if verdict.status in ("failed", "skipped_budget")
        }

    @property
    def passed(self) -> dict[str, bool]:
        """By scored metric, whether it reaches the judge's threshold."""
        return {verdict.metric: verdict.passed for verdict in self.verdicts if verdict.passed is not None}

    @property
    def statuses(self) -> dict[str, str]:
        """The status of every metric."""
        return {verdict.metric: verdict.status for verdict in self.verdicts}

    @property
    def reasons(self) -> dict[str, str]:
        """The judge's reasons by metric, or why there is no score."""
        return {verdict.metric: verdict.reason for verdict in self.verdicts if verdict.reason}

    @property
    def raw_replies(self) -> dict[str, str]:
        """By failed metric, the reply that could not be used."""
        return {verdict.metric: verdict.raw_reply for verdict in self.verdicts if verdict.raw_reply is not None}

    @property
    def model_calls(self) -> int:
        """Calls of the model that scoring this answer took."""
        return sum(verdict.calls for verdict in self.verdicts)


@dataclass(frozen=True)
class GenerationJudge:
    """Scores answers with DeepEval through a model of your choice, never through DeepEval's own configuration.

    Calls for one answer are made one after the other, so the same answer makes the same calls every time.

    Args:
        llm: the model that judges; ideally another one than answered.
        metrics: names from :func:`available_generation_metrics`.
        threshold: score from which an answer passes, 0 to 1; it changes no score.
        max_tokens: cap on the length of each of the judge's replies.

    Raises:
        JudgeError: for an unknown, repeated or missing metric, or a value out of range.
    """

    llm: LLM
    metrics: tuple[str, ...] = DEFAULT_METRICS
    threshold: float = 0.5
    max_tokens: int = 2048

    def __post_init__(self) -> None:
        metrics = (self.metrics,) if isinstance(self.metrics, str) else tuple(self.metrics)
        object.__setattr__(self, "metrics", metrics)
        check_metrics(metrics)
        if not metrics:
            raise JudgeError(f"no generation metric given. Available: {', '.join(available_generation_metrics())}")
        if not math.isfinite(self.threshold) or not 0 <= self.threshold <= 1:
            raise JudgeError(f"threshold must lie in 0 to 1, got {self.threshold}")
        if self.max_tokens < 1:
            raise JudgeError(f"max_tokens must be at least 1, got {self.max_tokens}")

    def score(
        self,
        *,
        query_id: str,
        question: str,
        answer: str | None,
        contexts: Sequence[str],
        reference: str | None = None,
    ) -> JudgedAnswer:
        """Judge one answer. A metric that fails is recorded, and the others go on.

        Nothing is called for what needs no judge: without passages (all blank counts) every metric is
        ``empty_context``; for an answer that declines, those about the answer are ``abstained``, and for one
        without words they are ``vacuous``. ``contextual_recall`` without a reference is ``failed``.

        Args:
            query_id: handed back in the result.
            question: what was asked.
            answer: the answer; ``None`` if there is none.
            contexts: the passages that the answer was written from; blank ones are left out.
            reference: the answer a person wrote, for ``contextual_recall``.

        Raises:
            JudgeError: if there is something to judge and DeepEval cannot be imported.
            ReplayMiss: if a replay does not hold a call.
        """
        texts = [text for text in contexts if text and text.strip()]
        verdicts = [
            self._undecided(metric, answer, texts, reference)
            or self._judge(metric, question, answer or "", texts, reference)
            for metric in self.metrics
        ]
        return JudgedAnswer(query_id, tuple(verdicts))

    def _undecided(
        self, metric: str, answer: str | None, contexts: Sequence[str], reference: str | None
    ) -> Verdict | None:
        """The verdict where none has to be asked for, else ``None``."""
        decided = decided_without_judge(answer, contexts)
        if decided is not None and (_ABOUT_ANSWER[metric] or decided[0] in ("failed", "empty_context")):
            return Verdict(metric, decided[0], reason=decided[1])
        if metric in _NEEDS_REFERENCE and not (reference and reference.strip()):
            return Verdict(metric, "failed", reason="it needs a reference answer, and this question has none")
        return None

    def _judge(
        self, metric: str, question: str, answer: str, contexts: Sequence[str], reference: str | None
    ) -> Verdict:
        from contextgrid.generate import _deepeval

        problem = deepeval_problem()
        if problem is not None:
            raise JudgeError(problem)
        model = _deepeval.load().model(self.llm, self.max_tokens)
        started = time.perf_counter()
        status, score, reason, raw = "scored", None, None, None
        with count_calls() as meter:
            try:
                measured = _deepeval.measure(
                    metric,
                    model,
                    question=question,
                    answer=answer,
                    contexts=contexts,
                    reference=reference,
                    threshold=self.threshold,
                )
                score, reason = _checked(measured), _with_counts(measured)
            except Exception as error:  # noqa: BLE001 - one metric's failure, whatever it is, must not stop the others
                cause = model.problem or error
                if isinstance(cause, ReplayMiss):
                    raise cause from None
                status = failure_status(cause)
                reason = failure_reason(cause, [question, answer, reference or "", *contexts])
                if status == "failed" and not isinstance(cause, LLMError):
                    raw = model.replies[-1] if model.replies else None
        used = Usage.of(meter, model.calls, time.perf_counter() - started)
        passed = None if score is None else score >= self.threshold
        return Verdict(metric, status, score, reason, raw, passed, model.calls, used)


def check_metrics(metrics: Iterable[str]) -> None:
    """Refuse unknown and repeated metrics.

    Raises:
        JudgeError: naming them.
    """
    metrics = list(metrics)
    unknown = [name for name in metrics if name not in _ABOUT_ANSWER]
    if unknown:
        raise JudgeError(
            f"unknown generation metric(s): {', '.join(map(str, unknown))}."
            f" Available: {', '.join(available_generation_metrics())}"
        )
    for name in metrics:
        if metrics.count(name) > 1:
            raise JudgeError(f"generation metric {name!r} is given twice")


def decided_without_judge(answer: str | None, contexts: Sequence[str]) -> tuple[str, str] | None:
    """Status and reason of an answer about which no judge has to be asked; ``None`` for any other.

    Args:
        contexts: the passages that are not blank.
    """
    if answer is None:
        return "failed", "there is no answer"
    if not contexts:
        return "empty_context", "the answer was written from no passages"
    if is_abstention(answer):
        return "abstained", "the answer declines"
    if not words(without_citations(answer)):
        return "vacuous", "the answer says nothing"
    return None


def failure_status(cause: Exception) -> str:
    """The status of a verdict that ``cause`` prevented."""
    from contextgrid.generate._deepeval import NothingToJudgeError

    if isinstance(cause, NothingToJudgeError):
        return "vacuous"
    return "skipped_budget" if isinstance(cause, BudgetExceeded) else "failed"


def failure_reason(cause: Exception, texts: Iterable[str]) -> str:
    """What went wrong in one line, without what it repeats of ``texts``."""
    message = " ".join(without_texts(str(cause), texts).split())[:_LONGEST_REASON]
    if isinstance(cause, ContextGridError) or type(cause).__module__.startswith("contextgrid."):
        return message or type(cause).__name__
    return f"{type(cause).__name__}: {message}" if message else type(cause).__name__


def _checked(measured: Measurement) -> float:
    if not measured.verdicts:
        # DeepEval's score of no verdicts is 1.
        raise JudgeError("the judge gave no verdict")
    if measured.score is None or not math.isfinite(measured.score):
        raise JudgeError(f"the score is {measured.score}")
    return float(measured.score)


def _with_counts(measured: Measurement) -> str | None:
    """The judge's reason, and how many verdicts it gave where that is not one for each thing it listed."""
    if measured.listed is None or measured.verdicts == measured.listed:
        return measured.reason
    return f"{measured.reason or ''} ({measured.verdicts} verdicts for {measured.listed} statements)".strip()
