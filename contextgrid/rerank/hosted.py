"""``hosted``: scores from a provider's reranking model, or from a server of one's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contextgrid.models.hosted_retrieval import RerankEndpoint, Service
from contextgrid.rerank.base import RERANKERS


@RERANKERS.register("hosted")
@dataclass(frozen=True)
class Hosted:
    """A reranking model behind an API: ``hosted:cohere/rerank-v3.5``; one call for each question.

    The same question with the same candidates in the same order is paid once and then served from the call ledger.

    Args:
        model: ``provider/model`` as LiteLLM writes it; ``hosted_vllm/...`` for a server of your own.
        api_base: address of a server of your own.
        key_env: the environment variable that holds the key, instead of the provider's own.
    """

    model: str
    api_base: str | None = None
    key_env: str | None = None

    def __post_init__(self) -> None:
        self._endpoint()

    def scores(self, questions: Sequence[str], passages: Sequence[Sequence[str]]) -> list[NDArray[np.float64]]:
        """As the model rates them; nothing is asked where there is no question or no candidate.

        Raises:
            LLMError: if a call fails, or a replay does not hold it.
        """
        from contextgrid.models.batches import open_endpoint

        found = [np.zeros(len(candidates)) for candidates in passages]
        asked = [row for row, question in enumerate(questions) if question.strip() and len(passages[row])]
        inputs = [json.dumps([questions[row], list(passages[row])], ensure_ascii=False) for row in asked]
        if inputs:
            for row, reply in zip(asked, open_endpoint(self._endpoint()).replies(inputs), strict=True):
                found[row] = np.array(json.loads(reply.text), dtype=np.float64)
        return found

    def _endpoint(self) -> RerankEndpoint:
        return RerankEndpoint(Service("hosted", self.model, self.api_base, self.key_env))
