"""What the assets of one experiment share: its settings, their keys, partitions, versions and labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dagster import (
    AssetIn,
    AssetKey,
    AssetsDefinition,
    MaterializeResult,
    PartitionMapping,
    PartitionsDefinition,
    asset,
)

from contextgrid.core.errors import ConfigError
from contextgrid.core.matrix import Matrix
from contextgrid.grid.experiment import Experiment
from contextgrid.grid.matrix import judges
from contextgrid.models.calls import is_free
from contextgrid.settings import RunSettings
from contextgrid.stages import code_version
from contextgrid_dagster.automation import on_changed_content
from contextgrid_dagster.checks import check_specs, reads_itself
from contextgrid_dagster.display.descriptions import describe
from contextgrid_dagster.display.labels import columns_of, group_of, tags_of
from contextgrid_dagster.notes import EXPERIMENT, SETTINGS
from contextgrid_dagster.partitions import GridPartitions
from contextgrid_dagster.storage import BY_PARTITION, TableStore, storage_folder

# The assets that call models, and the pool they share: an instance limits how many of its runs work at once.
CALL_MODELS = frozenset({"answers", "judge_scores"})
MODEL_POOL = "contextgrid_models"

_KEY_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[_-][A-Za-z0-9]+)*")


@dataclass(frozen=True)
class Declaration:
    """One experiment as its assets see it.

    Args:
        experiment: the experiment.
        key_prefix: first part of every asset key, for several experiments in one Dagster instance.
        pooled: whether assets that call models are in the pool ``contextgrid_models``.
        storage: where results are stored; see :func:`~contextgrid_dagster.storage.storage_folder`.
    """

    experiment: Experiment
    key_prefix: str | None = None
    pooled: bool = False
    storage: str | None = None

    def __post_init__(self) -> None:
        if self.key_prefix is not None and not _KEY_PREFIX.fullmatch(self.key_prefix):
            raise ConfigError(
                f"key prefix {self.key_prefix!r}: use letters and digits, joined by single - or _, and a letter first"
            )

    @cached_property
    def partitions(self) -> GridPartitions:
        """The partitions of the grid."""
        return GridPartitions(self.matrix)

    @property
    def matrix(self) -> Matrix:
        """The rows and columns of the grid."""
        return self.experiment.matrix

    @property
    def run(self) -> RunSettings:
        """The experiment's run settings."""
        return self.experiment.run

    @cached_property
    def judges(self) -> dict[str, str]:
        """Spec of the model that judges each column, by column key; empty where nothing is judged."""
        return judges(self.matrix, self.run)

    def key(self, name: str) -> AssetKey:
        """The key of an asset."""
        return AssetKey([self.key_prefix, name] if self.key_prefix else [name])

    def resource(self, name: str) -> str:
        """The key of a resource, distinct between experiments."""
        return f"{self.key_prefix.replace('-', '_')}_{name}" if self.key_prefix else name

    def asset(
        self,
        name: str,
        *,
        kind: str,
        partitions: PartitionsDefinition | None = None,
        ins: Mapping[str, AssetIn] | None = None,
    ) -> Callable[[Callable[..., MaterializeResult[Any]]], AssetsDefinition]:
        """Decorator that makes a function the asset called ``name``; its docstring begins the description."""

        def declare(function: Callable[..., MaterializeResult[Any]]) -> AssetsDefinition:
            # For an asset with checks Dagster would read this as a result without a value, or not at all.
            function.__annotations__.pop("return", None)
            return asset(
                key=self.key(name),
                group_name=group_of(name, self.key_prefix),
                kinds={kind, "parquet"} if name != "index" else {kind},
                description=describe(name, function.__doc__),
                tags=tags_of(self.experiment.name, costs_money=self.costs_money(name)),
                metadata=self._metadata(name, partitions),
                code_version=code_version(name, self.run, self.matrix),
                partitions_def=partitions,
                ins=ins or {},
                io_manager_key=self.resource("indexes" if name == "index" else "tables"),
                automation_condition=on_changed_content if ins else None,
                check_specs=check_specs(self, name, partitions),
                required_resource_keys={self.resource("tables")} if reads_itself(self, name) else None,
                pool=MODEL_POOL if self.pooled and name in CALL_MODELS and self.costs_money(name) else None,
            )(function)

        return declare

    def costs_money(self, name: str) -> bool:
        """Whether building any partition of an asset calls a model or service that is not free."""
        if name in ("index", "retrieved_ids"):
            return any(row.index_is_hosted if name == "index" else row.retrieval_is_hosted for row in self.matrix.rows)
        models = {"answers": self.models, "judge_scores": self.judges.values()}.get(name, ())
        return not all(map(is_free, models))

    def read(self, name: str, mapping: PartitionMapping | None = None) -> AssetIn:
        """An input that reads one partition of an asset."""
        return AssetIn(key=self.key(name), partition_mapping=mapping)

    def read_many(self, name: str, mapping: PartitionMapping | None = None, *, allow_missing: bool = False) -> AssetIn:
        """An input that reads several partitions of an asset, as a mapping from partition key to table."""
        metadata = {BY_PARTITION: True, "allow_missing_partitions": allow_missing}
        return AssetIn(key=self.key(name), partition_mapping=mapping, metadata=metadata)

    def made_for(self, definition: PartitionsDefinition | None = None, partition: str | None = None) -> dict[str, str]:
        """What a materialisation notes about what it was made for."""
        noted = {EXPERIMENT: self.experiment.name}
        if definition is not None and partition is not None:
            noted[SETTINGS] = self.partitions.settings(definition, partition)
        return noted

    @cached_property
    def tables(self) -> TableStore:
        """Where tables are stored, and reports beside them."""
        return TableStore(storage_folder(self.experiment, self.storage))

    @cached_property
    def models(self) -> tuple[str, ...]:
        """Specs of the models that answer."""
        return tuple(dict.fromkeys(column.model for column in self.matrix.columns if column.model is not None))

    def _metadata(self, name: str, partitions: PartitionsDefinition | None) -> dict[str, Any]:
        columns = columns_of(name, self.run)
        shown = {"dagster/uri": str(self.tables.folder_of(self.key(name), partitioned=partitions is not None))}
        return shown if columns is None else shown | {"dagster/column_schema": columns}
