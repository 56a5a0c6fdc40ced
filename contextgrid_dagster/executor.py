"""Brings a plan's partitions up to date, one exact run each, in dependency order inside this process."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dagster import DagsterError, DagsterInstance, ExecuteInProcessResult, JobDefinition
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.execute_in_process import core_execute_in_process, merge_run_tags
from dagster_shared.error import SerializableErrorInfo
from sqlalchemy.exc import SQLAlchemyError

from contextgrid.models.calls import Meter, count_calls
from contextgrid_dagster.graph import Node
from contextgrid_dagster.interrupts import interruptions
from contextgrid_dagster.planner import Plan, Step
from contextgrid_dagster.processes import RunProcess
from contextgrid_dagster.records import Record

# A run without a console logger would get Dagster's default one, which prints every event.
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
_INTERRUPTIONS = frozenset({"KeyboardInterrupt", "DagsterExecutionInterruptedError"})


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
    ``lost`` names the judge metrics of which every verdict failed.
    """

    node: Node
    kind: Kind
    seconds: float = 0.0
    reason: str = ""
    failed: str | None = None
    skipped: str | None = None
    lost: str | None = None

    @property
    def unfinished(self) -> str:
        """What of a partition that was built failed or was left out for the budget, in words; else empty."""
        return ", ".join(part for part in (self.lost, self.failed, self.skipped) if part)


@dataclass(frozen=True)
class ExecutionReport:
    """What became of every pending partition of a plan, and what its calls to models took."""

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
    started: Callable[[Step], None] | None = None,
    finished: Callable[[Outcome], None] | None = None,
) -> ExecutionReport:
    """Build what a plan says is pending, each partition in its own run.

    Work that is only possible is looked at again when its turn comes and spared if nothing changed for it. A
    partition that fails is recorded with its cause; what is built from it is skipped; all others go on.

    Args:
        started, finished: called before and after each partition.

    Raises:
        KeyboardInterrupt: if a run is interrupted. What was finished before is kept.
    """
    begin = time.perf_counter()
    outcomes = []
    with interruptions() as asked_to_stop, count_calls() as meter:
        for outcome in _Execution(plan, instance).outcomes(started):
            outcomes.append(outcome)
            if finished is not None:
                finished(outcome)
            if asked_to_stop():
                raise KeyboardInterrupt
    return ExecutionReport(tuple(outcomes), time.perf_counter() - begin, meter)


