"""The ``contextgrid-dagster`` command as a person types it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from upath import UPath

from contextgrid.models.calls import Meter, Reply
from contextgrid_dagster.cli import main
from contextgrid_dagster.storage import IndexStore
from contextgrid_dagster.terminal import spending
from tests.dagster_fixtures import EXPERIMENT, LLM_SHORT, Bench, bench, built_bench, write_experiment

__all__ = ["bench", "built_bench"]

SMALL = EXPERIMENT.replace("[extractive, llm]", "extractive").replace("[bm25, dense]", "bm25")
SMALL = SMALL.replace("counting:a", "offline:reader")  # processes of their own do not know the counting model


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DAGSTER_HOME", "CONTEXTGRID_STORAGE", "CONTEXTGRID_EXPERIMENT", "CONTEXTGRID_KEY_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")


class Terminal:
    """Runs the command in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys, self._monkeypatch = capsys, monkeypatch

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["contextgrid-dagster", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        captured = self._capsys.readouterr()
        return code, captured.out, captured.err


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    return Terminal(capsys, monkeypatch)


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-c", "from contextgrid_dagster.cli import main; main()", *map(str, arguments)]


def test_plan_materialize_and_plan_again(tmp_path: Path, terminal: Terminal) -> None:
    file = write_experiment(tmp_path, SMALL)
    code, out, _ = terminal("plan", file)
    assert code == 0
    assert "never built" in out
    assert "partitions have to be built" in out
    assert str(tmp_path / ".contextgrid" / "dagster" / "bench") in out.replace("\n", "")

    code, out, err = terminal("materialize", file)
    assert (code, err) == (0, "")
    assert "Leaderboard: 2 cells, 3 questions" in out
    assert "compared with its baseline" in out

    assert "Everything is up to date" in terminal("plan", file)[1]
    assert "Nothing to do" in terminal("materialize", file)[1]
    assert all(len(line) <= 100 or "Dagster home" in line for line in out.splitlines())


def test_a_dry_run_builds_nothing(bench: Bench, terminal: Terminal) -> None:
    bench.edit("prompts/short.txt", "Answer from", "Answer at length from")
    with bench.counted() as counted:
        code, out, _ = terminal("materialize", bench.file, "--dry-run")
    assert (code, counted.partitions) == (0, {})
    assert "prompt text changed" in out
    assert "if what they are built from changes" in out


def test_plan_prints_a_column_of_one_reason_as_one_line_and_every_partition_on_demand(
    bench: Bench, terminal: Terminal
) -> None:
    bench.edit("prompts/short.txt", "Answer from", "Answer at length from")
    grouped = terminal("plan", bench.file)[1]
    assert grouped.count(f"{LLM_SHORT}|*") == 3
    everything = terminal("plan", bench.file, "--all")[1]
    assert everything.count(f"{LLM_SHORT}|markdown") == 3 * 4
    graph = bench.graph()
    for cell in graph.partitions("lift_reports")[:2]:
        graph.tables.path_of(graph.key("lift_reports"), cell).unlink()
    assert "... and 5 more" in terminal("plan", bench.file, "--limit", "1", "--select", "lift_reports")[1]


def test_failed_cells_exit_with_one_and_say_why(bench: Bench, terminal: Terminal) -> None:
    bench.edit("prompts/short.txt", "Sentinel short.", "fail always")
    code, out, err = terminal("materialize", bench.file)
    assert code == 1
    assert err.count("failed answers:") == 4
    assert "told to fail" in err
    assert "skipped 2 partitions: answers:" in err
    assert "Traceback" not in out + err
    assert "dagster - " not in out + err


def test_failed_questions_are_shown_at_the_end(bench: Bench, terminal: Terminal) -> None:
    bench.edit("prompts/short.txt", "Sentinel short.", "fail once")
    code, _, err = terminal("materialize", bench.file)
    assert code == 0
    assert err.count("1 question failed") == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--select", "anwsers"], "did you mean 'answers'"),
        (["--select", "answers:nothing"], "no partition of answers matches"),
    ],
)
def test_a_mistaken_selection_is_one_message_and_exit_code_two(
    tmp_path: Path, terminal: Terminal, arguments: list[str], message: str
) -> None:
    file = write_experiment(tmp_path, SMALL)
    for name in ("plan", "materialize"):
        code, _, err = terminal(name, file, *arguments)
        assert code == 2
        assert message in err
        assert err.count("error:") == 1


