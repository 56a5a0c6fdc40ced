"""``keywords``: the question without its function words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from contextgrid.core.words import content_words
from contextgrid.transform.base import TRANSFORMS

_PUNCTUATION = ".,;:!?…\"'()[]{}«»„“”‘’¿¡。！？，、；：「」『』（）"


@TRANSFORMS.register("keywords")
@dataclass(frozen=True)
class Keywords:
    """Content words as written and in order, English and German function words left out.

    Text without spaces between its words stays whole. A question of nothing but function words stays as it is.
    """

    def transform(self, questions: Sequence[str]) -> list[str]:
        return [_keywords(question) for question in questions]


def _keywords(question: str) -> str:
    kept = [word.strip(_PUNCTUATION) for word in question.split() if content_words(word)]
    return " ".join(kept) or question
