"""What is missing or stale in an experiment's grid, and why, over the whole graph at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa
from dagster import DagsterInstance

from contextgrid.core.errors import StageError
from contextgrid.core.fingerprint import fingerprint
from contextgrid.core.markup import counted
from contextgrid_dagster.assets.inputs import corpus_table, evalset_table, generation_spec_table
from contextgrid_dagster.graph import GridGraph, Node
from contextgrid_dagster.records import Record, read_records
from contextgrid_dagster.selection import select
from contextgrid_dagster.versions import combined_version, dagster_input_version


class Status(StrEnum):
    """Whether a partition has to be built."""

    MISSING = "missing"  # nothing usable is stored
    STALE = "stale"  # what is stored was built from something else
    POSSIBLE = "possible"  # something upstream is built again; if that changes nothing, this is spared
    CURRENT = "current"


@dataclass(frozen=True)
class Step:
    """One partition of the plan: its status, and the reasons in words a person understands."""

    node: Node
    status: Status
    reasons: tuple[str, ...] = ()

    @property
    def is_pending(self) -> bool:
        """Whether it has to be built, or may have to be."""
        return self.status is not Status.CURRENT


@dataclass(frozen=True)
class Plan:
    """The selected partitions, each after all that it is built from.

    Attributes:
        graph: what was planned.
        steps: the selected partitions and their status.
        state: what is known about every partition.
        outside: partitions that are missing or stale but were not selected.
        forced: partitions that are to be built whatever their state.
    """

    graph: GridGraph
    steps: tuple[Step, ...]
    state: GridState
    outside: frozenset[Node] = frozenset()
    forced: frozenset[Node] = frozenset()

    @property
    def pending(self) -> tuple[Step, ...]:
        """The partitions that have to be built, or may have to be."""
        return tuple(step for step in self.steps if step.is_pending)

    def counts(self) -> dict[str, Counter[Status]]:
        """How many partitions of each asset have which status."""
        counts: dict[str, Counter[Status]] = {}
        for step in self.steps:
            counts.setdefault(step.node.asset, Counter())[step.status] += 1
        return counts


def plan(
    graph: GridGraph,
    instance: DagsterInstance,
    selections: Sequence[str] = (),
    *,
    rebuild_all: bool = False,
    fresh: bool = False,
    retry: bool = True,
) -> Plan:
    """Compare what is stored with the files, the settings and what else is stored, all as they are now.

    Args:
        selections: which partitions to look at (see :mod:`contextgrid_dagster.selection`); all by default.
        rebuild_all: plan every selected partition, whatever its state.
        fresh: plan every selected partition that calls a model, whatever its state.
        retry: whether a partition is pending only because some of it failed or did not fit the budget.

    Raises:
        ContextGridError: if a selection names nothing, or an input file cannot be read.
    """
    chosen = select(graph, selections)
    forced = frozenset(node for node in chosen if rebuild_all or (fresh and graph.calls_model(node)))
    return plan_for(graph, instance, chosen, forced, retry=retry)


def plan_for(
    graph: GridGraph,
    instance: DagsterInstance,
    chosen: frozenset[Node],
    forced: frozenset[Node] = frozenset(),
    *,
    retry: bool = True,
) -> Plan:
    """As :func:`plan`, for partitions that are named one by one; ``forced`` are built whatever their state.

    Raises:
        ContextGridError: if an input file cannot be read.
    """
    state = GridState.read(graph, instance)
    steps: list[Step] = []
    pending: set[Node] = set()
    for node in graph.nodes:
        step = Step(node, Status.STALE, ("asked for",)) if node in forced else state.step(node, pending, retry=retry)
        if step.is_pending:
            pending.add(node)
        if node in chosen:
            steps.append(step)
    return Plan(graph, tuple(steps), state, frozenset(pending - chosen), forced)


@dataclass
class GridState:
    """What is known about every partition. The executor keeps it current while it works.

    Attributes:
        records: what Dagster recorded of each partition.
        stored: the partitions whose file exists, with the data version that the file states (``None`` if damaged).
        inputs: the data version of each input as the files give it now.
        changes: how each input that differs from what is stored differs, in words.
    """

    graph: GridGraph
    records: dict[Node, Record]
    stored: dict[Node, str | None]
    inputs: dict[Node, str]
    changes: Mapping[Node, str]

    @classmethod
    def read(cls, graph: GridGraph, instance: DagsterInstance) -> GridState:
        """The state as it is now: records from the instance, files from the store, inputs from disk."""
        records = read_records(graph, instance)
        stored = {
            Node(name, partition): version
            for name in graph.names
            for partition, version in graph.store(name).stored(graph.key(name), graph.partitions(name)).items()
        }
        inputs, changes = {}, {}
        for node, table in _read_inputs(graph):
            inputs[node] = fingerprint(table)
            if node in stored and node in records and records[node].version != inputs[node]:
                changes[node] = _describe_change(graph, node, table)
        return cls(graph, records, stored, inputs, changes)

    def step(self, node: Node, pending: Collection[Node] = (), *, retry: bool = True) -> Step:
        """The status of a partition, given which others are going to be built, and whether what failed is."""
        record = self.records.get(node)
        if record is None:
            return Step(node, Status.MISSING, ("never built",))
        if record.experiment != self.graph.experiment.name:
            return Step(node, Status.MISSING, (f"built by another experiment, {record.experiment!r}",))
        problem = self._file_problem(node, record)
        if problem is not None:
            return Step(node, Status.MISSING, (problem,))
        certain = [*self._own_reasons(node, record, retry), *self._upstream_reasons(node, record)]
        if certain:
            return Step(node, Status.STALE, tuple(certain))
        possible = [
            f"{name} will be built again"
            for name, parents in self.graph.parents(node).items()
            if any(parent in pending and parent not in self.inputs for parent in parents)
        ]
        return Step(node, Status.POSSIBLE if possible else Status.CURRENT, tuple(possible))

    def built(self, node: Node, record: Record) -> None:
        """Note that a partition was built."""
        self.records[node] = record
        self.stored[node] = record.version
        if node in self.inputs and record.version is not None:
            self.inputs[node] = record.version  # the file may have changed again since the plan was made

    def version(self, node: Node) -> str | None:
        """The data version of a partition: of an input as its file is now, of all else as it is stored."""
        record = self.records.get(node)
        return self.inputs.get(node) or (record.version if record else None)

    def _file_problem(self, node: Node, record: Record) -> str | None:
        """Why the stored file cannot stand for the record; a killed run or a shared store may leave such files."""
        if node not in self.stored:
            return "its stored file is gone"
        if self.stored[node] is None:
            return "its stored file is damaged"
        return None if self.stored[node] == record.version else "its stored file is not the one that was recorded"

    def _own_reasons(self, node: Node, record: Record, retry: bool) -> list[str]:
        reasons = []
        if node in self.inputs and record.version != self.inputs[node]:
            reasons.append(self.changes.get(node, f"{node.asset} changed"))
        expected = self.graph.code_version(node.asset)
        if record.code_version != expected:
            reasons.append(code_change(node.asset, record.code_version or "", expected))
        settings = self._settings(node)
        if record.settings != settings:
            reasons.append(f"settings changed: {record.settings} -> {settings}")
        if record.failed and retry:
            reasons.append(f"{record.failed} last time")
        if record.skipped and retry:
            reasons.append(record.skipped)
        return reasons

    def _upstream_reasons(self, node: Node, record: Record) -> list[str]:
        reasons = []
        for name, parents in self.graph.parents(node).items():
            if self._input_differs(record, name, parents):
                known = [self.changes[parent] for parent in parents if parent in self.changes]
                reasons.append(f"{name}: {known[0]}" if known else f"{name} changed")
        gone = record.inputs - self.graph.parents(node).keys()
        reasons += [f"{name} is no longer part of it" for name in sorted(gone)]
        return reasons

    def _input_differs(self, record: Record, name: str, parents: Sequence[Node]) -> bool:
        versions = {parent.partition: version for parent in parents if (version := self.version(parent))}
        recorded = record.dagster_input(self.graph.key(name))
        if self.graph.partitions_def(name) is None:
            return recorded != versions.get(None)
        by_key = {str(key): version for key, version in versions.items()}
        combined = record.combined_input(name)
        if combined is not None:
            return combined != combined_version(by_key)
        return recorded != dagster_input_version(by_key)

    def _settings(self, node: Node) -> str | None:
        definition = self.graph.partitions_def(node.asset)
        if definition is None or node.partition is None:
            return None
        return self.graph.declaration.partitions.settings(definition, node.partition)


def _read_inputs(graph: GridGraph) -> Iterator[tuple[Node, pa.Table]]:
    """The input tables as the files give them now, one at a time."""
    experiment = graph.experiment
    yield Node("corpus"), corpus_table(experiment)
    yield Node("evalset"), evalset_table(experiment)
    for column in experiment.matrix.columns:
        yield Node("generation_spec", column.key), generation_spec_table(experiment, column.key)


def _describe_change(graph: GridGraph, node: Node, now: pa.Table) -> str:
    """What differs between a stored input and the files."""
    asset = node.asset
    try:
        before = graph.load(asset, node.partition)
    except (OSError, StageError):
        return f"{asset} changed, and what is stored of it cannot be read"
    if asset == "generation_spec":
        old, new = before.to_pylist()[0], now.to_pylist()[0]
        changed = [name for name in new if old.get(name) != new[name]]
        return f"{' and '.join(_SPEC_NAMES.get(name, name) for name in changed) or asset} changed"
    kind = {"corpus": "document", "evalset": "question"}[asset]
    old, new = (_rows_by_id(table) for table in (before, now))
    parts = {
        "added": len(new.keys() - old.keys()),
        "removed": len(old.keys() - new.keys()),
        "changed": sum(old[key] != new[key] for key in old.keys() & new.keys()),
    }
    found = [f"{counted(count, kind)} {what}" for what, count in parts.items() if count]
    return ", ".join(found) or f"the order of the {kind}s changed"


_SPEC_NAMES = {"prompt": "prompt text", "prompt_name": "prompt name"}


_SETTING_NAMES = {"judge_key": "judge"}


def _rows_by_id(table: pa.Table) -> dict[str, dict[str, Any]]:
    identifier = table.column_names[0]
    return {row[identifier]: row for row in table.to_pylist()}


def code_change(asset: str, before: str, now: str) -> str:
    """``logic of answers changed``, or which run settings did."""
    old_logic, *old_settings = before.split(" ")
    logic, *settings = now.split(" ")
    if old_logic != logic:
        return f"the logic of {asset} changed"
    old = dict(part.split("=", 1) for part in old_settings)
    new = dict(part.split("=", 1) for part in settings)
    changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return "; ".join(
        f"{_SETTING_NAMES.get(name, name)} changed: {old.get(name, 'unset')} -> {new.get(name, 'unset')}"
        for name in changed
    )
