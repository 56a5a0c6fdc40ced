"""Scores of single answers under their names, for holding them against people's ratings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from contextgrid.evalset.labels import LabelledAnswer
from contextgrid.generate.abstention import is_abstention
from contextgrid.generate.citations import find_citations
from contextgrid.generate.quality import answer_quality
from contextgrid.generate.scores import citation_accuracy, groundedness
from contextgrid.generate.support import support_scores

#: From rated answers to one score each, or ``None`` where there is none. Higher is better.
Scorer = Callable[[Sequence[LabelledAnswer]], Iterable[float | None]]


def _support(answers: Sequence[LabelledAnswer]) -> Iterable[float | None]:
    return support_scores([each.answer for each in answers], [each.contexts for each in answers])


def _one_by_one(score: Callable[[LabelledAnswer], float | None]) -> Scorer:
    return lambda answers: [score(each) for each in answers]


def _groundedness(each: LabelledAnswer) -> float | None:
    return None if is_abstention(each.answer) else groundedness(each.answer, "\n".join(each.contexts))


def _citation_accuracy(each: LabelledAnswer) -> float | None:
    if is_abstention(each.answer):
        return None
    return citation_accuracy(find_citations(each.answer), len(each.contexts))


def _answer_quality(each: LabelledAnswer) -> float | None:
    # A question is unanswerable if its reference declines. An answer that is its own reference says nothing.
    if each.reference is None or each.answer.strip() == each.reference.strip():
        return None
    return answer_quality(
        each.answer,
        abstained=is_abstention(each.answer),
        answerable=not is_abstention(each.reference),
        reference=each.reference,
    )


#: The scores that need no model. Those that say something about an answer's content are ``None`` for one that declines.
LEXICAL: Mapping[str, Scorer] = {
    "support": _support,
    "groundedness": _one_by_one(_groundedness),
    "citation_accuracy": _one_by_one(_citation_accuracy),
    "answer_quality": _one_by_one(_answer_quality),
}
