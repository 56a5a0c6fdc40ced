"""Results as a person reads them in a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from contextgrid.core.axes import encode

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from contextgrid.generate.lift import LiftReport

OFFLINE = encode("offline:reader")


def print_leaderboard(console: Console, leaderboard: pa.Table, limit: int = 20) -> None:
    """The best ``limit`` cells; ``=`` marks those that cannot be told from the first."""
    if leaderboard.num_rows == 0:
        console.print("No cell has results yet.")
        return
    lines = leaderboard.slice(0, limit).to_pylist()
    rows, columns = (short_names(leaderboard[side].to_pylist()) for side in ("retrieval", "generation"))
    generates = lines[0]["generation"] is not None
    table = Table(title=_title(leaderboard), title_justify="left", box=None, pad_edge=False)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("retrieval")
    if generates:
        table.add_column("generation")
    table.add_column(_header(lines[0]["headline"]), justify="right")
    if generates:
        table.add_column(_header(lines[0]["answer_metric"]), justify="right")
        table.add_column("gain [95 % interval]", justify="right", no_wrap=True)
    for line in lines:
        cells = [f"{'=' if line['best'] else ' '}{line['rank']}", escape(rows[line["retrieval"]])]
        if generates:
            cells.append(escape(columns[line["generation"]]))
        cells.append(_score(line["retrieval_score"]))
        if generates:
            cells += [_score(line["answer_score"]), _gain(line)]
        table.add_row(*cells, style="bold" if line["rank"] == 1 else None)
    console.print(table)
    hidden = leaderboard.num_rows - len(lines)
    if hidden > 0:
        console.print(f"... and {hidden} more cells")
    console.print(_legend(leaderboard), style="dim")


def print_findings(console: Console, lifts: Mapping[str, LiftReport]) -> None:
    """What the lift reports say, in words: a summary, then for each column its best row."""
    for sentence in findings(lifts):
        console.print(f"- {escape(sentence)}", highlight=False)


def findings(lifts: Mapping[str, LiftReport]) -> list[str]:
    """The lift reports in sentences."""
    compared = [report for report in lifts.values() if not report.is_baseline]
    if not compared:
        return []
    sentences = [f"{len(compared)} cells compared with their baseline."]
    conclusions = Counter(report.conclusion for report in compared)
    sentences += [f"{count} of {len(compared)}: {conclusion}." for conclusion, count in conclusions.most_common()]
    rows = short_names([report.cell.partition("|")[2] for report in lifts.values()])
    columns = short_names([report.cell.partition("|")[0] for report in lifts.values()])
    by_column: dict[str, list[LiftReport]] = {}
    for report in compared:
        by_column.setdefault(report.cell.partition("|")[0], []).append(report)
    for column, reports in by_column.items():
        best = max(reports, key=lambda report: (report.answer.difference is not None, report.answer.difference or 0.0))
        row = rows[best.cell.partition("|")[2]]
        sentences.append(f"{columns[column]}: the answers gain most from {row}. {best.verdict}")
    return sentences


def short_names(keys: Sequence[str | None]) -> dict[str, str]:
    """Partition keys as a reader needs them: without the axis values that all longer ones share."""
    parts = {key: key.split("__") for key in keys if key is not None}
    longer = [set(found) for found in parts.values() if len(found) > 1]
    shared = set.intersection(*longer) if len(longer) > 1 else set()
    return {key: " ".join(part for part in found if part not in shared) or key for key, found in parts.items()}


def _title(leaderboard: pa.Table) -> str:
    first = leaderboard.slice(0, 1).to_pylist()[0]
    kind = "cells" if first["generation"] is not None else "retrieval configurations"
    return f"Leaderboard: {leaderboard.num_rows} {kind}, {first['questions']} questions"


def _legend(leaderboard: pa.Table) -> str:
    first = leaderboard.slice(0, 1).to_pylist()[0]
    tied = sum(leaderboard["best"].to_pylist())
    text = f"= cannot be told from the best ({tied} of {leaderboard.num_rows})."
    text += f" {first['headline']} over {first['retrieval_n']} of {first['questions']} questions"
    if first["generation"] is None:
        return text + "."
    return (
        text + f"; {first['answer_metric']} over {first['answer_n']}. Gain: against the baseline row, same generation."
    )


def _header(metric: str) -> str:
    # Spaces let a narrow terminal break the name.
    return metric.replace("_", " ")


def _score(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _gain(line: Mapping[str, float | None]) -> str:
    if line["answer_gain"] is None or line["answer_low"] is None or line["answer_high"] is None:
        return "-"
    return f"{line['answer_gain']:+.3f} [{line['answer_low']:+.2f}, {line['answer_high']:+.2f}]"
