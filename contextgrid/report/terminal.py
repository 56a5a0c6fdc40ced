"""Results as a person reads them in a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

from contextgrid.core.axes import encode
from contextgrid.core.markup import for_terminal
from contextgrid.report.findings import findings, short_names

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from contextgrid.generate.lift import LiftReport

_SHOWN_NOTES = 20
OFFLINE = encode("offline:reader")


def print_leaderboard(console: Console, leaderboard: pa.Table, limit: int = 12, *, cells: int | None = None) -> None:
    """The best ``limit`` cells; ``≈`` marks those that cannot be told from the first.

    Args:
        cells: how many the grid has, where some may have no result.
    """
    if leaderboard.num_rows == 0:
        console.print("No cell has results yet.")
        return
    lines = leaderboard.slice(0, limit).to_pylist()
    rows, columns = (short_names(leaderboard[side].to_pylist()) for side in ("retrieval", "generation"))
    generates = lines[0]["generation"] is not None
    table = Table(title=_title(leaderboard, cells), title_justify="left", box=None, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    table.add_column("retrieval", overflow="fold", min_width=14)
    if generates:
        table.add_column("generation", overflow="fold", min_width=10)
    table.add_column(_header(lines[0]["headline"]), justify="right")
    if generates:
        table.add_column(_header(lines[0]["answer_metric"]), justify="right", max_width=9)
        table.add_column("gain [95 % interval]", justify="right", no_wrap=True)
    for line in lines:
        name = rows[line["retrieval"]] + (" (baseline)" if line["baseline"] else "")
        shown = [f"{line['rank']:>3} {'≈' if line['best'] else ' '}", for_terminal(name)]
        if generates:
            shown.append(for_terminal(columns[line["generation"]]))
        shown.append(_score(line["retrieval_score"]))
        if generates:
            shown += [_score(line["answer_score"]) + _coverage(line), _gain(line)]
        table.add_row(*shown, style="bold" if line["rank"] == 1 else None)
    console.print(table)
    hidden = leaderboard.num_rows - len(lines)
    if hidden > 0:
        console.print(f"... and {hidden} more")
    console.print(_legend(leaderboard), style="dim")


def print_findings(console: Console, lifts: Mapping[str, LiftReport], notes: Sequence[str] = ()) -> None:
    """What the lift reports say, in words: a summary, then for each column its best row; then ``notes``."""
    for sentence in findings(lifts):
        console.print(f"- {for_terminal(sentence)}", highlight=False)
    for sentence in notes[:_SHOWN_NOTES]:
        console.print(f"[yellow]note:[/] {for_terminal(sentence)}", highlight=False)
    if len(notes) > _SHOWN_NOTES:
        console.print(f"... and {len(notes) - _SHOWN_NOTES} more notes")


def _title(leaderboard: pa.Table, cells: int | None) -> str:
    first = leaderboard.slice(0, 1).to_pylist()[0]
    kind = "cells" if first["generation"] is not None else "retrieval configurations"
    of = "" if cells in (None, leaderboard.num_rows) else f" of {cells}"
    return f"Leaderboard: {leaderboard.num_rows}{of} {kind}, {first['questions']} questions"


def _legend(leaderboard: pa.Table) -> str:
    first = leaderboard.slice(0, 1).to_pylist()[0]
    tied = sum(leaderboard["best"].to_pylist())
    text = f"≈ cannot be told from the best ({tied} of {leaderboard.num_rows})."
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


def _coverage(line: Mapping[str, Any]) -> str:
    """Over how many questions an answer score is, where that is not all: a mean over few must not read as clean."""
    return "" if line["answer_n"] == line["questions"] else f" (n={line['answer_n']} of {line['questions']})"


def _gain(line: Mapping[str, float | None]) -> str:
    if line["answer_gain"] is None or line["answer_low"] is None or line["answer_high"] is None:
        return "-"
    return f"{line['answer_gain']:+.3f} [{line['answer_low']:+.3f}, {line['answer_high']:+.3f}]"
