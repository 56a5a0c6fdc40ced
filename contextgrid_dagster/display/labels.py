"""What Dagster shows of an asset before it is built: group, kinds, tags, columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import pyarrow as pa
from dagster import TableColumn, TableSchema

from contextgrid.core import tables
from contextgrid.core.columns import COLUMNS
from contextgrid.generate.lift import LIFT
from contextgrid.score.metrics import METRICS
from contextgrid.settings import RunSettings

# The assets in the order in which data flows through them. Dagster sorts groups by name, hence the numbers.
FLOW: Mapping[str, tuple[str, ...]] = {
    "1_inputs": ("corpus", "evalset", "generation_spec"),
    "2_corpus": ("documents", "chunks", "index"),
    "3_retrieval": ("retrieved_ids", "retrieval_scores"),
    "4_answers": ("answers", "lexical_scores", "judge_scores"),
    "5_findings": ("lift_reports", "leaderboard", "drift_reports"),
}
_SCHEMAS = {
    "corpus": tables.CORPUS,
    "evalset": tables.EVALSET,
    "generation_spec": tables.GENERATION_SPEC,
    "documents": tables.DOCUMENTS,
    "chunks": tables.CHUNKS,
    "retrieved_ids": tables.RETRIEVED,
    "retrieval_scores": tables.RETRIEVAL_SCORES,
    "answers": tables.ANSWERS,
    "lexical_scores": tables.LEXICAL_SCORES,
    "judge_scores": tables.JUDGE_SCORES,
    "lift_reports": LIFT,
}
# Providers for which Dagster has an icon, with its name.
_ICONS = {
    "openai": "openai",
    "anthropic": "claude",
    "gemini": "gemini",
    "mistral": "mistral",
    "deepseek": "deepseek",
    "huggingface": "huggingface",
    "azure": "azure",
    "bedrock": "aws",
    "vertex_ai": "googlecloud",
}
_LONGEST_TAG = 63


def group_of(asset: str, key_prefix: str | None = None) -> str:
    """The group of an asset; with a key prefix its own, so that experiments in one workspace do not share groups."""
    name = next(group for group, assets in FLOW.items() if asset in assets)
    return f"{key_prefix.replace('-', '_')}_{name}" if key_prefix else name


def tags_of(experiment: str, *, costs_money: bool) -> dict[str, str]:
    """The experiment's name as far as a tag can hold it, and whether building the asset may cost money."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", experiment)[:_LONGEST_TAG].strip("_.-")
    return ({"experiment": name} if name else {}) | ({"calls_models": "may_cost_money"} if costs_money else {})


def model_kind(models: Iterable[str]) -> str:
    """The icon of the provider of some models; without a single one that has an icon, the word ``model``."""
    icons = {_ICONS.get(model.partition(":")[0], "model") for model in models}
    return icons.pop() if len(icons) == 1 else "model"


def columns_of(asset: str, run: RunSettings) -> TableSchema | None:
    """The columns of an asset's table with their meaning, range and unit.

    ``None`` for the index, and for the leaderboard: Dagster would show them above the leaderboard itself.
    """
    schema = _SCHEMAS.get(asset)
    if schema is None:
        return None
    described = [TableColumn(f.name, _type(f.type), COLUMNS[asset].get(f.name)) for f in schema]
    metrics = METRICS.names() if asset == "retrieval_scores" else ()
    return TableSchema([*described, *(_metric(name, run.scored_cutoffs) for name in metrics)])


def _metric(name: str, cutoffs: Iterable[int]) -> TableColumn:
    """One line for all cut-offs of a metric; the definition is the plugin's own."""
    definition = " ".join((METRICS.plugin(name).__doc__ or "").split("\n\n")[0].split()).replace("``", "`")
    columns = ", ".join(f"{name}@{k}" for k in sorted(cutoffs))
    return TableColumn(f"{name}@k", "float", f"0 to 1. {definition} Columns: {columns}.")


def _type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return "list"
    return {"double": "float", "int64": "int", "int32": "int"}.get(str(kind), str(kind))
