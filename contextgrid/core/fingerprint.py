"""Content hashes, which serve as data versions: equal content, equal version."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from contextgrid.core.tables import VOLATILE

if TYPE_CHECKING:
    import pyarrow as pa


def fingerprint(table: pa.Table) -> str:
    """32 hex digits that depend on a table's rows and columns, without timings.

    The hash does not depend on how the table is split into batches.
    """
    import pyarrow as pa

    kept = table.select([name for name in table.column_names if name not in VOLATILE]).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, kept.schema.remove_metadata()) as writer:
        # One batch whatever the table's history; an empty table still writes its schema.
        writer.write_table(kept.replace_schema_metadata(None), max_chunksize=max(1, kept.num_rows))
    return hash_bytes(sink.getvalue())


def hash_bytes(content: bytes | memoryview | pa.Buffer) -> str:
    """32 hex digits of some bytes."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()
