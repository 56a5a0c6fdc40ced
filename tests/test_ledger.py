"""The call ledger: what it keeps, who may use it at the same time, and what survives."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextgrid.models.ledger import Entry, Ledger, LedgerError, open_ledger
from contextgrid.models.ledger_sql import SqlLedger
from contextgrid.models.ledger_sqlite import SqliteLedger
from contextgrid.models.reply import Reply
from tests.loopback import KEY, running
from tests.services import postgresql_server

Opener = Callable[[], Ledger]


def key(number: int) -> str:
    return f"{number:032x}"


def entry(number: int, text: str = "reply", *, usd: float | None = 0.5, model: str = "m", cell: str = "c") -> Entry:
    return Entry(key(number), "completion", model, "answers", cell, Reply(text, 10, 2, usd, 0.25), 86_400.0 * number)


@pytest.fixture(params=["sqlite", "sqlalchemy", "postgresql"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens one and the same ledger, each time anew."""
    if request.param == "sqlite":
        return lambda: SqliteLedger(tmp_path / "ledger.sqlite")
    url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql")
    return lambda: SqlLedger(url)


@pytest.fixture
def postgresql() -> Iterator[str]:
    """An empty schema of the PostgreSQL database that CONTEXTGRID_TEST_POSTGRESQL names."""
    import sqlalchemy

    url = postgresql_server()
    schema = f"ledger_{uuid.uuid4().hex}"  # tests run side by side
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text(f"CREATE SCHEMA {schema}"))
    yield f"{url}?options=-csearch_path%3D{schema}"
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text(f"DROP SCHEMA {schema} CASCADE"))
    engine.dispose()


# what it keeps


def test_a_recorded_reply_is_served_to_whoever_opens_the_ledger(opener: Opener) -> None:
    assert opener().get(key(1)) is None
    assert opener().record(entry(1)) == entry(1).reply
    assert opener().get(key(1)) == Reply("reply", 10, 2, 0.5, 0.25, stored=True)


def test_what_is_unknown_stays_unknown(opener: Opener) -> None:
    opener().record(Entry(key(1), "completion", "m", "answers", None, Reply("r"), 1.0))
    assert opener().get(key(1)) == Reply("r", None, None, None, 0.0, stored=True)


def test_many_replies_are_read_at_once(opener: Opener) -> None:
    ledger = opener()
    for number in range(5):
        ledger.record(entry(number, f"reply {number}"))
    wanted = [key(number) for number in range(1, 1500)]
    assert {found: reply.text for found, reply in ledger.get_many(wanted).items()} == {
        key(number): f"reply {number}" for number in range(1, 5)
    }
    assert ledger.held(wanted) == {key(number) for number in range(1, 5)}
    assert ledger.get_many([]) == {}


def test_a_fresh_reply_is_kept_beside_the_old_and_served(opener: Opener) -> None:
    ledger = opener()
    ledger.record(entry(1, "old"))
    assert ledger.record(entry(1, "new"), fresh=True).text == "new"
    for found in (ledger.get(key(1)), ledger.get_many([key(1)])[key(1)]):
        assert found is not None
        assert found.text == "new"
    assert ledger.spending("model")[0].calls == 2


def test_of_two_replies_to_one_call_the_first_is_served_and_both_are_counted(opener: Opener) -> None:
    ledger = opener()
    ledger.record(entry(1, "first"))
    for _ in range(3):
        assert ledger.record(entry(1, "late")).text == "first"
    assert ledger.held([key(1)]) == {key(1)}
    assert (ledger.spending("model")[0].calls, ledger.spending("model")[0].usd) == (4, 2.0)


def test_spending_adds_up_by_model_stage_cell_and_day(opener: Opener) -> None:
    ledger = opener()
    ledger.record(entry(0, usd=0.1, model="a"))
    ledger.record(entry(1, usd=0.2, model="b"))
    ledger.record(entry(2, usd=None, model="b", cell="d"))
    by_model = ledger.spending("model")
    assert [(row.name, row.calls, row.usd, row.unpriced) for row in by_model] == [("b", 2, 0.2, 1), ("a", 1, 0.1, 0)]
    assert by_model[0].prompt_tokens == 20
    assert [row.name for row in ledger.spending("day")] == ["1970-01-01", "1970-01-02", "1970-01-03"]
    assert [row.name for row in ledger.spending("cell")] == ["c", "d"]
    assert [(row.name, row.calls) for row in ledger.spending("stage")] == [("answers", 3)]
    assert ledger.mean_completion_tokens() == {("a", "answers"): 2.0, ("b", "answers"): 2.0}


@given(text=st.text(), tokens=st.integers(0, 2**31 - 1), usd=st.floats(0, 1e6))
def test_every_text_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, text: str, tokens: int, usd: float
) -> None:
    ledger = SqliteLedger(tmp_path_factory.mktemp("ledger") / "ledger.sqlite")
    reply = Reply(text, tokens, tokens, usd, 1.0)
    ledger.record(Entry(key(1), "completion", "m", "answers", None, reply, 1.0))
    found = ledger.get(key(1))
    ledger.close()
    assert found == Reply(text, tokens, tokens, usd, 1.0, stored=True)


def test_postgresql_s_one_forbidden_character_does_not_lose_a_reply(opener: Opener) -> None:
    ledger = opener()
    ledger.record(entry(1, "a\0b"))
    assert ledger.get(key(1)) is not None


# at the same time


