from __future__ import annotations

import builtins
import html
import json
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from contextgrid.core.errors import ConfigError, ContextGridError
from contextgrid.evalset.llm import LLM, LLMError, ModelSpecError, RecordingLLM, get_llm
from contextgrid.models import available_providers, register_provider
from contextgrid.models.echo import without_texts
from contextgrid.models.hosted import HostedLLM, _litellm

KEY = "sk-a-secret-key-1234567890"

# scripted replies


def test_replies_come_in_order_and_prompts_are_kept() -> None:
    llm = RecordingLLM(replies=["one", "two"])
    assert isinstance(llm, LLM)
    assert [llm.complete("a"), llm.complete("b", max_tokens=1)] == ["one", "two"]
    assert llm.prompts == ["a", "b"]
    with pytest.raises(LLMError, match="no reply for call 3: 2 were scripted") as raised:
        llm.complete("a prompt that is nobody's business")
    assert "business" not in str(raised.value)
    assert len(llm.prompts) == 3


def test_the_default_is_given_once_the_script_is_used_up() -> None:
    llm = RecordingLLM(replies=["one"], default="later", name="scripted")
    assert [llm.complete("p") for _ in range(3)] == ["one", "later", "later"]
    assert llm.name == "scripted"
    assert llm.in_order


def test_any_object_with_a_name_and_complete_is_a_model() -> None:
    class Plain:
        name = "plain"

        def complete(self, prompt: str, *, max_tokens: int = 512) -> str:
            return prompt

    assert isinstance(Plain(), LLM)
    assert not isinstance(object(), LLM)


def test_the_error_has_its_documented_path_and_can_be_pickled() -> None:
    error = LLMError("slow down", status=429, retry_after=2.0)
    assert f"{LLMError.__module__}.{LLMError.__qualname__}" == "contextgrid.evalset.llm.LLMError"
    assert isinstance(error, ContextGridError)
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.status, copy.retry_after) == ("slow down", 429, 2.0)


# specs


def test_specs_name_provider_model_and_options() -> None:
    assert get_llm("openai:gpt-4o-mini").name == "openai:gpt-4o-mini"
    assert get_llm("anthropic:claude-3-5-sonnet-20241022").name == "anthropic:claude-3-5-sonnet-20241022"
    assert get_llm("ollama:llama3:8b").name == "ollama:llama3:8b"
    assert get_llm("openai:m,api_base=http://localhost:8000/v1,temperature=0.2,seed=3") == HostedLLM(
        "openai", "m", {"api_base": "http://localhost:8000/v1", "temperature": 0.2, "seed": 3}
    )
    assert {"offline", "openai", "anthropic", "litellm"} <= set(available_providers())


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("gpt-4o-mini", "names no provider; write provider:model"),
        ("opnai:gpt-4o", "unknown provider 'opnai'; did you mean 'openai'"),
        ("openai:", "names no model; write openai:<model>"),
        ("", "has no name"),
        ("openai:m,temprature=1", "no option 'temprature'; did you mean 'temperature'"),
        ("openai:m,temperature=nan", "temperature must be a number of at least 0, got 'nan'"),
        ("openai:m,temperature=-1", "temperature must be a number of at least 0"),
        ("openai:m,timeout=0", "timeout must be seconds, more than 0"),
        ("openai:m,seed=1.5", "seed must be a whole number"),
        ("openai:m,api_base=localhost", "api_base must be an address such as"),
        ("openai:m,api_base=http://user:pw@localhost", "without a password"),
        ("openai:m,key_env=not a name", "key_env must be the name of an environment variable"),
        ("openai:m,fast", "'fast' is not key=value"),
    ],
)
def test_bad_specs_are_refused_before_anything_is_called(spec: str, message: str) -> None:
    with pytest.raises(ModelSpecError, match=message) as raised:
        get_llm(spec)
    assert isinstance(raised.value, LLMError)
    assert isinstance(raised.value, ConfigError)


