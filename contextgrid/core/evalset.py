"""Questions, the evidence that answers them, and where that evidence lies in a given parse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from contextgrid.core.errors import EvalSetError
from contextgrid.core.span import Span


@dataclass(frozen=True)
class GoldAnchor:
    """Evidence that no parser or chunker can invalidate: a quote from a source.

    ``start`` and ``end`` are code-point offsets in the source's text, given when a quote occurs more
    than once and only one occurrence is meant.
    """

    source_id: str
    quote: str
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class GoldSpan:
    """Evidence located in one parse. Spans with the same ``anchor`` are occurrences of one piece of evidence."""

    span: Span
    anchor: int = 0


@dataclass(frozen=True)
class EvalItem:
    """One question with its evidence.

    ``anchors`` are evidence as authored, ``gold`` the same evidence located in the current parse.
    ``answer`` is an optional reference answer. ``answerable`` says whether the corpus holds an answer;
    left at ``None`` it follows from whether there are anchors or gold spans.
    """

    id: str
    question: str
    anchors: tuple[GoldAnchor, ...] = ()
    gold: tuple[GoldSpan, ...] = ()
    answer: str | None = None
    answerable: bool | None = None

    @property
    def is_resolved(self) -> bool:
        """Whether this parse holds gold spans for the question."""
        return bool(self.gold)

    @property
    def expects_answer(self) -> bool:
        """Whether the question has an answer in the corpus, by its label or else by its evidence."""
        return self.answerable if self.answerable is not None else bool(self.anchors or self.gold)


@dataclass(frozen=True)
class EvalSet:
    """A named, ordered set of questions.

    Raises:
        EvalSetError: for a blank or repeated question id, or a blank question.
    """

    id: str
    items: tuple[EvalItem, ...] = ()

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for position, item in enumerate(self.items, start=1):
            if not item.id.strip():
                raise EvalSetError(f"eval set {self.id!r}: item {position} has a blank id; give each question one")
            if item.id in seen:
                raise EvalSetError(f"eval set {self.id!r}: question id {item.id!r} occurs twice; ids must be unique")
            if not item.question.strip():
                raise EvalSetError(f"eval set {self.id!r}: question {item.id!r} is blank; write one or remove it")
            seen.add(item.id)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[EvalItem]:
        return iter(self.items)
