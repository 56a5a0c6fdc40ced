"""Calls through the real LiteLLM against a server on loopback: retries, limits, deadlines, and what stays secret."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from email.utils import formatdate
from pathlib import Path

import pytest

from contextgrid.core.errors import ConfigError
from contextgrid.evalset.llm import LLMError, RecordingLLM
from contextgrid.models import register_provider
from contextgrid.models.calls import (
    CallSettings,
    Meter,
    MeteredLLM,
    ReplayMiss,
    begin_run,
    count_calls,
    is_free,
    is_ordered,
    map_in_order,
    open_model,
)
from contextgrid.models.ledger import LedgerError
from contextgrid.models.limiter import Limiter
from tests.loopback import KEY, Fault, Loopback


def model(server: Loopback, ledger: str | None = None, options: str = "", **settings: object) -> MeteredLLM:
    calls = CallSettings(ledger=ledger, **settings)  # type: ignore[arg-type]
    begin_run(calls)
    return open_model(server.spec + options, calls=calls, stage="answers", cell="column|row")


# what a call gives


def test_a_call_counts_tokens_dollars_and_time(server: Loopback, ledger: str) -> None:
    llm = model(server, ledger)
    reply = llm.reply("one two three", max_tokens=9)
    assert (reply.prompt_tokens, reply.stored) == (3, False)
    assert reply.completion_tokens is not None
    assert reply.usd == pytest.approx((3 * 0.15 + reply.completion_tokens * 0.60) / 1e6)
    assert (llm.meter.calls, llm.meter.hits, llm.meter.prompt_tokens) == (1, 0, 3)
    assert llm.meter.spent == llm.meter.usd == reply.usd
    assert llm.meter.latency(0.5) == reply.seconds > 0


def test_a_system_prompt_is_sent_as_one_and_makes_another_call(server: Loopback, ledger: str) -> None:
    llm = model(server, ledger)
    first, second = llm.complete("Why?"), llm.complete("Why?", system="Be brief.")
    assert first != second
    assert server.requests[1]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Why?"},
    ]


def test_a_block_can_be_counted_by_itself(server: Loopback, ledger: str) -> None:
    llm = model(server, ledger)
    llm.complete("a")
    with count_calls() as outer:
        llm.complete("b")
        with count_calls() as inner:
            llm.complete("b")
    assert (outer.calls, outer.hits, inner.calls, inner.hits) == (1, 1, 0, 1)
    assert inner.usd == outer.usd / 2
    assert (inner.spent, llm.meter.calls) == (0, 2)


# paid once


def test_nothing_is_paid_twice(server: Loopback, ledger: str) -> None:
    assert model(server, ledger).complete("Why?") == model(server, ledger).complete("Why?")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("options", "max_tokens"), [(",temperature=0.5", 512), (",seed=1", 512), (",top_p=0.9", 512), ("", 100)]
)
def test_whatever_determines_the_reply_makes_another_call(
    server: Loopback, ledger: str, options: str, max_tokens: int
) -> None:
    model(server, ledger).complete("Why?")
    model(server, ledger, options).complete("Why?", max_tokens=max_tokens)
    assert len(server.requests) == 2


@pytest.mark.parametrize("options", [",temperature=0", ",timeout=9", ",key_env=OTHER_KEY"])
def test_whatever_does_not_determine_it_does_not(
    server: Loopback, ledger: str, options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_KEY", KEY)
    model(server, ledger).complete("Why?")
    model(server, ledger, options).complete("Why?")
    assert len(server.requests) == 1


def test_identical_calls_under_way_are_made_once(server: Loopback, ledger: str) -> None:
    server.delay = 0.1
    for place in (ledger, None):
        server.clear()
        llm = model(server, place, concurrency=16)
        replies = map_in_order(llm, llm.complete, ["same"] * 16)
        assert len(set(map(str, replies))) == 1
        assert len(server.requests) == 1
        assert (llm.meter.calls, llm.meter.hits) == (1, 15)


def test_a_failed_call_fails_for_all_who_wait_for_it_and_is_not_stored(server: Loopback, ledger: str) -> None:
    server.delay = 0.1
    server.faults.append(Fault("status", 400))
    llm = model(server, ledger, concurrency=4)
    replies = map_in_order(llm, llm.complete, ["same"] * 4)
    assert all(isinstance(reply, LLMError) for reply in replies)
    assert llm.meter.failed == 4
    assert llm.complete("same")


def test_fresh_calls_again_once_and_keeps_both_replies(server: Loopback, ledger: str) -> None:
    server.reply_for = lambda _: "old"
    assert model(server, ledger).complete("Why?") == "old"
    server.reply_for = lambda _: "new"
    fresh = model(server, ledger, mode="fresh")
    assert [fresh.complete("Why?"), fresh.complete("Why?")] == ["new", "new"]
    assert len(server.requests) == 2
    assert model(server, ledger).complete("Why?") == "new"
    stored = sqlite3.connect(ledger).execute("SELECT repetition, reply FROM calls ORDER BY repetition").fetchall()
    assert stored == [(0, "old"), (1, "new")]
    model(server, ledger, mode="fresh").complete("Why?")  # the next refresh
    assert len(server.requests) == 3


def test_replay_serves_what_is_recorded_and_calls_nothing(server: Loopback, ledger: str) -> None:
    recorded = model(server, ledger).complete("Why?")
    server.clear()
    replay = model(server, ledger, mode="replay")
    assert replay.complete("Why?") == recorded
    with pytest.raises(ReplayMiss, match="holds no reply of model 'openai:gpt-4o-mini' to this call") as raised:
        replay.complete("A prompt that was never sent.")
    assert "never sent" not in str(raised.value)
    assert server.requests == []


def test_replay_without_a_ledger_says_so(server: Loopback, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"no ledger .*; record one by running without replay"):
        model(server, str(tmp_path / "absent.sqlite"), mode="replay")
    with pytest.raises(ConfigError, match="replay needs a ledger"):
        CallSettings(mode="replay")


def test_the_environment_chooses_ledger_and_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXTGRID_LEDGER", "elsewhere.sqlite")
    monkeypatch.setenv("CONTEXTGRID_CALLS", "replay")
    assert CallSettings(ledger="here.sqlite") == CallSettings(ledger="elsewhere.sqlite", mode="replay")
    monkeypatch.setenv("CONTEXTGRID_CALLS", "repaly")
    with pytest.raises(ConfigError, match="CONTEXTGRID_CALLS: no mode 'repaly'; did you mean 'replay'"):
        CallSettings()


def test_replies_that_cannot_be_stored_as_they_are_are_served_as_stored(server: Loopback, ledger: str) -> None:
    server.reply_for = lambda _: "half \ud800 a pair"
    first = model(server, ledger).complete("Why?")
    assert first == model(server, ledger).complete("Why?") == "half ? a pair"
    assert len(server.requests) == 1


# what is repeated


@pytest.mark.parametrize(
    "fault",
    [
        Fault("status", 408),
        Fault("status", 409),
        Fault("status", 500),
        Fault("status", 503),
        Fault.too_many(),
        Fault("drop"),
        Fault("garbage"),
    ],
    ids=["408", "409", "500", "503", "429", "drop", "garbage"],
)
def test_what_may_pass_is_tried_again(server: Loopback, ledger: str, fault: Fault) -> None:
    server.faults.extend([fault, fault])
    assert model(server, ledger).complete("Why?").startswith("Why?")
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_what_will_not_pass_is_tried_once(server: Loopback, ledger: str, status: int) -> None:
    server.faults.append(Fault("status", status))
    with pytest.raises(LLMError) as raised:
        model(server, ledger).complete("Why?")
    assert raised.value.status == status
    assert len(server.requests) == 1


def test_retries_end(server: Loopback, ledger: str) -> None:
    server.fault_for = lambda _: Fault("status", 500)
    with pytest.raises(LLMError, match="InternalServerError"):
        model(server, ledger, retries=2).complete("Why?")
    assert len(server.requests) == 3


def test_a_server_that_is_down_is_not_waited_for_a_thousand_times(server: Loopback, ledger: str) -> None:
    server.fault_for = lambda _: Fault("drop")
    llm = model(server, ledger, concurrency=4, retries=3)
    replies = map_in_order(llm, llm.complete, [f"question {number}" for number in range(100)])
    assert all(isinstance(reply, LLMError) for reply in replies)
    assert 100 < len(server.requests) <= 100 + 3 * 8
    server.fault_for = None
    server.clear()
    llm.complete("it is back")
    server.faults.append(Fault("drop"))
    llm.complete("and is tried again")
    assert len(server.requests) == 3


@pytest.mark.parametrize("as_date", [False, True])
def test_retry_after_is_honoured(server: Loopback, ledger: str, as_date: bool) -> None:
    # A date has whole seconds only.
    seconds = 2 if as_date else 1
    server.faults.append(Fault.too_many(formatdate(time.time() + seconds, usegmt=True) if as_date else str(seconds)))
    model(server, ledger).complete("Why?")
    assert 0.9 <= server.times[1] - server.times[0] <= seconds + 1


def test_too_many_calls_hold_up_every_call_to_the_provider(server: Loopback, ledger: str) -> None:
    llm = model(server, ledger, concurrency=4)
    server.faults.append(Fault.too_many("1"))
    with pytest.raises(LLMError, match="failed"):
        # Another model of the same provider shares its limits.
        model(server, ledger, ",seed=4", concurrency=4, retries=0).complete("first")
    server.faults.append(Fault.too_many("1"))
    threading.Thread(target=llm.complete, args=("second",), daemon=True).start()
    while len(server.requests) < 2:
        time.sleep(0.005)
    time.sleep(0.1)
    refused = server.times[1]
    map_in_order(llm, llm.complete, ["third", "fourth"])
    assert all(moment - refused >= 0.9 for moment in server.times[2:])


def test_a_pause_beyond_the_deadline_is_not_waited_for(server: Loopback, ledger: str) -> None:
    server.faults.append(Fault.too_many("3600"))
    begin = time.monotonic()
    with pytest.raises(LLMError, match="RateLimitError"):
        model(server, ledger, deadline=2).complete("Why?")
    assert time.monotonic() - begin < 2


def test_a_silent_server_is_given_up_at_the_timeout_and_asked_again(server: Loopback, ledger: str) -> None:
    server.faults.append(Fault("stall"))
    assert model(server, ledger, ",timeout=0.3").complete("Why?").startswith("Why?")
    assert 0.25 < server.times[1] - server.times[0] < 2


def test_a_server_that_drips_is_given_up_at_the_deadline(server: Loopback, ledger: str) -> None:
    server.fault_for = lambda _: Fault("drip", seconds=20)
    begin = time.monotonic()
    with pytest.raises(LLMError, match=r"no complete reply within .* s"):
        model(server, ledger, deadline=0.5, retries=9).complete("Why?")
    assert time.monotonic() - begin < 4


def test_an_empty_reply_and_a_truncated_one_are_replies(server: Loopback, ledger: str) -> None:
    server.faults.extend([Fault("empty"), Fault("truncated")])
    llm = model(server, ledger)
    assert llm.complete("Why?") == ""
    assert llm.complete("Why, though?")
    assert len(server.requests) == 2


# side by side


def test_calls_run_side_by_side_up_to_the_limit_and_replies_are_in_order(server: Loopback, ledger: str) -> None:
    server.delay = 0.05
    prompts = [f"question {number}" for number in range(24)]
    serial = [str(reply) for reply in map_in_order(object(), model(server, None, concurrency=1).complete, prompts[:4])]
    assert server.peak == 1
    server.clear()
    llm = model(server, ledger, concurrency=8)
    begin = time.monotonic()
    replies = map_in_order(llm, llm.complete, prompts)
    seconds = time.monotonic() - begin
    assert [str(reply).partition(" (")[0] for reply in replies] == prompts
    assert replies[:4] == serial
    assert 4 <= server.peak <= 8
    assert seconds < 24 * 0.05


def test_the_limit_is_per_provider_not_per_model(server: Loopback, ledger: str) -> None:
    server.delay = 0.05
    models = [model(server, ledger, f",seed={seed}", concurrency=3) for seed in range(4)]

    def all_of(llm: MeteredLLM) -> None:
        map_in_order(llm, llm.complete, [f"question {number}" for number in range(3)])

    threads = [threading.Thread(target=all_of, args=(llm,)) for llm in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.requests) == 12
    assert server.peak <= 3


def test_only_models_that_say_so_are_called_out_of_order() -> None:
    class Plain:
        name = "plain"

        def complete(self, prompt: str, *, max_tokens: int = 512) -> str:
            return prompt

    assert is_ordered(RecordingLLM())
    assert is_ordered(Plain())
    script = RecordingLLM(replies=[str(number) for number in range(50)])
    llm = open_model(script, calls=CallSettings(concurrency=16), stage="answers")
    assert (llm.in_order, llm.concurrency) == (True, 1)
    assert map_in_order(llm, llm.complete, ["same"] * 50) == [str(number) for number in range(50)]
    assert llm.meter.calls == 50


def test_a_provider_of_ones_own_uses_the_ledger_if_its_calls_are_independent(ledger: str) -> None:
    prompts: list[str] = []

    class Echo:
        name = "test-independent:m"
        in_order = False

        def complete(self, prompt: str, *, max_tokens: int = 512) -> str:
            prompts.append(prompt)
            return prompt

    register_provider("test-independent")(lambda model, options: Echo())
    for options in ("", "", ",x=1"):
        llm = open_model(f"test-independent:m{options}", calls=CallSettings(ledger=ledger), stage="answers")
        assert llm.complete("Why?", system="Be brief.") == "Be brief.\n\nWhy?"
    assert len(prompts) == 2
    assert (llm.meter.unpriced, llm.meter.price) == (1, None)


def test_the_offline_reader_is_free_and_leaves_the_ledger_alone(ledger: str) -> None:
    llm = open_model("offline:reader", calls=CallSettings(ledger=ledger, budget_usd=0), stage="answers")
    llm.complete("Passages:\n[1] a\nRefunds take thirty days.\n\nQuestion: How long do refunds take?")
    assert (llm.meter.calls, llm.meter.usd, llm.is_paid) == (1, 0.0, False)


def test_a_model_that_only_another_process_knows_is_not_taken_to_be_free() -> None:
    free = {model: is_free(model) for model in ("offline:reader", "openai:gpt-4o-mini", "registered-elsewhere:m")}
    assert free == {"offline:reader": True, "openai:gpt-4o-mini": False, "registered-elsewhere:m": False}


def test_failures_are_results_and_interruptions_are_not() -> None:
    def work(item: int) -> int:
        if item == 1:
            raise ValueError("one")
        return item

    class Wide:
        in_order = False
        concurrency = 3

    for llm in (object(), Wide()):
        results = map_in_order(llm, work, range(4))
        assert [results[0], *results[2:]] == [0, 2, 3]
        assert isinstance(results[1], ValueError)

    def interrupted(item: int) -> None:
        if item == 2:
            raise KeyboardInterrupt
        time.sleep(0.02)

    for llm in (object(), Wide()):
        with pytest.raises(KeyboardInterrupt):
            map_in_order(llm, interrupted, range(100))


def test_a_limiter_that_is_paused_and_full_lets_calls_through_afterwards() -> None:
    limiter = Limiter(1)
    assert limiter.acquire(1)
    assert not limiter.acquire(1, until=time.monotonic() + 0.05)
    limiter.pause(0.1)
    limiter.release()
    begin = time.monotonic()
    assert limiter.acquire(1)
    assert time.monotonic() - begin > 0.08
    limiter.pause(60)
    assert not limiter.acquire(1)


def test_a_meter_of_ones_own_is_counted_on(server: Loopback) -> None:
    meter = Meter()
    open_model(server.spec, calls=CallSettings(), stage="judge", meter=meter).complete("Why?")
    assert meter.calls == 1


# what stays secret


def test_keys_prompts_and_replies_are_in_no_log_and_no_error(
    server: Loopback, ledger: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    prompt, system = "CANARY-PROMPT of the document CANARY-DOCUMENT", "CANARY-SYSTEM instructions, long enough"
    caplog.set_level(logging.DEBUG)
    llm = model(server, ledger, retries=1)
    errors = []
    for number, faults in enumerate(
        [
            [],
            [Fault("status", 500)],
            [Fault("status", 400)],
            [Fault("garbage"), Fault("garbage")],
            [Fault("drop"), Fault("drop")],
        ]
    ):
        server.faults.extend(faults)
        try:
            llm.complete(f"{prompt} {number}", system=system)
        except LLMError as error:
            errors.append(str(error))
    assert len(errors) == 3
    written = capfd.readouterr()
    shown = "\n".join([caplog.text, written.out, written.err, *errors])
    assert "CANARY" not in shown
    assert KEY not in shown


def test_the_ledger_holds_no_key_and_prompts_only_where_asked_for(server: Loopback, ledger: str) -> None:
    server.reply_for = lambda _: "fine"
    model(server, ledger).complete("CANARY-PROMPT", system="CANARY-SYSTEM")
    for file in Path(ledger).parent.iterdir():
        assert b"CANARY" not in file.read_bytes()
        assert KEY.encode() not in file.read_bytes()
    model(server, ledger, keep_inputs=True).complete("CANARY-OTHER", system="CANARY-SYSTEM")
    kept = sqlite3.connect(ledger).execute("SELECT input FROM calls WHERE input IS NOT NULL").fetchall()
    assert kept == [("CANARY-SYSTEM\n\nCANARY-OTHER",)]
