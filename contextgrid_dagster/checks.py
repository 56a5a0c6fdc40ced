"""The asset checks: declared with each asset and evaluated in the step that builds it, so without runs of their own.

A failing check, whatever its severity, stops nothing: not its step, and not what is downstream.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from dagster import (
    AssetCheckResult,
    AssetCheckSeverity,
    AssetCheckSpec,
    AssetExecutionContext,
    MetadataValue,
    PartitionsDefinition,
    PreviewWarning,
)

from contextgrid.checks.answer_metric import Change, scored_by
from contextgrid.checks.stages import Built, checks_of, verdicts
from contextgrid.checks.verdict import Verdict
from contextgrid.core.errors import StageError
from contextgrid.core.markup import as_text
from contextgrid_dagster.display.metadata import measured

if TYPE_CHECKING:
    from contextgrid_dagster.assets.declaration import Declaration
    from contextgrid_dagster.storage import TableStore


@dataclass(frozen=True)
class Checked:
    """What the checks of a step found, and what is noted of it with the materialisation."""

    results: list[AssetCheckResult] = field(default_factory=list)
    notes: Mapping[str, Any] = field(default_factory=dict)


def check_specs(declaration: Declaration, stage: str, partitions: PartitionsDefinition | None) -> list[AssetCheckSpec]:
    """The checks that the experiment asks for of an asset."""
    with warnings.catch_warnings():
        # Announced as a preview each time; what is used of it was measured with the pinned version.
        warnings.simplefilter("ignore", PreviewWarning)
        return [
            AssetCheckSpec(
                name,
                asset=declaration.key(stage),
                description=declaration.experiment.checks.describe(name),
                partitions_def=partitions,
            )
            for name in checks_of(stage, declaration.experiment.checks, declaration.run)
        ]


def check(
    context: AssetExecutionContext, declaration: Declaration, stage: str, *, passages: int = 0, **tables: pa.Table
) -> Checked:
    """Evaluate the checks of a partition that was just built and is not yet stored.

    Args:
        tables: its own table, under the name of the stage, and those it was built from.
        passages: how many passages an index holds.
    """
    run, settings = declaration.run, declaration.experiment.checks
    change = None
    if stage == scored_by(run):
        change = _change(context, declaration, stage, tables[stage])
    found = verdicts(stage, Built(tables, passages, change), settings, run)
    return Checked([_result(verdict) for verdict in found], change.noted() if change else {})


def reads_itself(declaration: Declaration, stage: str) -> bool:
    """Whether a step compares what it builds with what is stored."""
    return stage == scored_by(declaration.run)


def _change(context: AssetExecutionContext, declaration: Declaration, stage: str, now: pa.Table) -> Change:
    store: TableStore = getattr(context.resources, declaration.resource("tables"))
    try:
        before = store.load_table(store.path_of(declaration.key(stage), context.partition_key))
    except FileNotFoundError:
        return Change(declaration.run.answer_metric, reason="nothing to compare: this is the first materialisation")
    except (OSError, StageError):
        reason = "nothing to compare: the last materialisation's table cannot be read"
        return Change(declaration.run.answer_metric, reason=reason)
    return Change.between(before, now, declaration.run)


def _result(verdict: Verdict) -> AssetCheckResult:
    return AssetCheckResult(
        check_name=verdict.check,
        passed=verdict.passed,
        severity=AssetCheckSeverity[verdict.severity.upper()],
        description=verdict.describe(as_text),  # the UI renders Markdown
        metadata={"outcome": MetadataValue.text(verdict.outcome.value), **measured(verdict.measured)},
    )