def test_threads_share_a_ledger(opener: Opener) -> None:
    ledger = opener()
    failures: list[Exception] = []

    def work(start: int) -> None:
        try:
            for number in range(start, start + 25):
                ledger.record(entry(number))
                assert ledger.get(key(number)) is not None
                ledger.record(entry(9999, f"{number}"), fresh=number % 2 == 0)
        except Exception as error:  # noqa: BLE001 - shown by the assertion
            failures.append(error)

    threads = [threading.Thread(target=work, args=(100 * number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sum(row.calls for row in ledger.spending("model")) == 300


WRITER = """
import sys
from tests.test_ledger import entry, key
from contextgrid.models.ledger import open_ledger
location, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ledger = open_ledger(location)
for number in range(first, first + count):
    ledger.record(entry(number, f"reply {number}"))
    assert ledger.get(key(number)).text == f"reply {number}"
    ledger.record(entry(7, "the same for all"))
"""


def test_processes_that_create_and_write_one_ledger_lose_nothing(tmp_path: Path) -> None:
    location = str(tmp_path / "new" / "ledger.sqlite")
    command = [sys.executable, "-c", WRITER, location]
    writers = [
        subprocess.Popen([*command, str(1000 * number), "200"], stderr=subprocess.PIPE, text=True)
        for number in range(1, 4)
    ]
    errors = [writer.communicate()[1] for writer in writers]
    assert errors == ["", "", ""]
    ledger = open_ledger(location)
    keys = [key(1000 * number + offset) for number in range(1, 4) for offset in range(200)]
    assert len(ledger.held(keys)) == 600
    assert ledger.spending("model")[0].calls == 1200


def test_a_forked_process_uses_connections_of_its_own(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    ledger.record(entry(1))
    child = os.fork()
    if child == 0:
        ok = ledger.get(key(1)) is not None and ledger.record(entry(2)).text == "reply"
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert ledger.get(key(2)) is not None


KILLED = """
import sys
from contextgrid.models.calls import CallSettings, map_in_order, open_model
from tests.services import postgresql_server
spec, ledger, concurrency = sys.argv[1], sys.argv[2], int(sys.argv[3])
llm = open_model(spec, calls=CallSettings(ledger=ledger, concurrency=concurrency), stage="answers")
replies = map_in_order(llm, llm.complete, [f"question {number}" for number in range(80)])
assert all(isinstance(reply, str) for reply in replies), replies
"""


def test_a_killed_run_pays_at_most_its_concurrency_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("litellm")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    concurrency = 6
    with running() as server:
        server.delay = 0.05
        command = [sys.executable, "-c", KILLED, server.spec, str(tmp_path / "ledger.sqlite"), str(concurrency)]
        victim = subprocess.Popen(command)
        while len(server.requests) < 30:
            time.sleep(0.005)
            assert victim.poll() is None
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        time.sleep(0.1)
        assert len(server.requests) < 80
        subprocess.run(command, check=True)
        assert 80 <= len(server.requests) <= 80 + concurrency
        paid = len(server.requests)
        subprocess.run(command, check=True)  # and now there is nothing left to pay
        assert len(server.requests) == paid


# where it lies


def test_a_recorded_ledger_can_be_read_where_nothing_can_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "recorded"
    writer = SqliteLedger(folder / "ledger.sqlite")
    writer.record(entry(1))
    writer.close()
    assert [file.name for file in folder.iterdir()] == ["ledger.sqlite"]  # one file that can be checked in
    (folder / "ledger.sqlite").chmod(0o444)
    folder.chmod(0o555)
    try:
        reader = SqliteLedger(folder / "ledger.sqlite", read_only=True)
        assert reader.get(key(1)) is not None
        with pytest.raises(
            LedgerError, match=r"ledger .*ledger\.sqlite: OperationalError: attempt to write a readonly"
        ):
            reader.record(entry(2))
    finally:
        folder.chmod(0o755)


def test_a_file_that_is_no_ledger_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("these are notes, and long enough to have a header" * 9)
    with pytest.raises(LedgerError, match=r"ledger .*notes\.txt: DatabaseError: file is not a database"):
        open_ledger(str(tmp_path / "notes.txt"))
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerError, match=r"ledger .*file/ledger\.sqlite"):
        open_ledger(str(tmp_path / "file" / "ledger.sqlite"))


def test_errors_of_a_server_show_neither_password_nor_replies(tmp_path: Path) -> None:
    with pytest.raises(LedgerError) as raised:
        open_ledger("postgresql+psycopg://me:hunter2-secret@127.0.0.1:9/none")
    assert "hunter2" not in str(raised.value)
    with pytest.raises(LedgerError, match="not the address of a ledger"):
        open_ledger("nonsense://")
    ledger = SqlLedger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    sqlite3.connect(tmp_path / "ledger.sqlite").execute("DROP TABLE calls")
    with pytest.raises(LedgerError, match="no such table") as raised:
        ledger.record(entry(1, "CANARY-REPLY"))
    assert "CANARY" not in str(raised.value)
    assert raised.value.__suppress_context__


def test_only_so_many_ledgers_stay_open(tmp_path: Path) -> None:
    ledgers = [open_ledger(str(tmp_path / f"{number}.sqlite")) for number in range(12)]
    for ledger in ledgers:
        ledger.record(entry(1))
    assert open_ledger(str(tmp_path / "0.sqlite")) is ledgers[0]
    open_files = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_open(fd)]
    assert all(ledger.get(key(1)) is not None for ledger in ledgers)
    assert sum(str(tmp_path) in name for name in open_files) <= 3 * 12


def _is_open(fd: str) -> bool:
    return os.path.exists(f"/proc/self/fd/{fd}")
