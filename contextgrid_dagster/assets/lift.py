"""What each cell is worth: its lift over the baseline, and all cells side by side."""

# No postponed annotations here: Dagster reads them from the functions themselves.
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from dagster import AssetExecutionContext, AssetsDefinition, Config, MaterializeResult
from pydantic import Field

from contextgrid import stages
from contextgrid.report.findings import findings
from contextgrid_dagster.assets.declaration import Declaration
from contextgrid_dagster.display.findings import (
    leaderboard_findings,
    lift_findings,
    write_leaderboard_report,
    write_lift_report,
)
from contextgrid_dagster.display.metadata import materialised
from contextgrid_dagster.notes import INPUT_VERSIONS
from contextgrid_dagster.versions import combined_version, data_versions


class LeaderboardConfig(Config):
    """What the leaderboard leaves out."""

    without: list[str] = Field(
        default_factory=list,
        description="Row keys and cell keys (generation|retrieval) to leave out, because they could not be updated.",
    )


def lift_assets(declaration: Declaration) -> list[AssetsDefinition]:
    """``lift_reports`` if anything is generated, with what judges say where there are any, and ``leaderboard``."""
    lifts = [_lift_reports(declaration)] if declaration.matrix.columns else []
    return [*lifts, _leaderboard(declaration, generates=bool(lifts))]


def _lift_reports(declaration: Declaration) -> AssetsDefinition:
    parts, matrix, run = declaration.partitions, declaration.matrix, declaration.run
    names = ["lexical_scores", *(["judge_scores"] if declaration.judges else [])]

    @declaration.asset(
        "lift_reports",
        kind="report",
        partitions=parts.cell,
        ins={name: declaration.read_many(name, parts.cell_and_baseline) for name in names},
    )
    def lift_reports(context: AssetExecutionContext, **scores: Any) -> MaterializeResult[Any]:
        """Whether the row's retrieval gain over the baseline row survived to the column's answers."""
        cell = context.partition_key
        baseline = f"{cell.partition('|')[0]}|{matrix.baseline.key}"
        lexical, judged = scores["lexical_scores"], scores.get("judge_scores", {})
        report = stages.compare(
            lexical[cell],
            lexical[baseline],
            run,
            cell_key=cell,
            baseline_key=baseline,
            cell_judge=judged.get(cell),
            baseline_judge=judged.get(baseline),
        )
        splits = {name: len(getattr(report, name)) for name in _SPLIT}
        numbers = {
            "retrieval_gain": report.retrieval.difference,
            "answer_gain": report.answer.difference,
            "answer_gain_low": report.answer.low,
            "answer_gain_high": report.answer.high,
            "answer_p_value": report.answer.p,
            **splits,
        }
        context.log.info(report.verdict)
        file = write_lift_report(context, declaration.tables, declaration.key("lift_reports"), cell, report)
        more = {**lift_findings(report), **file}
        made_for = declaration.made_for(parts.cell, cell)
        return materialised(report.to_table(), made_for=made_for, numbers=numbers, more=more)

    return lift_reports


_SPLIT = ("gain_converted", "gain_wasted", "gain_unexplained", "loss", "unchanged", "not_compared")


def _leaderboard(declaration: Declaration, *, generates: bool) -> AssetsDefinition:
    # Cells that failed are missing from the leaderboard instead of keeping it from being built.
    read = {"retrieval_scores": declaration.read_many("retrieval_scores", allow_missing=True)}
    if generates:
        read["lift_reports"] = declaration.read_many("lift_reports", allow_missing=True)

    declare = declaration.asset("leaderboard", kind="report", ins=read)
    if generates:

        @declare
        def leaderboard(
            context: AssetExecutionContext,
            config: LeaderboardConfig,
            retrieval_scores: dict[str, pa.Table],
            lift_reports: dict[str, pa.Table],
        ) -> MaterializeResult[Any]:
            """All cells side by side, best first, and which of them cannot be told from the best."""
            inputs = {"retrieval_scores": retrieval_scores, "lift_reports": lift_reports}
            return _side_by_side(declaration, context, config, inputs)

        return leaderboard

    @declare
    def retrieval_leaderboard(
        context: AssetExecutionContext, config: LeaderboardConfig, retrieval_scores: dict[str, pa.Table]
    ) -> MaterializeResult[Any]:
        """All rows side by side, best first, and which of them cannot be told from the best."""
        return _side_by_side(declaration, context, config, {"retrieval_scores": retrieval_scores})

    return retrieval_leaderboard


def _side_by_side(
    declaration: Declaration,
    context: AssetExecutionContext,
    config: LeaderboardConfig,
    inputs: Mapping[str, Mapping[str, pa.Table]],
) -> MaterializeResult[Any]:
    from contextgrid.generate.lift import LiftReport

    used = {
        name: {key: table for key, table in tables.items() if key not in config.without}
        for name, tables in inputs.items()
    }
    lifts = {key: LiftReport.from_table(table) for key, table in used.get("lift_reports", {}).items()}
    table = stages.leaderboard(used["retrieval_scores"], lifts, declaration.run, declaration.matrix)
    # Dagster records no version for an input of a hundred or more partitions.
    versions = {
        INPUT_VERSIONS + name: combined_version(data_versions(context.instance, declaration.key(name), tables))
        for name, tables in used.items()
    }
    for sentence in findings(lifts):
        context.log.info(sentence)
    title = declaration.experiment.report.title or declaration.experiment.name
    file = write_leaderboard_report(context, declaration.tables, declaration.key("leaderboard"), table, lifts, title)
    judged = declaration.run.judge.judged if declaration.judges and declaration.run.judge is not None else ()
    best = table.slice(0, 1).to_pylist()[0] if table.num_rows else {}
    numbers = {
        "cells": table.num_rows,
        "best_retrieval_score": best.get("retrieval_score"),
        "best_answer_score": best.get("answer_score"),
    }
    more = {**leaderboard_findings(table, lifts, judged), **file, **versions}
    return materialised(table, made_for=declaration.made_for(), numbers=numbers, more=more)
