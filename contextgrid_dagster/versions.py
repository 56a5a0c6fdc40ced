"""Data versions of several partitions: reading them, and taking them together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from hashlib import sha256

from dagster import AssetKey, DagsterEventType, DagsterInstance
from dagster._core.definitions.data_version import DATA_VERSION_TAG

from contextgrid.core.fingerprint import hash_bytes


def combined_version(versions: Mapping[str, str]) -> str:
    """One version for the versions of several partitions; it depends on which partitions there are."""
    return hash_bytes("".join(f"{key}\0{version}\n" for key, version in sorted(versions.items())).encode())


def dagster_input_version(versions: Mapping[str, str]) -> str:
    """The version that Dagster records for an input that reads these partitions of an asset."""
    return sha256("".join(version for _, version in sorted(versions.items())).encode()).hexdigest()


def data_versions(instance: DagsterInstance, key: AssetKey, partitions: Collection[str]) -> dict[str, str]:
    """The data versions of some partitions of an asset, in one query."""
    tags = instance.event_log_storage.get_latest_tags_by_partition(
        key, DagsterEventType.ASSET_MATERIALIZATION, [DATA_VERSION_TAG], list(partitions)
    )
    return {partition: found[DATA_VERSION_TAG] for partition, found in tags.items() if DATA_VERSION_TAG in found}
