"""What is still stored of partitions that left the grid, and removing it.

A partition is known by Dagster's record of it, never by the name of a file: names of long keys hold a hash, and a
record says which experiment the partition was built for. A file is only ever removed if it states the very data
version that the record has. So what another experiment, another Dagster home or another program wrote stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from dagster import DagsterInstance
from fsspec.implementations.local import LocalFileSystem
from upath import UPath

from contextgrid_dagster.display.findings import page_of
from contextgrid_dagster.graph import GridGraph, Node
from contextgrid_dagster.records import partitions_in_grid, read_departed_records
from contextgrid_dagster.storage import GridStore, safe_segment


@dataclass(frozen=True)
class Departed:
    """One stored partition that is not in the grid any more.

    Attributes:
        node: the partition.
        path: its file.
        bytes: the size of the file.
        written: when it was built, in seconds since 1970.
    """

    node: Node
    path: UPath
    bytes: int
    written: float


@dataclass(frozen=True)
class Departures:
    """What is stored of cells that left the grid.

    Attributes:
        partitions: what may be removed.
        others: files that belong to no partition of the grid and are left alone, because Dagster has no record of
            them here, or another one: someone else may have written them.
    """

    partitions: tuple[Departed, ...]
    others: tuple[UPath, ...]

    @property
    def bytes(self) -> int:
        """The size of all files that may be removed."""
        return sum(departed.bytes for departed in self.partitions)


def departures(graph: GridGraph, instance: DagsterInstance) -> Departures:
    """Find what is stored of partitions that are not in the grid; nothing is changed."""
    records = read_departed_records(graph, instance)
    partitions: list[Departed] = []
    others: list[UPath] = []
    names = list(dict.fromkeys([*graph.names, *(node.asset for node in records)]))
    for name in names:
        store, key = graph.store(name), graph.key(name)
        # Compared as a disk does that does not tell capitals from small letters.
        kept = {_same(store.path_of(key, partition).path) for partition in partitions_in_grid(graph, name)}
        known = {_same(store.path_of(key, node.partition).path): node for node in records if node.asset == name}
        left = {path: size for path, size in _files(graph, store, name) if _same(path.path) not in kept}
        versions = store.versions_in(list(left))
        for path, size in left.items():
            node, version = known.get(_same(path.path)), versions.get(path)
            if node is not None and version is not None and version == records[node].version:
                partitions.append(Departed(node, path, size, records[node].timestamp or 0.0))
            else:
                others.append(path)
    return Departures(tuple(partitions), tuple(others))


def remove(graph: GridGraph, partitions: Iterable[Departed]) -> None:
    """Remove the files of departed partitions and their reports. Dagster keeps its record of what was built."""
    for departed in partitions:
        store = graph.store(departed.node.asset)
        store.fs.rm_file(departed.path.path)
        if store.fs.exists(page_of(departed.path).path):
            store.fs.rm_file(page_of(departed.path).path)
        if isinstance(store.fs, LocalFileSystem) and "|" in str(departed.node.partition):
            with suppress(OSError):  # other cells of the column are still there
                departed.path.parent.rmdir()


def _files(graph: GridGraph, store: GridStore, name: str) -> Iterator[tuple[UPath, int]]:
    """Every file of an asset's own folder, and its size in bytes."""
    folder = store.path_of(graph.key(name), None).parent / safe_segment(name)
    store.fs.invalidate_cache()
    for path, found in sorted(store.fs.find(folder.path, detail=True).items()):
        if path.endswith(store.extension or ""):
            yield _on(folder, path), int(found["size"])


def _on(folder: UPath, path: str) -> UPath:
    """A path that a listing gave, on the file system of the folder."""
    inside = path.strip("/").removeprefix(folder.path.strip("/")).strip("/")
    return folder.joinpath(*inside.split("/"))


def _same(path: str) -> str:
    return path.strip("/").casefold()
