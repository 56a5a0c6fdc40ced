"""What a run says in its log: what came out of it, and which questions failed and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from dagster import AssetExecutionContext

from contextgrid.models.meter import Meter
from contextgrid.score.statistics import Mean
from contextgrid_dagster.display.metadata import shorten, statuses

_SHOWN_FAILURES = 20
_LONGEST_REASON = 200


def summary(context: AssetExecutionContext, sentence: str) -> dict[str, str]:
    """Say in the log what came out, and return it for the page."""
    context.log.info(sentence)
    return {"summary": sentence}


def warn_of_failures(context: AssetExecutionContext, failures: Sequence[tuple[str, str]], what: str, of: int) -> None:
    """Log each failed item with its reason, each on a line of its own."""
    if not failures:
        return
    lines = [f"{name}: {shorten(reason, _LONGEST_REASON)}" for name, reason in failures[:_SHOWN_FAILURES]]
    if len(failures) > _SHOWN_FAILURES:
        lines.append(f"... and {len(failures) - _SHOWN_FAILURES} more")
    separator = " " if len(lines) == 1 else "\n"
    context.log.warning(f"{len(failures)} of {of} {what} failed:{separator}" + "\n".join(lines))


def warn_of_gaps(context: AssetExecutionContext, answers: pa.Table) -> None:
    """Log which questions have no answer because their call failed, and how many the budget did not cover."""
    failures = failed_rows(answers, names=["question_id"], reason="error")
    warn_of_failures(context, failures, "questions", answers.num_rows)
    if skipped := statuses(answers).get("skipped_budget", 0):
        context.log.warning(f"{skipped} of {answers.num_rows} questions skipped for the budget")


def failed_rows(table: pa.Table, *, names: Sequence[str], reason: str) -> list[tuple[str, str]]:
    """The rows of a table whose status is ``failed``: what identifies each, and why it failed."""
    failed = table.filter(pc.equal(table["status"], "failed"))
    return [(" ".join(row[name] for name in names), row[reason] or "no reason given") for row in failed.to_pylist()]


def answers_in_words(table: pa.Table, meter: Meter) -> str:
    """How the questions of a cell were answered, and what that took."""
    counts = statuses(table)
    empty = pc.sum(pc.equal(pc.utf8_trim_whitespace(table["answer"]), "")).as_py()
    parts = [f"{counts.get('answered', 0)} answers" + (f" ({empty} of them empty)" if empty else "")]
    parts.append(f"{counts.get('failed', 0)} failed")
    if skipped := counts.get("skipped_budget", 0):
        parts.append(f"{skipped} skipped for the budget")
    said = ", ".join(parts)
    if meter.replies or meter.failed:
        said += f"; {meter.calls} calls, {meter.hits} replies from the ledger"
        said += "" if meter.unpriced else f", ${meter.spent:.4f} spent"
    return said


def means_in_words(means: Mapping[str, Mean], first: Sequence[str]) -> str:
    """The means of some metrics with how many questions they are over."""
    shown = [(name, means[name]) for name in first if name in means]
    return "; ".join(
        f"{name} {mean.mean:.3f} over {mean.n} of {mean.total}" if mean.mean is not None else f"{name} not measured"
        for name, mean in shown
    )
