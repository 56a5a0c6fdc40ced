"""The means of retrieval metrics: all of them as a table, and the few that are worth a plot each."""

from __future__ import annotations

from collections.abc import Mapping

from dagster import MetadataValue, TableColumn, TableMetadataValue, TableRecord, TableSchema

from contextgrid.score.statistics import Mean


def at_headline(means: Mapping[str, Mean], headline: str) -> dict[str, float | None]:
    """The means at the headline's cut-off: Dagster plots every number, and one cut-off is enough to compare rows."""
    cutoff = headline.partition("@")[2]
    return {name: mean.mean for name, mean in means.items() if name.partition("@")[2] == cutoff}


def metrics_table(means: Mapping[str, Mean]) -> TableMetadataValue:
    """One row for each metric, one column for each cut-off; absent where nothing could be measured."""
    rows: dict[str, dict[str, float | None]] = {}
    for name, mean in means.items():
        metric, _, cutoff = name.partition("@")
        rows.setdefault(metric, {})[f"@{cutoff}"] = None if mean.mean is None else round(mean.mean, 3)
    columns = list(dict.fromkeys(cutoff for row in rows.values() for cutoff in row))
    records = [TableRecord({"metric": metric, **{c: row.get(c) for c in columns}}) for metric, row in rows.items()]
    schema = TableSchema([TableColumn("metric"), *(TableColumn(column, "float") for column in columns)])
    return MetadataValue.table(records, schema)
