"""The values of one axis: which are possible, and which mean the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from contextgrid.chunk import CHUNKERS
from contextgrid.core.errors import ConfigError, ContextGridError
from contextgrid.core.registry import Registry, Spec
from contextgrid.embed import EMBEDDERS
from contextgrid.generate import GENERATORS, MODEL_BACKED, check_generator
from contextgrid.index import INDEXES
from contextgrid.models import build_model
from contextgrid.parse import PARSERS
from contextgrid.rerank import RERANKERS
from contextgrid.settings import MAX_RANK
from contextgrid.transform import TRANSFORMS

AxisValue = str | int | None

REGISTRIES: dict[str, Registry[Any]] = {
    "parser": PARSERS,
    "chunker": CHUNKERS,
    "embedder": EMBEDDERS,
    "index": INDEXES,
    "transform": TRANSFORMS,
    "reranker": RERANKERS,
}
# What an axis means when the file does not mention it.
DEFAULT_AXES: dict[str, AxisValue] = {
    "parser": "auto",
    "chunker": "recursive:512",
    "embedder": "tfidf",
    "index": "dense",
}
_NEVER_NULL = ("parser", "chunker", "index")


def axis_values(axis: str, value: Any) -> tuple[AxisValue, ...]:
    """The values of one axis from one value or a list, each checked against the axis's plugins.

    Raises:
        ConfigError: naming the axis and what is wrong with which value.
    """
    values = list(value) if isinstance(value, list | tuple) else [value]
    if not values:
        raise ConfigError(f"{axis}: an empty list; give one value or more, or leave the axis out")
    for item in values:
        try:
            _check_value(axis, item)
        except ConfigError as error:
            raise ConfigError(f"{axis}: {error}") from error
    for item in values:
        if values.count(item) > 1:
            raise ConfigError(f"{axis}: {item!r} is listed twice")
    return tuple(_trimmed(item) for item in values)


def first_spellings(axis: str, values: Sequence[AxisValue]) -> list[AxisValue]:
    """Each value as the first one of the list that means the same is spelt, without white space around it.

    ``recursive:0100`` after ``recursive:100`` becomes ``recursive:100``: both describe equal plugins.
    """
    values = [_trimmed(value) for value in values]
    meanings = [_meaning(axis, value) for value in values]
    # A plugin that does not define equality still equals what is spelt alike.
    return [
        values[next(n for n, other in enumerate(values) if other == value or meanings[n] == meaning)]
        for value, meaning in zip(values, meanings, strict=True)
    ]


def _trimmed(value: AxisValue) -> AxisValue:
    return value.strip() if isinstance(value, str) else value


def _meaning(axis: str, value: AxisValue) -> Any:
    """What a value describes; equal for values that cannot differ in anything but their spelling."""
    if not isinstance(value, str):
        return value
    try:
        if axis in REGISTRIES:
            return REGISTRIES[axis].build(value)
        if axis == "model":
            return build_model(value)
        if axis == "generator":
            spec = Spec.parse(value)
            if spec.name not in MODEL_BACKED:
                return GENERATORS.build(value)
            return spec.name, spec.argument, [(key, int(text)) for key, text in spec.options]
    except (ContextGridError, ValueError):
        pass  # Not usable: whoever builds it says why.
    return value


def _check_value(axis: str, value: Any) -> None:
    if value is None:
        if axis in _NEVER_NULL:
            raise ConfigError(f"null is not possible here; choose one of: {', '.join(REGISTRIES[axis].names())}")
    elif axis == "candidates":
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_RANK:
            raise ConfigError(f"must be a whole number of at least 1 and at most {MAX_RANK}, got {value!r}")
    elif not isinstance(value, str):
        raise ConfigError(f"expected text such as name:argument, got {value!r}")
    elif axis in REGISTRIES:
        REGISTRIES[axis].build(value)
    elif axis == "generator":
        check_generator(value)
    elif axis == "model":
        build_model(value)
