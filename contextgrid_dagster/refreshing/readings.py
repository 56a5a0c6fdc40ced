"""What stored cells say at one time, and whether two such readings of a cell can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from contextgrid.core.errors import StageError
from contextgrid.generate.drift_reading import Reading
from contextgrid_dagster.graph import GridGraph, Node
from contextgrid_dagster.planner import GridState, code_change
from contextgrid_dagster.records import Record

COMPARED = ("answers", "lexical_scores", "judge_scores")


@dataclass(frozen=True)
class StoredCell:
    """What a cell says and what Dagster recorded of its tables.

    Attributes:
        records: by asset, of those tables that are stored as they were recorded.
        reading: ``None`` if its answers are not among them.
        damaged: assets of which what is stored cannot be read.
    """

    records: Mapping[str, Record]
    reading: Reading | None
    damaged: frozenset[str] = frozenset()


def read_cells(state: GridState, cells: Iterable[str]) -> dict[str, StoredCell]:
    """What is stored of some cells for this experiment, as it is now."""
    metrics = compared_metrics(state.graph)
    return {cell: _read(state, cell, metrics) for cell in cells}


def compared_metrics(graph: GridGraph) -> list[str]:
    """The run's answer metric, then what judges score."""
    run = graph.experiment.run
    judged = run.judge.judged if run.judge is not None and graph.declaration.judges else ()
    return [run.answer_metric, *(name for name in judged if name != run.answer_metric)]


def _read(state: GridState, cell: str, metrics: Sequence[str]) -> StoredCell:
    records: dict[str, Record] = {}
    tables: dict[str, pa.Table] = {}
    damaged: set[str] = set()
    for asset in COMPARED:
        record = state.records.get(Node(asset, cell))
        if record is None or record.experiment != state.graph.experiment.name:
            continue
        if state.stored.get(Node(asset, cell)) != record.version:
            continue
        try:
            tables[asset] = state.graph.load(asset, cell)
        except (OSError, StageError):
            damaged.add(asset)
            continue
        records[asset] = record
    if "answers" not in tables:
        return StoredCell(records, None, frozenset(damaged))
    answers, lexical, judged = (tables.get(asset) for asset in COMPARED)
    return StoredCell(records, Reading.of(answers, lexical, judged, metrics=metrics), frozenset(damaged))


def why_not_comparable(
    graph: GridGraph, asset: str, before: StoredCell, now: StoredCell, changes: Mapping[str, str]
) -> str | None:
    """Why two readings of an asset differ for another reason than that a model changed, in words.

    Args:
        changes: how inputs of the cell changed, by asset, where that is known.
    """
    old, new = before.records.get(asset), now.records.get(asset)
    if old is None and asset in before.damaged:
        return f"what was stored of the earlier {_NAMES[asset]} is damaged"
    if old is None:
        return f"there are no earlier {_NAMES[asset]}"
    if new is None:
        return f"there are no {_NAMES[asset]} now"
    return "; ".join(_differences(graph, asset, old, new, changes)) or None


def _differences(graph: GridGraph, asset: str, old: Record, new: Record, changes: Mapping[str, str]) -> Iterator[str]:
    if old.code_version != new.code_version:
        yield code_change(asset, old.code_version or "", new.code_version or "")
    if old.settings != new.settings:
        yield f"settings changed: {old.settings} -> {new.settings}"
    # That answers changed is what is looked for, and what each was asked with is compared question by question.
    for name in sorted((old.inputs | new.inputs) - {"answers", "retrieved_ids"}):
        if old.dagster_input(graph.key(name)) != new.dagster_input(graph.key(name)):
            yield changes.get(name, f"{name} changed")


_NAMES = {"answers": "answers", "lexical_scores": "scores", "judge_scores": "verdicts"}
