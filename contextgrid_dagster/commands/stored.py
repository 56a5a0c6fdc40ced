"""``gate`` and ``departed``: what is stored, whether it holds, and what of it left the grid."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from contextgrid_dagster.commands.common import ExperimentFile, KeyPrefix, Select, console, opened


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
    from contextgrid_dagster.gate.junit import write_junit
    from contextgrid_dagster.gate.terminal import print_gate
    from contextgrid_dagster.gate.verdicts import examine

    with opened(file, key_prefix, read_only=True) as (graph, instance):
        report = examine(graph, instance, select or [], allow_stale=allow_stale, strict=strict)
    if junit is not None:
        write_junit(report, junit)
    print_gate(console, report)
    if not report.success:
        raise typer.Exit(1)


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

    with opened(file, key_prefix) as (graph, instance):
        found = departures(graph, instance)
        print_departures(console, found, None if show_all else 20)
        if not remove or not found.partitions:
            return
        if not yes:
            typer.confirm("Remove these files?", abort=True)
        remove_files(graph, found.partitions)
        console.print(f"Removed {len(found.partitions)} files.", highlight=False)
