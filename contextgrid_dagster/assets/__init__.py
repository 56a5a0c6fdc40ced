"""The asset graph of one experiment."""

from __future__ import annotations

from dagster import AssetsDefinition

from contextgrid_dagster.assets.answers import answer_assets
from contextgrid_dagster.assets.declaration import Declaration
from contextgrid_dagster.assets.inputs import input_assets
from contextgrid_dagster.assets.judges import judge_assets
from contextgrid_dagster.assets.lift import lift_assets
from contextgrid_dagster.assets.retrieval import retrieval_assets

__all__ = ["Declaration", "grid_assets"]


def grid_assets(declaration: Declaration) -> list[AssetsDefinition]:
    """All assets of an experiment; those about answers only if its grid generates any, judges only if it has any."""
    answers = answer_assets(declaration) if declaration.matrix.columns else []
    judged = judge_assets(declaration) if declaration.judges else []
    return [*input_assets(declaration), *retrieval_assets(declaration), *answers, *judged, *lift_assets(declaration)]
