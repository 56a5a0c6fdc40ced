"""What was spent on calls to models, as a person reads it in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from contextgrid.core.errors import ConfigError
from contextgrid.core.markup import for_terminal
from contextgrid.models.ledger import By, Ledger, Spending, open_ledger

if TYPE_CHECKING:
    from rich.console import Console


def ledger_of(location: str) -> Ledger:
    """The ledger at an address or file, or that of an experiment file; it is only read.

    Raises:
        ConfigError: if there is none.
    """
    if "://" in location:
        return open_ledger(location, read_only=True)
    if not Path(location).is_file():
        raise ConfigError(f"{location}: no such file; give an experiment file, a ledger file or an SQLAlchemy URL")
    if Path(location).suffix.lower() in (".yaml", ".yml"):
        from contextgrid.grid.experiment import Experiment

        written = Experiment.load(location).run.call_settings.ledger
        if written is None or ("://" not in written and not Path(written).is_file()):
            raise ConfigError(f"{location}: nothing was called yet: there is no ledger {written}")
        return open_ledger(written, read_only=True)
    return open_ledger(location, read_only=True)


def print_spending(console: Console, ledger: Ledger, by: By) -> None:
    """What was spent, by model, stage, cell or day, and in all."""
    rows = ledger.spending(by)
    if not rows:
        said = "no call was written down; free models, as offline:reader, need no ledger"
        console.print(f"{for_terminal(ledger.name)}: {said}", soft_wrap=True)
        return
    table = Table(title=f"Spent by {by}: {for_terminal(ledger.name)}", title_justify="left", box=None, pad_edge=False)
    table.add_column(by, overflow="fold")
    for header in ("calls", "tokens in", "tokens out", "dollars", "mean seconds"):
        table.add_column(header, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row))
    if len(rows) > 1:
        table.add_row(*_cells(_total(rows)), style="bold")
    console.print(table)
    unpriced = sum(row.unpriced for row in rows)
    if unpriced:
        console.print(f"{unpriced} calls have no price: their dollars are not in the sums", style="yellow")


def _cells(row: Spending) -> list[str]:
    dollars = "unpriced" if row.unpriced == row.calls else f"{row.usd:.4f}{'+' if row.unpriced else ''}"
    mean = f"{row.seconds / row.calls:.2f}" if row.calls else "-"
    name = for_terminal(row.name) if row.name is not None else "-"
    return [name, str(row.calls), str(row.prompt_tokens), str(row.completion_tokens), dollars, mean]


def _total(rows: Sequence[Spending]) -> Spending:
    return Spending(
        "total",
        sum(row.calls for row in rows),
        sum(row.prompt_tokens for row in rows),
        sum(row.completion_tokens for row in rows),
        sum(row.usd for row in rows),
        sum(row.unpriced for row in rows),
        sum(row.seconds for row in rows),
    )
