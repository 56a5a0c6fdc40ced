"""Hosted models, and servers that speak a hosted model's protocol, through LiteLLM."""

from __future__ import annotations

import logging
import math
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, ClassVar

from contextgrid.core.errors import ConfigError
from contextgrid.core.registry import nearest
from contextgrid.models.base import LLMError, register_provider
from contextgrid.models.echo import without_texts
from contextgrid.models.reply import Reply

# Providers that LiteLLM reaches by a prefix of the same name. Any other: ``litellm:<prefix>/<model>``.
HOSTED = tuple(
    """
    ai21 anthropic azure azure_ai bedrock cerebras cohere databricks deepinfra deepseek fireworks_ai gemini groq
    hosted_vllm huggingface llamafile lm_studio mistral moonshot nebius nvidia_nim ollama ollama_chat openai
    openrouter perplexity replicate sagemaker sambanova snowflake together_ai vertex_ai watsonx xai
    """.split()
)


@dataclass(frozen=True)
class HostedLLM:
    """A model behind a provider's API.

    Keys are read by LiteLLM from the provider's own environment variable, such as ``OPENAI_API_KEY``, or from
    the variable that the option ``key_env`` names. One attempt per call: who calls decides about repeating it.

    Args:
        provider: a name in ``HOSTED``, or ``litellm`` for a model that carries LiteLLM's own prefix.
        model: the provider's name for it.
        options: ``temperature`` (default 0), ``top_p``, ``seed``, ``reasoning_effort``, ``api_base``,
            ``api_version``, ``timeout`` in seconds (default 120) and ``key_env``.
    """

    provider: str
    model: str
    options: Mapping[str, Any] = field(default_factory=dict)

    # Calls do not depend on one another, so they may be made side by side.
    in_order: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Provider and model, as in the spec."""
        return f"{self.provider}:{self.model}"

    @property
    def identity(self) -> Mapping[str, Any]:
        """All that determines its replies, beside the prompt: neither the timeout nor where the key comes from."""
        options = {"temperature": _TEMPERATURE, **self.options}
        return {"model": self.name, **{name: options[name] for name in options if name not in ("timeout", "key_env")}}

    @property
    def limit_group(self) -> tuple[str, str]:
        """What shares a provider's limits."""
        return self.provider, self.options.get("api_base", "")

    @property
    def timeout(self) -> float:
        """Seconds that one attempt may take."""
        return float(self.options.get("timeout", _TIMEOUT))

    def prepare(self) -> None:
        """Import LiteLLM, which takes seconds that are no part of any call.

        Raises:
            LLMError: if it is not installed.
        """
        _litellm()

    def complete(self, prompt: str, *, max_tokens: int = 512) -> str:
        """The reply to ``prompt`` as a single user message.

        Raises:
            LLMError: if LiteLLM is not installed, the call fails, or the reply holds no text. Messages hold
                neither keys nor the prompt.
        """
        return self.reply(prompt, max_tokens=max_tokens).text

    def reply(
        self, prompt: str, *, max_tokens: int = 512, system: str | None = None, timeout: float | None = None
    ) -> Reply:
        """As :meth:`complete`, with the tokens that the provider counted, and its own cost where it names one.

        Args:
            system: a system message that goes before the prompt.
            timeout: seconds, instead of the option's.
        """
        litellm = _litellm()
        arguments = {"temperature": _TEMPERATURE, **self.options, "timeout": timeout or self.timeout}
        arguments["api_key"] = key_for(self.name, self.provider, arguments.pop("key_env", None), self.options)
        prefix = "" if self.provider == "litellm" else f"{self.provider}/"
        messages = [{"role": "user", "content": prompt}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        begin = time.monotonic()
        try:
            response = litellm.completion(
                model=prefix + self.model,
                messages=messages,
                max_tokens=max_tokens,
                drop_params=True,
                num_retries=0,
                max_retries=0,
                **arguments,
            )
            choice = response.choices[0]
            text, finish = choice.message.content, choice.finish_reason
        except Exception as error:  # noqa: BLE001 - every provider raises its own classes
            # Not chained: the original may hold the key or the prompt, and logs print causes.
            raise failure(self.name, error, [prompt, system or ""], arguments["api_key"]) from None
        if not text and finish != "stop":
            raise LLMError(f"model {self.name!r} returned no text (finish reason {finish!r}, max_tokens={max_tokens})")
        usage = getattr(response, "usage", None)
        return Reply(
            text or "",
            _count(getattr(usage, "prompt_tokens", None)),
            _count(getattr(usage, "completion_tokens", None)),
            _cost(getattr(usage, "cost", None)),
            time.monotonic() - begin,
        )


def key_for(name: str, provider: str, key_env: str | None, options: Mapping[str, Any]) -> str | None:
    """The key to call with; ``None`` leaves it to LiteLLM, which reads the provider's own variable.

    Raises:
        LLMError: if the variable that ``key_env`` names is not set.
    """
    if key_env is not None:
        if not os.environ.get(key_env):
            raise LLMError(f"model {name!r}: the environment variable {key_env} (key_env) is not set")
        return os.environ[key_env]
    if provider == "openai" and "api_base" in options and not os.environ.get("OPENAI_API_KEY"):
        # The client insists on a key; a server of one's own often needs none.
        return "none"
    return None


def _build(provider: str) -> Callable[[str, Mapping[str, str]], HostedLLM]:
    def build(model: str, options: Mapping[str, str]) -> HostedLLM:
        return HostedLLM(provider, model, {name: _option(name, value) for name, value in options.items()})

    return build


for _provider in ("litellm", *HOSTED):
    register_provider(_provider)(_build(_provider))


def _option(name: str, value: str) -> Any:
    if name not in _OPTIONS:
        if _SECRET_NAME.search(name):
            raise ConfigError(
                "a key does not belong in a spec, because specs are stored with the results;"
                " set the provider's environment variable, or name another one with key_env=<VARIABLE>"
            )
        raise ConfigError(f"no option {name!r}{nearest(name, _OPTIONS)}")
    wanted, read = _OPTIONS[name]
    try:
        return read(value)
    except ValueError:
        raise ConfigError(f"{name} must be {wanted}, got {value!r}") from None


def _number(value: str) -> float:
    number = float(value)
    if not math.isfinite(number) or number < 0:
        raise ValueError(value)
    return number


def _duration(value: str) -> float:
    number = _number(value)
    if number == 0:
        raise ValueError(value)
    return number


def _text(value: str) -> str:
    if not value:
        raise ValueError(value)
    return value


def address(value: str) -> str:
    """The value, if it is an address without a password; else ``ValueError``."""
    if not re.match(r"https?://[^/\s@]+(?:/\S*)?\Z", value):
        raise ValueError(value)
    return value


def variable_name(value: str) -> str:
    """The value, if it can be the name of an environment variable; else ``ValueError``."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise ValueError(value)
    return value


_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "temperature": ("a number of at least 0", _number),
    "top_p": ("a number of at least 0", _number),
    "seed": ("a whole number", int),
    "reasoning_effort": ("a word the provider knows", _text),
    "api_base": ("an address such as http://localhost:8000/v1, without a password", address),
    "api_version": ("the provider's version string", _text),
    "timeout": ("seconds, more than 0", _duration),
    "key_env": ("the name of an environment variable", variable_name),
}
_TEMPERATURE, _TIMEOUT = 0.0, 120.0
# A provider that counts more counts nonsense.
_MOST_TOKENS = 2**31
_TALKATIVE = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "openai", "anthropic", "httpx", "httpcore")
_SECRET_NAME = re.compile(r"key|token|secret|password", re.IGNORECASE)
_SECRET_VALUE = re.compile(
    r"\b(?:sk|pk|gsk|hf|xai|key)[-_][\w*.-]{6,}|\bAIza[\w*-]{10,}|\bBearer\s+\S+|(?<=//)[^/\s@]+@", re.IGNORECASE
)
_OWN_PREFIX = re.compile(r"\A(?:(?:litellm\.)?\w*Error: )+(?:\w+Exception - )?")


@lru_cache(maxsize=1)
def _litellm() -> Any:
    """LiteLLM, imported and made quiet.

    Raises:
        LLMError: if it is not installed.
    """
    # Read while LiteLLM is imported: no price list from the network, no .env file of the folder it runs in.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    try:
        import litellm
    except ImportError:
        raise LLMError('hosted models need LiteLLM; install it with: pip install "contextgrid-dagster[llm]"') from None
    litellm.telemetry = False
    litellm.suppress_debug_info = True  # else it prints advertisements on every error
    for name in _TALKATIVE:
        # At DEBUG they write whole requests into the log, prompts and all.
        logger = logging.getLogger(name)
        logger.setLevel(max(logging.WARNING, logger.level))
    # At ERROR it repeats what a provider says about a refused reranking call, documents and all.
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    return litellm


def _count(tokens: Any) -> int | None:
    return tokens if isinstance(tokens, int) and 0 <= tokens < _MOST_TOKENS else None


def _cost(usd: Any) -> float | None:
    return float(usd) if isinstance(usd, int | float) and math.isfinite(usd) and usd >= 0 else None


def failure(name: str, error: Exception, sent: Sequence[str], key: str | None = None) -> LLMError:
    """What a call raised as an error that holds neither a key nor what was sent.

    Args:
        key: the key that was used, where it is known; others are recognised by their look or their variable.
    """
    message = _OWN_PREFIX.sub("", without_texts(str(error), sent)).strip() or "no message"
    if key:
        message = message.replace(key, "(key)")
    for variable, value in os.environ.items():
        if len(value) >= 8 and _SECRET_NAME.search(variable):
            message = message.replace(value, "(key)")
    message = _SECRET_VALUE.sub("(key)", message)
    status = getattr(error, "status_code", None)
    # Reranking errors carry a made-up response, and the real headers beside it.
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    headers = headers or getattr(error, "litellm_response_headers", None) or {}
    return LLMError(
        f"model {name!r} failed: {type(error).__name__}: {' '.join(message.split())[:300]}",
        status=status if isinstance(status, int) else None,
        retry_after=_seconds(headers.get("retry-after")),
    )


def _seconds(header: str | None) -> float | None:
    """The wait that a ``Retry-After`` header asks for, which is in seconds or a date."""
    if header is None:
        return None
    try:
        return _number(header)
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None
