"""From evidence as authored to spans of one parse.

An anchor is a quote, offsets, or both, and says nothing about parsers or chunkers. Resolving finds it in the parsed
text of its document. What cannot be found is reported: scores must not silently leave out a question's evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from contextgrid.core.documents import Document
from contextgrid.core.evalset import EvalItem, EvalSet, GoldAnchor, GoldSpan
from contextgrid.core.span import Span
from contextgrid.evalset._locate import Found, SearchedText
from contextgrid.evalset.reading import items_of

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class UnresolvedAnchor:
    """A piece of evidence that this parse does not hold, and why; ``str()`` gives ``source_id: quote (why)``."""

    question_id: str
    anchor: GoldAnchor
    reason: str

    def __str__(self) -> str:
        evidence = self.anchor.quote or f"characters {self.anchor.start}-{self.anchor.end}"
        return f"{self.anchor.source_id}: {evidence} ({self.reason})"


@dataclass(frozen=True)
class ResolvedEvalSet(EvalSet):
    """An eval set whose items have ``gold`` for one parse.

    ``unresolved`` lists, in order, the anchors that were not found; their items keep them in ``anchors``.
    """

    unresolved: tuple[UnresolvedAnchor, ...] = ()


def resolve_evalset(evalset: EvalSet, documents: Iterable[Document]) -> ResolvedEvalSet:
    """Fill each item's ``gold`` with the spans of its anchors in these documents.

    Offsets that still hold win; else the quote is looked for as it stands, then with case, white space, Unicode forms,
    quotation marks, dashes and hyphenation made alike, then approximately (90 % alike; not for quotes below 12
    characters). All occurrences of a quote count unless offsets are given: then the nearest does. Items without anchors
    keep the gold they have.
    """
    resolver = _Resolver({document.source_id: document.text for document in documents})
    items: list[EvalItem] = []
    for item in evalset:
        gold = tuple(
            GoldSpan(Span(item.anchors[number].source_id, start, end), number)
            for number, found in resolver.anchors_of(item)
            for start, end in found.spans
        )
        items.append(replace(item, gold=gold) if item.anchors else item)
    return ResolvedEvalSet(evalset.id, tuple(items), tuple(resolver.unresolved))


def resolve_gold(evalset: pa.Table, documents: pa.Table) -> tuple[pa.Table, dict[str, list[str]]]:
    """As ``resolve_evalset``, from and to tables.

    Args:
        evalset: table of ``tables.EVALSET``.
        documents: table of ``tables.DOCUMENTS``.

    Returns:
        Table of ``tables.GOLD``, ordered by question, anchor and position; and the anchors that were not found, as
        ``source_id: quote (why)``, for each question id that has any.
    """
    import pyarrow as pa

    from contextgrid.core.tables import GOLD

    resolver = _Resolver(_texts_of(documents))
    rows = [
        (item.id, number, source_id, start, end, resolver.text(source_id)[start:end], found.match)
        for item in items_of(evalset)
        for number, found in resolver.anchors_of(item)
        for source_id in [item.anchors[number].source_id]
        for start, end in found.spans
    ]
    unresolved: dict[str, list[str]] = {}
    for missing in resolver.unresolved:
        unresolved.setdefault(missing.question_id, []).append(str(missing))
    columns = list(zip(*rows, strict=True)) or [()] * len(GOLD)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, GOLD, strict=True)], schema=GOLD), unresolved


def _texts_of(documents: pa.Table) -> dict[str, str | None]:
    return dict(zip(documents["source_id"].to_pylist(), documents["text"].to_pylist(), strict=True))


class _Resolver:
    """Looks anchors up in documents, each prepared once, and keeps those it does not find."""

    def __init__(self, texts: Mapping[str, str | None]) -> None:
        self._texts = texts
        self._searched: dict[str, SearchedText] = {}
        self.unresolved: list[UnresolvedAnchor] = []

    def anchors_of(self, item: EvalItem) -> Iterator[tuple[int, Found]]:
        """Number and places of each anchor of a question that is found."""
        for number, anchor in enumerate(item.anchors):
            found = self._locate(anchor)
            if isinstance(found, Found):
                yield number, found
            else:
                self.unresolved.append(UnresolvedAnchor(item.id, anchor, found))

    def text(self, source_id: str) -> str:
        return self._searched[source_id].text

    def _locate(self, anchor: GoldAnchor) -> Found | str:
        """Where an anchor is, or why it is not found."""
        text = self._texts.get(anchor.source_id)
        if text is None:
            known = anchor.source_id in self._texts
            return "the document could not be read" if known else f"no such document{self._similar(anchor.source_id)}"
        searched = self._searched.get(anchor.source_id)
        if searched is None:
            searched = self._searched[anchor.source_id] = SearchedText(text)
        return searched.locate(anchor) or _why(anchor, text)

    def _similar(self, source_id: str) -> str:
        """A hint where another id ends alike, as when files were listed with their folder, or is spelt alike."""
        name = source_id.rpartition("/")[2]
        alike = [other for other in self._texts if other.rpartition("/")[2] == name]
        alike = alike or get_close_matches(source_id, list(self._texts), n=1, cutoff=0.7)
        return f"; did you mean {alike[0]!r}?" if alike else " in the corpus"


def _why(anchor: GoldAnchor, text: str) -> str:
    if anchor.quote.strip():
        return "the document does not hold the quote"
    if anchor.start is None or anchor.end is None:
        return "neither a quote nor both offsets are given"
    return f"the offsets lie outside the document's {len(text)} characters"
