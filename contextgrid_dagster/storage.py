"""Where results are stored: tables as Parquet and indexes as files, on any location that fsspec can reach."""

from __future__ import annotations

import hashlib
import io
import os
import uuid
import zipfile
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from dagster import AssetKey, InputContext, MetadataValue, OutputContext, UPathIOManager
from fsspec.implementations.local import LocalFileSystem
from upath import UPath

from contextgrid.core.errors import ConfigError, StageError
from contextgrid.core.fingerprint import fingerprint

if TYPE_CHECKING:
    from contextgrid.grid.experiment import Experiment
    from contextgrid.index import PassageIndex

T = TypeVar("T")

STORAGE_VARIABLE = "CONTEXTGRID_STORAGE"
# Set in an input's metadata: the input is always a mapping from partition key to content, however many there are.
BY_PARTITION = "contextgrid/by_partition"

# Object stores show a new object only when all of it has arrived; elsewhere a file is renamed into place.
_APPEARS_WHOLE = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "memory"})
# Other processes write too, so nothing that was listed is believed later; and a read asks for no size before.
_OPTIONS: dict[str, dict[str, Any]] = {
    protocol: {"use_listings_cache": False, "max_concurrency": 1} for protocol in ("s3", "s3a")
}
_LONGEST_NAME = 200
_VERSION = b"contextgrid.version"
_REQUESTS = 16  # files of a remote store that are read side by side
_END = 16_384  # bytes at the end of a file that nearly always state its version


def storage_location(experiment: Experiment, url: str | None = None) -> str:
    """Where results are kept: ``url``, else ``CONTEXTGRID_STORAGE``, else ``.contextgrid/storage`` beside the file."""
    return url or os.environ.get(STORAGE_VARIABLE) or str(experiment.path.parent / ".contextgrid" / "storage")


def storage_folder(experiment: Experiment, url: str | None = None) -> UPath:
    """The folder of an experiment's results.

    Args:
        url: any fsspec URL or local path; by default as in :func:`storage_location`. The experiment's name is
            appended, so that several can share one location.

    Raises:
        ConfigError: if the URL's protocol is unknown or the package that speaks it is not installed.
    """
    location = storage_location(experiment, url)
    try:
        base: UPath = UPath(location)
        base = UPath(location, **_OPTIONS.get(base.protocol, {}))
        if isinstance(base.fs, LocalFileSystem):
            base = UPath(os.path.abspath(os.path.expanduser(base.path)))
    except (ImportError, ValueError) as error:
        raise ConfigError(f"storage {location!r}: {error}; set {STORAGE_VARIABLE} to a folder or URL") from error
    return base / safe_segment(experiment.name)