class _Execution:
    def __init__(self, plan: Plan, instance: DagsterInstance) -> None:
        self._plan, self._graph, self._instance = plan, plan.graph, instance
        self._process = RunProcess.current()
        self._jobs: dict[str, JobDefinition] = {}
        # Partitions that are not up to date and will not become so, and because of which that is.
        self._blocked: dict[Node, str] = {
            node: f"{node.asset} is out of date and not selected; put + in front of the selection to include it"
            for node in plan.outside
        }

    def outcomes(self, started: Callable[[Step], None] | None) -> Iterator[Outcome]:
        for step in self._plan.pending:
            if started is not None:
                started(step)
            outcome = self._bring_up_to_date(step)
            if outcome.kind is Kind.FAILED:
                self._blocked[step.node] = f"{step.node} failed"
            elif outcome.kind is Kind.SKIPPED:
                self._blocked[step.node] = outcome.reason
            yield outcome

    def _bring_up_to_date(self, step: Step) -> Outcome:
        node = step.node
        parents = self._graph.parents(node).values()
        blocking = [parent for group in parents for parent in group if self._is_blocked(parent)]
        if blocking and not self._can_do_without(node, blocking):
            return Outcome(node, Kind.SKIPPED, reason=self._blocked[blocking[0]])
        if not (node in self._plan.forced or blocking) and not self._plan.state.step(node).is_pending:
            return Outcome(node, Kind.SPARED)
        return self._build(node, without=blocking)

    def _is_blocked(self, node: Node) -> bool:
        return node in self._blocked and (node not in self._plan.outside or self._is_out_of_date(node))

    def _is_out_of_date(self, node: Node) -> bool:
        """Whether a partition that was not selected is out of date still: what was built above it may be unchanged."""
        parents = (parent for group in self._graph.parents(node).values() for parent in group)
        above = (parent for parent in parents if parent in self._plan.outside)
        return self._plan.state.step(node).is_pending or any(self._is_out_of_date(parent) for parent in above)

    def _can_do_without(self, node: Node, blocking: list[Node]) -> bool:
        if not self._graph.tolerates_missing(node.asset):
            return False
        gone = set(blocking)
        return all(set(parents) - gone for parents in self._graph.parents(node).values())

    def _build(self, node: Node, without: list[Node]) -> Outcome:
        before = self._plan.state.records.get(node)
        begin = time.perf_counter()
        try:
            result = self._run(node, without)
            reason = None if result.success else _cause(result)
        except (DagsterError, SQLAlchemyError, OSError) as error:
            reason = f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - begin
        if reason is not None:
            return Outcome(node, Kind.FAILED, seconds, reason)
        (materialization,) = result.asset_materializations_for_node(self._op(node))
        record = Record(materialization)
        self._plan.state.built(node, record)
        kind = Kind.UNCHANGED if before is not None and record.version == before.version else Kind.BUILT
        return Outcome(node, kind, seconds, failed=record.failed, skipped=record.skipped, lost=record.lost)

    def _run(self, node: Node, without: list[Node]) -> ExecuteInProcessResult:
        config: dict[str, Any] = dict(_QUIET)
        if without:
            keys = [str(parent.partition) for parent in without]
            config["ops"] = {self._op(node): {"config": {"without": keys}}}
        job, selected = self._job_of(node.asset), [self._graph.key(node.asset)]
        # If this process is killed, the daemon fails the run instead of keeping it as started for ever.
        tags = self._process.tags if self._process else None
        # JobDefinition.execute_in_process without making, and describing to Dagster, the asset's job for each run.
        return core_execute_in_process(
            job=InMemoryJob(job_def=job),
            run_config=config,
            instance=self._instance,
            output_capturing_enabled=False,
            raise_on_error=False,
            run_tags=merge_run_tags(job, node.partition, tags, selected, self._instance, config),
            asset_selection=frozenset(selected),
        )

    def _job_of(self, asset: str) -> JobDefinition:
        if asset not in self._jobs:
            keys = [self._graph.key(asset)]
            self._jobs[asset] = self._graph.job.as_ephemeral_job({}, {}, asset_selection=keys)
        return self._jobs[asset]

    def _op(self, node: Node) -> str:
        return self._graph.key(node.asset).to_python_identifier()


def _cause(result: ExecuteInProcessResult) -> str:
    """Why a run failed: the error that was raised, without Dagster's wrapping."""
    errors = [event.step_failure_data.error for event in result.all_events if event.is_step_failure]
    errors += [event.job_failure_data.error for event in result.all_events if event.is_job_failure]
    chain = _chain(next((error for error in errors if error is not None), None))
    if any(error.cls_name in _INTERRUPTIONS for error in chain):
        raise KeyboardInterrupt
    # Dagster wraps what was raised in errors of its own.
    raised = [error for error in chain if not str(error.cls_name).startswith("Dagster")] or chain
    return _words(raised[0]) if raised else "the run failed without an error; see its log in Dagster"


def _chain(error: SerializableErrorInfo | None) -> list[SerializableErrorInfo]:
    return [] if error is None else [error, *_chain(error.cause)]


def _words(error: SerializableErrorInfo) -> str:
    # The message of a serialised error starts with its class and module.
    name, _, message = error.message.strip().partition(": ")
    return message if name.startswith("contextgrid.") and message else error.message.strip()
