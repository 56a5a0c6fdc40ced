"""``wordllama``: averaged word-piece vectors of a language model, offline."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contextgrid.core.errors import ConfigError
from contextgrid.core.fingerprint import hash_bytes
from contextgrid.core.state import State
from contextgrid.embed.base import EMBEDDERS

_DIMENSIONS = (64, 128, 256)
_BATCH = 4096  # texts tokenised at once


@EMBEDDERS.register("wordllama")
@dataclass(frozen=True)
class WordLlama:
    """Static embeddings distilled from Llama 2 token embeddings; the weights come with the ``wordllama`` package.

    It was trained on English. Other languages in Latin script work less well, and Chinese or Thai mostly fall
    apart into bytes: prefer ``tfidf`` or ``bm25`` there. Nothing is fitted to the corpus, and the order of words
    does not matter. Source: https://github.com/dleemiller/WordLlama (model ``l2_supercat``).

    Args:
        dim: leading dimensions used: 64, 128 or 256.
    """

    dim: int = 256

    def __post_init__(self) -> None:
        if self.dim not in _DIMENSIONS:
            raise ConfigError(f"wordllama: dim must be one of {', '.join(map(str, _DIMENSIONS))}, got {self.dim}")

    def fit(self, passages: Sequence[str]) -> tuple[FittedWordLlama, NDArray[np.float32]]:
        fitted = FittedWordLlama(self.dim, _model()[2])
        return fitted, fitted.embed(passages)

    def restore(self, state: State) -> FittedWordLlama:
        return FittedWordLlama(self.dim, state["weights"].tobytes().decode())


@dataclass(frozen=True)
class FittedWordLlama:
    """The model, with the hash of the weights that embedded the passages."""

    dim: int
    weights: str

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of some texts, float32 of shape ``(n_texts, dim)``.

        Raises:
            ConfigError: if the installed weights are not those that embedded the passages.
        """
        from scipy.sparse import csr_array

        tokenizer, embedding, weights = _model()
        if weights != self.weights:
            raise ConfigError("this index was built with other wordllama weights than the installed; build it again")
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        for first in range(0, len(texts), _BATCH):
            batch = tokenizer.encode_batch_fast(list(texts[first : first + _BATCH]), add_special_tokens=False)
            ids = [encoding.ids for encoding in batch]
            ends = np.cumsum([0, *map(len, ids)])
            pieces = np.minimum(np.fromiter(chain.from_iterable(ids), np.int64, ends[-1]), len(embedding) - 1)
            # A sparse product sums the vectors of each text without ever holding all of them.
            counts = csr_array((np.ones(len(pieces), np.float32), pieces, ends), shape=(len(ids), len(embedding)))
            vectors[first : first + len(ids)] = counts @ embedding[:, : self.dim]
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.divide(vectors, lengths, out=vectors, where=lengths > 0)
        return vectors

    def state(self) -> State:
        return {"weights": np.frombuffer(self.weights.encode(), dtype=np.uint8)}


@lru_cache(maxsize=1)
def _model() -> tuple[Any, NDArray[np.float32], str]:
    """Tokenizer, token embeddings of shape ``(32000, 256)`` and the hash of the latter, loaded once."""
    with _root_logging_kept():
        import wordllama

        # The package folder is also laid out like the library's cache, so nothing is copied or downloaded.
        folder = Path(wordllama.__file__).parent
        try:
            model = wordllama.WordLlama.load(dim=_DIMENSIONS[-1], cache_dir=folder, disable_download=True)
        except FileNotFoundError as error:
            raise ConfigError(f"wordllama: {error} Reinstall the wordllama package") from error
    model.tokenizer.no_padding()
    return model.tokenizer, model.embedding, hash_bytes(model.embedding.data)


@contextmanager
def _root_logging_kept() -> Iterator[None]:
    """Undo what importing the library does to the root logger: it adds a handler that prints everyone's messages."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
