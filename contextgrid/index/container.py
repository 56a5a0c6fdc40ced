"""The file format of an index: one zip of a JSON manifest, one Parquet table and plain ``.npy`` arrays.

Equal content gives equal bytes. Nothing is pickled, and nothing outside the file is referred to.
"""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from contextgrid.core.errors import StageError
from contextgrid.core.state import State

_FORMAT = 1
_MANIFEST, _CHUNKS, _ARRAYS = "manifest.json", "chunks.parquet", "arrays/"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # a zip knows no earlier time


def write_container(settings: dict[str, Any], chunks: pa.Table, state: State) -> bytes:
    """The bytes of an index."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:
        manifest = {"format": _FORMAT, **settings}
        _add(archive, _MANIFEST, json.dumps(manifest, sort_keys=True, ensure_ascii=False).encode())
        table = io.BytesIO()
        pq.write_table(chunks, table, compression="zstd")
        _add(archive, _CHUNKS, table.getbuffer())
        for name, array in sorted(state.items()):
            content = io.BytesIO()
            np.lib.format.write_array(content, np.ascontiguousarray(array), allow_pickle=False)
            _add(archive, f"{_ARRAYS}{name}.npy", content.getbuffer())
    return sink.getvalue()


def read_container(content: bytes) -> tuple[dict[str, Any], pa.Table, State]:
    """Settings, chunks and state from the bytes of an index.

    Raises:
        StageError: if the bytes are incomplete, damaged or of another format.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            settings = json.loads(archive.read(_MANIFEST))
            if settings.pop("format", None) != _FORMAT:
                raise StageError("this index was written by another version of contextgrid; build it again")
            # Arrow's reader threads may outlive a process that ends right after; one thread is fast enough here.
            chunks = pq.ParquetFile(io.BytesIO(archive.read(_CHUNKS))).read(use_threads=False)
            state = {
                name.removeprefix(_ARRAYS).removesuffix(".npy"): np.lib.format.read_array(
                    io.BytesIO(archive.read(name)), allow_pickle=False
                )
                for name in archive.namelist()
                if name.startswith(_ARRAYS)
            }
    except (zipfile.BadZipFile, KeyError, ValueError, pa.ArrowException) as error:
        raise StageError(f"not a complete index file ({error}); build it again") from error
    return settings, chunks, state


def _add(archive: zipfile.ZipFile, name: str, content: bytes | memoryview) -> None:
    archive.writestr(zipfile.ZipInfo(name, _EPOCH), content)
