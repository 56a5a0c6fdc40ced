"""A server on loopback that speaks OpenAI's protocol: it answers, judges, rates, embeds, reranks, and fails on demand.

Replies are recognised by the prompt and depend on nothing else, so runs can be compared.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

__all__ = ["KEY", "Fault", "Loopback", "running"]

KEY = "sk-canary-key-0123456789abcdef"

Kind = Literal["status", "stall", "drip", "drop", "garbage", "truncated", "empty", "no_usage"]


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one request.

    ``status`` answers with an HTTP status and headers, ``stall`` says nothing for ``seconds``, ``drip`` sends a byte
    now and then, ``drop`` closes the connection, ``garbage`` is a body that is no JSON, ``truncated`` a reply that
    breaks off in the middle, ``empty`` one without text, ``no_usage`` a good one that counts no tokens.
    """

    kind: Kind
    status: int = 500
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 30.0

    @classmethod
    def too_many(cls, retry_after: str | None = None) -> Fault:
        """A refusal because of too many requests."""
        return cls("status", 429, {} if retry_after is None else {"retry-after": retry_after})


class Loopback:
    """The server.

    Attributes:
        delay: seconds that each request takes.
        keep: whether requests are remembered.
        faults: what goes wrong with the next requests, one each.
        fault_for: decides by the prompt instead, where set and where it gives a fault.
        reply_for: decides the reply by the prompt, where set and where it gives one.
        requests: bodies of all requests, with ``path`` and ``key``.
        times: when each request arrived (``time.monotonic``).
        served: how many requests got a good reply.
        peak: most requests that were under way at the same time.
    """

    def __init__(self, model: str = "gpt-4o-mini") -> None:
        self.delay = 0.0
        self.keep = True
        self.faults: deque[Fault] = deque()
        self.fault_for: Callable[[str], Fault | None] | None = None
        self.reply_for: Callable[[str], str | None] | None = None
        self.requests: list[dict[str, Any]] = []
        self.times: list[float] = []
        self.served = self.peak = self._now = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self.spec = f"openai:{model},api_base={self.url}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def prompts(self) -> list[str]:
        """The user message of every request for a completion."""
        return [request["messages"][-1]["content"] for request in list(self.requests) if "messages" in request]

    def kinds(self) -> Counter[str]:
        """How many requests were answers, judgements and ratings."""
        return Counter(kind_of(prompt) for prompt in self.prompts)

    def clear(self) -> None:
        """Forget all requests."""
        with self._lock:
            self.requests.clear()
            self.times.clear()
            self.served = self.peak = 0

    def close(self) -> None:
        """Stop serving."""
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    @contextmanager
    def under_way(self, request: dict[str, Any]) -> Iterator[Fault | None]:
        """Count a request; gives what is to go wrong with it."""
        prompt = sent_in(request)
        with self._lock:
            if self.keep:
                self.requests.append(request)
                self.times.append(time.monotonic())
            self._now += 1
            self.peak = max(self.peak, self._now)
            fault = self.fault_for(prompt) if self.fault_for is not None else None
            if fault is None and self.faults:
                fault = self.faults.popleft()
        try:
            if self.delay:
                time.sleep(self.delay)
            yield fault
        finally:
            with self._lock:
                self._now -= 1

    def text_for(self, prompt: str, system: str | None) -> str:
        """What the model says."""
        written = self.reply_for(prompt) if self.reply_for is not None else None
        return reply_to(prompt, system) if written is None else written

    def count_served(self) -> None:
        """Note a good reply."""
        with self._lock:
            self.served += 1

    def wait(self, seconds: float) -> None:
        """Do nothing for a while, or until the server is closed."""
        self._closing.wait(seconds)


@contextmanager
def running(model: str = "gpt-4o-mini") -> Iterator[Loopback]:
    """A server for the time of a block."""
    server = Loopback(model)
    try:
        yield server
    finally:
        server.close()


def sent_in(request: dict[str, Any]) -> str:
    """What decides about a request: the user message, the texts to embed line by line, or the question to rank for."""
    if "messages" in request:
        return str(request["messages"][-1]["content"])
    return "\n".join(request["input"]) if "input" in request else str(request["query"])


def vector_of(text: str, dimensions: int = 64) -> list[float]:
    """A bag of words: each word adds 1 to the dimension that its hash gives. Not of length 1."""
    vector = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()):
        vector[int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest(), "big") % dimensions] += 1.0
    return vector


def relevance_of(question: str, passage: str) -> float:
    """The share of the question's words that the passage holds."""
    asked, held = (set(re.findall(r"\w+", text.lower())) for text in (question, passage))
    return len(asked & held) / max(1, len(asked))


