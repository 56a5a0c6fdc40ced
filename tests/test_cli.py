"""The ``contextgrid`` command as a person types it."""

from __future__ import annotations

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
    assert "Leaderboard: 2 cells" in environment_free.stdout