def safe_segment(text: str) -> str:
    """Any text as one file or folder name: readable, distinct, and neither a path nor too long for a disk."""
    name = quote(text, safe="")
    if not name.strip("."):
        name = name.replace(".", "%2E") or "%"
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}~{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"
    return name


def size_in_words(size: int) -> str:
    """A size in bytes as text, which Dagster does not plot: ``26.4 kB``."""
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"


class GridStore(UPathIOManager):
    """Base of the two stores: one file for each partition, never half-written, never outside the base folder."""

    @property
    def folder(self) -> UPath:
        """Where everything is stored."""
        return self._base_path

    def get_asset_relative_path(self, context: InputContext | OutputContext) -> UPath:
        return UPath("/".join(safe_segment(part) for part in context.asset_key.path))

    def make_safe_partition_path(self, base_path: UPath, partition: str) -> UPath:
        return base_path.joinpath(*(safe_segment(part) for part in partition.split("/")))

    def make_directory(self, path: UPath) -> None:
        # An object store has no folders; asking for one may try to create the bucket.
        if not self._appears_whole:
            super().make_directory(path)

    def _handle_transition_to_partitioned_asset(self, context: OutputContext, path: UPath) -> None:
        # Where there are no folders no file is in the way of one; Dagster would look for it with four requests.
        if not self._appears_whole:
            super()._handle_transition_to_partitioned_asset(context, path)

    def load_input(self, context: InputContext) -> Any:
        loaded = super().load_input(context)
        if not (context.definition_metadata or {}).get(BY_PARTITION):
            return loaded
        if loaded is None or isinstance(loaded, dict):
            return loaded or {}
        return {context.asset_partition_keys[0]: loaded}

    def path_of(self, key: AssetKey, partition: str | None) -> UPath:
        """Where a partition is stored; a cell's ``generation|retrieval`` key gives two levels."""
        path = self._base_path.joinpath(*(safe_segment(part) for part in key.path))
        if partition is not None:
            path = self.make_safe_partition_path(path, partition.replace("|", "/"))
        return self._with_extension(path)

    def folder_of(self, key: AssetKey, *, partitioned: bool) -> UPath:
        """The folder that an asset's files are in."""
        parts = key.path if partitioned else key.path[:-1]
        return self._base_path.joinpath(*(safe_segment(part) for part in parts))

    def name_of(self, key: AssetKey, partition: str | None, path: UPath | None = None) -> str:
        """Where a file lies below :meth:`folder_of`; by default the one that holds a partition."""
        folder = self.folder_of(key, partitioned=partition is not None)
        return (path or self.path_of(key, partition)).path.removeprefix(folder.path).lstrip("/")

    def get_metadata(self, context: OutputContext, obj: Any) -> dict[str, MetadataValue]:
        # A whole path is one long word, which would make every row of a page in Dagster wider than the page.
        partition = context.asset_partition_key if context.has_asset_partitions else None
        return {"path": MetadataValue.path(self.name_of(context.asset_key, partition))}

    def stored(self, key: AssetKey, partitions: Iterable[str | None]) -> dict[str | None, str | None]:
        """Those of an asset's partitions whose file exists, each with the data version that the file itself states.

        The version is ``None`` where the file is damaged. Files are found with one listing; of each only the end is
        read.
        """
        paths = {partition: self.path_of(key, partition) for partition in partitions}
        if None not in paths:
            folder = self._base_path.joinpath(*(safe_segment(part) for part in key.path))
            found = self._files_below(folder)
            paths = {partition: path for partition, path in paths.items() if path.path.strip("/") in found}
        versions = self.versions_in(list(paths.values()))
        return {partition: versions[path] for partition, path in paths.items() if path in versions}

    def versions_in(self, paths: Sequence[UPath]) -> dict[UPath, str | None]:
        """Those of some files that exist, each with the data version that it states; ``None`` where it is damaged."""
        ends = zip(paths, self._ends_of(paths), strict=True)
        return {path: self.version_in(path, end) for path, end in ends if end is not None}

    @abstractmethod
    def version_in(self, path: UPath, end: bytes) -> str | None:
        """The data version that a stored file states near its end, which is given; ``None`` if it is damaged."""

    def _files_below(self, folder: UPath) -> set[str]:
        self.fs.invalidate_cache()
        try:
            return {file.strip("/") for file in self.fs.find(folder.path)}
        except Exception as error:
            raise self._unusable(error) from error

    def _ends_of(self, paths: Sequence[UPath]) -> list[bytes | None]:
        """The last bytes of each file, read side by side; ``None`` for a file that does not exist."""
        ends = self.fs.cat_ranges([path.path for path in paths], -_END, None, on_error="return")
        for end in ends:
            if isinstance(end, Exception) and not isinstance(end, FileNotFoundError):
                raise self._unusable(end) from end
        return [None if isinstance(end, FileNotFoundError) else end for end in ends]

    def _unusable(self, error: Exception) -> ConfigError:
        mend = f"check {STORAGE_VARIABLE}, and the access to it"
        return ConfigError(f"storage {self._base_path}: {type(error).__name__}: {error}; {mend}")

    def load_partitions(self, context: InputContext) -> Any:
        # Dagster reads one file after the other, and each request to an object store takes a while.
        keys = context.asset_partition_keys
        if isinstance(self.fs, LocalFileSystem) or len(keys) == 1:
            return super().load_partitions(context)
        paths = self._get_paths_for_partitions(context)
        with ThreadPoolExecutor(_REQUESTS) as pool:
            loaded = pool.map(lambda key: self._load_partition_from_path(context, key, paths[key]), keys)
            return {key: content for key, content in zip(keys, loaded, strict=True) if content is not None}

    def load_or_set_aside(self, path: UPath, load: Callable[[UPath], T]) -> T:
        """What is stored at a path; a damaged file is moved away, so that the next plan has its partition again.

        Raises:
            StageError: if the file is damaged.
        """
        try:
            return load(path)
        except StageError as error:
            aside = path.with_name(f".{path.name}.damaged")
            self.fs.mv(path.path, aside.path)
            raise StageError(f"{error}; it was moved to {aside.name}, and the next run builds it again") from error

    def write(self, path: UPath, content: bytes) -> None:
        """Store bytes so that a reader finds the old file or the new one, whole."""
        if self._appears_whole:
            self.fs.pipe_file(path.path, content)
            return
        temporary = path.with_name(f".{uuid.uuid4().hex}.part")
        try:
            self.fs.pipe_file(temporary.path, content)
            if isinstance(self.fs, LocalFileSystem):
                os.replace(temporary.path, path.path)
            else:
                self.fs.mv(temporary.path, path.path)
        except BaseException:
            self.fs.rm_file(temporary.path)
            raise

    @property
    def _appears_whole(self) -> bool:
        return self._base_path.protocol in _APPEARS_WHOLE

    def read(self, path: UPath) -> bytes:
        """The content of a stored file."""
        content: bytes = self.fs.cat_file(path.path)
        return content


class TableStore(GridStore):
    """Tables, as Parquet."""

    extension = ".parquet"

    def dump_to_path(self, context: OutputContext, obj: pa.Table, path: UPath) -> None:
        content = self.serialise(obj)
        self.write(path, content)
        context.add_output_metadata({"dagster/row_count": obj.num_rows, "size": size_in_words(len(content))})

    def load_from_path(self, context: InputContext, path: UPath) -> pa.Table:
        return self.load_or_set_aside(path, self.load_table)

    def version_in(self, path: UPath, end: bytes) -> str | None:
        # A Parquet file ends with what describes it, the length of that in four bytes, and PAR1.
        length = int.from_bytes(end[-8:-4], "little") + 8
        if length > len(end) == _END:
            end = self.fs.cat_file(path.path, start=-length)
        try:
            stated: dict[bytes, bytes] = pq.read_metadata(pa.BufferReader(end)).metadata or {}
        except (OSError, pa.ArrowException):
            return None
        return stated.get(_VERSION, b"").decode() or None

    def save_table(self, path: UPath, table: pa.Table) -> None:
        """Store a table that no asset returned."""
        self.make_directory(path.parent)
        self.write(path, self.serialise(table))

    @staticmethod
    def serialise(table: pa.Table) -> bytes:
        """A table as the bytes of a Parquet file that states the table's data version."""
        table = table.replace_schema_metadata({_VERSION: fingerprint(table)})
        sink = pa.BufferOutputStream()
        # Parquet's own names for the items of lists would give a table that is read back another fingerprint.
        pq.write_table(table, sink, compression="zstd", use_compliant_nested_type=False)
        content: bytes = sink.getvalue().to_pybytes()
        return content

    def load_table(self, path: UPath) -> pa.Table:
        """A stored table, as it was written.

        Raises:
            StageError: if the file is damaged.
        """
        content = self.read(path)
        try:
            table = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise StageError(f"{path} is damaged ({error})") from error
        return table.replace_schema_metadata(None)


class IndexStore(GridStore):
    """Search indexes, each one self-contained file."""

    extension = ".index"

    # The rows that share an index follow each other, so the last one read is likely to be the next one wanted.
    _last: tuple[str, PassageIndex] | None = None

    def dump_to_path(self, context: OutputContext, obj: PassageIndex, path: UPath) -> None:
        archive = io.BytesIO(obj.to_bytes())
        with zipfile.ZipFile(archive, "a") as opened:
            opened.comment = obj.fingerprint().encode()
        content = archive.getvalue()
        self.write(path, content)
        context.add_output_metadata({"size": size_in_words(len(content))})

    def version_in(self, path: UPath, end: bytes) -> str | None:
        # A ZIP archive ends with a record of 22 bytes and the comment, whose length is in the last two of these.
        record = end.rfind(b"PK\5\6")
        comment = end[record + 22 :]
        if record < 0 or len(comment) != int.from_bytes(end[record + 20 : record + 22], "little"):
            return None
        return comment.decode() or None

    def load_from_path(self, context: InputContext, path: UPath) -> PassageIndex:
        return self.load_or_set_aside(path, self.load_index)

    def load_index(self, path: UPath) -> PassageIndex:
        """A stored index, as it was built."""
        from contextgrid.index import PassageIndex

        file = self.fs.ukey(path.path)  # changes when the file does
        if self._last is None or self._last[0] != file:
            self._last = file, PassageIndex.from_bytes(self.read(path))
        return self._last[1]
