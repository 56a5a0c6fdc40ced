"""Results written to a folder: the leaderboard as Parquet and CSV, the findings as Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from contextgrid.core.markup import as_text
from contextgrid.report.findings import findings

if TYPE_CHECKING:
    from contextgrid.report.results import Results


def write_report(results: Results, folder: Path, title: str) -> Path:
    """Write ``leaderboard.parquet``, ``leaderboard.csv`` and ``report.md``; returns the path of the last."""
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(results.leaderboard, folder / "leaderboard.parquet")
    results.to_pandas().to_csv(folder / "leaderboard.csv", index=False)
    report = folder / "report.md"
    report.write_text(_markdown(results, title), encoding="utf-8")
    return report


def _markdown(results: Results, title: str) -> str:
    lines = [f"# {as_text(title)}", "", *(f"- {as_text(sentence)}" for sentence in findings(results.lifts)), ""]
    names = ["rank", "best", "retrieval", "generation", "retrieval_score", "answer_score"]
    lines += ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for row in results.leaderboard.select(names).to_pylist():
        lines.append("| " + " | ".join(_cell(row[name]) for name in names) + " |")
    for key, reason in results.failed.items():
        lines += ["", f"Failed: {as_text(key)}: {as_text(reason)}"]
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "=" if value else ""
    return f"{value:.3f}" if isinstance(value, float) else as_text(value)
