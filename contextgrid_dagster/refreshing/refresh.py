"""Answering and judging once more, and whether what came back is what came back before.

A refresh has three parts. What answers are built from is brought up to date first, without fresh calls. Then the
chosen partitions are built with fresh calls, as often as asked, and compared with what was stored before. Last, what
could not be asked again (the provider failed, or the budget was spent) gets its earlier answer back from the ledger.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from dagster import AssetMaterialization, DagsterInstance

from contextgrid.checks.answer_metric import scored_by
from contextgrid.core.errors import ConfigError
from contextgrid.generate.drift import DriftReport, corrected, drift_report, not_compared
from contextgrid.models.calls import begin_repetition, count_calls, spent
from contextgrid_dagster.assets.declaration import CALL_MODELS
from contextgrid_dagster.calls import begun
from contextgrid_dagster.executor import ExecutionReport, Kind, Outcome
from contextgrid_dagster.graph import GridGraph, Node
from contextgrid_dagster.planner import Plan, plan_for
from contextgrid_dagster.refreshing.drift_asset import stored_drift
from contextgrid_dagster.refreshing.readings import (
    COMPARED,
    StoredCell,
    compared_metrics,
    read_cells,
    why_not_comparable,
)
from contextgrid_dagster.selection import select

_INTERRUPTED = "the refresh was interrupted before"

# What is built in every repetition; the rest follows from the last one.
_REPEATED = frozenset(COMPARED)


@dataclass(frozen=True)
class Refresh:
    """What a refresh did, and a report for each cell that a model answers or judges.

    ``unwritten`` says why reports could not be stored: then they are here alone.
    """

    report: ExecutionReport
    drifts: tuple[DriftReport, ...]
    unwritten: str | None = None

    @property
    def success(self) -> bool:
        """Whether everything that was chosen was asked once more, and what was found is kept."""
        return self.report.success and self.unwritten is None

    @property
    def drifted(self) -> tuple[DriftReport, ...]:
        """The cells that drifted."""
        return tuple(drift for drift in self.drifts if drift.drifted)

    @property
    def summary(self) -> str:
        """How many cells drifted, in words."""
        compared = [drift for drift in self.drifts if drift.was_compared]
        said = f"{len(self.drifted)} of {len(compared)} cells drifted"
        left_out = len(self.drifts) - len(compared)
        return said + (f", {left_out} could not be compared" if left_out else "")


def refresh(
    graph: GridGraph,
    instance: DagsterInstance,
    selections: Sequence[str] = (),
    *,
    run: Callable[[Plan], ExecutionReport],
    record: Callable[[AssetMaterialization], object],
    repetitions: int = 1,
    budget: float | None = None,
) -> Refresh:
    """Build what is selected with fresh calls, and compare its cells with what was stored of them.

    A cell of which every question fails keeps its answers. Its inputs may have changed since they were given: then
    it is built, but not compared, and the report says why.

    Args:
        selections: see :mod:`contextgrid_dagster.selection`; everything by default.
        run: executes a plan.
        record: notes a materialisation of ``drift_reports``.
        repetitions: how often every call is made, at least once.
        budget: dollars that all of it may spend, instead of what the experiment says.

    Raises:
        ContextGridError: if a selection names nothing, or an input file cannot be read.
    """
    if repetitions < 1:
        raise ConfigError(f"repetitions must be at least 1, got {repetitions}")
    if graph.experiment.run.calls == "replay":
        raise ConfigError("run.calls (or CONTEXTGRID_CALLS) is replay, which makes no calls; a refresh is nothing but")
    begin = time.perf_counter()
    with count_calls() as meter:
        refreshing = _Refreshing(graph, instance, select(graph, selections), run, budget)
        outcomes, drifts = refreshing.work(repetitions, record)
    report = ExecutionReport(tuple(outcomes), time.perf_counter() - begin, meter)
    return Refresh(report, tuple(drifts), refreshing.unwritten)


@dataclass(frozen=True)
class _Repetition:
    """The cells after one repetition, and why partitions could not be built in it."""

    cells: Mapping[str, StoredCell]
    problems: Mapping[Node, str]


class _Refreshing:
    def __init__(
        self,
        graph: GridGraph,
        instance: DagsterInstance,
        chosen: frozenset[Node],
        run: Callable[[Plan], ExecutionReport],
        budget: float | None,
    ) -> None:
        self._graph, self._instance, self._chosen, self._run = graph, instance, chosen, run
        self._left = graph.experiment.run.budget_usd if budget is None else budget
        asked = [node for node in graph.nodes if node in chosen and node.asset in CALL_MODELS]
        self._cells = list(dict.fromkeys(str(node.partition) for node in asked if graph.calls_model(node)))
        self._outcomes: list[Outcome] = []
        self._scores: dict[Node, bytes] = {}
        self.unwritten: str | None = None

    def work(
        self, repetitions: int, record: Callable[[AssetMaterialization], object]
    ) -> tuple[list[Outcome], list[DriftReport]]:
        changes = self._bring_up_to_date_above()
        self._remember_scores()
        fresh = begun(self._graph, budget=self._left, fresh=True)
        before: dict[str, StoredCell] = {}
        after: list[_Repetition] = []
        for repetition in range(repetitions):
            begin_repetition(fresh.experiment.run.call_settings)
            if repetition:
                self._put_back_scores(self._chosen)
            planned = self._planned(fresh, first=repetition == 0, last=repetition == repetitions - 1)
            if repetition == 0:
                before = read_cells(planned.state, self._cells)
            records = dict(planned.state.records)
            try:
                problems = _problems(self._executed(planned))
            except BaseException:
                # What was answered until now has replaced what was stored: later nobody could tell what changed.
                left = [node for node in planned.forced if planned.state.records.get(node) is records.get(node)]
                after.append(_Repetition(read_cells(planned.state, self._cells), dict.fromkeys(left, _INTERRUPTED)))
                drifts = self._compare(before, after, changes)
                self._store((drift for drift in drifts if drift.was_compared), record)
                raise
            after.append(_Repetition(read_cells(planned.state, self._cells), problems))
        self._spend(fresh)
        drifts = self._compare(before, after, changes)
        try:
            self._give_back()
        finally:
            self._store(drifts, record)
        return self._outcomes, drifts

    def _store(self, drifts: Iterable[DriftReport], record: Callable[[AssetMaterialization], object]) -> None:
        """Store and record reports. If that fails nothing is lost but them: what they say is still returned."""
        for drift in drifts:
            try:
                record(stored_drift(self._graph, drift))
            except Exception as error:  # noqa: BLE001 - object stores and databases raise what they like
                self.unwritten = f"drift_reports could not be stored: {type(error).__name__}: {error}"
                return

    def _bring_up_to_date_above(self) -> Mapping[Node, str]:
        """Build what is missing or stale of what the cells are built from; says which inputs changed, and how."""
        cells = [Node(asset, cell) for cell in self._cells for asset in _REPEATED & set(self._graph.names)]
        above = self._graph.ancestors(cells) - self._chosen - set(cells)
        normal = begun(self._graph, budget=self._left)
        planned = plan_for(normal, self._instance, frozenset(node for node in above if node.asset not in _REPEATED))
        if planned.pending:
            self._executed(planned)
            self._spend(normal)
        return dict(planned.state.changes)

    def _remember_scores(self) -> None:
        """Keep the scores that the cells had: a check compares new ones with those it finds stored."""
        asset, tables = scored_by(self._graph.experiment.run), self._graph.tables
        nodes = [node for node in self._chosen if node.asset == asset and str(node.partition) in self._cells]
        paths = {node: tables.path_of(self._graph.key(asset), node.partition) for node in nodes}
        self._scores = {node: tables.read(path) for node, path in paths.items() if tables.fs.exists(path.path)}

    def _put_back_scores(self, nodes: frozenset[Node]) -> None:
        """Store the earlier scores again before others replace them, so that repetitions do not hide a fall.

        Until then the planner sees that the file is not the one that was recorded, and builds it again.
        """
        for node in nodes & self._scores.keys():
            path = self._graph.tables.path_of(self._graph.key(node.asset), node.partition)
            self._graph.tables.write(path, self._scores[node])

    def _planned(self, fresh: GridGraph, *, first: bool, last: bool) -> Plan:
        """A repetition: cells each time, what is above them the first time only, and what is below them the last."""
        above = self._graph.ancestors(node for node in self._graph.nodes if node.asset in _REPEATED)
        chosen = frozenset(
            node for node in self._chosen if node.asset in _REPEATED or (first if node in above else last)
        )
        return plan_for(fresh, self._instance, chosen, frozenset(filter(fresh.calls_model, chosen)))

    def _give_back(self) -> None:
        """Answer from the ledger what was asked in vain, so that no cell is left with less than it had.

        A cell that failed as a whole has kept what it had, and comes back into the leaderboard.
        """
        failed = {outcome.node for outcome in self._outcomes if outcome.kind is Kind.FAILED}
        short = {outcome.node for outcome in self._outcomes if outcome.failed or outcome.skipped}
        chosen = frozenset(self._graph.descendants(failed | short) - (failed - short)) & self._chosen
        if not chosen:
            return
        self._put_back_scores(chosen)
        normal = self._graph.calling(budget_usd=self._left, mode="normal")
        planned = plan_for(begun(normal), self._instance, chosen)
        if planned.pending:
            self._run(planned)

    def _compare(
        self, before: Mapping[str, StoredCell], after: Sequence[_Repetition], changes: Mapping[Node, str]
    ) -> list[DriftReport]:
        return corrected(self._compare_cell(cell, before[cell], after, changes) for cell in self._cells)

    def _compare_cell(
        self, cell: str, before: StoredCell, after: Sequence[_Repetition], changes: Mapping[Node, str]
    ) -> DriftReport:
        stamp = before.records["answers"].timestamp if "answers" in before.records else None
        since = None if stamp is None else datetime.fromtimestamp(stamp, UTC)
        known = {node.asset: why for node, why in changes.items() if node.partition in (None, cell.partition("|")[0])}
        repeated, reasons = [], dict[str, str]()
        for repetition in after:
            stored = repetition.cells[cell]
            found = {
                asset: repetition.problems.get(Node(asset, cell))
                or why_not_comparable(self._graph, asset, before, stored, known)
                for asset in COMPARED
            }
            if found["answers"] is None:
                repeated.append(stored.reading)
            else:
                found = {"answers": found["answers"]}
            reasons |= {asset: why for asset, why in found.items() if why is not None}
        readings = [reading for reading in repeated if reading is not None]
        if before.reading is None or not readings:
            return not_compared(cell, reasons["answers"], repetitions=len(after), since=since)
        run, metrics = self._graph.experiment.run, compared_metrics(self._graph)
        judged = set(run.judge.judged) if run.judge is not None else set()
        source = {name: "judge_scores" if name in judged else "lexical_scores" for name in metrics}
        return drift_report(
            before.reading,
            readings,
            cell=cell,
            metrics=metrics,
            reasons={name: reasons[source[name]] for name in metrics if source[name] in reasons},
            since=since,
            seed=run.seed,
            resamples=run.resamples,
        )

    def _executed(self, planned: Plan) -> ExecutionReport:
        report = self._run(planned)
        self._outcomes += report.outcomes
        return report

    def _spend(self, graph: GridGraph) -> None:
        if self._left is not None:
            self._left = max(0.0, self._left - spent(graph.experiment.run.call_settings))


def _problems(report: ExecutionReport) -> dict[Node, str]:
    return {
        outcome.node: f"{outcome.node.asset} failed: {outcome.reason}"
        if outcome.kind is Kind.FAILED
        else f"it was skipped: {outcome.reason}"
        for outcome in report.of_kind(Kind.FAILED, Kind.SKIPPED)
    }
