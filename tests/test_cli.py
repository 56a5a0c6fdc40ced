"""The ``contextgrid`` command as a person types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

from tests.test_lab import experiment_file

__all__ = ["experiment_file"]


def contextgrid(*arguments: object) -> subprocess.CompletedProcess[str]:
    code = "from contextgrid.cli import main; main()"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "110"})


def test_check_shows_rows_columns_axes_and_partitions(experiment_file: Path) -> None:
    result = contextgrid("check", experiment_file)
    assert result.returncode == 0, result.stderr
    for expected in (
        "3 documents, 2 questions (1 answerable)",
        "auto__recursive-512__bm25  (baseline)",
        "auto__recursive-512__tfidf__dense",
        "llm__offline-reader",
        "2 x 2 = 4 cells",
        "bm25, dense",
        "answers 4",
    ):
        assert expected in result.stdout


def test_check_names_evidence_that_is_not_in_its_document(experiment_file: Path) -> None:
    questions = experiment_file.parent / "q.jsonl"
    questions.write_text(questions.read_text().replace("thirty days", "forty fortnights of purchase"))
    result = contextgrid("check", experiment_file)
    assert "evidence not found: 1" in result.stdout
    assert "q1: refunds.md: forty fortnights of purchase" in result.stdout
    assert "Correct the quote or its source_id" in result.stdout
    text = experiment_file.read_text().replace("[extractive, llm]", "extractive")
    experiment_file.write_text(text)
    result = contextgrid("run", experiment_file)
    assert result.stdout.count("1 piece of evidence was not found") == 1
    report = experiment_file.parent / "results" / "demo" / "report.md"
    assert "1 piece of evidence was not found" in report.read_text()


def test_run_prints_the_leaderboard_and_findings_and_writes_them(experiment_file: Path) -> None:
    result = contextgrid("run", experiment_file)
    assert result.returncode == 0, result.stderr
    assert "Leaderboard: 4 cells, 2 questions" in result.stdout
    assert "2 cells compared with their baseline" in result.stdout
    output = experiment_file.parent / "results" / "demo"
    assert pq.read_table(output / "leaderboard.parquet").num_rows == 4
    assert (output / "leaderboard.csv").read_text().count("\n") == 5
    assert "| rank |" in (output / "report.md").read_text()


def test_a_mistake_is_one_message_and_exit_code_two(experiment_file: Path) -> None:
    experiment_file.write_text(experiment_file.read_text().replace("bm25", "bm52"))
    result = contextgrid("run", experiment_file)
    assert result.returncode == 2
    assert "did you mean 'bm25'" in result.stderr
    assert "Traceback" not in result.stderr
    assert contextgrid("check", experiment_file.parent / "absent.yaml").returncode == 2


def test_failed_cells_exit_with_one_and_are_named(experiment_file: Path) -> None:
    text = experiment_file.read_text().replace(
        "model: offline:reader", "model: openai:none,api_base=http://127.0.0.1:9/v1"
    )
    experiment_file.write_text(f"{text}run: {{retries: 0}}\n")
    environment_free = contextgrid("run", experiment_file)
    assert environment_free.returncode == 1
    assert environment_free.stderr.count("failed: llm__") == 2
    assert "Leaderboard: 2 of 4 cells" in environment_free.stdout


def test_a_report_that_cannot_be_written_is_refused_before_anything_runs(experiment_file: Path) -> None:
    taken = experiment_file.parent / "taken"
    taken.write_text("x")
    for output in (taken, taken / "below", experiment_file.parent / "docs" / "report"):
        result = contextgrid("run", experiment_file, "--output", output)
        assert result.returncode == 2
        assert "error:" in result.stderr
        assert "Leaderboard" not in result.stdout


def test_a_reader_that_goes_away_loses_no_report_and_sees_no_traceback(experiment_file: Path) -> None:
    code = "from contextgrid.cli import main; main()"
    command = [sys.executable, "-c", code, "run", str(experiment_file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert said == b""
    assert (experiment_file.parent / "results" / "demo" / "report.md").is_file()


def test_control_characters_are_shown_and_not_obeyed(experiment_file: Path) -> None:
    questions = experiment_file.parent / "q.jsonl"
    line = {
        "id": "q\x1b[31m3",
        "question": "?",
        "anchors": [{"source_id": "a\x1b]0;b\x07.md", "quote": "c\x9b\u202e[red]"}],
    }
    questions.write_text(f"{questions.read_text()}\n{json.dumps(line)}\n")
    result = contextgrid("check", experiment_file)
    assert r"q\x1b[31m3: a\x1b]0;b\x07.md: c\x9b\u202e[red]" in result.stdout.replace("\n", "")
    experiment_file.write_text(experiment_file.read_text().replace("bm25", '"bm\\e[31m"'))
    result = contextgrid("check", experiment_file)
    assert result.returncode == 2
    assert "\x1b" not in result.stdout + result.stderr


def test_the_version_is_shown() -> None:
    assert contextgrid("--version").stdout.startswith("contextgrid 0.")
