"""Brings a plan's partitions up to date, one exact run each, in dependency order: in this process or on workers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum

from dagster import DagsterInstance

from contextgrid.models.calls import Meter, count_calls
from contextgrid_dagster.graph import Node
from contextgrid_dagster.interrupts import interruptions
from contextgrid_dagster.launching.processes import RunProcess
from contextgrid_dagster.planner import Plan, Step
from contextgrid_dagster.records import Record
from contextgrid_dagster.runs import Built, Order, build

WORKERS_VARIABLE = "CONTEXTGRID_WORKERS"


class Kind(StrEnum):
    """What became of a partition."""

    BUILT = "built"  # its content is new
    UNCHANGED = "unchanged"  # built, with the same content as before
    SPARED = "spared"  # what was built upstream changed nothing for it
    FAILED = "failed"
    SKIPPED = "skipped"  # something it is built from failed, or is out of date and was not selected


@dataclass(frozen=True)
class Outcome:
    """What became of one partition, and why if it was not built.

    ``failed`` and ``skipped`` say what of it failed, and what the budget did not cover; the next plan has it again.
    ``lost`` names the judge metrics of which every verdict failed, ``failed_checks`` the checks that it did not pass.
    """

    node: Node
    kind: Kind
    seconds: float = 0.0
    reason: str = ""
    failed: str | None = None
    skipped: str | None = None
    lost: str | None = None
    failed_checks: tuple[str, ...] = ()

    @property
    def unfinished(self) -> str:
        """What of a partition that was built failed or was left out for the budget, in words; else empty."""
        return ", ".join(part for part in (self.lost, self.failed, self.skipped) if part)


@dataclass(frozen=True)
class ExecutionReport:
    """What became of every pending partition of a plan, and what the calls to models in this process took."""

    outcomes: tuple[Outcome, ...]
    seconds: float
    calls: Meter

    @property
    def success(self) -> bool:
        """Whether everything that was planned is up to date now, and no judge failed throughout."""
        short = any(outcome.skipped or outcome.lost for outcome in self.outcomes)
        return not self.of_kind(Kind.FAILED, Kind.SKIPPED) and not short

    def of_kind(self, *kinds: Kind) -> tuple[Outcome, ...]:
        """The outcomes of these kinds, in the order they happened."""
        return tuple(outcome for outcome in self.outcomes if outcome.kind in kinds)

    def counts(self) -> dict[str, Counter[Kind]]:
        """How many partitions of each asset became what."""
        counts: dict[str, Counter[Kind]] = {}
        for outcome in self.outcomes:
            counts.setdefault(outcome.node.asset, Counter())[outcome.kind] += 1
        return counts


def execute(
    plan: Plan,
    instance: DagsterInstance,
    *,
    workers: str | None = None,
    started: Callable[[Step], None] | None = None,
    finished: Callable[[Outcome], None] | None = None,
) -> ExecutionReport:
    """Build what a plan says is pending, each partition in its own run.

    Work that is only possible is looked at again when its turn comes and spared if nothing changed for it. A
    partition that fails is recorded with its cause; what is built from it is skipped; all others go on.

    Args:
        workers: address of a Dask scheduler, or a number of worker processes to start on this machine, that share
            the work (see :mod:`contextgrid_dagster.workers.finding`); by default all is built in this process.
        started, finished: called before and after each partition.

    Raises:
        ConfigError: if the workers cannot be reached or cannot do the work.
        KeyboardInterrupt: if a run is interrupted. What was finished before is kept.
    """
    begin = time.perf_counter()
    outcomes = []
    with ExitStack() as stack:
        asked_to_stop = stack.enter_context(interruptions())
        meter = stack.enter_context(count_calls())
        execution = Execution(plan, instance)
        if workers is None:
            work = execution.outcomes(started)
        else:
            # Importing Dask takes half a second.
            from contextgrid_dagster.workers.finding import open_pool
            from contextgrid_dagster.workers.spread import spread

            pool = stack.enter_context(open_pool(plan.graph, instance, workers))
            work = spread(execution, pool, started, asked_to_stop)
        for outcome in work:
            outcomes.append(outcome)
            if finished is not None:
                finished(outcome)
            if asked_to_stop():
                raise KeyboardInterrupt
    return ExecutionReport(tuple(outcomes), time.perf_counter() - begin, meter)


class Execution:
    """A plan being executed: what is to be done with each partition, given what became of those before it."""

    def __init__(self, plan: Plan, instance: DagsterInstance) -> None:
        self.plan, self._graph, self._instance = plan, plan.graph, instance
        # If this process is killed, the daemon fails its run instead of keeping it as started for ever.
        process = RunProcess.current()
        self._tags = process.tags if process else None
        # Partitions that are not up to date and will not become so, and because of which that is.
        self._blocked: dict[Node, str] = {
            node: f"{node.asset} is out of date and not selected; put + in front of the selection to include it"
            for node in plan.outside
        }

    def outcomes(self, started: Callable[[Step], None] | None) -> Iterator[Outcome]:
        """Bring everything up to date in this process, in the order of the plan."""
        for step in self.plan.pending:
            if started is not None:
                started(step)
            decided = self.decide(step)
            yield self.settle(decided if isinstance(decided, Outcome) else self.outcome(decided, self.build(decided)))

    def decide(self, step: Step) -> Outcome | Order:
        """Whether a partition is skipped or spared, or has to be built; everything it is built from is settled."""
        node = step.node
        parents = self._graph.parents(node).values()
        blocking = [parent for group in parents for parent in group if self._is_blocked(parent)]
        if blocking and not self._can_do_without(node, blocking):
            return Outcome(node, Kind.SKIPPED, reason=self._blocked[blocking[0]])
        if not (node in self.plan.forced or blocking) and not self.plan.state.step(node).is_pending:
            return Outcome(node, Kind.SPARED)
        return Order(node, tuple(str(parent.partition) for parent in blocking))

    def build(self, order: Order) -> Built:
        """Build a partition in this process."""
        return build(self._graph, self._instance, order, tags=self._tags)

    def outcome(self, order: Order, built: Built) -> Outcome:
        """What became of a partition that was built, wherever that was."""
        node, before = order.node, self.plan.state.records.get(order.node)
        if built.materialization is None:
            return Outcome(node, Kind.FAILED, built.seconds, built.reason or "")
        record = Record(built.materialization)
        self.plan.state.built(node, record)
        kind = Kind.UNCHANGED if before is not None and record.version == before.version else Kind.BUILT
        return Outcome(
            node,
            kind,
            built.seconds,
            failed=record.failed,
            skipped=record.skipped,
            lost=record.lost,
            failed_checks=built.failed_checks,
        )

    def settle(self, outcome: Outcome) -> Outcome:
        """Take note of what became of a partition, for those that are built from it."""
        if outcome.kind is Kind.FAILED:
            self._blocked[outcome.node] = f"{outcome.node} failed"
        elif outcome.kind is Kind.SKIPPED:
            self._blocked[outcome.node] = outcome.reason
        return outcome

    def _is_blocked(self, node: Node) -> bool:
        return node in self._blocked and (node not in self.plan.outside or self._is_out_of_date(node))

    def _is_out_of_date(self, node: Node) -> bool:
        """Whether a partition that was not selected is out of date still: what was built above it may be unchanged."""
        parents = (parent for group in self._graph.parents(node).values() for parent in group)
        above = (parent for parent in parents if parent in self.plan.outside)
        return self.plan.state.step(node).is_pending or any(self._is_out_of_date(parent) for parent in above)

    def _can_do_without(self, node: Node, blocking: list[Node]) -> bool:
        if not self._graph.tolerates_missing(node.asset):
            return False
        gone = set(blocking)
        return all(set(parents) - gone for parents in self._graph.parents(node).values())
