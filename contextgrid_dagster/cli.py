"""The ``contextgrid-dagster`` command: what is stale and why, bring it up to date, look at it in Dagster.

Exit codes: 0 success, 1 something failed, was skipped or did not fit the budget, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from contextgrid.core.errors import ContextGridError
from contextgrid.core.markup import for_terminal
from contextgrid_dagster.commands.building import materialize, plan, refresh
from contextgrid_dagster.commands.common import console, errors
from contextgrid_dagster.commands.stored import departed, gate
from contextgrid_dagster.commands.ui import ui

app = typer.Typer(help=__doc__, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
for command in (plan, materialize, ui, gate, refresh, departed):
    app.command()(command)


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
