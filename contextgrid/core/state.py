"""What a fitted plugin remembers: named arrays, so that it can be stored without pickle and hashed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

State: TypeAlias = dict[str, NDArray[Any]]


def pack_words(words: Iterable[str]) -> NDArray[np.uint8]:
    """Words, none of which holds a line break, as UTF-8 bytes."""
    return np.frombuffer("\n".join(words).encode(), dtype=np.uint8)


def unpack_words(packed: NDArray[np.uint8]) -> list[str]:
    """The words of :func:`pack_words`."""
    return packed.tobytes().decode().split("\n")


def nest(prefix: str, state: Mapping[str, NDArray[Any]]) -> State:
    """A state as part of a larger one, its names prefixed with ``prefix/``."""
    return {f"{prefix}/{name}": array for name, array in state.items()}


def unnest(prefix: str, state: Mapping[str, NDArray[Any]]) -> State:
    """The part of a state that :func:`nest` put under ``prefix``."""
    return {name.removeprefix(f"{prefix}/"): array for name, array in state.items() if name.startswith(f"{prefix}/")}
