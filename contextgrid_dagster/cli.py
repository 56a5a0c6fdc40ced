"""The ``contextgrid-dagster`` command: what is stale and why, bring it up to date, look at it in Dagster.

Exit codes: 0 success, 1 something failed, was skipped or did not fit the budget, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from contextgrid.core.errors import ConfigError, ContextGridError
from contextgrid.core.markup import for_terminal

if TYPE_CHECKING:
    from dagster import DagsterInstance

    from contextgrid_dagster.executor import ExecutionReport
    from contextgrid_dagster.graph import GridGraph
    from contextgrid_dagster.planner import Plan

app = typer.Typer(help=__doc__, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
console = Console()
errors = Console(stderr=True)

ExperimentFile = Annotated[
    Path, typer.Argument(metavar="FILE", envvar="CONTEXTGRID_EXPERIMENT", help="The experiment file (YAML).")
]
Select = Annotated[
    list[str] | None,
    typer.Option(
        "--select",
        "-s",
        metavar="SELECTION",
        help="What to look at, repeatable: an asset (answers), some of its partitions ('answers:*concise*'), with"
        " everything above it (+answers) or below it (answers+). Patterns may hold * and ?. Default: everything.",
    ),
]
Workers = Annotated[
    str | None,
    typer.Option(
        envvar="CONTEXTGRID_WORKERS",
        metavar="ADDRESS|N",
        help="Who builds: a Dask scheduler (tcp://host:8786), or N processes of this machine. Default: this process.",
    ),
]
KeyPrefix = Annotated[
    str | None,
    typer.Option(
        envvar="CONTEXTGRID_KEY_PREFIX",
        help="First part of every asset key, for several experiments in one DAGSTER_HOME.",
    ),
]


def main() -> None:
    """Entry point: every error a user can mend is one message and exit code 2."""
    try:
        app()
    except ContextGridError as error:
        errors.print(f"[red]error:[/] {for_terminal(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(2)


def _show_version(wanted: bool) -> None:
    if wanted:
        from contextgrid import __version__

        console.print(f"contextgrid-dagster {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def plan(
    file: ExperimentFile,
    select: Select = None,
    limit: Annotated[int, typer.Option(min=0, help="Lines to print for each asset.")] = 8,
    show_all: Annotated[bool, typer.Option("--all", help="List every partition that is missing or stale.")] = False,
    costs: Annotated[bool, typer.Option(help="Say which calls to models are needed. Calls none.")] = True,
    key_prefix: KeyPrefix = None,
) -> None:
    """Show every partition that is missing or stale, and why, with counts for each asset, and what calls would cost."""
    with _opened(file, key_prefix) as (graph, instance):
        planned = _planned(graph, instance, select)
        _print_plan(planned, None if show_all else limit)
        if costs:
            _print_costs(planned)


@app.command()
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

    with _opened(file, key_prefix, budget) as (opened, instance):
        graph = begun(opened, fresh=fresh, replay=replay)
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


@app.command()
def gate(
    file: ExperimentFile,
    select: Select = None,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the verdicts as JUnit XML, for CI.", dir_okay=False)
    ] = None,
    allow_stale: Annotated[
        bool, typer.Option("--allow-stale", help="Pass although partitions are missing or stale.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Failures of severity warn count like errors.")] = False,
    key_prefix: KeyPrefix = None,
) -> None:
    """Give the verdicts of all checks on what is stored. Builds nothing and calls no model.

    Exit code 1 if a check of severity error fails, or partitions are missing or stale.
    """
    from contextgrid_dagster.gate import examine
    from contextgrid_dagster.gate_terminal import print_gate
    from contextgrid_dagster.junit import write_junit

    with _opened(file, key_prefix, read_only=True) as (graph, instance):
        report = examine(graph, instance, select or [], allow_stale=allow_stale, strict=strict)
    if junit is not None:
        write_junit(report, junit)
    print_gate(console, report)
    if not report.success:
        raise typer.Exit(1)


@app.command()
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
    from contextgrid_dagster.refresh import refresh as make_refresh
    from contextgrid_dagster.schedules import refresh_of
    from contextgrid_dagster.terminal import print_drift

    with _opened(file, key_prefix, budget) as (graph, instance):
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
        print_drift(console, found)
    if not found.report.success or (fail_on_drift and found.drifted):
        raise typer.Exit(1)


@app.command()
def departed(
    file: ExperimentFile,
    remove: Annotated[bool, typer.Option("--remove", help="Remove their files, after asking.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --remove: do not ask.")] = False,
    show_all: Annotated[bool, typer.Option("--all", help="List every partition.")] = False,
    key_prefix: KeyPrefix = None,
) -> None:
    """List what is still stored of cells that left the grid, and remove it."""
    from contextgrid_dagster.departed import departures
    from contextgrid_dagster.departed import remove as remove_files
    from contextgrid_dagster.terminal import print_departures

    with _opened(file, key_prefix) as (graph, instance):
        found = departures(graph, instance)
        print_departures(console, found, None if show_all else 20)
        if not remove or not found.partitions:
            return
        if not yes:
            typer.confirm("Remove these files?", abort=True)
        remove_files(graph, found.partitions)
        console.print(f"Removed {len(found.partitions)} files.", highlight=False)


@app.command()
def ui(
    file: ExperimentFile,
    port: Annotated[int, typer.Option(help="Port of the web server.")] = 3000,
    host: Annotated[str, typer.Option(help="Address it listens on.")] = "127.0.0.1",
    key_prefix: KeyPrefix = None,
) -> None:
    """Start Dagster's web server and daemon on the same instance that plan and materialize use."""
    from contextgrid_dagster.terminal import print_addresses

    _refuse_taken(host, port)
    with _opened(file, key_prefix) as (graph, instance):
        home = instance.root_directory
        path = graph.experiment.path
        print_addresses(console, graph, f"http://{host}:{port}")
    environment = os.environ | {
        "DAGSTER_HOME": home,
        "CONTEXTGRID_EXPERIMENT": str(path),
        "DAGSTER_DISABLE_TELEMETRY": "1",
    }
    if key_prefix:
        environment["CONTEXTGRID_KEY_PREFIX"] = key_prefix
    command = [sys.executable, "-m", "dagster", "dev", "--host", host, "--port", str(port)]
    command += ["--module-name", "contextgrid_dagster.definitions", "--attribute", "defs"]
    # A shell that starts this in the background ignores both; Dagster's processes would inherit that.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.execve(sys.executable, command, environment)


def _refuse_taken(host: str, port: int) -> None:
    """Say so before Dagster has started half of its processes."""
    try:
        with socket.create_server((host, port)):
            pass
    except OSError as error:
        problem = os.strerror(error.errno or 0)
        raise ConfigError(f"cannot listen on {host}:{port} ({problem}); choose another with --port") from None


@contextmanager
def _opened(
    file: Path, key_prefix: str | None, budget_usd: float | None = None, *, read_only: bool = False
) -> Iterator[tuple[GridGraph, DagsterInstance]]:
    """The graph of an experiment and the Dagster instance it is recorded in."""
    from contextgrid.grid.experiment import Experiment
    from contextgrid_dagster.graph import GridGraph
    from contextgrid_dagster.instance import home_of, open_instance, read_instance

    experiment = Experiment.load(file, budget_usd=budget_usd)
    graph = GridGraph(experiment, key_prefix=key_prefix or None)
    home = home_of(experiment)
    console.print(
        f"[dim]{for_terminal(experiment.name)}  Dagster home {for_terminal(str(home))}[/]",
        highlight=False,
        soft_wrap=True,
    )
    with (read_instance if read_only else open_instance)(home) as instance:
        yield graph, instance


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
