"""What a transform is: a rewriting of questions before they are searched for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from contextgrid.core.registry import Registry


class Transform(Protocol):
    """Rewrites all questions at once."""

    def transform(self, questions: Sequence[str]) -> list[str]:
        """The search query of each question, in order and never blank where the question is not."""
        ...


TRANSFORMS: Registry[Transform] = Registry("transform", "contextgrid.transform")


@dataclass(frozen=True)
class NoTransform:
    """What ``null`` stands for: questions are searched for as asked."""

    def transform(self, questions: Sequence[str]) -> list[str]:
        return list(questions)


def get_transform(spec: str | None) -> Transform:
    """The transform that a spec describes; ``None`` changes nothing."""
    return NoTransform() if spec is None else TRANSFORMS.build(spec)
