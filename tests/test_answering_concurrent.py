"""Answers of many questions at once: the same as one after another, interrupted, killed, replayed, and recorded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from contextgrid.assemble.context import ContextAssembler
from contextgrid.core.errors import StageError
from contextgrid.core.fingerprint import fingerprint
from contextgrid.core.tables import ANSWERS, GENERATION_SPEC, RETRIEVED
from contextgrid.evalset.llm import RecordingLLM
from contextgrid.generate import ExtractiveGenerator, LLMGenerator
from contextgrid.generate.answering import answer_questions
from contextgrid.settings import RunSettings
from contextgrid.stages import answer
from tests.loopback import Fault, Loopback

QUESTIONS = 24
PROMPT = "Context:\n{context}\nQuestion: {question}"


def retrieved(questions: int = QUESTIONS) -> pa.Table:
    rows = [
        {
            "question_id": f"q{number}",
            "question": f"what is number {number}?",
            "rank": 1,
            "score": 1.0,
            "chunk_id": f"d{number}:0",
            "source_id": f"d{number}",
            "start": 0,
            "end": 20,
            "text": f"Number {number} is {number}.",
        }
        for number in range(questions)
    ]
    return pa.Table.from_pylist(rows, schema=RETRIEVED)


def spec(model: str, prompt: str = PROMPT) -> pa.Table:
    row = {"generator": "llm", "prompt_name": "p", "prompt": prompt, "model": model}
    return pa.Table.from_pylist([row], schema=GENERATION_SPEC)


def settings(ledger: Path | None, **more: object) -> RunSettings:
    chosen = {"ledger": None if ledger is None else str(ledger), "k": 1, "max_tokens": 50, **more}
    return RunSettings.model_validate(chosen)


def test_concurrent_answers_equal_serial_ones(server: Loopback, tmp_path: Path) -> None:
    serial = answer(retrieved(), spec(server.spec), settings(tmp_path / "a.sqlite", concurrency=1))
    assert server.peak == 1
    server.delay = 0.03
    concurrent = answer(retrieved(), spec(server.spec), settings(tmp_path / "b.sqlite", concurrency=12))
    assert server.peak > 4
    assert fingerprint(concurrent) == fingerprint(serial)
    assert concurrent["question_id"].to_pylist() == [f"q{number}" for number in range(QUESTIONS)]
    assert set(concurrent["status"].to_pylist()) == {"answered"}


def test_the_content_of_answers_does_not_depend_on_where_they_came_from(server: Loopback, tmp_path: Path) -> None:
    run = settings(tmp_path / "ledger.sqlite")
    paid, stored = answer(retrieved(), spec(server.spec), run), answer(retrieved(), spec(server.spec), run)
    assert len(server.requests) == QUESTIONS
    assert fingerprint(paid) == fingerprint(stored)
    assert sum(paid["model_calls"].to_pylist()) == QUESTIONS
    assert sum(stored["model_calls"].to_pylist()) == 0
    assert paid["usd"].to_pylist() == stored["usd"].to_pylist() == paid["usd_spent"].to_pylist()
    assert set(stored["usd_spent"].to_pylist()) == {0.0}
    assert paid["completion_tokens"].to_pylist() == [0] * QUESTIONS  # the page's rule
    assert all(tokens > 0 for tokens in paid["model_completion_tokens"].to_pylist())


def test_an_edited_prompt_and_another_model_cost_their_own_calls_only(server: Loopback, tmp_path: Path) -> None:
    run = settings(tmp_path / "ledger.sqlite")
    answer(retrieved(), spec(server.spec), run)
    answer(retrieved(), spec(server.spec, f"{PROMPT} Briefly."), run)
    assert len(server.requests) == 2 * QUESTIONS
    answer(retrieved(QUESTIONS + 3), spec(server.spec), run)  # three new questions
    assert len(server.requests) == 2 * QUESTIONS + 3
    answer(retrieved(), spec(server.spec), run)
    answer(retrieved(), spec(server.spec, f"{PROMPT} Briefly."), run)
    assert len(server.requests) == 2 * QUESTIONS + 3


def test_one_failed_call_is_that_question_s_alone_and_is_all_that_a_new_run_pays(
    server: Loopback, tmp_path: Path
) -> None:
    run = settings(tmp_path / "ledger.sqlite", retries=1)
    server.fault_for = lambda prompt: Fault("status", 500) if "number 7?" in prompt else None
    first = answer(retrieved(), spec(server.spec), run)
    failed = [row for row in first.to_pylist() if row["status"] != "answered"]
    assert [(row["question_id"], row["status"]) for row in failed] == [("q7", "failed")]
    assert "InternalServerError" in failed[0]["error"]
    assert "number 7" not in failed[0]["error"]
    server.fault_for = None
    server.clear()
    again = answer(retrieved(), spec(server.spec), run)
    assert set(again["status"].to_pylist()) == {"answered"}
    assert len(server.requests) == 1


def test_a_cell_in_which_every_call_fails_fails_with_the_cause(server: Loopback, tmp_path: Path) -> None:
    server.fault_for = lambda _: Fault("status", 401)
    with pytest.raises(StageError, match=r"all 24 questions failed .* AuthenticationError"):
        answer(retrieved(), spec(server.spec), settings(tmp_path / "ledger.sqlite"))


def test_a_replay_names_what_is_not_recorded(server: Loopback, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    recorded = answer(retrieved(10), spec(server.spec), settings(ledger))
    server.close()
    replayed = answer(retrieved(10), spec(server.spec), settings(ledger, calls="replay"))
    assert fingerprint(replayed) == fingerprint(recorded)
    with pytest.raises(StageError, match=r"2 of 12 calls are not recorded; the first, 'q10': replay: the ledger"):
        answer(retrieved(12), spec(server.spec), settings(ledger, calls="replay"))


def test_replay_needs_no_key_and_no_litellm(server: Loopback, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    answer(retrieved(3), spec(server.spec), settings(ledger))
    code = (
        "import sys\nfrom pathlib import Path\nfrom tests.test_answering_concurrent import *\n"
        "sys.modules['litellm'] = None\n"
        "table = answer(retrieved(3), spec(sys.argv[1]), settings(Path(sys.argv[2]), calls='replay'))\n"
        "assert table['status'].to_pylist() == ['answered'] * 3"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OPENAI_API_KEY"}
    done = subprocess.run(
        [sys.executable, "-c", code, server.spec, str(ledger)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_scripted_replies_belong_to_questions_by_position() -> None:
    script = RecordingLLM(replies=[f"reply {number}" for number in range(QUESTIONS)])
    table = answer(retrieved(), spec("openai:gpt-4o-mini"), settings(None, concurrency=16), script)
    assert table["answer"].to_pylist() == [f"reply {number}" for number in range(QUESTIONS)]
    assert table["usd"].to_pylist() == [None] * QUESTIONS  # nobody knows, which is not free
    assert table["model_calls"].to_pylist() == [1] * QUESTIONS


def test_a_model_that_is_not_metered_is_still_called_in_order_and_has_no_cost() -> None:
    script = RecordingLLM(replies=[f"reply {number}" for number in range(3)])
    table = answer_questions(retrieved(3), LLMGenerator(script), k=1, assembler=ContextAssembler())
    assert table.schema == ANSWERS
    assert table["answer"].to_pylist() == ["reply 0", "reply 1", "reply 2"]
    assert table["model_calls"].to_pylist() == [None] * 3


def test_an_answer_without_a_model_costs_nothing() -> None:
    table = answer_questions(retrieved(2), ExtractiveGenerator(), k=1, assembler=ContextAssembler())
    assert table["usd"].to_pylist() == [0.0, 0.0]
    assert table["model_calls"].to_pylist() == [0, 0]


INTERRUPTED = """
import sys
from pathlib import Path
from tests.test_answering_concurrent import *
answer(retrieved(200), spec(sys.argv[1]), settings(Path(sys.argv[2]), concurrency=4))
"""


def test_ctrl_c_stops_at_once_and_keeps_what_was_paid(server: Loopback, tmp_path: Path) -> None:
    server.fault_for = lambda _: Fault("stall", seconds=20) if len(server.requests) > 20 else None
    ledger = tmp_path / "ledger.sqlite"
    running_command = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, server.spec, str(ledger)], stderr=subprocess.PIPE, text=True
    )
    while len(server.requests) < 24:
        time.sleep(0.01)
        assert running_command.poll() is None
    begin = time.monotonic()
    running_command.send_signal(signal.SIGINT)
    _, shown = running_command.communicate(timeout=15)
    assert time.monotonic() - begin < 5
    assert "KeyboardInterrupt" in shown
    server.fault_for = None
    paid = server.served
    answer(retrieved(200), spec(server.spec), settings(ledger))
    assert paid > 0
    assert server.served == 200
