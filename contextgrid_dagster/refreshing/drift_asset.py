"""``drift_reports``: what the last refresh found of every cell, as an asset that nothing materialises but a refresh."""

from __future__ import annotations

from dagster import AssetMaterialization, AssetSpec, MetadataValue
from dagster._core.definitions.data_version import DATA_VERSION_TAG

from contextgrid.core.fingerprint import fingerprint
from contextgrid.generate.drift import DriftReport
from contextgrid_dagster.assets.declaration import Declaration
from contextgrid_dagster.display.labels import group_of, tags_of
from contextgrid_dagster.display.metadata import Number, measured
from contextgrid_dagster.graph import GridGraph

NAME = "drift_reports"

_DESCRIPTION = """\
Whether a model changed by itself: what a cell answered, and judges said, before and after its last refresh.

A refresh asks every question of a cell once more and compares the answers with those stored before, question by
question. `answers_changed` counts the questions whose earlier answer did not come back; `answer_change` is what that
did to the answer metric, with its 95 % interval. Only a refresh reports it: the schedule, the job `bring_up_to_date`
with `fresh: true`, or `contextgrid-dagster refresh`. It cannot be materialised by itself."""


def drift_assets(declaration: Declaration) -> list[AssetSpec]:
    """``drift_reports``, for experiments in which a model answers or judges."""
    if not declaration.experiment.refreshable_columns:
        return []
    sources = ["answers", "lexical_scores", *(["judge_scores"] if declaration.judges else [])]
    spec = AssetSpec(
        declaration.key(NAME),
        deps=[declaration.key(source) for source in sources],
        partitions_def=declaration.partitions.cell,
        group_name=group_of(NAME, declaration.key_prefix),
        description=_DESCRIPTION,
        kinds={"python", "parquet"},
        tags=tags_of(declaration.experiment.name, costs_money=False),
        metadata={"dagster/uri": str(declaration.tables.folder_of(declaration.key(NAME), partitioned=True))},
    )
    return [spec]


def stored_drift(graph: GridGraph, report: DriftReport) -> AssetMaterialization:
    """Store a report's table; gives what Dagster is to record of it."""
    key, table = graph.key(NAME), report.to_table()
    path = graph.tables.path_of(key, report.cell)
    graph.tables.save_table(path, table)
    answers = report.answers
    numbers: dict[str, Number] = {"repetitions": report.repetitions}
    if report.reason is None:
        numbers |= {
            "answers_changed": len(answers.changed),
            "answers_unstable": len(answers.unstable),
            "answers_compared": len(answers.compared),
            "answers_not_compared": len(answers.not_compared),
            "verdicts_changed": sum(len(report.judged_otherwise(metric)) for metric in report.metrics),
        }
    change = report.metrics[0].difference if report.metrics else None
    if change is not None:
        ends = {"answer_change_low": change.low, "answer_change_high": change.high}
        numbers |= {"answer_change": change.difference, **ends}
    return AssetMaterialization(
        key,
        partition=report.cell,
        metadata={
            "sentence": MetadataValue.text(report.sentence),
            "report": MetadataValue.md(report.to_markdown()),
            "drifted": report.drifted,
            **measured(numbers),
            "path": MetadataValue.path(graph.tables.name_of(key, report.cell, path)),
            **graph.declaration.made_for(graph.declaration.partitions.cell, report.cell),
        },
        tags={DATA_VERSION_TAG: fingerprint(table)},
    )
