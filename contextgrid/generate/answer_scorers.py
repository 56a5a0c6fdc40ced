"""Scores of single answers under their names, for holding them against people's ratings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from contextgrid.generate.abstention import is_abstention
from contextgrid.generate.citations import find_citations
from contextgrid.generate.quality import answer_quality
from contextgrid.generate.scores import citation_accuracy, groundedness
from contextgrid.generate.support import support_scores

#: From questions, answers, contexts and references, of equal lengths, to one score per answer or ``None``. Higher is
#: better. A judge that calls a model is one of these as well.
Scorer = Callable[[Sequence[str], Sequence[str], Sequence[Sequence[str]], Sequence[str | None]], Sequence[float | None]]


def _support(
    questions: Sequence[str],
    answers: Sequence[str],
    contexts: Sequence[Sequence[str]],
    references: Sequence[str | None],
) -> list[float | None]:
    return support_scores(answers, contexts)


def _groundedness(
    questions: Sequence[str],
    answers: Sequence[str],
    contexts: Sequence[Sequence[str]],
    references: Sequence[str | None],
) -> list[float | None]:
    pairs = zip(answers, contexts, strict=True)
    return [None if is_abstention(answer) else groundedness(answer, "\n".join(passages)) for answer, passages in pairs]


def _citation_accuracy(
    questions: Sequence[str],
    answers: Sequence[str],
    contexts: Sequence[Sequence[str]],
    references: Sequence[str | None],
) -> list[float | None]:
    pairs = zip(answers, contexts, strict=True)
    return [
        None if is_abstention(answer) else citation_accuracy(find_citations(answer), len(passages))
        for answer, passages in pairs
    ]


def _answer_quality(
    questions: Sequence[str],
    answers: Sequence[str],
    contexts: Sequence[Sequence[str]],
    references: Sequence[str | None],
) -> list[float | None]:
    # A question is unanswerable if its reference declines. An answer that is its own reference says nothing.
    return [
        None
        if reference is None or answer.strip() == reference.strip()
        else answer_quality(
            answer,
            abstained=is_abstention(answer),
            answerable=not is_abstention(reference),
            reference=reference,
        )
        for answer, reference in zip(answers, references, strict=True)
    ]


#: The scores that need no model. Those that say something about an answer's content are ``None`` for one that declines.
LEXICAL: Mapping[str, Scorer] = {
    "support": _support,
    "groundedness": _groundedness,
    "citation_accuracy": _citation_accuracy,
    "answer_quality": _answer_quality,
}
