"""What the commands share: their options, where they print, and opening an experiment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from contextgrid.core.markup import for_terminal

if TYPE_CHECKING:
    from dagster import DagsterInstance

    from contextgrid_dagster.graph import GridGraph

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


@contextmanager
def opened(
    file: Path, key_prefix: str | None, budget_usd: float | None = None, *, read_only: bool = False
) -> Iterator[tuple[GridGraph, DagsterInstance]]:
    """The graph of an experiment and the Dagster instance it is recorded in."""
    from sqlalchemy.exc import SQLAlchemyError

    from contextgrid.grid.experiment import Experiment
    from contextgrid_dagster.graph import GridGraph
    from contextgrid_dagster.instance import home_of, open_instance, read_instance, unusable_records

    experiment = Experiment.load(file, budget_usd=budget_usd)
    graph = GridGraph(experiment, key_prefix=key_prefix or None)
    home = home_of(experiment)
    console.print(
        f"[dim]{for_terminal(experiment.name)}  Dagster home {for_terminal(str(home))}[/]",
        highlight=False,
        soft_wrap=True,
    )
    try:
        with (read_instance if read_only else open_instance)(home) as instance:
            yield graph, instance
    except SQLAlchemyError as error:
        raise unusable_records(home, error) from error
