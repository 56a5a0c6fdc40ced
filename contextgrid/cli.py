"""The ``contextgrid`` command: check an experiment, run it, see what it cost, hold scores against people's ratings.

Exit codes: 0 success, 1 some cells failed or the budget left questions out, 2 bad input.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from contextgrid.core.errors import ConfigError, ContextGridError
from contextgrid.core.markup import counted, for_terminal
from contextgrid.models.ledger import By
from contextgrid.models.settings import CallMode

if TYPE_CHECKING:
    from contextgrid.grid.experiment import Experiment

app = typer.Typer(help=__doc__, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
console = Console()
errors = Console(stderr=True)
ExperimentFile = Annotated[Path, typer.Argument(metavar="FILE", help="The experiment file (YAML).")]


def main() -> None:
    """Entry point: every error a user can mend is one message and exit code 2."""
    try:
        app()
    except ContextGridError as error:
        errors.print(f"[red]error:[/] {for_terminal(error, lines=True)}", highlight=False, soft_wrap=True)
        sys.exit(2)


def _show_version(wanted: bool) -> None:
    if wanted:
        from contextgrid import __version__

        console.print(f"contextgrid {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def check(
    file: ExperimentFile,
    costs: Annotated[bool, typer.Option(help="Retrieve, to see which calls to models are needed. Calls none.")] = True,
) -> None:
    """Validate an experiment and show its grid: rows, columns, partitions, and the calls it would pay for."""
    from contextgrid.grid.costs import stated_needs
    from contextgrid.grid.experiment import Experiment
    from contextgrid.grid.matrix import partition_counts
    from contextgrid.report.judges import judge_notes

    experiment = Experiment.load(file)
    _print_inputs(experiment)
    _print_axes(experiment)
    _print_grid(experiment)
    for note in judge_notes(experiment.run, experiment.matrix.columns):
        console.print(f"[yellow]note:[/] {for_terminal(note)}", highlight=False)
    counts = partition_counts(experiment.matrix, experiment.run)
    console.print("\n[bold]Partitions[/]  " + ", ".join(f"{asset} {count}" for asset, count in counts.items()))
    if costs:
        for line in stated_needs(experiment):
            console.print(f"[bold]Calls[/]  {for_terminal(line)}", highlight=False, soft_wrap=True)


@app.command()
def run(
    file: ExperimentFile,
    output: Annotated[Path | None, typer.Option(help="Folder for the report; default: report.output.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Call models for everything once more.")] = False,
    replay: Annotated[bool, typer.Option("--replay", help="Call no model: the ledger has to hold it all.")] = False,
    budget: Annotated[float | None, typer.Option(min=0, help="Dollars that this run may spend.")] = None,
) -> None:
    """Run an experiment in memory, print the leaderboard and the findings, and write them to a folder."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from contextgrid.generate.judge import IncompleteScoresWarning
    from contextgrid.grid.experiment import Experiment
    from contextgrid.lab import Lab
    from contextgrid.report.markdown import check_folder, write_report
    from contextgrid.report.terminal import print_findings, print_leaderboard

    if fresh and replay:
        raise ConfigError("--fresh calls everything and --replay nothing; choose one")
    calls: CallMode | None = "fresh" if fresh else "replay" if replay else None
    experiment = Experiment.load(file, budget_usd=budget, calls=calls)
    folder = output or experiment.output_folder
    experiment.refuse_output(folder)
    check_folder(folder)
    lab, evalset = Lab.from_experiment(experiment), experiment.load_evalset()
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with bar, warnings.catch_warnings():
        warnings.simplefilter("ignore", IncompleteScoresWarning)  # printed below, as results.warnings
        task = bar.add_task("", total=None)
        results = lab.run(
            evalset, lambda key, number, total: bar.update(task, completed=number - 1, total=total, description=key)
        )
    # Before anything is printed: who reads it may have gone.
    report = write_report(results, folder, experiment.report.title or experiment.name)
    print_leaderboard(console, results.leaderboard, cells=len(results) + len(results.failed))
    print_findings(console, results.lifts, [*results.notes, *results.warnings])
    console.print(f"Written to {for_terminal(report.parent)}", highlight=False, soft_wrap=True)
    for key, reason in results.failed.items():
        shown = f"{for_terminal(key)}: {for_terminal(reason, lines=True)}"
        errors.print(f"[red]failed:[/] {shown}", highlight=False, soft_wrap=True)
    skipped = results.skipped_questions
    for line in results.spending():
        console.print(line, highlight=False, soft_wrap=True)
    unjudged = results.skipped_verdicts
    if skipped or unjudged:
        left_out = f"{skipped} answers, {unjudged} verdicts"
        errors.print(f"[red]skipped_budget:[/] {left_out}; run again to get them", highlight=False)
    for line in results.lost_metrics:
        errors.print(f"[red]failed:[/] {for_terminal(line)}", highlight=False, soft_wrap=True)
    if results.failed or skipped or unjudged or results.lost_metrics:
        raise typer.Exit(1)


