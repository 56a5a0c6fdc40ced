"""Hosted embeddings and hosted reranking through LiteLLM: one attempt each."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from contextgrid.core.errors import ConfigError
from contextgrid.models.base import LLMError
from contextgrid.models.hosted import _litellm, address, failure, key_for, variable_name
from contextgrid.models.prices import Tariff
from contextgrid.models.reply import Reply

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TIMEOUT = 120.0
# Tokens that a model puts around a text.
_FRAME = 16
# Cohere bills one search for a question with up to 100 passages, each cut into pieces of 500 tokens with the question.
_PASSAGES_PER_SEARCH, _PIECE, _SHORTEST_PIECE = 100, 500, 50


@dataclass(frozen=True)
class Service:
    """Where a hosted model is.

    Args:
        plugin: for messages.
        model: ``provider/model`` as LiteLLM writes it.
        api_base: address of a server of one's own.
        key_env: the environment variable that holds the key, instead of the provider's own.

    Raises:
        ConfigError: for a value that cannot be right. A key in the wrong place is not repeated.
    """

    plugin: str
    model: str
    api_base: str | None = None
    key_env: str | None = None

    timeout: ClassVar[float] = _TIMEOUT

    def __post_init__(self) -> None:
        provider, slash, model = self.model.partition("/")
        if not (provider and slash and model):
            raise ConfigError(f"{self.plugin}: write provider/model, as in openai/text-embedding-3-small")
        for name, read, wanted in (
            ("api_base", address, "an address such as http://localhost:8000/v1, without a password"),
            ("key_env", variable_name, "the name of an environment variable"),
        ):
            value = getattr(self, name)
            try:
                if value is not None:
                    read(value)
            except ValueError:
                raise ConfigError(f"{self.plugin}: {name} must be {wanted}") from None

    @property
    def provider(self) -> str:
        """LiteLLM's name of the provider."""
        return self.model.partition("/")[0]

    @property
    def name(self) -> str:
        """Provider and model, as prices and the ledger name them."""
        return self.model.replace("/", ":", 1)

    @property
    def limit_group(self) -> tuple[str, str]:
        """What shares a provider's limits; completions of the provider do too."""
        return self.provider, self.api_base or ""

    @property
    def identity(self) -> Mapping[str, Any]:
        """The model and where it is."""
        return {"model": self.name} | ({} if self.api_base is None else {"api_base": self.api_base})

    def arguments(self, timeout: float) -> dict[str, Any]:
        """What every call says."""
        options = {} if self.api_base is None else {"api_base": self.api_base}
        return {
            "model": self.model,
            "api_key": key_for(self.name, self.provider, self.key_env, options),
            "timeout": timeout,
            "num_retries": 0,
            "max_retries": _NONE,
            **options,
        }


@dataclass(frozen=True)
class EmbeddingEndpoint:
    """Vectors of texts; a reply is the base64 of little-endian float32 numbers as the provider gave them."""

    service: Service
    batch: int
    dimensions: int | None = None

    kind: ClassVar[str] = "embedding"
    timeout: ClassVar[float] = _TIMEOUT

    @property
    def name(self) -> str:
        return self.service.name

    @property
    def identity(self) -> Mapping[str, Any]:
        chosen = {} if self.dimensions is None else {"dimensions": self.dimensions}
        return {**self.service.identity, **chosen}

    @property
    def limit_group(self) -> tuple[str, str]:
        return self.service.limit_group

    def prepare(self) -> None:
        _litellm()

    def worst_case(self, text: str, tariff: Tariff) -> float:
        return tariff.usd(_size(text) + _FRAME, 0) or 0.0

    def call(self, inputs: Sequence[str], *, timeout: float, tariff: Tariff | None) -> list[Reply]:
        litellm = _litellm()
        arguments = self.service.arguments(timeout)
        if self.dimensions is not None:
            arguments["dimensions"] = self.dimensions
            if self.service.provider == "openai":
                # LiteLLM leaves it out for any but OpenAI's own models.
                arguments["allowed_openai_params"] = ["dimensions"]
        try:
            response = litellm.embedding(input=list(inputs), encoding_format="float", drop_params=True, **arguments)
            rows = sorted((int(row["index"]), list(row["embedding"])) for row in response.data)
            total = getattr(response.usage, "prompt_tokens", None)
        except Exception as error:  # noqa: BLE001 - every provider raises its own classes
            # Not chained: the original may hold the key or texts, and logs print causes.
            raise failure(self.name, error, inputs, arguments["api_key"]) from None
        if [index for index, _ in rows] != list(range(len(inputs))):
            raise LLMError(f"model {self.name!r} returned {len(rows)} vectors for {len(inputs)} texts")
        lengths = {len(vector) for _, vector in rows}
        if len(lengths) > 1:
            raise LLMError(f"model {self.name!r} returned vectors of different lengths")
        if self.dimensions is not None and lengths != {self.dimensions}:
            raise LLMError(f"model {self.name!r} returned vectors of length {lengths.pop()}, not {self.dimensions}")
        vectors = [_packed(self.name, vector) for _, vector in rows]
        # Providers count the tokens of a whole call; a server that does not count says 0.
        counted = _shares(total, [_size(text) for text in inputs]) if total else [None] * len(inputs)
        return [
            Reply(vector, tokens, None if tokens is None else 0, None if tariff is None else tariff.usd(tokens, 0))
            for vector, tokens in zip(vectors, counted, strict=True)
        ]


