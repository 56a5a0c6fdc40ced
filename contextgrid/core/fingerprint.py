"""Content hashes, which serve as data versions: equal content, equal version."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from contextgrid.core.tables import VOLATILE

if TYPE_CHECKING:
    import pyarrow as pa


def fingerprint(table: pa.Table) -> str:
    """32 hex digits that depend on a table's columns and values, without timings and costs.

    They depend neither on how the table is split into batches nor on what Arrow keeps under a null, so a table
    has the same fingerprint after it was written and read.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name not in VOLATILE:
            digest.update(f"{name}\0{column.type}\0{len(column)}\0".encode())
            _add(digest, column.combine_chunks())
    return digest.hexdigest()


def hash_bytes(content: bytes | memoryview | pa.Buffer) -> str:
    """32 hex digits of some bytes."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _add(digest: hashlib.blake2b, array: pa.Array) -> None:
    """Feed which values are there, then the values that are."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    digest.update(np.packbits(array.is_valid().to_numpy(zero_copy_only=False)).tobytes())
    if pa.types.is_struct(array.type):
        for child in array.flatten():
            _add(digest, child)
    elif pa.types.is_list(array.type):
        digest.update(pc.list_value_length(array).drop_null().to_numpy(zero_copy_only=False).tobytes())
        _add(digest, array.flatten())
    elif pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        values = array.drop_null().cast(pa.large_binary())
        digest.update(pc.binary_length(values).to_numpy(zero_copy_only=False).tobytes())
        digest.update(b"".join(values.to_pylist()))
    else:
        digest.update(array.drop_null().to_numpy(zero_copy_only=False).tobytes())
