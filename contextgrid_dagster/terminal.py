"""Plans and what became of them, as a person reads them in a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from contextgrid.core.markup import counted, for_terminal
from contextgrid.core.matrix import Matrix
from contextgrid.models.calls import Meter
from contextgrid.report.findings import short_names
from contextgrid_dagster.departed import Departures
from contextgrid_dagster.executor import ExecutionReport, Kind, Outcome
from contextgrid_dagster.graph import GridGraph
from contextgrid_dagster.planner import Plan, Status, Step
from contextgrid_dagster.refreshing.refresh import Refresh

_STYLES = {Status.MISSING: "red", Status.STALE: "yellow", Status.POSSIBLE: "cyan", Status.CURRENT: "green"}
_MEANINGS = {
    Status.MISSING: "nothing usable is stored",
    Status.STALE: "was built from something else",
    Status.POSSIBLE: "only if what is above it changes",
}
_PROBLEMS_SHOWN = 10


def print_plan(console: Console, plan: Plan, limit: int | None = None) -> None:
    """One table: each asset with its counts, then its pending partitions with the reasons.

    Args:
        limit: how many lines to print for each asset, with a whole asset or column of one reason in one line;
            ``None`` prints a line for each partition.
    """
    table = Table(box=None, pad_edge=False)
    table.add_column("asset and partition", overflow="fold", ratio=5)
    table.add_column("status", no_wrap=True)
    table.add_column("why", overflow="fold", ratio=4)
    steps: dict[str, list[Step]] = {}
    for step in plan.steps:
        steps.setdefault(step.node.asset, []).append(step)
    for asset, counts in plan.counts().items():
        pending = [step for step in steps[asset] if step.is_pending]
        if steps[asset][0].node.partition is None:
            step = steps[asset][0]
            table.add_row(f"[bold]{asset}[/]", _status(step.status), for_terminal("; ".join(step.reasons)))
            continue
        table.add_row(f"[bold]{asset}[/]: {_counts(counts)}", "", "")
        lines = [_line(step) for step in pending] if limit is None else _grouped(steps[asset])
        for line in lines[:limit]:
            table.add_row(f"  {line.partitions}", _status(line.status), for_terminal("; ".join(line.reasons)))
        hidden = sum(line.count for line in lines[limit:]) if limit is not None else 0
        if hidden:
            table.add_row(f"  [dim]... and {hidden} more[/]", "", "")
    console.print(table)
    present = {step.status for step in plan.pending}
    if legend := "; ".join(f"{status}: {meaning}" for status, meaning in _MEANINGS.items() if status in present):
        console.print(f"[dim]{legend}[/]", highlight=False)
    console.print(_summary(plan), highlight=False)


@dataclass(frozen=True)
class _Line:
    """Partitions, as a selection would name them, that share their status and reasons."""

    partitions: str
    status: Status
    reasons: tuple[str, ...]
    count: int = 1


def _line(step: Step) -> _Line:
    return _Line(str(step.node.partition), step.status, step.reasons)


def _grouped(steps: Sequence[Step]) -> list[_Line]:
    """The pending partitions of an asset: all of them, whole columns, or one by one."""
    together = _together("*", steps)
    if together is not None:
        return [together]
    columns: dict[str, list[Step]] = {}
    for step in steps:
        columns.setdefault(str(step.node.partition).partition("|")[0], []).append(step)
    lines: list[_Line] = []
    for column, cells in columns.items():
        together = _together(f"{column}|*", cells)
        lines += [together] if together else [_line(cell) for cell in cells if cell.is_pending]
    return lines


def _together(name: str, steps: Sequence[Step]) -> _Line | None:
    first = steps[0]
    alike = all((step.status, step.reasons) == (first.status, first.reasons) for step in steps)
    return _Line(name, first.status, first.reasons, len(steps)) if first.is_pending and alike and steps[1:] else None


def print_departures(console: Console, found: Departures, limit: int | None = None) -> None:
    """What is stored of partitions that left the grid, with sizes and days, and files that are left alone."""
    shown = found.partitions[:limit]
    if shown:
        table = Table(box=None, pad_edge=False)
        table.add_column("asset and partition", overflow="fold")
        table.add_column("size", justify="right", no_wrap=True)
        table.add_column("built", no_wrap=True)
        for departed in shown:
            day = datetime.fromtimestamp(departed.written).strftime("%Y-%m-%d %H:%M")
            table.add_row(for_terminal(str(departed.node)), decimal(departed.bytes), day)
        console.print(table)
    if hidden := len(found.partitions) - len(shown):
        console.print(f"[dim]... and {hidden} more; --all lists them[/]")
    number = counted(len(found.partitions), "stored partition")
    summary = f"{number} of cells that left the grid, {decimal(found.bytes)}."
    console.print(summary if shown else "Nothing is stored of cells that left the grid.", highlight=False)
    if found.others:
        what = "1 other file is" if len(found.others) == 1 else f"{len(found.others)} other files are"
        example = for_terminal(str(found.others[0]))
        why = "Dagster has no such record of it here, so it is left alone"
        console.print(f"{what} no part of the grid. {why}: {example}", highlight=False, soft_wrap=True)


def print_report(console: Console, report: ExecutionReport) -> None:
    """Counts for each asset, and seconds."""
    table = Table(box=None, pad_edge=False)
    table.add_column("asset")
    for kind in Kind:
        table.add_column(kind.value, justify="right")
    table.add_column("seconds", justify="right")
    for asset, counts in report.counts().items():
        seconds = sum(outcome.seconds for outcome in report.outcomes if outcome.node.asset == asset)
        table.add_row(asset, *(str(counts[kind]) if counts[kind] else "[dim]-[/]" for kind in Kind), f"{seconds:.1f}")
    console.print(table)
    runs = len(report.of_kind(Kind.BUILT, Kind.UNCHANGED, Kind.FAILED))
    console.print(f"{runs} runs in {report.seconds:.1f} s", highlight=False)
    spent = spending(report.calls)
    for line in filter(None, (failed_checks(report), spent)):
        console.print(line, highlight=False)


def print_drift(console: Console, found: Refresh, matrix: Matrix) -> None:
    """What a refresh of a grid found: the cells that drifted or could not be compared, then the others."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(overflow="fold", ratio=2)
    table.add_column(overflow="fold", ratio=3)
    rows = short_names([row.key for row in matrix.rows])
    columns = short_names([column.key for column in matrix.columns])
    for drift in sorted(found.drifts, key=lambda drift: not drift.drifted):
        column, _, row = drift.cell.partition("|")
        style = "yellow" if drift.drifted else "dim" if drift.reason else "default"
        said = f"[{style}]{for_terminal(drift.sentence)}[/]"
        table.add_row(f"{for_terminal(columns[column])} [dim]|[/] {for_terminal(rows[row])}", said)
    console.print(table)
    console.print(f"{found.summary[0].upper()}{found.summary[1:]}.", highlight=False)


