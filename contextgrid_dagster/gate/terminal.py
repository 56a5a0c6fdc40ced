"""A gate's report as a person reads it in a terminal: what passed as counts, what failed in full."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from contextgrid.checks.settings import Severity
from contextgrid.checks.verdict import Outcome
from contextgrid.core.markup import counted, for_terminal
from contextgrid_dagster.gate.verdicts import GateReport
from contextgrid_dagster.graph import Node

_STATES_SHOWN = 10


def print_gate(console: Console, report: GateReport) -> None:
    """A table of all checks, then failures with the partitions they share, then the verdict in one line."""
    if report.counts():
        console.print(_table(report))
    for severity, style in _STYLES.items():
        shown = None
        for (check, description), nodes in _grouped(report, severity).items():
            if check != shown:
                console.print(f"\n[{style}]{severity}[/] [bold]{check}[/]")
                shown = check
            for name in _names(report, nodes):
                console.print(f"  {for_terminal(name)}", highlight=False, soft_wrap=True)
            console.print(Padding(for_terminal(description), (0, 0, 0, 4)), highlight=False)
    _print_states(console, report)
    console.print(f"\n{_summary(report)}", highlight=False)


_STYLES: dict[Severity, str] = {"error": "red", "warn": "yellow"}


def _table(report: GateReport) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("asset and check", overflow="fold")
    table.add_column("passed", justify="right")
    table.add_column("failed", justify="right")
    table.add_column("nothing to measure", justify="right")
    severities = {
        (examined.node.asset, verdict.check): verdict.severity
        for examined in report.partitions
        for verdict in examined.verdicts
    }
    shown = None
    for (asset, check), counts in report.counts().items():
        if asset != shown:
            table.add_row(f"[bold]{asset}[/]")
            shown = asset
        failed = counts[Outcome.FAILED]
        style = _STYLES[severities[asset, check]]
        told = f"[{style}]{failed} {severities[asset, check]}[/]" if failed else _number(0)
        table.add_row(f"  {check}", _number(counts[Outcome.PASSED]), told, _number(counts[Outcome.ABSENT]))
    return table


def _number(count: int) -> str:
    return str(count) if count else "[dim]-[/]"


def _grouped(report: GateReport, severity: Severity) -> dict[tuple[str, str], list[Node]]:
    """The failures of a severity: partitions by what is said of them."""
    groups: dict[tuple[str, str], list[Node]] = {}
    checks = [check for _, check in report.counts()]
    for node, verdict in sorted(report.failures(severity), key=lambda failure: checks.index(failure[1].check)):
        groups.setdefault((verdict.check, verdict.description), []).append(node)
    return groups


def _names(report: GateReport, nodes: Iterable[Node]) -> list[str]:
    """Partitions of one asset as a selection would name them: all of them in one, or whole columns."""
    nodes = list(nodes)
    if 1 < len(nodes) == sum(examined.node.asset == nodes[0].asset for examined in report.partitions):
        return [f"{nodes[0].asset}:*"]
    columns: dict[str, list[Node]] = {}
    for node in nodes:
        columns.setdefault(f"{node.asset}:{str(node.partition).partition('|')[0]}", []).append(node)
    names = []
    for column, members in columns.items():
        size = sum(str(examined.node).startswith(f"{column}|") for examined in report.partitions)
        names += [f"{column}|*"] if 1 < size == len(members) else [str(node) for node in members]
    return names


def _print_states(console: Console, report: GateReport) -> None:
    pending = report.not_current
    if not pending:
        return
    style = "yellow" if report.allow_stale else "red"
    console.print(f"\n[{style}]not up to date[/]  {counted(len(pending), 'partition')}:", highlight=False)
    groups: dict[tuple[str, str, str], list[Node]] = {}
    for examined in pending:
        step = examined.step
        groups.setdefault((examined.node.asset, step.status, "; ".join(step.reasons)), []).append(examined.node)
    for (asset, status, reasons), nodes in list(groups.items())[:_STATES_SHOWN]:
        told = f"{asset}: {len(nodes)} {status}, {reasons}" if nodes[1:] else f"{nodes[0]}: {status}, {reasons}"
        console.print(f"  {for_terminal(told)}", highlight=False)
    if len(groups) > _STATES_SHOWN:
        console.print("  ... and more; contextgrid-dagster plan lists all", highlight=False)


def _summary(report: GateReport) -> str:
    errors, warnings = (counted(len(report.failures(severity)), what) for severity, what in _NAMES.items())
    pending = len(report.not_current)
    if report.is_empty:
        return "[red]The gate is closed[/]: nothing is stored of what was selected, so nothing was examined."
    state = "all up to date" if not pending else f"{counted(pending, 'partition')} missing or stale"
    word = "[green]The gate is open[/]" if report.success else "[red]The gate is closed[/]"
    return f"{word}: {errors}, {warnings}, {state}."


_NAMES: dict[Severity, str] = {"error": "error", "warn": "warning"}