@app.command()
def spend(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Experiment file, ledger file, or a ledger's URL.")],
    by: Annotated[By, typer.Option(help="What to add the calls up by.")] = "model",
) -> None:
    """Show what was spent on calls to models."""
    from contextgrid.report.spending import ledger_of, print_spending

    print_spending(console, ledger_of(file), by)


@app.command()
def agreement(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Rated answers (JSONL), one a line.")],
    dimension: Annotated[str, typer.Option(help="Which of the ratings to hold scores against.")] = "faithfulness",
    good: Annotated[
        float | None, typer.Option(help="Mean rating from which an answer is good; default: the middle of the scale.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Markdown file to write the report to.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Model that judges the rated answers, as provider:model,key=value.")
    ] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(
            help="A judge; may be repeated. Default: faithfulness, answer_relevancy, rubric_groundedness,"
            " rubric_relevance."
        ),
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(help="The ledger's file or URL; default: .contextgrid/ledger.sqlite beside FILE."),
    ] = None,
    replay: Annotated[bool, typer.Option("--replay", help="Call no model: the ledger has to hold it all.")] = False,
    budget: Annotated[float | None, typer.Option(min=0, help="Dollars that the judges may spend.")] = None,
) -> None:
    """Measure how far scores agree with people's ratings of answers.

    They agree overall, or within each answering system. FILE has one answer a line, like this on one line:

    {"id": "q1", "model": "system", "question": "...", "answer": "...", "contexts": ["..."],
    "reference": "...", "human": {"faithfulness": [4, 4, 3]}, "judge": {"name": 0.9}}

    Answers of several systems to one question share its id (or question_id, task_id).
    Ratings and judge scores are higher for better; null is none.
    model, reference and judge may be left out.

    Scores that need no model are always measured. With --model, judges are as well.
    """
    from contextgrid.report.agreement import agreement_report, check_output, print_agreement, write_agreement

    if output is not None:
        check_output(output)
    judges = None
    if model is not None:
        from contextgrid.generate.answer_judges import AnswerJudges
        from contextgrid.grid.experiment import DEFAULT_LEDGER
        from contextgrid.models.calls import CallSettings

        calls = CallSettings(
            ledger=ledger or str(file.parent / DEFAULT_LEDGER), mode="replay" if replay else None, budget_usd=budget
        )
        judges = AnswerJudges(model, calls, tuple(judge or ()))
    elif judge or ledger or replay or budget is not None:
        raise ConfigError("--judge, --ledger, --replay and --budget are about a judge; name its model with --model")
    report = agreement_report(file, dimension=dimension, good=good, judges=judges)
    print_agreement(console, report)
    if output is not None:
        write_agreement(report, output)
        console.print(f"Written to {for_terminal(output)}", highlight=False, soft_wrap=True)
    for problem in report.problems:
        errors.print(f"[red]incomplete:[/] {for_terminal(problem)}", highlight=False, soft_wrap=True)
    if report.problems:
        raise typer.Exit(1)