def kind_of(prompt: str) -> str:
    """``rating`` for a rubric judge's prompt, ``judgement`` for DeepEval's, else ``answer``."""
    if prompt.startswith("###Question"):
        return "rating"
    if re.search(r"\bJSON\b", prompt) and re.search(r"verdict|claims|truths|statements|reason", prompt):
        return "judgement"
    return "answer"


def reply_to(prompt: str, system: str | None = None) -> str:
    """The model's reply, which depends on the prompt alone."""
    number = int.from_bytes(hashlib.blake2b(f"{system}{prompt}".encode(), digest_size=2).digest(), "big")
    kind = kind_of(prompt)
    if kind == "rating":
        return f"Score: {number % 5 + 1}\nJustification: Rated {number}."
    if kind == "judgement":
        verdict = "yes" if number % 4 else "no"
        return json.dumps(
            {
                "truths": ["A truth."],
                "claims": ["A claim."],
                "statements": ["A statement."],
                "verdicts": [{"verdict": verdict, "statement": "A statement.", "reason": "So it is."}],
                "reason": "Because.",
            }
        )
    # The opening of the first passage, where there is one, so that answers have something to do with passages.
    passage = re.search(r"\[1\] [^\n]*\n(.+)", prompt)
    return f"{(passage[1] if passage else prompt)[:120]} ({number}) [1]"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are part of the tests."""


def _handler(server: Loopback) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            request = {"path": self.path, "key": self.headers["authorization"], **body}
            with server.under_way(request) as fault:
                self._answer(body, fault)

        def _answer(self, body: dict[str, Any], fault: Fault | None) -> None:
            prompt = sent_in(body)
            kind = fault.kind if fault is not None else None
            if fault is not None and kind == "status":
                return self._send(fault.status, {"error": {"message": f"refused: {prompt}"}}, fault.headers)
            if fault is not None and kind in ("stall", "drop"):
                server.wait(fault.seconds if kind == "stall" else 0)
                self.close_connection = True
                self.connection.close()
                return None
            if kind == "garbage":
                return self._send(200, "<html>not a completion</html>")
            if fault is not None and kind == "drip":
                return self._drip(fault.seconds)
            server.count_served()
            if "messages" not in body:
                reply = _ranking(body, kind) if "documents" in body else _embeddings(body, kind)
                return self._send(200, reply)
            messages = body["messages"]
            system = messages[0]["content"] if messages[0]["role"] == "system" else None
            text = "" if kind == "empty" else server.text_for(prompt, system)
            if kind == "truncated":
                text = text[: len(text) // 2]
            return self._send(200, _completion(body, messages, text, usage=kind != "no_usage"))

        def _drip(self, seconds: float) -> None:
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", "1000000")
            self.end_headers()
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                self.wfile.write(b" ")
                self.wfile.flush()
                server.wait(0.05)

        def _send(self, status: int, answer: Any, headers: dict[str, str] | None = None) -> None:
            content = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
            self.send_response(status)
            for name, value in {"content-type": "application/json", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
            pass

    return Handler


def _completion(body: dict[str, Any], messages: list[dict[str, str]], text: str, *, usage: bool) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    answer = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [choice],
    }
    if usage:
        sent, said = sum(len(message["content"].split()) for message in messages), len(text.split())
        answer["usage"] = {"prompt_tokens": sent, "completion_tokens": said, "total_tokens": sent + said}
    return answer


def _embeddings(body: dict[str, Any], kind: Kind | None) -> dict[str, Any]:
    """Vectors in reverse order, for clients have to look at ``index``; only half of them where broken off."""
    texts: list[str] = [] if kind == "empty" else body["input"]
    if kind == "truncated":
        texts = texts[: len(texts) // 2]
    data = [
        {"object": "embedding", "index": number, "embedding": vector_of(text, body.get("dimensions") or 64)}
        for number, text in enumerate(texts)
    ]
    tokens = 0 if kind == "no_usage" else sum(len(text.split()) for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": body["model"], "data": data[::-1], "usage": usage}


def _ranking(body: dict[str, Any], kind: Kind | None) -> dict[str, Any]:
    """As Cohere and vLLM reply, best first."""
    passages: list[str] = [] if kind == "empty" else body["documents"]
    if kind == "truncated":
        passages = passages[: len(passages) // 2]
    rated = [{"index": n, "relevance_score": relevance_of(body["query"], text)} for n, text in enumerate(passages)]
    answer: dict[str, Any] = {"id": "1", "results": sorted(rated, key=lambda row: -row["relevance_score"])}
    if kind != "no_usage":
        tokens = sum(len(body["query"].split()) + len(text.split()) for text in passages)
        answer |= {"usage": {"total_tokens": tokens}, "meta": {"billed_units": {"search_units": 1}}}
    return answer