@dataclass(frozen=True)
class RerankEndpoint:
    """Scores of passages for a question. An input is JSON ``[question, [passage, ...]]``, a reply ``[score, ...]``."""

    service: Service

    kind: ClassVar[str] = "rerank"
    batch: ClassVar[int] = 1
    timeout: ClassVar[float] = _TIMEOUT

    @property
    def name(self) -> str:
        return self.service.name

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.service.identity

    @property
    def limit_group(self) -> tuple[str, str]:
        return self.service.limit_group

    def prepare(self) -> None:
        _litellm()

    def worst_case(self, text: str, tariff: Tariff) -> float:
        question, passages = json.loads(text)
        asked, sizes = _size(question), [_size(passage) for passage in passages]
        piece = max(_SHORTEST_PIECE, _PIECE - asked)
        searches = math.ceil(sum(math.ceil(max(1, size) / piece) for size in sizes) / _PASSAGES_PER_SEARCH)
        return tariff.usd(sum(sizes) + len(sizes) * (asked + _FRAME), searches) or 0.0

    def call(self, inputs: Sequence[str], *, timeout: float, tariff: Tariff | None) -> list[Reply]:
        return [self._scored(text, timeout, tariff) for text in inputs]

    def _scored(self, text: str, timeout: float, tariff: Tariff | None) -> Reply:
        question, passages = json.loads(text)
        litellm = _litellm()
        arguments = self.service.arguments(timeout)
        try:
            response = litellm.rerank(
                query=question,
                documents=passages,
                top_n=len(passages),
                return_documents=False,
                drop_params=True,
                **arguments,
            )
            rated = sorted((int(row["index"]), float(row["relevance_score"])) for row in response.results)
            meta = response.meta or {}
        except Exception as error:  # noqa: BLE001 - every provider raises its own classes
            raise failure(self.name, error, [question, *passages], arguments["api_key"]) from None
        if [index for index, _ in rated] != list(range(len(passages))):
            raise LLMError(f"model {self.name!r} returned {len(rated)} scores for {len(passages)} passages")
        if not all(math.isfinite(score) for _, score in rated):
            raise LLMError(f"model {self.name!r} returned a score that is no number")
        billed, counted = meta.get("billed_units") or {}, meta.get("tokens") or {}
        tokens = _count(billed.get("total_tokens"), counted.get("input_tokens"), billed.get("input_tokens"))
        usd = None if tariff is None else tariff.usd(tokens, _count(billed.get("search_units")))
        return Reply(json.dumps([score for _, score in rated]), tokens, None if tokens is None else 0, usd)


def unpacked(reply: Reply) -> NDArray[np.float32]:
    """The vector in a reply of :class:`EmbeddingEndpoint`."""
    import numpy as np

    return np.frombuffer(base64.b64decode(reply.text), dtype="<f4").astype(np.float32, copy=False)


class _Zero(int):
    """0 that passes for a number that was set: LiteLLM takes ``max_retries=0`` of an embedding for the default, 2."""

    def __bool__(self) -> bool:
        return True


_NONE = _Zero(0)


def _packed(name: str, vector: Any) -> str:
    import numpy as np

    try:
        numbers = np.asarray(vector, dtype="<f4")
    except (TypeError, ValueError):
        numbers = np.empty(0, dtype="<f4")
    if numbers.ndim != 1 or not numbers.size or not np.isfinite(numbers).all():
        raise LLMError(f"model {name!r} returned something else than a vector of numbers")
    return base64.b64encode(numbers.tobytes()).decode("ascii")


def _shares(total: int, weights: Sequence[int]) -> list[int]:
    """A whole number shared out by weight, so that the sum is right."""
    whole = max(1, sum(weights))
    marks = [total * mark // whole for mark in accumulate(weights, initial=0)]
    return [after - before for before, after in pairwise(marks)]


def _size(text: str) -> int:
    """Bytes of a text: no tokeniser makes more tokens of it."""
    return len(text.encode("utf-8", "replace"))


def _count(*numbers: Any) -> int | None:
    """The first that is a count."""
    counts: Iterable[int] = (int(n) for n in numbers if isinstance(n, int | float) and math.isfinite(n) and n > 0)
    return next(iter(counts), None)
