"""``hosted``: vectors from a provider's embedding model, or from a server of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contextgrid.core.errors import ConfigError, CorpusError
from contextgrid.core.state import State
from contextgrid.embed.base import EMBEDDERS
from contextgrid.models.hosted_retrieval import EmbeddingEndpoint, Service, unpacked


@EMBEDDERS.register("hosted")
@dataclass(frozen=True)
class Hosted:
    """An embedding model behind an API: ``hosted:openai/text-embedding-3-small``.

    Every text is paid once and then served from the call ledger, questions included. Passages and questions are
    embedded alike, which suits models that ask for no prefix.

    Args:
        model: ``provider/model`` as LiteLLM writes it.
        api_base: address of a server of your own.
        key_env: the environment variable that holds the key, instead of the provider's own.
        batch: texts in one request, at most.
        dimensions: length of the vectors, for models that can shorten them.
    """

    model: str
    api_base: str | None = None
    key_env: str | None = None
    batch: int = 64
    dimensions: int | None = None

    def __post_init__(self) -> None:
        for name in ("batch", "dimensions"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"hosted: {name} must be at least 1, got {value}")
        self._endpoint()

    def fit(self, passages: Sequence[str]) -> tuple[FittedHosted, NDArray[np.float32]]:
        vectors = self.vectors(passages)
        if vectors is None:
            raise CorpusError("hosted: the passages hold no text to embed; check what the parser returned")
        return FittedHosted(self, vectors.shape[1]), vectors

    def restore(self, state: State) -> FittedHosted:
        return FittedHosted(self, int(state["length"][0]))

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """Unit vectors of some texts, zeros for blank ones, which no model is asked about; ``None`` if all are blank.

        Raises:
            LLMError: if a call fails, or a replay does not hold it.
        """
        from contextgrid.models.batches import open_endpoint

        rows = [row for row, text in enumerate(texts) if text.strip()]
        if not rows:
            return None
        replies = open_endpoint(self._endpoint()).replies([texts[row] for row in rows])
        found = [unpacked(reply) for reply in replies]
        if len({len(vector) for vector in found}) > 1:
            raise ConfigError(
                f"hosted: {self.model} gives vectors of another length than before; run once with --fresh"
            )
        vectors = np.zeros((len(texts), len(found[0])), dtype=np.float32)
        vectors[rows] = found
        lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
        np.divide(vectors, lengths, out=vectors, where=lengths > 0, casting="same_kind")
        return vectors

    def _endpoint(self) -> EmbeddingEndpoint:
        service = Service("hosted", self.model, self.api_base, self.key_env)
        return EmbeddingEndpoint(service, self.batch, self.dimensions)


@dataclass(frozen=True)
class FittedHosted:
    """The model, and the length of the vectors that it gave for the passages."""

    embedder: Hosted
    length: int

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of some texts, float32 of shape ``(n_texts, length)``.

        Raises:
            LLMError: if a call fails, or a replay does not hold it.
            ConfigError: if the model now gives vectors of another length.
        """
        vectors = self.embedder.vectors(texts)
        if vectors is None:
            return np.zeros((len(texts), self.length), dtype=np.float32)
        if vectors.shape[1] != self.length:
            raise ConfigError(
                f"hosted: {self.embedder.model} gives vectors of length {vectors.shape[1]}, but the index was built"
                f" with {self.length}; build it again"
            )
        return vectors

    def state(self) -> State:
        return {"length": np.array([self.length], dtype=np.int64)}