@pytest.mark.parametrize("command_name", ["materialize", "refresh"])
def test_a_budget_without_a_limit_is_one_message_and_exit_code_two(
    tmp_path: Path, terminal: Terminal, command_name: str
) -> None:
    code, _, err = terminal(command_name, write_experiment(tmp_path, SMALL), "--budget", "inf")
    assert (code, "a budget is a number of dollars, at least 0, got inf" in " ".join(err.split())) == (2, True)


@pytest.mark.parametrize("database", ["runs.db", "event_log.db"])
def test_a_damaged_database_is_one_message_that_says_what_to_do(
    bench: Bench, terminal: Terminal, database: str
) -> None:
    home = bench.folder / ".contextgrid" / "dagster" / "bench"
    bench.instance.dispose()
    for file in home.glob(f"{database}*"):
        file.write_text("no database")
    code, _, err = terminal("plan", bench.file)
    assert (code, err.count("error:")) == (2, 1)
    assert f"Dagster home {home}: its database cannot be used: file is not a database; make room" in err


def test_a_mistaken_experiment_is_one_message_and_exit_code_two(tmp_path: Path, terminal: Terminal) -> None:
    file = write_experiment(tmp_path, SMALL.replace("bm25", "bm52"))
    code, _, err = terminal("materialize", file)
    assert code == 2
    assert "did you mean 'bm25'" in err
    assert terminal("plan", tmp_path / "absent.yaml")[0] == 2
    assert not (tmp_path / ".contextgrid").exists()


def test_an_unusable_dagster_home_is_one_message(
    tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_experiment(tmp_path, SMALL)
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("event_log_storage: {module: nowhere, class: Nothing, config: {}}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    code, _, err = terminal("plan", file)
    assert code == 2
    assert str(home) in err.replace("\n", "")


def test_a_dagster_home_of_ones_own_is_used(
    tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_experiment(tmp_path, SMALL)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    assert terminal("materialize", file, "--select", "+documents")[0] == 0
    assert (tmp_path / "home" / "history").is_dir()
    assert not (tmp_path / ".contextgrid" / "dagster").exists()


def test_two_processes_on_one_instance_both_finish(tmp_path: Path, terminal: Terminal) -> None:
    file = write_experiment(tmp_path, SMALL)
    processes = [
        subprocess.Popen(command("materialize", file), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert "locked" not in "".join(outputs)
    assert "Everything is up to date" in terminal("plan", file)[1]


def test_an_interruption_keeps_what_was_finished(
    tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_experiment(tmp_path, SMALL)
    write = IndexStore.write

    def write_and_interrupt(store: IndexStore, path: UPath, content: bytes) -> None:
        write(store, path, content)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(IndexStore, "write", write_and_interrupt)
    code, out, err = terminal("materialize", file)
    assert code == 130
    assert "run the command again to go on" in err
    assert "Traceback" not in out + err
    monkeypatch.undo()
    monkeypatch.setenv("COLUMNS", "100")
    code, out, _ = terminal("materialize", file)
    assert code == 0
    assert "corpus " not in out


def test_the_workspace_loads(tmp_path: Path) -> None:
    file = write_experiment(tmp_path, SMALL)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    result = subprocess.run(
        [sys.executable, "-m", "dagster", "definitions", "validate", "-w", "workspace.yaml"],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "CONTEXTGRID_EXPERIMENT": str(file), "DAGSTER_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "All code locations passed validation" in result.stdout + result.stderr


def test_calls_without_a_price_do_not_read_as_free() -> None:
    meter = Meter()
    meter.add(Reply("yes"))
    assert spending(meter) == "Models: 1 call, 0 replies from the ledger; none of them has a price"
    meter.add(Reply("yes", usd=0.5))
    assert spending(meter) == (
        "Models: 2 calls, 0 replies from the ledger; $0.5000 spent now, $0.5000 at the original price;"
        " 1 of 2 have no price and are not in it"
    )
