"""How fast replies come from the ledger, and whether memory stays flat while calls are made.

Run with ``python -m benchmarks.ledger [calls]``. Models reply at once and cost a made-up price, so what is measured
is all that lies between a stage and a model: key, look-up, limiter, deadline, budget, ledger, meters. With
``python -m benchmarks.ledger hosted [calls]`` the calls go through LiteLLM to a server on loopback.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from contextgrid.models import register_provider
from contextgrid.models.calls import CallSettings, MeteredLLM, map_in_order, open_model
from contextgrid.models.reply import Reply

PASSAGE = "The warranty of the engine is twenty-four months from delivery, unless the machine was let. " * 20


class Instant:
    """A model that answers at once."""

    name = "bench:instant"
    in_order = False

    def reply(self, prompt: str, *, max_tokens: int, system: str | None, timeout: float | None) -> Reply:
        return Reply(f"An answer about {prompt[-12:]} [1]", 400, 12)

    def complete(self, prompt: str, *, max_tokens: int = 512) -> str:
        return self.reply(prompt, max_tokens=max_tokens, system=None, timeout=None).text


@register_provider("bench")
def _bench(model: str, options: Mapping[str, str]) -> Instant:
    return Instant()


def main(calls: int = 20_000) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = CallSettings(
            ledger=str(Path(folder) / "ledger.sqlite"), budget_usd=1e6, prices=(("bench:instant", 1.0, 2.0),)
        )
        llm = open_model("bench:instant", calls=settings, stage="answers")
        measure_calls(llm, calls)
        measure_hits(llm, calls)


def hosted(calls: int = 5_000) -> None:
    from tests.loopback import running

    with tempfile.TemporaryDirectory() as folder, running() as server:
        server.keep = False
        settings = CallSettings(ledger=str(Path(folder) / "ledger.sqlite"), budget_usd=1e6)
        measure_calls(open_model(server.spec, calls=settings, stage="answers"), calls)


def measure_calls(llm: MeteredLLM, calls: int) -> None:
    """Calls that are made and written down, and the memory that they leave behind."""
    warm = calls // 4
    ask(llm, 0, warm)
    before = resident()
    begin = time.perf_counter()
    ask(llm, warm, calls)
    seconds = time.perf_counter() - begin
    assert llm.meter.calls == calls
    grown = resident() - before
    print(f"calls made and written down     {(calls - warm) / seconds:9,.0f} per second")
    print(f"memory, call {warm:,} to {calls:,}   {grown / 2**20:+9.1f} MiB ({before / 2**20:.0f} MiB before)")


def measure_hits(llm: MeteredLLM, calls: int) -> None:
    """The same calls again, all of them in the ledger."""
    prompts = [prompt(number) for number in range(calls)]

    def fetched_together() -> None:
        llm.prefetch(prompts)
        for text in prompts:
            llm.complete(text)

    for name, work in (
        ("one thread", lambda: [llm.complete(text) for text in prompts]),
        ("8 threads", lambda: map_in_order(llm, llm.complete, prompts)),
        ("fetched together", fetched_together),
    ):
        begin = time.perf_counter()
        work()
        print(f"ledger hits, {name:18} {calls / (time.perf_counter() - begin):9,.0f} per second")
    assert llm.meter.calls == calls


def ask(llm: MeteredLLM, first: int, last: int) -> None:
    """Make calls, a cell of 200 questions at a time."""
    for start in range(first, last, 200):
        replies = map_in_order(llm, llm.complete, [prompt(number) for number in range(start, min(last, start + 200))])
        assert all(isinstance(reply, str) for reply in replies), replies[0]


def prompt(number: int) -> str:
    return f"{PASSAGE}\nQuestion: what is {number}?"


def resident() -> int:
    """Bytes of memory that this process holds (Linux)."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


if __name__ == "__main__":
    if sys.argv[1:2] == ["hosted"]:
        hosted(*map(int, sys.argv[2:3]))
    else:
        main(*map(int, sys.argv[1:2]))
