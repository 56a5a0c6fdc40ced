"""How good an answer is, measured on its words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from contextgrid.core.words import content_words, words
from contextgrid.generate.citations import without_citations

# Left out of token F1, as SQuAD's evaluation does.
_ARTICLES = frozenset({"a", "an", "the"})


def answer_quality(
    answer: str,
    *,
    abstained: bool,
    answerable: bool,
    reference: str | None = None,
    gold_quotes: Sequence[str] = (),
) -> float | None:
    """The default answer score, 0 to 1.

    An unanswerable question scores 1 for declining and 0 for answering. An answerable one scores 0 for declining,
    else token F1 against the reference answer, or without one ``evidence_overlap`` with the gold quotes.

    Args:
        answer: the answer's text.
        abstained: whether it declines.
        answerable: whether the corpus holds an answer.
        reference: a reference answer.
        gold_quotes: the texts of the question's pieces of evidence.

    Returns:
        ``None`` for an answerable question with neither a reference nor gold quotes.
    """
    if not answerable:
        return float(abstained)
    if abstained:
        return 0.0
    if reference is not None and words(reference):
        return token_f1(answer, reference)
    return evidence_overlap(answer, gold_quotes)


def token_f1(answer: str, reference: str) -> float:
    """Harmonic mean of precision and recall of ``answer``'s words against ``reference``'s, repetitions counted.

    Rajpurkar et al. 2016 (SQuAD), with this package's words in place of ASCII ones. Articles and citation markers
    are left out.
    """
    given = Counter(_f1_words(without_citations(answer)))
    wanted = Counter(_f1_words(reference))
    common = (given & wanted).total()
    return 2 * common / (given.total() + wanted.total()) if common else 0.0


def evidence_overlap(answer: str, evidence: Sequence[str]) -> float | None:
    """Share of the distinct content words of ``evidence`` that ``answer`` contains; ``None`` without any."""
    wanted = set().union(*(content_words(text) for text in evidence))
    return shared_words(wanted, words(without_citations(answer))) / len(wanted) if wanted else None


def shared_words(of: Collection[str], among: Iterable[str]) -> int:
    """How many of the words ``of`` occur ``among`` others.

    Unspaced scripts are read as bigrams, but a run of one character is a word of its own: it also counts as
    occurring inside a bigram.
    """
    pool = among if isinstance(among, set | frozenset) else set(among)
    missing = [word for word in of if word not in pool]
    inside = {word for word in missing if len(word) == 1 and not word.isascii()}
    if inside:
        inside &= {character for word in pool if len(word) == 2 for character in word}
    return len(of) - len(missing) + sum(word in inside for word in missing)


def _f1_words(text: str) -> list[str]:
    return [word for word in words(text) if word not in _ARTICLES]
