"""What a sensor does about the files of an experiment: nothing, wait, or ask for what they changed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from dagster import AssetKey, DagsterEventType, DagsterInstance, DagsterRunStatus, EventRecordsFilter, RunsFilter
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus

from contextgrid.core.fingerprint import hash_bytes
from contextgrid_dagster.graph import GridGraph
from contextgrid_dagster.planner import Plan, plan

# A file younger than this may be one of several that are being saved.
SETTLING_SECONDS = 5
# Stored files that vanished or were damaged show in no fingerprint: they are looked for less often.
LOOK_AGAIN_SECONDS = 600
_UNDER_WAY = [
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
]


@dataclass(frozen=True)
class Cursor:
    """What a sensor remembers between ticks.

    Attributes:
        seen: fingerprint of the files and of Dagster's records when a plan was last made.
        looked: when that was, in seconds since 1970.
        said: what came of it, in words.
        basis: fingerprint of the inputs and settings when something was last asked for.
        asked: short fingerprints of the partitions that were asked for on that basis.
    """

    seen: str = ""
    looked: float = 0.0
    said: str = ""
    basis: str = ""
    asked: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str | None) -> Cursor:
        """A cursor as it was written; a new one where there is none or it is of another kind."""
        try:
            kept = json.loads(text or "{}")
            return cls(
                str(kept["seen"]),
                float(kept["looked"]),
                str(kept["said"]),
                str(kept["basis"]),
                tuple(map(str, kept["asked"])),
            )
        except (KeyError, TypeError, ValueError):
            return cls()

    def __str__(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Finding:
    """What a look at the files gave: a plan to ask for, or why there is nothing to ask for; and what to remember."""

    cursor: Cursor
    plan: Plan | None = None
    waiting: str = ""


class Watcher:
    """Looks at the files of an experiment, and plans only when they or Dagster's records changed.

    Args:
        graph: the experiment as it was loaded.
        selections: which partitions count.
    """

    def __init__(self, graph: GridGraph, selections: tuple[str, ...] = ()) -> None:
        self._graph, self._selections = graph, selections
        self._loaded = _content(graph.experiment.path)

    def look(self, instance: DagsterInstance, cursor: Cursor) -> Finding:
        """What there is to do now.

        Raises:
            ContextGridError: if the files cannot be read, as the planner says it.
        """
        if _content(self._graph.experiment.path) != self._loaded:
            name = self._graph.experiment.path.name
            return Finding(cursor, waiting=f"{name} changed: reload the code location to work with its new cells")
        if (busy := under_way(self._graph, instance)) is not None:
            return Finding(cursor, waiting=busy)
        files = list(_files(self._graph.experiment.watched_paths))
        seen = _fingerprint(files, _last_event(self._graph, instance))
        if seen == cursor.seen and 0 <= time.time() - cursor.looked < LOOK_AGAIN_SECONDS:
            return Finding(cursor, waiting=f"no file changed since the last look: {cursor.said}")
        if any(0 <= time.time() - changed < SETTLING_SECONDS for _, changed, _ in files):
            return Finding(cursor, waiting="files are being saved; looking again at the next tick")
        return self._plan(instance, seen, cursor)

    def _plan(self, instance: DagsterInstance, seen: str, before: Cursor) -> Finding:
        planned = plan(self._graph, instance, self._selections)
        pending = planned.pending
        now = time.time()
        if not pending:
            waiting = f"all {len(planned.steps)} partitions are up to date"
            return Finding(Cursor(seen, now, waiting), waiting=waiting)
        versions = [self._graph.code_version(name) for name in self._graph.names]
        basis = _fingerprint(sorted((str(node), version) for node, version in planned.state.inputs.items()), versions)
        asked = tuple(_fingerprint(str(step.node))[:8] for step in pending)
        # What a run left behind once, it would leave behind again, and again be paid for.
        if basis == before.basis and set(asked) <= set(before.asked):
            left = f"{pending[0].node} ({'; '.join(pending[0].reasons)})"
            more = f" and {len(pending) - 1} more" if len(pending) > 1 else ""
            waiting = f"the last run left {left}{more}; launch bring_up_to_date to try again"
            return Finding(replace(before, seen=seen, looked=now, said=waiting), waiting=waiting)
        said = f"a run was launched for {len(pending)} partitions"
        return Finding(Cursor(seen, now, said, basis, asked), planned)


def under_way(graph: GridGraph, instance: DagsterInstance) -> str | None:
    """Which run or backfill is already building partitions of an experiment, in words."""
    keys = {graph.key(name) for name in graph.names}
    job = graph.declaration.resource("bring_up_to_date")
    for run in instance.get_runs(RunsFilter(statuses=_UNDER_WAY)):
        if run.job_name == job or keys & (run.asset_selection or set()):
            return f"run {run.run_id[:8]} is building partitions; waiting for its end"
    for backfill in instance.get_backfills(BulkActionsFilter(statuses=[BulkActionStatus.REQUESTED])):
        if keys & set(backfill.asset_selection or ()):
            return f"backfill {backfill.backfill_id} is building partitions; waiting for its end"
    return None


def _last_event(graph: GridGraph, instance: DagsterInstance) -> int:
    """Storage id of the last materialisation of any of the assets."""
    return max((_last_of(graph.key(name), instance) for name in graph.names), default=0)


def _last_of(key: AssetKey, instance: DagsterInstance) -> int:
    chosen = EventRecordsFilter(DagsterEventType.ASSET_MATERIALIZATION, asset_key=key)
    found = instance.event_log_storage.get_event_records(chosen, limit=1, ascending=False)
    return found[0].storage_id if found else 0


def _files(paths: tuple[Path, ...]) -> Iterator[tuple[str, float, int]]:
    """Path, time of the last change and size of every file, without reading any."""
    for path in paths:
        for file in sorted(_below(path)):
            try:
                state = os.stat(file)
            except OSError:
                continue  # planning will say what is wrong with it
            yield file, state.st_mtime, state.st_size


def _below(path: Path) -> Iterator[str]:
    if not path.is_dir():
        yield str(path)
        return
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (os.path.join(folder, name) for name in names if not name.startswith("."))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _fingerprint(*values: object) -> str:
    return hash_bytes(repr(values).encode())