@pytest.mark.parametrize("spec", [f"openai:m,api_key={KEY}", f"openai:m,api_key={KEY},fast", f"openia:m,api_key={KEY}"])
def test_a_key_in_a_spec_is_refused_without_repeating_it(spec: str) -> None:
    with pytest.raises(ModelSpecError) as raised:
        get_llm(spec)
    assert KEY not in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_provider_of_ones_own_can_be_registered() -> None:
    class Echo:
        name = "echo"

        def __init__(self, model: str, options: Mapping[str, str]) -> None:
            self.model, self.options = model, options

        def complete(self, prompt: str, *, max_tokens: int = 512) -> str:
            return f"{self.model} {dict(self.options)} {prompt}"

    register_provider("test-echo")(Echo)
    assert get_llm("test-echo:loud,times=2").complete("hi") == "loud {'times': '2'} hi"


# errors that repeat nothing


def test_messages_lose_what_they_repeat() -> None:
    prompt = "Answer.\n\n[1] a.md\nThe door code of the archive is 4711.\n\nQuestion: why?"
    assert without_texts("bad request", [prompt]) == "bad request"
    assert without_texts(f"cannot read {prompt!r}!", [prompt, "why?"]).startswith("cannot read '")
    for message in (f"cannot read {prompt!r}", f"at: {prompt[20:60]}", prompt):
        assert "4711" not in without_texts(message, [prompt])
        assert "archive" not in without_texts(message, [prompt])
    assert without_texts("no such answer: short one", ["short one"]) == "no such answer: (...)"
    assert len(without_texts("x" * 10_000, ["y"])) == 2_000
    assert without_texts("quota of 5 exceeded, ask again later", [prompt]) == "quota of 5 exceeded, ask again later"


def _twice(text: str) -> str:
    return json.dumps(json.dumps(text))


