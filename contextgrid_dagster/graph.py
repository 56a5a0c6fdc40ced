"""The assets of one experiment partition by partition: what there is, and what each is built from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
from dagster import AssetKey, AssetsDefinition, Definitions, JobDefinition, PartitionsDefinition, in_process_executor
from dagster._core.definitions.assets.graph.asset_graph import AssetGraph

from contextgrid.grid.experiment import Experiment
from contextgrid.models.settings import check_budget
from contextgrid_dagster.assets import Declaration, grid_assets
from contextgrid_dagster.refreshing.schedules import check_cron
from contextgrid_dagster.storage import GridStore, IndexStore, storage_location


@dataclass(frozen=True, order=True)
class Node:
    """One partition of an asset (``partition`` is ``None`` for an asset without partitions)."""

    asset: str
    partition: str | None = None

    def __str__(self) -> str:
        return self.asset if self.partition is None else f"{self.asset}:{self.partition}"


class GridGraph:
    """The assets of one experiment, ready to be planned, run, or handed to Dagster.

    Partitions and dependencies are read from the Dagster definitions themselves, so the planner cannot
    disagree with what Dagster does.

    Args:
        experiment: the experiment.
        storage: where results are stored; see :func:`~contextgrid_dagster.storage.storage_folder`.
        key_prefix: first part of every asset key, for several experiments in one Dagster instance.
        pooled: whether runs of assets that call models wait for each other, as the instance says. The executor's
            runs do not: they follow each other anyway, and one that is killed would keep its place.
    """

    def __init__(
        self,
        experiment: Experiment,
        storage: str | None = None,
        key_prefix: str | None = None,
        *,
        pooled: bool = False,
    ) -> None:
        check_cron(experiment)
        self.experiment = experiment
        self.storage = storage_location(experiment, storage)
        self.declaration = Declaration(experiment, key_prefix, pooled, self.storage)
        self.assets: tuple[AssetsDefinition, ...] = tuple(grid_assets(self.declaration))
        self.tables = self.declaration.tables
        self.indexes = IndexStore(self.tables.folder)
        self._jobs: dict[str, JobDefinition] = {}

    def calling(self, *, budget_usd: float | None = None, mode: str | None = None) -> GridGraph:
        """The same graph for a run that calls models otherwise than the experiment says."""
        check_budget(budget_usd)
        asked = {"budget_usd": budget_usd, "calls": mode}
        run = self.experiment.run.model_copy(update={name: value for name, value in asked.items() if value is not None})
        return GridGraph(replace(self.experiment, run=run), self.storage, self.declaration.key_prefix)

    @cached_property
    def definitions(self) -> Definitions:
        """The assets and their stores."""
        return Definitions(assets=self.assets, resources=self.resources, executor=in_process_executor)

    @property
    def resources(self) -> dict[str, GridStore]:
        """The stores under the keys that the assets ask for."""
        return {self.declaration.resource("tables"): self.tables, self.declaration.resource("indexes"): self.indexes}

    def job_of(self, name: str) -> JobDefinition:
        """The job in which an asset runs alone."""
        if name not in self._jobs:
            self._jobs[name] = self._job.as_ephemeral_job({}, {}, asset_selection=[self.key(name)])
        return self._jobs[name]

    @cached_property
    def _job(self) -> JobDefinition:
        return self.definitions.resolve_implicit_global_asset_job_def()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the assets as they are declared, which is upstream first."""
        return tuple(definition.key.path[-1] for definition in self.assets)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Every partition of every asset, each after all that it depends on."""
        return tuple(Node(name, partition) for name in self.names for partition in self.partitions(name))

    def key(self, name: str) -> AssetKey:
        """The Dagster key of an asset."""
        return self.declaration.key(name)

    def partitions(self, name: str) -> tuple[str | None, ...]:
        """The partition keys of an asset; one ``None`` for an asset without partitions."""
        definition = self.partitions_def(name)
        return (None,) if definition is None else tuple(definition.get_partition_keys())

    def partitions_def(self, name: str) -> PartitionsDefinition | None:
        """How an asset is partitioned."""
        return self._dagster.get(self.key(name)).partitions_def

    def code_version(self, name: str) -> str:
        """The code version of an asset, with the run settings it depends on."""
        return str(self._dagster.get(self.key(name)).code_version)

    def upstream(self, name: str) -> tuple[str, ...]:
        """The assets that an asset reads, upstream first."""
        parents = {key.path[-1] for key in self._dagster.get(self.key(name)).parent_keys}
        return tuple(other for other in self.names if other in parents)

    def parents(self, node: Node) -> Mapping[str, tuple[Node, ...]]:
        """The partitions that a partition is built from, by asset."""
        return self._parents[node]

    def tolerates_missing(self, name: str) -> bool:
        """Whether an asset can be built although some of the partitions it reads failed."""
        definition = next(asset for asset in self.assets if asset.key == self.key(name))
        inputs = definition.node_def.input_defs
        return any((given.metadata or {}).get("allow_missing_partitions") for given in inputs)

    def calls_model(self, node: Node) -> bool:
        """Whether a model or another paid service is called to build a partition."""
        column = str(node.partition).partition("|")[0]
        if node.asset in ("index", "retrieved_ids"):
            rows = self.experiment.matrix.unique("index_key" if node.asset == "index" else "key")
            row = rows[str(node.partition)]
            return row.index_is_hosted if node.asset == "index" else row.retrieval_is_hosted
        if node.asset == "judge_scores":
            return column in self.declaration.judges
        return node.asset == "answers" and self.experiment.matrix.column(column).model is not None

    def ancestors(self, nodes: Iterable[Node]) -> set[Node]:
        """The given partitions and everything they are built from."""
        return self._closure(nodes, {node: [*_flat(parents)] for node, parents in self._parents.items()})

    def descendants(self, nodes: Iterable[Node]) -> set[Node]:
        """The given partitions and everything that is built from them."""
        children: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        for node, parents in self._parents.items():
            for parent in _flat(parents):
                children[parent].append(node)
        return self._closure(nodes, children)

    def store(self, name: str) -> GridStore:
        """The store of an asset's results."""
        return self.indexes if name == "index" else self.tables

    def load(self, name: str, partition: str | None = None) -> pa.Table:
        """The stored table of a partition."""
        return self.tables.load_table(self.tables.path_of(self.key(name), partition))

    @cached_property
    def _dagster(self) -> AssetGraph:
        return AssetGraph.from_assets(self.assets)

    @cached_property
    def _parents(self) -> dict[Node, dict[str, tuple[Node, ...]]]:
        found: dict[Node, dict[str, tuple[Node, ...]]] = {node: {} for node in self.nodes}
        for name in self.names:
            for upstream in self.upstream(name):
                for partition in self.partitions(name):
                    keys = self._mapped(name, partition, upstream)
                    found[Node(name, partition)][upstream] = tuple(Node(upstream, key) for key in keys)
        return found

    def _mapped(self, name: str, partition: str | None, upstream: str) -> list[str | None]:
        definition, above = self.partitions_def(name), self.partitions_def(upstream)
        if above is None:
            return [None]
        if definition is None or partition is None:
            return list(above.get_partition_keys())
        mapping = self._dagster.get_partition_mapping(self.key(name), self.key(upstream))
        mapped = mapping.get_upstream_mapped_partitions_result_for_partitions(
            definition.subset_with_partition_keys([partition]), definition, above
        )
        return [*sorted(mapped.partitions_subset.get_partition_keys())]

    @staticmethod
    def _closure(nodes: Iterable[Node], edges: Mapping[Node, Iterable[Node]]) -> set[Node]:
        found: set[Node] = set()
        waiting = list(nodes)
        while waiting:
            node = waiting.pop()
            if node not in found:
                found.add(node)
                waiting.extend(edges[node])
        return found


def _flat(parents: Mapping[str, tuple[Node, ...]]) -> Iterator[Node]:
    for nodes in parents.values():
        yield from nodes
