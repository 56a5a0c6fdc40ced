"""What a materialisation shows in Dagster: numbers that become plots, and a preview.

Texts of prompts, documents and answers never appear here; previews show how long they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from dagster import (
    DataVersion,
    MaterializeResult,
    MetadataValue,
    TableColumn,
    TableMetadataValue,
    TableRecord,
    TableSchema,
)

from contextgrid.core.fingerprint import fingerprint
from contextgrid.core.tables import VOLATILE
from contextgrid.models.meter import Meter
from contextgrid.report.means import cell_means

if TYPE_CHECKING:
    from contextgrid_dagster.checks import Checked

PREVIEW_ROWS = 5
_PREVIEW_CHARACTERS = 120
# Columns that hold, or quote, documents and prompts: shown by their length in characters.
_TEXTS = frozenset({"text", "answer", "context", "prompt", "content", "reason", "raw_reply"})

Number = int | float | None


def materialised(
    value: Any,
    *,
    version: str | None = None,
    made_for: Mapping[str, str],
    numbers: Mapping[str, Number],
    preview: pa.Table | None = None,
    more: Mapping[str, Any] | None = None,
    checked: Checked | None = None,
) -> MaterializeResult[Any]:
    """A stage's result with its data version and all that is shown of it.

    Args:
        value: a table or an index.
        version: its data version; by default the fingerprint of the table.
        made_for: the experiment and the axis values it was made for.
        numbers: measurements by name. What could not be measured is left out.
        preview: rows to show, the first few of them.
        more: any other metadata; shown first.
        checked: what its checks found.
    """
    metadata: dict[str, Any] = {**measured(numbers)}
    if preview is not None and preview.num_rows:
        metadata["preview"] = preview_of(preview)
    return MaterializeResult(
        value=value,
        data_version=DataVersion(version if version is not None else fingerprint(value)),
        metadata={**(more or {}), **metadata, **(checked.notes if checked else {}), **made_for},
        check_results=checked.results if checked else [],
    )


def measured(numbers: Mapping[str, Number]) -> dict[str, int | float]:
    """Measurements as Dagster plots them, without those that could not be made."""
    found = {name: number for name, number in numbers.items() if number is not None and math.isfinite(number)}
    return {name: round(number, 6) if isinstance(number, float) else number for name, number in found.items()}


def preview_of(table: pa.Table, rows: int = PREVIEW_ROWS) -> TableMetadataValue:
    """The first rows of a table; Dagster shows cells as plain text. Of what quotes documents only lengths are shown."""
    table = table.slice(0, rows)
    for position, name in enumerate(table.column_names):
        if name in _TEXTS and pa.types.is_string(table.schema.field(name).type):
            table = table.set_column(position, f"{name}_characters", pc.utf8_length(table[name]))
    columns = [name for name in table.column_names if name not in VOLATILE]
    records = [TableRecord({name: _cell(row[name]) for name in columns}) for row in table.to_pylist()]
    schema = TableSchema([TableColumn(name, _column_type(table.schema.field(name).type)) for name in columns])
    return MetadataValue.table(records, schema)


def means(*tables: pa.Table) -> dict[str, Number]:
    """The mean of every metric of a cell over the questions where it was measured."""
    return {name: mean.mean for name, mean in cell_means(*tables).items()}


def statuses(table: pa.Table) -> dict[str, int]:
    """How many rows have which status."""
    return {row["values"]: row["counts"] for row in pc.value_counts(table["status"]).to_pylist()}


def calls_of(meter: Meter) -> dict[str, Number]:
    """What the calls of a stage took; nothing where it made none. Replies without a price leave no sum of dollars."""
    if not meter.replies and not meter.failed:
        return {}
    return {
        "model_calls": meter.calls,
        "calls_served_by_ledger": meter.hits,
        "failed_calls": meter.failed,
        "unpriced_replies": meter.unpriced,
        # 0 is what a model reports that counts none, as the offline reader.
        "model_prompt_tokens": meter.prompt_tokens or None,
        "model_completion_tokens": meter.completion_tokens or None,
        "usd_spent": None if meter.unpriced else meter.spent,
        "usd_original": meter.price,
        "latency_p50_seconds": meter.latency(0.5),
        "latency_p95_seconds": meter.latency(0.95),
    }


def total(table: pa.Table, column: str) -> int | float:
    """The sum of a column, 0 if it is all null."""
    value: int | float | None = pc.sum(table[column]).as_py()
    return value or 0


def characters(table: pa.Table, column: str = "text") -> int:
    """How many characters a text column holds."""
    return int(pc.sum(pc.utf8_length(table[column])).as_py() or 0)


def shorten(text: str, length: int = _PREVIEW_CHARACTERS) -> str:
    """Text on one line, cut to a length."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def _cell(value: Any) -> str | int | float | bool | None:
    if isinstance(value, float):
        return round(value, 4) if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, list):
        return len(value)
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return shorten(str(value))


def _column_type(kind: pa.DataType) -> str:
    if pa.types.is_floating(kind):
        return "float"
    if pa.types.is_integer(kind) or pa.types.is_list(kind):
        return "int"
    return "bool" if pa.types.is_boolean(kind) else "string"
