"""What Dagster recorded of the last materialisation of every partition, read with a few queries."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from dagster import AssetKey, AssetMaterialization, AssetRecordsFilter, DagsterEventType, DagsterInstance
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_TAG,
    INPUT_DATA_VERSION_TAG_PREFIX,
    get_input_data_version_tag,
)

from contextgrid.core.markup import counted
from contextgrid_dagster.graph import GridGraph, Node
from contextgrid_dagster.notes import (
    EXPERIMENT,
    FAILED_QUESTIONS,
    FAILED_VERDICTS,
    INPUT_VERSIONS,
    LOST_METRICS,
    SETTINGS,
    SKIPPED_QUESTIONS,
)
from contextgrid_dagster.refreshing.drift_asset import NAME as DRIFT_REPORTS

_PAGE = 500


@dataclass(frozen=True)
class Record:
    """A partition's last materialisation: what Dagster and what the asset itself noted of it.

    ``timestamp`` is when it was recorded, in seconds since 1970, where it was read back.
    """

    materialization: AssetMaterialization
    timestamp: float | None = None

    @property
    def version(self) -> str | None:
        """Its data version."""
        return self._tag(DATA_VERSION_TAG)

    @property
    def code_version(self) -> str | None:
        """The code version it was built with."""
        return self._tag(CODE_VERSION_TAG)

    @property
    def experiment(self) -> str | None:
        """The experiment it was built for."""
        return self._noted(EXPERIMENT)

    @property
    def settings(self) -> str | None:
        """The axis values it was built with."""
        return self._noted(SETTINGS)

    @property
    def failed(self) -> str | None:
        """What of it failed and is worth another try, in words: ``1 question failed``."""
        for name, what in ((FAILED_QUESTIONS, "question"), (FAILED_VERDICTS, "verdict")):
            if number := int(self._noted(name) or "0"):
                return f"{counted(number, what)} failed"
        return None

    @property
    def lost(self) -> str | None:
        """Judge metrics of which not one verdict could be had, in words."""
        names = self._noted(LOST_METRICS)
        return f"every verdict failed: {names}" if names else None

    @property
    def skipped(self) -> str | None:
        """What of it the budget did not cover, in words."""
        number = int(self._noted(SKIPPED_QUESTIONS) or "0")
        return f"{counted(number, 'question')} skipped for the budget" if number else None

    def combined_input(self, name: str) -> str | None:
        """The combined version of the partitions of ``name`` it was built from, if the asset noted one."""
        return self._noted(INPUT_VERSIONS + name)

    def dagster_input(self, key: AssetKey) -> str | None:
        """The version of an input as Dagster recorded it."""
        return self._tag(get_input_data_version_tag(key))

    @property
    def inputs(self) -> frozenset[str]:
        """Names of the assets it was built from."""
        tags = self.materialization.tags or {}
        return frozenset(tag.rpartition("/")[2] for tag in tags if tag.startswith(f"{INPUT_DATA_VERSION_TAG_PREFIX}/"))

    def _tag(self, name: str) -> str | None:
        return (self.materialization.tags or {}).get(name)

    def _noted(self, name: str) -> str | None:
        value = self.materialization.metadata.get(name)
        return None if value is None else str(value.value)


def read_records(graph: GridGraph, instance: DagsterInstance) -> dict[Node, Record]:
    """The record of every partition that was ever materialised: three queries for each asset at most."""
    found: dict[Node, Record] = {}
    for name in graph.names:
        if graph.partitions_def(name) is None:
            found.update(_single(graph, instance, name))
        else:
            found.update(_partitioned(graph, instance, name, set(graph.partitions(name))))
    return found


def read_departed_records(graph: GridGraph, instance: DagsterInstance) -> dict[Node, Record]:
    """The records of partitions that this experiment built and that are not in its grid now.

    An asset that left the grid altogether, as ``judge_scores`` without a judge, is among them with all its partitions.
    """
    found: dict[Node, Record] = {}
    above = graph.key("").path[:-1]
    names = [key.path[-1] for key in instance.get_asset_keys() if list(key.path[:-1]) == list(above)]
    for name in names:
        departed = _partitioned(graph, instance, name, set(partitions_in_grid(graph, name)), departed=True)
        found.update({node: record for node, record in departed.items() if record.experiment == graph.experiment.name})
    return found


def partitions_in_grid(graph: GridGraph, name: str) -> tuple[str | None, ...]:
    """The partitions that an asset has now, ``drift_reports`` included; none if it is no asset of the experiment."""
    if name in graph.names:
        return graph.partitions(name)
    drifting = name == DRIFT_REPORTS and graph.experiment.refreshable_columns
    return graph.partitions("answers") if drifting else ()


def _single(graph: GridGraph, instance: DagsterInstance, name: str) -> dict[Node, Record]:
    event = instance.get_latest_materialization_event(graph.key(name))
    materialization = event.asset_materialization if event else None
    return {Node(name): Record(materialization)} if materialization else {}


def _partitioned(
    graph: GridGraph, instance: DagsterInstance, name: str, current: Set[str | None], *, departed: bool = False
) -> dict[Node, Record]:
    key = graph.key(name)
    ids = instance.event_log_storage.get_latest_storage_id_by_partition(key, DagsterEventType.ASSET_MATERIALIZATION)
    wanted = [id_ for partition, id_ in ids.items() if (partition in current) is not departed]
    found: dict[Node, Record] = {}
    for start in range(0, len(wanted), _PAGE):
        chosen = AssetRecordsFilter(asset_key=key, storage_ids=wanted[start : start + _PAGE])
        for record in instance.fetch_materializations(chosen, limit=_PAGE).records:
            if record.asset_materialization is not None:
                found[Node(name, record.partition_key)] = Record(record.asset_materialization, record.timestamp)
    return found
