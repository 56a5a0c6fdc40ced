"""Scores of an answer that need no second model, and their summary over an eval set."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from contextgrid.assemble.context import AssembledContext
from contextgrid.core.documents import Chunk
from contextgrid.core.evalset import EvalItem
from contextgrid.core.words import content_words, words
from contextgrid.generate.answer import Answer
from contextgrid.generate.quality import evidence_overlap, shared_words


@dataclass(frozen=True)
class AnswerScore:
    """Lexical scores of one answer.

    Attributes:
        item_id: the question.
        groundedness: share of the answer's content words that occur in its context; ``None`` for an answer
            without any.
        citation_accuracy: share of the cited numbers that are passages of the context; ``None`` if none is cited.
        evidence_overlap: share of the gold evidence's content words that the answer contains; 0 without evidence.
        abstained: whether the answer declines.
        should_have_abstained: whether this parse has no gold for the question, or the context no passages.
        warnings: what a reader of the scores should know.
    """

    item_id: str
    groundedness: float | None
    citation_accuracy: float | None
    evidence_overlap: float
    abstained: bool
    should_have_abstained: bool
    warnings: list[str] = field(default_factory=list)

    @property
    def abstention_correct(self) -> bool:
        """Whether the answer declines exactly when it should."""
        return self.abstained == self.should_have_abstained


def score_answer(
    item: EvalItem, answer: Answer, context: AssembledContext, gold_chunks: Sequence[Chunk] = ()
) -> AnswerScore:
    """Score one answer on its words and citations.

    Args:
        item: the question; its ``gold`` says whether this parse can answer it.
        answer: the answer.
        context: what the generator saw.
        gold_chunks: passages that hold the evidence, for ``evidence_overlap``.
    """
    passages = len(context.chunks)
    wrong = [number for number in answer.citations if not 1 <= number <= passages]
    warnings = []
    if wrong:
        warnings.append(f"cites {_listed(wrong)}, but the context has {passages} passages")
    return AnswerScore(
        item_id=item.id,
        groundedness=groundedness(answer.text, context.text),
        citation_accuracy=citation_accuracy(answer.citations, passages),
        evidence_overlap=evidence_overlap(answer.text, [chunk.text for chunk in gold_chunks]) or 0.0,
        abstained=answer.is_abstention,
        should_have_abstained=not item.is_resolved or not context.chunks,
        warnings=warnings,
    )


def groundedness(answer: str, context: str) -> float | None:
    """Share of the distinct content words of ``answer`` that occur in ``context``; ``None`` if it has none."""
    claimed = set(content_words(answer))
    if not claimed:
        return None
    # Line by line, because passages recur between contexts and words() remembers what it has read. No word
    # crosses the end of a line.
    available = {word for line in context.split("\n") for word in words(line)}
    return shared_words(claimed, available) / len(claimed)


def citation_accuracy(citations: Sequence[int], passages: int) -> float | None:
    """Share of the cited numbers that lie in 1 to ``passages``; ``None`` if nothing is cited."""
    if not citations:
        return None
    return sum(1 <= number <= passages for number in citations) / len(citations)


@dataclass(frozen=True)
class GenerationReport:
    """The scores of a generator over an eval set."""

    scores: Sequence[AnswerScore] = ()
    generator: str = ""

    @property
    def abstention_accuracy(self) -> float | None:
        """Share of questions on which the generator declined exactly when it should; ``None`` without any."""
        return _mean(float(score.abstention_correct) for score in self.scores)

    @property
    def confident_when_it_should_not_be(self) -> list[str]:
        """Ids of the questions that the corpus cannot support and the generator answered all the same."""
        return [score.item_id for score in self.scores if score.should_have_abstained and not score.abstained]

    def metrics(self) -> dict[str, float]:
        """Mean of each score over the questions that have it; a score that no question has is left out."""
        means = {
            "groundedness": _mean(score.groundedness for score in self.scores),
            "citation_accuracy": _mean(score.citation_accuracy for score in self.scores),
            "evidence_overlap": _mean(score.evidence_overlap for score in self.scores),
            "abstention_accuracy": self.abstention_accuracy,
        }
        return {name: mean for name, mean in means.items() if mean is not None}

    def summary(self) -> str:
        """One paragraph: the means with the number of questions behind them, and what to look at first."""
        total = len(self.scores)
        if not total:
            return f"{self.generator or 'The generator'} answered no questions."
        grounded = sum(score.groundedness is not None for score in self.scores)
        citing = sum(score.citation_accuracy is not None for score in self.scores)
        declined = sum(score.abstained for score in self.scores)
        metrics = self.metrics()
        parts = [f"{self.generator or 'The generator'} was asked {_count(total, 'question')} and declined {declined}."]
        if "groundedness" in metrics:
            parts.append(f"Groundedness {metrics['groundedness']:.3f} (n={grounded} of {total}).")
        if "citation_accuracy" in metrics:
            parts.append(f"Citation accuracy {metrics['citation_accuracy']:.3f} (n={citing} of {total}).")
        else:
            parts.append("No answer cites a passage.")
        parts.append(f"Declined or answered correctly on {metrics['abstention_accuracy']:.1%} of the questions.")
        if overconfident := self.confident_when_it_should_not_be:
            parts.append(f"Answered without support in the corpus: {_listed(overconfident)}.")
        if warned := sum(bool(score.warnings) for score in self.scores):
            parts.append(f"{_count(warned, 'answer')} with warnings.")
        return " ".join(parts)


def _mean(values: Iterable[float | None]) -> float | None:
    measured = [value for value in values if value is not None and math.isfinite(value)]
    return math.fsum(measured) / len(measured) if measured else None


def _listed(values: Sequence[object], most: int = 10) -> str:
    shown = ", ".join(str(value) for value in values[:most])
    return shown if len(values) <= most else f"{shown} and {len(values) - most} more"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