def _as_it_is(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


@given(st.text(min_size=40), st.sampled_from([str, json.dumps, _as_it_is, _twice, repr, html.escape, str.upper]))
def test_no_encoding_hides_what_a_message_repeats(text: str, encode: Callable[[str], str]) -> None:
    letters = "".join(filter(str.isalnum, text))
    assume(len(letters) >= 40)
    said = without_texts(f"400: {encode(text)} (end)", [f"Answer from {text}."])
    # All but what stands before the first and behind the last letter is left out.
    assert not any(letters[at : at + 16] in said for at in range(len(letters) - 15))
    assert "(...)" in said


@pytest.mark.parametrize("encode", [str, json.dumps, repr, str.upper, html.escape, quote])
def test_lists_and_other_scripts_are_not_repeated(encode: Callable[[str], str]) -> None:
    pay = "# Löhne für Ärzte\n\nAnna: 52000\nBerta: 61000\nCäsar: 9999\nIBAN DE12\n密码是天地玄黄宇宙洪荒"
    said = without_texts(f"boom: {encode(pay)} (try later)", [f"Answer.\n[1] pay.md\n{pay}\nWho?"])
    assert (said.startswith("boom: "), said.endswith(" (try later)")) == (True, True)
    for secret in ("52000", "9999", "DE12", "hne", "5929", "%E5", "天"):
        assert secret not in said


# hosted models, against a server that speaks OpenAI's protocol


class Server:
    """A server on loopback; ``reply`` turns a request into a status, headers and a body."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.reply: Callable[[dict[str, Any]], tuple[int, dict[str, str], Any]] = lambda _: self.text("fine [1]")
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                request = {"path": self.path, "key": self.headers["authorization"], **body}
                outer.requests.append(request)
                status, headers, answer = outer.reply(request)
                content = json.dumps(answer).encode()
                self.send_response(status)
                for name, value in {"content-type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.spec = f"openai:gpt-4o-mini,api_base=http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @staticmethod
    def text(content: str | None, finish: str = "stop") -> tuple[int, dict[str, str], Any]:
        message = {"role": "assistant", "content": content}
        choice = {"index": 0, "finish_reason": finish, "message": message}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        body = {"id": "1", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini", "choices": [choice]}
        return 200, {}, body | {"usage": usage}

    @staticmethod
    def error(status: int, message: str, **headers: str) -> tuple[int, dict[str, str], Any]:
        return (
            status,
            {name.replace("_", "-"): value for name, value in headers.items()},
            {"error": {"message": message}},
        )


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    pytest.importorskip("litellm", reason="hosted models need litellm: pip install 'contextgrid-dagster[llm]'")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    running = Server()
    yield running
    running.server.shutdown()
    running.server.server_close()


def test_a_completion_is_one_request_with_the_spec_s_settings(server: Server) -> None:
    llm = get_llm(f"{server.spec},temperature=0.5,seed=7")
    assert isinstance(llm, LLM)
    assert llm.complete("Why?", max_tokens=9) == "fine [1]"
    (request,) = server.requests
    assert request["path"] == "/v1/chat/completions"
    assert request["messages"] == [{"role": "user", "content": "Why?"}]
    assert (request["model"], request["max_tokens"]) == ("gpt-4o-mini", 9)
    assert (request["temperature"], request["seed"]) == (0.5, 7)
    assert request["key"] == f"Bearer {KEY}"
    assert KEY not in repr(llm) + llm.name


def test_the_temperature_is_zero_unless_set(server: Server) -> None:
    get_llm(server.spec).complete("Why?")
    assert server.requests[0]["temperature"] == 0


def test_the_key_can_come_from_another_variable(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    llm = get_llm(f"{server.spec},key_env=TEAM_KEY")
    with pytest.raises(LLMError, match=r"environment variable TEAM_KEY .* is not set"):
        llm.complete("Why?")
    monkeypatch.setenv("TEAM_KEY", "sk-team-key")
    llm.complete("Why?")
    assert server.requests[0]["key"] == "Bearer sk-team-key"


def test_a_server_of_ones_own_needs_no_key(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    assert get_llm(server.spec).complete("Why?") == "fine [1]"


def test_an_empty_reply_is_an_answer_but_no_text_is_an_error(server: Server) -> None:
    server.reply = lambda _: Server.text("")
    assert get_llm(server.spec).complete("Why?") == ""
    server.reply = lambda _: Server.text(None, finish="length")
    with pytest.raises(LLMError, match=r"returned no text \(finish reason 'length', max_tokens=5\)"):
        get_llm(server.spec).complete("Why?", max_tokens=5)


def test_a_refused_call_is_tried_once_and_says_when_to_come_back(server: Server) -> None:
    server.reply = lambda _: Server.error(429, "slow down", retry_after="7")
    with pytest.raises(LLMError, match="'openai:gpt-4o-mini' failed: RateLimitError: slow down") as raised:
        get_llm(server.spec).complete("Why?")
    assert (raised.value.status, raised.value.retry_after) == (429, 7.0)
    assert len(server.requests) == 1


def test_errors_repeat_neither_key_nor_prompt(server: Server) -> None:
    prompt = "The door code of the archive is 4711. What is the door code?"
    server.reply = lambda request: Server.error(401, f"wrong key {request['key']} ({KEY}) for {prompt}")
    with pytest.raises(LLMError) as raised:
        get_llm(server.spec).complete(prompt)
    assert raised.value.status == 401
    assert KEY not in str(raised.value)
    assert "4711" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


@pytest.mark.parametrize("body", ["not a completion", {"choices": []}, {}, []])
def test_a_reply_that_is_no_completion_is_an_error(server: Server, body: object) -> None:
    server.reply = lambda _: (200, {}, body)
    with pytest.raises(LLMError):
        get_llm(server.spec).complete("Why?")


def test_a_dead_server_is_an_error(server: Server) -> None:
    with pytest.raises(LLMError, match="Connection error"):
        get_llm("openai:m,api_base=http://127.0.0.1:9/v1,timeout=2").complete("Why?")


def test_without_litellm_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "litellm":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    _litellm.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(LLMError, match=r'pip install "contextgrid-dagster\[llm\]"'):
        get_llm("openai:gpt-4o-mini").complete("Why?")


def test_nothing_imports_litellm_before_the_first_call() -> None:
    code = (
        "import sys; from contextgrid.evalset.llm import get_llm; get_llm('openai:gpt-4o-mini');"
        "import contextgrid.generate; sys.exit('litellm' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_key_that_was_used_is_cut_from_errors_whatever_its_variable_is_called() -> None:
    from contextgrid.models.hosted import failure

    refused = Exception("Incorrect API key provided: Zq9-hush-7781-blah. You can find yours online.")
    assert "hush" not in str(failure("openai:x", refused, [], "Zq9-hush-7781-blah"))
