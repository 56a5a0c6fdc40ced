"""Results written to a folder: the leaderboard as Parquet and CSV, the findings as Markdown and HTML."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from contextgrid.core.errors import ConfigError
from contextgrid.core.markup import as_text
from contextgrid.report.findings import findings

if TYPE_CHECKING:
    from contextgrid.report.results import Results


def check_folder(folder: Path) -> None:
    """Make sure that a report can be written to a folder that may not exist yet, before anything is computed.

    Raises:
        ConfigError: if it, or a folder above it, is a file or may not be written to.
    """
    try:
        existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    except OSError as error:
        raise ConfigError(f"output {folder}: {error.strerror}; choose another place") from None
    if not existing.is_dir():
        raise ConfigError(f"output {folder}: {existing} is a file; name a folder for the report")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ConfigError(f"output {folder}: {existing} may not be written to; choose another place")


def write_report(results: Results, folder: Path, title: str) -> Path:
    """Write ``leaderboard.parquet``, ``leaderboard.csv``, ``report.html`` and ``report.md``; returns the last's path.

    Raises:
        ConfigError: if the folder cannot be written to.
    """
    import pyarrow.parquet as pq

    check_folder(folder)
    report = folder / "report.md"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(results.leaderboard, folder / "leaderboard.parquet")
        results.to_pandas().to_csv(folder / "leaderboard.csv", index=False)
        (folder / "report.html").write_text(_html(results, title), encoding="utf-8")
        report.write_text(_markdown(results, title), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"output {folder}: cannot be written ({error.strerror or error})") from error
    return report


def _markdown(results: Results, title: str) -> str:
    lines = [f"# {as_text(title)}", "", *(f"- {as_text(sentence)}" for sentence in findings(results.lifts)), ""]
    lines += ["| " + " | ".join(_COLUMNS) + " |", "|" + "---|" * len(_COLUMNS)]
    for row in results.leaderboard.select(list(_COLUMNS.values())).to_pylist():
        lines.append("| " + " | ".join(_cell(row[name]) for name in _COLUMNS.values()) + " |")
    lines += ["", *_legend(results)]
    for sentence in [*results.notes, *results.warnings]:
        lines += ["", f"Note: {as_text(sentence)}"]
    for key, reason in results.failed.items():
        lines += ["", f"Failed: {as_text(key)}: {as_text(reason)}"]
    return "\n".join(lines) + "\n"


def _html(results: Results, title: str) -> str:
    from contextgrid.report.html import leaderboard_page

    failed = [f"failed: {key}: {reason}" for key, reason in results.failed.items()]
    notes = [*results.notes, *results.warnings, *failed]
    return leaderboard_page(results.leaderboard, findings(results.lifts), title, notes=notes)


# Heading and column of the leaderboard.
_COLUMNS = {
    "rank": "rank",
    "best": "best",
    "baseline": "baseline",
    "retrieval": "retrieval",
    "generation": "generation",
    "retrieval score": "retrieval_score",
    "of questions": "retrieval_n",
    "answer score": "answer_score",
    "of answers": "answer_n",
    "gain": "answer_gain",
    "from": "answer_low",
    "to": "answer_high",
    "p": "p_value",
}


def _legend(results: Results) -> list[str]:
    first = results.leaderboard.slice(0, 1).to_pylist()[0]
    said = f"{first['questions']} questions. Retrieval score: {as_text(first['headline'])}."
    if first["answer_metric"] is not None:
        said += (
            f" Answer score: {as_text(first['answer_metric'])}. Gain: of the answer score on the baseline row with the"
        )
        said += " same generation, with its 95 % interval and p-value, not corrected for the number of cells."
    return [f"{said} best: cannot be told from the first cell, corrected for the number of cells."]


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    return f"{value:.3f}" if isinstance(value, float) else as_text(value)
