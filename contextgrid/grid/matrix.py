"""From the values of each axis to the rows and columns of the grid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, TypeVar

from contextgrid.core.axes import AXES, GENERATION_AXES, RETRIEVAL_AXES, Generation, Retrieval
from contextgrid.core.errors import ConfigError
from contextgrid.core.matrix import Matrix as Matrix
from contextgrid.core.registry import Spec, nearest
from contextgrid.generate import MODEL_BACKED
from contextgrid.grid.axis_values import AxisValue as AxisValue
from contextgrid.grid.axis_values import first_spellings
from contextgrid.pipeline import generation_of, retrieval_of

if TYPE_CHECKING:
    from contextgrid.settings import RunSettings

C = TypeVar("C", Retrieval, Generation)


def judges(matrix: Matrix, run: RunSettings) -> dict[str, str]:
    """Spec of the model that judges each column, by column key, without columns that nothing can judge."""
    found = {column.key: run.judge_model(column.model) for column in matrix.columns}
    return {key: model for key, model in found.items() if model is not None}


def partition_counts(matrix: Matrix, run: RunSettings) -> dict[str, int]:
    """How many partitions each asset of a grid has, in flow order (1 for an unpartitioned asset)."""
    rows, columns = len(matrix.rows), len(matrix.columns)
    counts = {
        "corpus": 1,
        "evalset": 1,
        "generation_spec": columns,
        "documents": len(matrix.unique("parser_key")),
        "chunks": len(matrix.unique("chunks_key")),
        "index": len(matrix.unique("index_key")),
        "retrieved_ids": rows,
        "retrieval_scores": rows,
        "answers": rows * columns,
        "lexical_scores": rows * columns,
        "judge_scores": rows * columns if judges(matrix, run) else 0,
        "lift_reports": rows * columns,
        "leaderboard": 1,
    }
    return {asset: count for asset, count in counts.items() if count}


def build_matrix(
    axes: Mapping[str, Sequence[AxisValue]],
    *,
    mode: str = "factorial",
    baseline: Mapping[str, AxisValue] | None = None,
    model: str | None = None,
) -> Matrix:
    """Rows and columns from axis values.

    Args:
        axes: the values of every axis; an axis left out has the single value ``None``.
        mode: ``factorial`` combines all values; ``ofat`` varies one axis at a time around the baseline.
        baseline: the axis values of the baseline row where they differ from each axis's first.
        model: the model for model-backed generators where the model axis does not name one.

    Raises:
        ConfigError: if no row or column is left, a key would stand for two configurations, or the baseline
            names what is no retrieval axis, or a value that is not on its axis.
    """
    written = {axis: list(axes.get(axis) or [None]) for axis in AXES}
    values = {axis: first_spellings(axis, options) for axis, options in written.items()}
    centre = {axis: options[0] for axis, options in values.items()} | _centre(values, baseline or {})
    if model is not None:
        model = str(first_spellings("model", [*written["model"], model])[-1])
    dropped: Counter[str] = Counter()
    rows, row_duplicates = _distinct(
        [_row(settings, dropped) for settings in _combinations(values, centre, RETRIEVAL_AXES, mode)]
    )
    columns, column_duplicates = _distinct(
        [_column(settings, model, dropped) for settings in _combinations(values, centre, GENERATION_AXES, mode)]
    )
    if not rows:
        raise ConfigError(f"grid: no retrieval configuration can be built ({_reasons(dropped)})")
    if not columns and any(generator is not None for generator in values["generator"]):
        raise ConfigError(f"grid: no generation configuration can be built ({_reasons(dropped)})")
    _refuse_shared_keys([*rows, *columns])
    base = _row({axis: centre[axis] for axis in RETRIEVAL_AXES}, Counter())
    if base is None or base not in rows:
        base = rows[0]
    return Matrix(tuple(rows), tuple(columns), base, dict(dropped), row_duplicates + column_duplicates)


def _centre(values: Mapping[str, list[AxisValue]], baseline: Mapping[str, AxisValue]) -> dict[str, AxisValue]:
    """The baseline's values as the grid spells them."""
    found: dict[str, AxisValue] = {}
    for axis, value in baseline.items():
        if axis in GENERATION_AXES:
            names = ", ".join(RETRIEVAL_AXES)
            raise ConfigError(f"run.baseline: the baseline is a row of the grid, without {axis!r}; name only {names}")
        if axis not in RETRIEVAL_AXES:
            raise ConfigError(f"run.baseline: unknown axis {axis!r}{nearest(axis, RETRIEVAL_AXES)}")
        *_, found[axis] = first_spellings(axis, [*values[axis], value])
        if found[axis] not in values[axis]:
            raise ConfigError(f"run.baseline: {axis} {value!r} is not on the grid; choose one of {values[axis]}")
    return found


def _combinations(
    values: Mapping[str, list[AxisValue]], centre: Mapping[str, AxisValue], names: Sequence[str], mode: str
) -> list[dict[str, AxisValue]]:
    if mode == "factorial":
        return [dict(zip(names, combination, strict=True)) for combination in product(*(values[n] for n in names))]
    start = {name: centre[name] for name in names}
    others = {name: list(values[name]) for name in names}
    for name, rest in others.items():
        rest.remove(centre[name])
    return [start] + [start | {name: value} for name in names for value in others[name]]


def _row(settings: Mapping[str, AxisValue], dropped: Counter[str]) -> Retrieval | None:
    try:
        return retrieval_of(**settings)  # type: ignore[arg-type]
    except ConfigError as error:
        dropped[str(error)] += 1
        return None


def _column(settings: Mapping[str, AxisValue], model: str | None, dropped: Counter[str]) -> Generation | None:
    column = generation_of(**settings)  # type: ignore[arg-type]
    if column is None or Spec.parse(column.generator).name not in MODEL_BACKED:
        return column
    column = replace(column, model=column.model or model)
    if column.model is None:
        dropped[f"generator {column.generator!r} needs a model; set run.model or grid.model"] += 1
        return None
    return column


def _distinct(found: Sequence[C | None]) -> tuple[list[C], int]:
    kept = [item for item in found if item is not None]
    distinct = list(dict.fromkeys(kept))
    return distinct, len(kept) - len(distinct)


def _refuse_shared_keys(configurations: Sequence[Retrieval | Generation]) -> None:
    owners: dict[str, Retrieval | Generation] = {}
    for configuration in configurations:
        other = owners.setdefault(configuration.key, configuration)
        if other != configuration:
            raise ConfigError(f"grid: {other} and {configuration} would share the key {other.key!r}; rename one")


def _reasons(dropped: Mapping[str, int]) -> str:
    return "; ".join(f"{reason}: {count}" for reason, count in dropped.items()) or "every axis is null"
