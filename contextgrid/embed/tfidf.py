"""``tfidf``: sparse word vectors, weighted by how rare each word is among the passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from contextgrid.core.errors import ConfigError, CorpusError
from contextgrid.core.state import State, pack_words, unpack_words
from contextgrid.core.words import words
from contextgrid.embed.base import EMBEDDERS

if TYPE_CHECKING:
    from contextgrid.embed.base import Vectors


@EMBEDDERS.register("tfidf")
@dataclass(frozen=True)
class Tfidf:
    """Term frequency times inverse document frequency over normalised words, in any language.

    Weights are scikit-learn's: ``tf * (ln((1 + n) / (1 + df)) + 1)``, rows scaled to length 1. Words are those of
    ``contextgrid.core.words``; a query's words that no passage holds are ignored.

    Args:
        ngrams: longest run of neighbouring words that counts as a term; 1 takes single words only.
        sublinear: use ``1 + ln(tf)`` for ``tf``, so that repetition counts for less.
    """

    ngrams: int = 1
    sublinear: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.ngrams <= 5:
            raise ConfigError(f"tfidf: ngrams must be from 1 to 5, got {self.ngrams}")

    def fit(self, passages: Sequence[str]) -> tuple[FittedTfidf, Vectors]:
        vectorizer = self._vectorizer()
        try:
            vectors = vectorizer.fit_transform(passages)
        except ValueError as error:  # scikit-learn's only complaint about a list of strings: no vocabulary
            raise CorpusError("tfidf: the passages hold no words to index; check what the parser returned") from error
        return FittedTfidf(vectorizer), vectors

    def restore(self, state: State) -> FittedTfidf:
        vectorizer = self._vectorizer(vocabulary=unpack_words(state["vocabulary"]))
        vectorizer.idf_ = state["idf"]
        return FittedTfidf(vectorizer)

    def _vectorizer(self, **options: Any) -> Any:
        from sklearn.feature_extraction.text import TfidfVectorizer

        return TfidfVectorizer(analyzer=partial(_terms, self.ngrams), sublinear_tf=self.sublinear, **options)


@dataclass(frozen=True)
class FittedTfidf:
    """Vocabulary and weights of a corpus."""

    vectorizer: Any

    def embed(self, texts: Sequence[str]) -> Vectors:
        from scipy.sparse import csr_array

        if not texts:  # scikit-learn refuses to transform nothing
            return csr_array((0, len(self.vectorizer.idf_)))
        vectors: Vectors = self.vectorizer.transform(texts)
        return vectors

    def state(self) -> State:
        return {"vocabulary": pack_words(self.vectorizer.get_feature_names_out()), "idf": self.vectorizer.idf_}


def _terms(longest: int, text: str) -> list[str]:
    found = words(text)
    return [
        " ".join(found[start : start + length])
        for length in range(1, longest + 1)
        for start in range(len(found) - length + 1)
    ]
