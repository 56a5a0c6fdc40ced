"""What the pages of ``lift_reports`` and ``leaderboard`` show: sentences, tables, charts, and the report's file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from dagster import AssetExecutionContext, AssetKey, MetadataValue, TableColumn, TableMetadataValue, TableRecord
from dagster import TableSchema as Schema
from upath import UPath

from contextgrid.generate.lift import LiftReport, shown_ids
from contextgrid.report.charts import as_markdown, leaderboard_chart, lift_chart, split_chart
from contextgrid.report.findings import findings, short_names
from contextgrid.report.html import leaderboard_page, lift_page
from contextgrid_dagster.storage import GridStore

# Dagster shows longer Markdown only after a click.
_LONGEST_MARKDOWN = 999
_LEADERBOARD_ROWS = 50


def lift_findings(report: LiftReport) -> dict[str, MetadataValue[Any]]:
    """The sentence, both differences and the split of the questions, as tables and charts."""
    retrieval, answer = report.score_rows()
    scores = [
        {"score": "metric", "retrieval": retrieval["score"], "answer": answer["score"]},
        *(
            {"score": name.replace("interval", "95 % interval"), "retrieval": retrieval[name], "answer": answer[name]}
            for name in retrieval
            if name != "score"
        ),
    ]
    parts = [
        {"questions": name.replace("_", " "), "count": len(ids), "ids": shown_ids(ids)}
        for name, ids in report.parts().items()
    ]
    return {
        "sentence": MetadataValue.text(report.verdict),
        **_chart("differences", lift_chart(report)),
        "scores": _table(scores, ("score", "retrieval", "answer")),
        **_chart("split", split_chart(report)),
        "questions": _table(parts, ("questions", "count", "ids")),
    }


def leaderboard_findings(
    leaderboard: pa.Table, lifts: Mapping[str, LiftReport], judged: Sequence[str] = ()
) -> dict[str, MetadataValue[Any]]:
    """The findings in sentences, the first cells with their scores, and a chart.

    Args:
        judged: names of judged metrics of which the table shows means too.
    """
    sentences = [{"findings": sentence} for sentence in findings(lifts)]
    shown = {"findings": _table(sentences, ("findings",))} if sentences else {}
    return {**shown, **_charts(leaderboard), "leaderboard": _leaderboard_table(leaderboard, judged)}


def write_lift_report(
    context: AssetExecutionContext, store: GridStore, key: AssetKey, partition: str, report: LiftReport
) -> dict[str, MetadataValue[Any]]:
    """Write a lift report as a page beside its table; returns where it is."""
    return _write(context, store, key, partition, lift_page(report))


def write_leaderboard_report(
    context: AssetExecutionContext,
    store: GridStore,
    key: AssetKey,
    leaderboard: pa.Table,
    lifts: Mapping[str, LiftReport],
    title: str,
) -> dict[str, MetadataValue[Any]]:
    """Write the leaderboard as a page beside its table, with links to the lift reports; returns where it is."""
    folder = AssetKey([*key.path[:-1], "lift_reports"])
    links = {
        cell: quote(f"lift_reports/{store.name_of(folder, cell, page_of(store.path_of(folder, cell)))}")
        for cell in lifts
    }
    return _write(context, store, key, None, leaderboard_page(leaderboard, findings(lifts), title, links=links))


def _write(
    context: AssetExecutionContext, store: GridStore, key: AssetKey, partition: str | None, page: str
) -> dict[str, MetadataValue[Any]]:
    """Write a page. A report that cannot be written costs no result: the log and the page say why it is missing."""
    path = page_of(store.path_of(key, partition))
    try:
        store.make_directory(path.parent)
        store.write(path, page.encode())
    except Exception as error:  # noqa: BLE001 - object stores raise what they like
        problem = f"{type(error).__name__}: {error}"
        context.log.warning(f"The report was not written to {path}: {problem}")
        return {"report_file": MetadataValue.text(f"not written: {problem}")}
    context.log.info(f"Report: {path}")
    if path.protocol in ("http", "https"):
        return {"report_file": MetadataValue.url(str(path))}
    return {"report_file": MetadataValue.path(store.name_of(key, partition, path))}


def page_of(table: UPath) -> UPath:
    """Where the page that shows a stored table is."""
    return table.with_suffix(".html")


def _charts(leaderboard: pa.Table) -> dict[str, MetadataValue[Any]]:
    """One chart of all cells if it is short enough to be shown, else one for each generation."""
    together = _chart("chart", leaderboard_chart(leaderboard))
    generations = dict.fromkeys(leaderboard["generation"].to_pylist())
    if together or len(generations) < 2:
        return together
    charts: dict[str, MetadataValue[Any]] = {}
    for generation, name in short_names(list(generations)).items():
        charts |= _chart(f"chart: {name}", leaderboard_chart(leaderboard, generation))
    return charts


def _chart(name: str, svg: str | None) -> dict[str, MetadataValue[Any]]:
    if svg is None or len(image := as_markdown(svg, "chart")) > _LONGEST_MARKDOWN:
        return {}
    return {name: MetadataValue.md(image)}


def _leaderboard_table(leaderboard: pa.Table, judged: Sequence[str]) -> TableMetadataValue:
    """The first cells: scores before names, since a page of Dagster has room for few columns."""
    lines = leaderboard.slice(0, _LEADERBOARD_ROWS).to_pylist()
    rows, columns = (short_names(leaderboard[side].to_pylist()) for side in ("retrieval", "generation"))
    records = []
    for line in lines:
        means = {metric["name"]: metric["mean"] for metric in line["metrics"]}
        record: dict[str, Any] = {"rank": f"{line['rank']}{' ≈' if line['best'] else ''}"}
        if line["generation"] is not None:
            record["answer"] = _score(line["answer_score"])
            record["gain"] = None if line["answer_gain"] is None else f"{line['answer_gain']:+.3f}"
        record["retrieval"] = _score(line["retrieval_score"])
        record |= {name: _score(means.get(name)) for name in judged if name != line["answer_metric"]}
        names = (rows[line["retrieval"]], columns.get(line["generation"], ""))
        record["cell"] = " · ".join(name for name in names if name) + (" (baseline)" if line["baseline"] else "")
        records.append(record)
    return _table(records, tuple(records[0]) if records else ("rank",))


def _score(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"


def _table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> TableMetadataValue:
    """A table, of which Dagster shows every cell as plain text."""
    records = [TableRecord({name: row[name] for name in columns}) for row in rows]
    types = {
        name: "float"
        if any(isinstance(row[name], float) for row in rows)
        else "int"
        if any(isinstance(row[name], int) for row in rows)
        else "string"
        for name in columns
    }
    return MetadataValue.table(records, Schema([TableColumn(name, types[name]) for name in columns]))
