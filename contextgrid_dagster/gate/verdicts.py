"""The verdicts of all checks from what is stored: the same that the asset checks gave, under the thresholds of now.

Nothing is built, stored or recorded, and no model is called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from dagster import DagsterInstance

from contextgrid.checks.answer_metric import Change, scored_by
from contextgrid.checks.settings import Severity
from contextgrid.checks.stages import READS, Built, checks_of, verdicts
from contextgrid.checks.verdict import Finding, Outcome, Verdict
from contextgrid.core.errors import StageError
from contextgrid_dagster.graph import GridGraph, Node
from contextgrid_dagster.planner import Plan, Status, Step, plan

# The verdict on a partition whose own table, or one that its checks read, cannot be used.
READABLE = "readable"


@dataclass(frozen=True)
class Examined:
    """One partition.

    Attributes:
        step: whether it is up to date, and if not, why.
        verdicts: of its checks, on what is stored of it; none where nothing usable is.
    """

    step: Step
    verdicts: tuple[Verdict, ...] = ()

    @property
    def node(self) -> Node:
        """The partition."""
        return self.step.node


@dataclass(frozen=True)
class GateReport:
    """All selected partitions, upstream first.

    Attributes:
        name: of the experiment.
        allow_stale: whether it is fine that partitions are missing or stale.
        strict: whether failures of severity ``warn`` count like those of severity ``error``.
    """

    name: str
    partitions: tuple[Examined, ...]
    allow_stale: bool = False
    strict: bool = False

    @property
    def not_current(self) -> tuple[Examined, ...]:
        """The partitions that are missing or stale, or may be."""
        return tuple(examined for examined in self.partitions if examined.step.is_pending)

    def failures(self, severity: Severity) -> tuple[tuple[Node, Verdict], ...]:
        """The failed verdicts of a severity."""
        return tuple(
            (examined.node, verdict)
            for examined in self.partitions
            for verdict in examined.verdicts
            if not verdict.passed and verdict.severity == severity
        )

    def is_objection(self, verdict: Verdict) -> bool:
        """Whether a verdict closes the gate."""
        return not verdict.passed and (self.strict or verdict.severity == "error")

    @property
    def success(self) -> bool:
        """Whether nothing closes the gate."""
        found = (verdict for examined in self.partitions for verdict in examined.verdicts)
        held = not self.is_empty and (self.allow_stale or not self.not_current)
        return held and not any(map(self.is_objection, found))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is stored of what was selected, as where a cache was not restored: nothing was examined."""
        return all(examined.step.status is Status.MISSING for examined in self.partitions)

    def counts(self) -> dict[tuple[str, str], Counter[Outcome]]:
        """How many verdicts of each check, by asset and check, came out how."""
        counts: dict[tuple[str, str], Counter[Outcome]] = {}
        for examined in self.partitions:
            for verdict in examined.verdicts:
                counts.setdefault((examined.node.asset, verdict.check), Counter())[verdict.outcome] += 1
        return counts


def examine(
    graph: GridGraph,
    instance: DagsterInstance,
    selections: Sequence[str] = (),
    *,
    allow_stale: bool = False,
    strict: bool = False,
) -> GateReport:
    """The state and the verdicts of the selected partitions.

    A partition some of whose questions failed is up to date here: whether too many did is for its checks to say.

    Raises:
        ContextGridError: if a selection names nothing, or an input file cannot be read.
    """
    planned = plan(graph, instance, selections, retry=False)
    found = tuple(Examined(step, _verdicts(planned, step)) for step in planned.steps)
    return GateReport(graph.experiment.name, found, allow_stale, strict)


def _verdicts(planned: Plan, step: Step) -> tuple[Verdict, ...]:
    graph, node = planned.graph, step.node
    run, settings = graph.experiment.run, graph.experiment.checks
    if step.status is Status.MISSING or not checks_of(node.asset, settings, run):
        return ()
    noted = planned.state.records[node].materialization.metadata
    values: dict[str, Any] = {name: entry.value for name, entry in noted.items()}
    change = Change.read(values, run) if node.asset == scored_by(run) else None
    tables: dict[str, pa.Table] = {}
    reading = node
    try:
        for name in READS[node.asset]:
            reading = Node(name, _partition(name, node))
            tables[name] = graph.load(name, reading.partition)
        return tuple(verdicts(node.asset, Built(tables, int(values.get("passages", 0)), change), settings, run))
    except (OSError, StageError, KeyError, pa.ArrowException) as error:
        # KeyError: it is another kind of table, as one that somebody else wrote there.
        problem = f"its checks could not be made: {type(error).__name__}: {error}"
        mend = (
            f"build it again: contextgrid-dagster materialize {graph.experiment.path.name} --all --select '{reading}'"
        )
        return (Verdict(READABLE, Outcome.FAILED, "error", (Finding(f"{problem}; {mend}"),)),)


def _partition(name: str, node: Node) -> str | None:
    """The partition of another stage that belongs to a cell: the same, or its row."""
    is_row = name == "retrieval_scores" and node.asset != name
    return str(node.partition).partition("|")[2] if is_row else node.partition