def failed_checks(report: ExecutionReport) -> str | None:
    """Which checks how many partitions did not pass, in words; ``None`` if there are none."""
    failed = Counter(check for outcome in report.outcomes for check in outcome.failed_checks)
    if not failed:
        return None
    named = ", ".join(f"{check} ({count})" for check, count in failed.most_common())
    return f"Checks that partitions did not pass: {named}. contextgrid-dagster gate says which and why."


def spending(calls: Meter) -> str | None:
    """What calls to models took, in words; ``None`` where there were none, or only free ones."""
    if not calls.replies or (not calls.unpriced and not calls.usd):
        return None
    text = f"Models: {counted(calls.calls, 'call')}, {calls.hits} replies from the ledger"
    if calls.unpriced == calls.replies:
        return f"{text}; none of them has a price"
    text += f"; ${calls.spent:.4f} spent now, ${calls.usd:.4f} at the original price"
    return text + (f"; {calls.unpriced} of {calls.replies} have no price and are not in it" if calls.unpriced else "")


def print_addresses(console: Console, graph: GridGraph, base: str) -> None:
    """Where the UI is, and what to look at first."""

    def page(asset: str, view: str = "") -> str:
        return f"{base}/assets/{'/'.join(graph.key(asset).path)}{view}"

    pages = {"the graph": f"{base}/asset-groups", "what came out": page("leaderboard")}
    if "answers" in graph.names:
        pages |= {"one cell": page("lift_reports", "?view=partitions")}
        pages |= {"the matrix": page("answers", "?view=partitions")}
    job = graph.declaration.resource("bring_up_to_date")
    pages |= {"bring it up to date": f"{base}/jobs, then {job}"}
    console.print('Dagster UI, there when "Serving dagster-webserver" is printed. Ctrl-C stops it.')
    for what, address in pages.items():
        console.print(f"  {what:<20} {address}", highlight=False, soft_wrap=True)


def print_costs(console: Console, lines: Sequence[str]) -> None:
    """The calls that a plan needs."""
    for line in lines:
        console.print(f"[bold]Calls[/]  {for_terminal(line)}", highlight=False, soft_wrap=True)


def print_problems(console: Console, report: ExecutionReport) -> None:
    """What failed, what was skipped because of it, and the partitions with failed questions."""
    _print_list(console, "[red]failed[/]", report.of_kind(Kind.FAILED), lambda outcome: outcome.reason)
    for reason, count in Counter(outcome.reason for outcome in report.of_kind(Kind.SKIPPED)).most_common():
        console.print(
            f"[yellow]skipped[/] {counted(count, 'partition')}: {for_terminal(reason)}", highlight=False, soft_wrap=True
        )
    partial = [outcome for outcome in report.outcomes if outcome.unfinished]
    _print_list(console, "[yellow]partial[/]", partial, lambda outcome: outcome.unfinished)
    if any(outcome.skipped for outcome in partial):
        console.print("The budget is spent; run again for the rest.", highlight=False)


def _print_list(console: Console, label: str, outcomes: Sequence[Outcome], reason: Callable[[Outcome], str]) -> None:
    for outcome in outcomes[:_PROBLEMS_SHOWN]:
        console.print(f"{label} {outcome.node}: {for_terminal(reason(outcome))}", highlight=False, soft_wrap=True)
    if len(outcomes) > _PROBLEMS_SHOWN:
        console.print(f"{label} ... and {len(outcomes) - _PROBLEMS_SHOWN} more", highlight=False)


def _status(status: Status) -> str:
    return f"[{_STYLES[status]}]{status}[/]"


def _counts(counts: Mapping[Status, int]) -> str:
    return ", ".join(f"{counts[status]} {status}" for status in Status if counts.get(status))


def _summary(plan: Plan) -> str:
    total: Counter[Status] = Counter(step.status for step in plan.steps)
    if not plan.pending:
        return f"Everything is up to date: {len(plan.steps)} partitions."
    certain = total[Status.MISSING] + total[Status.STALE]
    text = f"{certain} of {len(plan.steps)} partitions have to be built"
    if total[Status.POSSIBLE]:
        text += f", {total[Status.POSSIBLE]} more if what they are built from changes"
    return text + "."
