"""Scores of single answers under their names, for holding them against people's ratings."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from contextgrid.evalset.labels import LabelledAnswer
from contextgrid.generate.abstention import is_abstention
from contextgrid.generate.citations import find_citations
from contextgrid.generate.quality import answer_quality
from contextgrid.generate.scores import citation_accuracy, groundedness
from contextgrid.generate.support import support_score

#: The score of an answer, or ``None`` where there is none. Higher is better.
Scorer = Callable[[LabelledAnswer], float | None]


def _support(given: LabelledAnswer) -> float | None:
    return support_score(given.answer, given.contexts)


def _groundedness(given: LabelledAnswer) -> float | None:
    return None if is_abstention(given.answer) else groundedness(given.answer, "\n".join(given.contexts))


def _citation_accuracy(given: LabelledAnswer) -> float | None:
    if is_abstention(given.answer):
        return None
    return citation_accuracy(find_citations(given.answer), len(given.contexts))


def _answer_quality(given: LabelledAnswer) -> float | None:
    # An answer that is its own reference says nothing.
    if given.reference is None or given.answer.strip() == given.reference.strip():
        return None
    return answer_quality(
        given.answer,
        abstained=is_abstention(given.answer),
        answerable=not is_abstention(given.reference),  # a question is unanswerable if its reference declines
        reference=given.reference,
    )


#: The scores that need no model. Those that say something about an answer's content are ``None`` for one that declines.
LEXICAL: Mapping[str, Scorer] = {
    "support": _support,
    "groundedness": _groundedness,
    "citation_accuracy": _citation_accuracy,
    "answer_quality": _answer_quality,
}
