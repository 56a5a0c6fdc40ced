"""``offline:reader``: answers by quoting sentences of the passages in its prompt; no network, no weights.

It stands in for a model wherever a grid should run free of charge and the same every time. Passages, question and
instructions are found in the prompt's text, as a model finds them, and passages are only ever text: an instruction
inside one is not followed. How it answers:

1. Words of the question weigh by their inverse document frequency over the sentences of the prompt, and one
   that no sentence has weighs as much as the rarest. Words are compared without common English and German endings.
2. A sentence scores the share of the question's weight among its own words, plus half of what only the sentence
   before it or its passage's title has. Numbers are a bonus where the question asks for one.
3. If no sentence scores ``threshold``, the reader declines.
4. Else it quotes the best sentences, each with its passage's number: as many as the prompt allows ("in one sentence",
   "at most 3 sentences"), by default up to three.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from contextgrid.core.errors import ConfigError
from contextgrid.core.registry import nearest
from contextgrid.core.words import content_words, count_tokens, normalise
from contextgrid.models.base import register_provider
from contextgrid.models.prompt_reading import ReadPassage, read_prompt

DECLINED = "The passages do not contain the answer."
_SENTENCES = 3
# A further sentence is quoted only if it scores at least this share of the best one.
_WORTH_QUOTING = 0.6
_NUMBER_BONUS = 0.1


@dataclass(frozen=True)
class OfflineReader:
    """A deterministic reader of numbered passages.

    Args:
        threshold: the score below which it declines, 0 (never) to 1. The default balances, on CLAPnq questions
            with five passages, declining what the passages cannot answer against answering what they can.
    """

    threshold: float = 0.4

    # It costs nothing, and its calls do not depend on one another.
    free: ClassVar[bool] = True
    in_order: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ConfigError(f"offline:reader: threshold must lie in 0 to 1, got {self.threshold}")

    @property
    def name(self) -> str:
        """What reports call it."""
        return "offline:reader"

    def complete(self, prompt: str, *, max_tokens: int = 512) -> str:
        """Quoted sentences with their citations, or ``DECLINED``; at most ``max_tokens`` estimated tokens."""
        read = read_prompt(prompt)
        scored = _scored(read.question, read.passages)
        best = max((sentence.score for sentence in scored), default=0.0)
        if best < self.threshold or best == 0:
            return _shortened(DECLINED, max_tokens)
        worth = [sentence for sentence in scored if sentence.score >= _WORTH_QUOTING * best]
        worth.sort(key=lambda sentence: -sentence.score)
        return _written(worth[: read.sentences or _SENTENCES], max_tokens)


@register_provider("offline")
def _offline(model: str, options: Mapping[str, str]) -> OfflineReader:
    if model != "reader":
        raise ConfigError(f"no offline model {model!r}; write offline:reader")
    threshold = options.get("threshold", OfflineReader.threshold)
    for name in options:
        if name != "threshold":
            raise ConfigError(f"no option {name!r}{nearest(name, ['threshold'])}")
    try:
        return OfflineReader(float(threshold))
    except ValueError:
        raise ConfigError(f"threshold must be a number, got {threshold!r}") from None


@dataclass(frozen=True)
class _Sentence:
    passage: int
    position: int
    text: str
    score: float


def _scored(question: str, passages: Sequence[ReadPassage]) -> list[_Sentence]:
    """Every sentence of every passage with its score, in reading order; none for a question without words."""
    from contextgrid.core.sentences import sentence_spans

    asked = _stems(_ASKING.sub(" ", _ASKS_NUMBER.sub(" ", normalise(question))))
    texts = [(passage, passage.text[start:end]) for passage in passages for start, end in sentence_spans(passage.text)]
    stems = [_stems(text) for _, text in texts]
    frequency = Counter(word for sentence in stems for word in sentence & asked)
    # A word that no sentence has counts as the rarest ones do; the 2 keeps single words of a short context in bounds.
    weights = {word: math.log(1 + len(texts) / (max(frequency[word], 1) + 2)) for word in asked}
    # Summed exactly: the order of a set differs between processes, and rounding must not choose the sentence.
    total = math.fsum(weights.values())
    if not total:
        return []
    titles = {passage.number: _stems(_TITLE.sub(" ", passage.source_id)) for passage in passages}
    wants_number = bool(_ASKS_NUMBER.search(normalise(question)))
    scored = []
    before: tuple[int, frozenset[str]] = (0, frozenset())
    for position, ((passage, text), own) in enumerate(zip(texts, stems, strict=True)):
        around = titles[passage.number] | (before[1] if before[0] == passage.number else frozenset())
        before = (passage.number, own)
        score = math.fsum(weights[word] * (1 if word in own else 0.5) for word in asked & (own | around)) / total
        if wants_number and score and _NUMBER.search(normalise(text)):
            score += _NUMBER_BONUS
        scored.append(_Sentence(passage.number, position, text, score))
    return scored


def _stems(text: str) -> frozenset[str]:
    return frozenset(_ENDING.sub("", word) for word in content_words(text))


def _written(best: Sequence[_Sentence], max_tokens: int) -> str:
    """The sentences in reading order, each cited, without the worst ones that ``max_tokens`` has no room for."""
    quotes = {sentence: f"{_quotable(sentence.text)} [{sentence.passage}]" for sentence in best}
    kept: list[_Sentence] = []
    used = 0
    for sentence in best:
        used += count_tokens(quotes[sentence])
        if used > max_tokens:
            break
        kept.append(sentence)
    if not kept:
        return _shortened(quotes[best[0]], max_tokens)
    return " ".join(quotes[sentence] for sentence in sorted(kept, key=lambda sentence: sentence.position))


def _quotable(sentence: str) -> str:
    # A passage's own marks, such as [3], must not read as citations of this prompt's passages.
    return " ".join(sentence.translate(_ROUND).split())


def _shortened(text: str, max_tokens: int) -> str:
    """The longest beginning of ``text``, cut between words, that has at most ``max_tokens`` tokens."""
    ends = [found.end() for found in _WORD_END.finditer(text)]
    fitting = [end for end in ends if count_tokens(text[:end]) <= max_tokens]
    return text[: fitting[-1]] if fitting else ""


# One ending, if at least three letters stay in front of it.
_ENDING = re.compile(r"(?<=[^\W\d_]{3})(?:ingly|edly|ing|ies|ied|es|ed|ly|s|en|ern|er|em|e|n)\Z")
_TITLE = re.compile(r"[-_/.]|\.\w+\Z")
_ASKS_NUMBER = re.compile(
    r"\b(?:when|how (?:many|much|long|old|far|big|large|tall|high|often)|what (?:year|date|percentage|number)"
    r"|wann|wie\s?(?:viele?|lange|alt|weit|gross|hoch|oft))\b|多少|几|幾|何时|什么时候|哪一?年|多[长久大高远]"
)
# Words that ask rather than say what about; in Chinese also particles, which would spoil the bigrams beside them.
_ASKING = re.compile(
    r"\b(?:welche[mnrs]?|wer|wem|wen|wann|warum|wieso|weshalb|wohin|woher|wodurch|womit|whose|tell|please|explain)\b"
    r"|为什么|什么|什麼|哪些|哪个|哪個|哪里|哪儿|哪種|哪种|哪|谁|誰|如何|怎么|怎样|怎麼|吗|嗎|呢|请问|[的了是在和与與及於于对對被将把从從由]"
)
_NUMBER = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|hundred|thousand|million"
    r"|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|hundert|tausend)\b|[一二三四五六七八九十百千万]"
)
_ROUND = str.maketrans("[]［］【】〔〕", "()()()()")
_WORD_END = re.compile(r"\S(?=\s|\Z)|[\u3040-\u30ff\u3400-\u9fff]")