def _print_inputs(experiment: Experiment) -> None:
    from contextgrid.evalset import evalset_to_table
    from contextgrid.evalset.resolve import resolve_gold
    from contextgrid.stages import parse_corpus

    corpus, evalset = experiment.load_corpus(), experiment.load_evalset()
    answerable = sum(item.expects_answer for item in evalset)
    console.print(f"[bold]{for_terminal(experiment.name)}[/]  {for_terminal(experiment.path)}", soft_wrap=True)
    console.print(f"{counted(len(corpus), 'document')}, {counted(len(evalset), 'question')} ({answerable} answerable)")
    if corpus.ignored:
        _print_list("files that no parser reads", corpus.ignored)
    questions = evalset_to_table(evalset)
    for key, row in experiment.matrix.unique("parser_key").items():
        documents = parse_corpus(corpus.to_table(), row.parser)
        unreadable = [
            f"{document['source_id']}: {document['error']}"
            for document in documents.select(["source_id", "error"]).to_pylist()
            if document["error"] is not None
        ]
        _print_list(f"parser {key}: unreadable documents", unreadable)
        _, unresolved = resolve_gold(questions, documents)
        missing = [f"{question}: {quote}" for question, quotes in unresolved.items() for quote in quotes]
        _print_list(f"parser {key}: evidence not found", missing)
        if missing:
            console.print("  Correct the quote or its source_id, or choose a parser that shows the text.")


def _print_list(title: str, items: Sequence[str], limit: int = 10) -> None:
    if not items:
        return
    console.print(f"[yellow]{for_terminal(title)}: {len(items)}[/]")
    for item in items[:limit]:
        console.print(f"  {for_terminal(item)}", highlight=False)
    if len(items) > limit:
        console.print(f"  ... and {len(items) - limit} more")


def _print_axes(experiment: Experiment) -> None:
    varied = {axis: values for axis, values in experiment.axes.items() if len(values) > 1}
    fixed = {axis: values[0] for axis, values in experiment.axes.items() if len(values) == 1 and values[0] is not None}
    table = Table(title="Axes", title_justify="left", box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for axis, values in varied.items():
        table.add_row(axis, for_terminal(", ".join("null" if value is None else str(value) for value in values)))
    if fixed:
        table.add_row("fixed", for_terminal(", ".join(f"{axis} {value}" for axis, value in fixed.items())), style="dim")
    console.print(table)


def _print_grid(experiment: Experiment) -> None:
    matrix = experiment.matrix
    grid = Table(title=f"\nRows ({len(matrix.rows)}, retrieval)", title_justify="left", box=None, pad_edge=False)
    grid.add_column("", justify="right")
    grid.add_column("partition key", overflow="fold")
    for number, row in enumerate(matrix.rows, start=1):
        grid.add_row(str(number), for_terminal(row.key) + ("  (baseline)" if row == matrix.baseline else ""))
    console.print(grid)
    columns = Table(
        title=f"\nColumns ({len(matrix.columns)}, generation)", title_justify="left", box=None, pad_edge=False
    )
    columns.add_column("", justify="right")
    columns.add_column("partition key", overflow="fold")
    for number, column in enumerate(matrix.columns, start=1):
        columns.add_row(str(number), for_terminal(column.key))
    console.print(columns if matrix.columns else "\nNo columns: nothing is generated, only retrieval is scored.")
    if matrix.columns:
        console.print(f"{len(matrix.rows)} x {len(matrix.columns)} = {len(matrix.rows) * len(matrix.columns)} cells")
    for reason, count in matrix.dropped.items():
        console.print(f"dropped {count} combinations: {for_terminal(reason)}")
    if matrix.collapsed:
        console.print(
            f"collapsed as alike: {matrix.collapsed} of the rows and columns, which differ only where it cannot matter"
        )
