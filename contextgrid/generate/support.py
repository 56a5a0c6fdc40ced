"""``support``: how well each sentence of an answer is backed by one place in its context; no model is involved."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, takewhile

import numpy as np
from numpy.typing import NDArray

from contextgrid.core.errors import ConfigError
from contextgrid.core.sentences import sentence_spans
from contextgrid.core.words import content_words, normalise, words
from contextgrid.generate.abstention import is_abstention
from contextgrid.generate.citations import without_citations

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_NEGATION = re.compile(
    r"\b(?:not|no|never|none|neither|nor|without|cannot|\w+n't|nicht|nie|niemals|ohne|keine?[mnrs]?)\b"
    r"|[不沒没無无]|未(?![来來])|ません|ない|なかった"
)
_ENUMERATOR = re.compile(r"^[ \t>*_-]*\d{1,3}[.)](?=[ \t])", re.MULTILINE)
_LONGEST_CLAIM = 50  # words: longer pieces are lists or code without full stops, which no single place backs
_STEM = 4  # letters that two inflections share at least


@dataclass(frozen=True)
class Support:
    """How to measure support.

    Args:
        window: consecutive sentences of a passage that count as one place.
        number_weight: weight of a word with digits in it; other words weigh 1.
        negation_penalty: share, from 0 to 1, that a sentence loses if it negates and its place does not.
        inflections: whether "deleting" is partly backed by "deleted".
    """

    window: int = 3
    number_weight: float = 2.0
    negation_penalty: float = 0.5
    inflections: bool = True

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ConfigError(f"support: window must be at least 1, got {self.window}")
        if not self.number_weight > 0:
            raise ConfigError(f"support: number_weight must be above 0, got {self.number_weight}")
        if not 0 <= self.negation_penalty <= 1:
            raise ConfigError(f"support: negation_penalty must be from 0 to 1, got {self.negation_penalty}")

    def score(self, answer: str, contexts: Sequence[str]) -> float | None:
        """See :func:`support_score`."""
        if is_abstention(answer):
            return None
        claims = list(_claims(answer))
        if not claims:
            return None
        evidence = _Evidence.of(contexts, self.window)
        backed = weight = 0.0
        for claimed, negates in claims:
            weights = np.array([self.number_weight if _is_number(word) else 1.0 for word in claimed])
            weight += float(weights.sum())
            if evidence is not None:
                backed += self._backed(claimed, weights, negates, evidence)
        return backed / weight

    def _backed(self, claimed: Sequence[str], weights: Floats, negates: bool, evidence: _Evidence) -> float:
        credit = np.stack([evidence.credit(word, self.inflections) for word in claimed])
        by_place = weights @ credit[:, evidence.places].max(axis=2)
        backed = float(by_place.max())
        # Of several places that hold as much, one that negates will do.
        if negates and not evidence.negated[by_place >= backed - 1e-9].any():
            backed *= 1 - self.negation_penalty
        return backed


def support_score(answer: str, contexts: Sequence[str]) -> float | None:
    """Share of an answer's content that its context backs, 0 to 1, one sentence and one place at a time.

    Each sentence of the answer is held against those three consecutive sentences of a passage that back most of its
    content words. A word found there counts 1, and an inflected form ("deleting" for "deleted", at least four
    letters alike) the share of letters that the two have in common from the start. Words with digits weigh double.
    A sentence that negates counts half if its place negates nothing. The score is the mean over the words of all
    sentences. Citation markers, numbers of list items and function words are left aside.

    Args:
        answer: the answer.
        contexts: the passages that the generator saw.

    Returns:
        ``None`` if the answer declines or claims nothing; 0 if it claims something without any context.
    """
    return DEFAULT.score(answer, contexts)


def support_scores(answers: Sequence[str], contexts: Sequence[Sequence[str]]) -> list[float | None]:
    """:func:`support_score` of many answers, each with its own passages."""
    return [DEFAULT.score(answer, passages) for answer, passages in zip(answers, contexts, strict=True)]


DEFAULT = Support()


def _claims(answer: str) -> Iterator[tuple[list[str], bool]]:
    """For each sentence its distinct content words and whether it negates."""
    plain = _ENUMERATOR.sub("", without_citations(answer))
    for start, end in sentence_spans(plain):
        sentence = plain[start:end]
        claimed = list(dict.fromkeys(content_words(sentence)))
        negates = _negates(sentence)
        for first in range(0, len(claimed), _LONGEST_CLAIM):
            yield claimed[first : first + _LONGEST_CLAIM], negates


@dataclass(frozen=True)
class _Passage:
    """The sentences of a passage: which of them hold each word, and which negate."""

    holders: dict[str, list[int]]
    vocabulary: list[str]
    negated: list[bool]


@lru_cache(maxsize=1024)
def _passage(text: str) -> _Passage:
    holders: dict[str, list[int]] = {}
    negated = []
    for number, (start, end) in enumerate(sentence_spans(text)):
        sentence = text[start:end]
        negated.append(_negates(sentence))
        for word in set(words(sentence)):
            # A bigram of an unspaced script also holds its characters, which answers write as words of their own.
            for name in (word, *word) if len(word) == 2 and not word.isascii() else (word,):
                if holders.setdefault(name, [number])[-1] != number:
                    holders[name].append(number)
    return _Passage(holders, sorted(holders), negated)


@dataclass(frozen=True)
class _Evidence:
    """The sentences of all passages in one row.

    Attributes:
        passages: with the number of each one's first sentence.
        sentences: how many.
        places: (places, window) sentences of each place; a place at the end of a passage repeats its last.
        negated: (places,) whether a sentence of the place negates.
    """

    passages: list[tuple[_Passage, int]]
    sentences: int
    places: Ints
    negated: NDArray[np.bool_]

    @classmethod
    def of(cls, contexts: Sequence[str], window: int) -> _Evidence | None:
        """``None`` if there is no sentence at all."""
        passages, places, first = [], [], 0
        for passage in map(_passage, contexts):
            count = len(passage.negated)
            starts = np.arange(max(1, count - window + 1) if count else 0)
            places.append(first + np.minimum(starts[:, np.newaxis] + np.arange(window), count - 1))
            passages.append((passage, first))
            first += count
        if not first:
            return None
        place = np.concatenate(places)
        negated = np.array(list(chain.from_iterable(passage.negated for passage, _ in passages)))
        return cls(passages, first, place, negated[place].any(axis=1))

    def credit(self, word: str, inflections: bool) -> Floats:
        """(sentences,) how far each sentence backs a word."""
        credit = np.zeros(self.sentences)
        inflected = inflections and len(word) >= _STEM and word.isalpha()
        for passage, first in self.passages:
            if inflected:
                for form in _forms(word, passage.vocabulary):
                    share = _shared_letters(word, form) / max(len(word), len(form))
                    rows = first + np.array(passage.holders[form])
                    credit[rows] = np.maximum(credit[rows], share)
            elif word in passage.holders:
                credit[first + np.array(passage.holders[word])] = 1.0
        return credit


def _forms(word: str, vocabulary: list[str]) -> list[str]:
    """The words of a sorted vocabulary that begin as ``word`` does."""
    stem = word[:_STEM]
    first = bisect_left(vocabulary, stem)
    last = bisect_left(vocabulary, stem + "\U0010ffff", first)
    return vocabulary[first:last]


def _shared_letters(word: str, form: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(word, form, strict=False)))


def _negates(sentence: str) -> bool:
    return bool(_NEGATION.search(normalise(sentence)))


def _is_number(word: str) -> bool:
    return any(character.isdigit() for character in word)
