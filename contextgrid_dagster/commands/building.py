"""``plan``, ``materialize`` and ``refresh``: what is to be built, and building it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from contextgrid.core.markup import for_terminal
from contextgrid_dagster.commands.common import ExperimentFile, KeyPrefix, Select, Workers, console, errors, opened

if TYPE_CHECKING:
    from dagster import DagsterInstance

    from contextgrid_dagster.executor import ExecutionReport
    from contextgrid_dagster.graph import GridGraph
    from contextgrid_dagster.planner import Plan


def plan(
    file: ExperimentFile,
    select: Select = None,
    limit: Annotated[int, typer.Option(min=0, help="Lines to print for each asset.")] = 8,
    show_all: Annotated[bool, typer.Option("--all", help="List every partition that is missing or stale.")] = False,
    costs: Annotated[bool, typer.Option(help="Say which calls to models are needed. Calls none.")] = True,
    key_prefix: KeyPrefix = None,
) -> None:
    """Show every partition that is missing or stale, and why, with counts for each asset, and what calls would cost."""
    with opened(file, key_prefix) as (graph, instance):
        planned = _planned(graph, instance, select)
        _print_plan(planned, None if show_all else limit)
        if costs:
            _print_costs(planned)


def materialize(
    file: ExperimentFile,
    select: Select = None,
    rebuild_all: Annotated[
        bool, typer.Option("--all", help="Build everything selected, even what is up to date.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be built.")] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Call models once more for everything selected, up to date or not.")
    ] = False,
    replay: Annotated[bool, typer.Option("--replay", help="Call no model: the ledger has to hold it all.")] = False,
    budget: Annotated[float | None, typer.Option(min=0, help="Dollars that this run may spend.")] = None,
    workers: Workers = None,
    key_prefix: KeyPrefix = None,
) -> None:
    """Bring the grid up to date, in dependency order, past cells that fail."""
    from contextgrid_dagster.calls import begun

    with opened(file, key_prefix, budget) as (loaded, instance):
        graph = begun(loaded, fresh=fresh, replay=replay)
        planned = _planned(graph, instance, select, rebuild_all=rebuild_all, fresh=fresh)
        if dry_run:
            _print_plan(planned, limit=8)
            _print_costs(planned)
            return
        if not planned.pending:
            console.print(f"Nothing to do: all {len(planned.steps)} partitions are up to date.")
            return
        report = _execute(planned, instance, workers or None)
        _print_report(report)
        _print_findings(graph, report)
    if not report.success:
        raise typer.Exit(1)


def refresh(
    file: ExperimentFile,
    select: Annotated[
        list[str] | None,
        typer.Option(
            "--select",
            "-s",
            metavar="COLUMN",
            help="Column to refresh, repeatable; may hold * and ?. Default: run.refresh.columns, else all that a model"
            " answers or judges.",
        ),
    ] = None,
    repetitions: Annotated[
        int | None, typer.Option(min=1, help="How often to ask. Default: run.refresh.repetitions, else once.")
    ] = None,
    budget: Annotated[float | None, typer.Option(min=0, help="Dollars that all of it may spend.")] = None,
    fail_on_drift: Annotated[bool, typer.Option("--fail-on-drift", help="Exit with 1 if anything drifted.")] = False,
    workers: Workers = None,
    key_prefix: KeyPrefix = None,
) -> None:
    """Answer and judge once more with fresh calls, and say which answers came back otherwise: did a model change?

    What is stored is replaced by the new answers, and drift_reports shows in Dagster what differs. This spends money.
    """
    from contextgrid_dagster.refreshing.refresh import refresh as make_refresh
    from contextgrid_dagster.refreshing.schedules import refresh_of
    from contextgrid_dagster.terminal import print_drift

    with opened(file, key_prefix, budget) as (graph, instance):
        selections, times = refresh_of(graph.experiment, select, repetitions)
        found = make_refresh(
            graph,
            instance,
            selections,
            run=lambda planned: _execute(planned, instance, workers or None),
            record=instance.report_runless_asset_event,
            repetitions=times,
        )
        _print_report(found.report)
        if times > 1:
            console.print(f"The counts are those of all {times} repetitions together.", highlight=False)
        print_drift(console, found, graph.experiment.matrix)
    if found.unwritten:
        errors.print(f"[red]not stored[/] {for_terminal(found.unwritten)}", highlight=False, soft_wrap=True)
    if not found.success or (fail_on_drift and found.drifted):
        raise typer.Exit(1)


def _planned(
    graph: GridGraph,
    instance: DagsterInstance,
    select: list[str] | None,
    *,
    rebuild_all: bool = False,
    fresh: bool = False,
) -> Plan:
    from contextgrid_dagster.planner import plan as make_plan

    return make_plan(graph, instance, select or [], rebuild_all=rebuild_all, fresh=fresh)


def _execute(planned: Plan, instance: DagsterInstance, workers: str | None) -> ExecutionReport:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from contextgrid_dagster.executor import execute

    columns = (BarColumn(bar_width=20), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    try:
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task("", total=len(planned.pending))
            return execute(
                planned,
                instance,
                workers=workers,
                started=lambda step: bar.update(task, description=for_terminal(str(step.node))),
                finished=lambda outcome: bar.advance(task),
            )
    except KeyboardInterrupt:
        errors.print("Interrupted. What was finished is kept; run the command again to go on.")
        raise typer.Exit(130) from None


def _print_plan(planned: Plan, limit: int | None) -> None:
    from contextgrid_dagster.terminal import print_plan

    print_plan(console, planned, limit)


def _print_costs(planned: Plan) -> None:
    from contextgrid_dagster.costs import describe_costs
    from contextgrid_dagster.terminal import print_costs

    if planned.pending:
        print_costs(console, describe_costs(planned))


def _print_report(report: ExecutionReport) -> None:
    from contextgrid_dagster.terminal import print_problems, print_report

    print_report(console, report)
    print_problems(errors, report)


def _print_findings(graph: GridGraph, report: ExecutionReport) -> None:
    """The leaderboard and the lift verdicts, if the leaderboard was built."""
    from contextgrid.generate.lift import LiftReport
    from contextgrid.report.terminal import print_findings, print_leaderboard
    from contextgrid_dagster.executor import Kind

    if not any(outcome.node.asset == "leaderboard" for outcome in report.of_kind(Kind.BUILT, Kind.UNCHANGED)):
        return
    console.print()
    leaderboard = graph.load("leaderboard")
    print_leaderboard(console, leaderboard)
    cells = [f"{line['generation']}|{line['retrieval']}" for line in leaderboard.to_pylist() if line["generation"]]
    print_findings(console, {cell: LiftReport.from_table(graph.load("lift_reports", cell)) for cell in cells})
