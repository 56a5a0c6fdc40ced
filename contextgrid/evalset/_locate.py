"""Finding one piece of evidence in one document."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from contextgrid.core.evalset import GoldAnchor
from contextgrid.evalset._folding import Folded, fold

EXACT, NORMALISED, FUZZY = "exact", "normalised", "fuzzy"

_MIN_SIMILARITY = 90.0  # percent, of rapidfuzz's indel ratio
_MIN_FUZZY = 12  # characters; shorter quotes resemble too much by chance
_MIN_CASELESS = 5  # characters; below, "US" must not find "us"


@dataclass(frozen=True)
class Found:
    """Where evidence lies: half-open character ranges in reading order, and how they were matched."""

    spans: tuple[tuple[int, int], ...]
    match: str


class SearchedText:
    """A document's text, folded at most once and only if some quote is not found as it stands."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def folded(self) -> Folded:
        return fold(self.text)

    def locate(self, anchor: GoldAnchor) -> Found | None:
        """Where an anchor's evidence lies in this text, None where it cannot be found.

        Offsets that still hold win. Otherwise the quote is looked for as it stands, then folded, then approximately.
        All its occurrences count, or the nearest to the offsets where they are given. Occurrences that begin or end
        within a word count only if there are no others.
        """
        if anchor.start is not None and anchor.end is not None:
            inside = 0 <= anchor.start < anchor.end <= len(self.text)
            if inside and anchor.quote in ("", self.text[anchor.start : anchor.end]):
                return Found(((anchor.start, anchor.end),), EXACT)
        if not anchor.quote.strip():
            return None
        return self._exact(anchor) or self._normalised(anchor) or self._fuzzy(anchor.quote)

    def _exact(self, anchor: GoldAnchor) -> Found | None:
        if anchor.start is not None:
            nearest = _nearest_occurrence(self.text, anchor.quote, anchor.start)
            return Found(((nearest, nearest + len(anchor.quote)),), EXACT) if nearest is not None else None
        spans = _whole_words(self.text, _occurrences(self.text, anchor.quote))
        return Found(spans, EXACT) if spans else None

    def _normalised(self, anchor: GoldAnchor) -> Found | None:
        quote = _core(anchor.quote)
        found = _whole_words(self.folded.text, _occurrences(self.folded.text, quote)) if quote else ()
        spans = tuple(self.folded.span(start, end) for start, end in found)
        if len(quote) < _MIN_CASELESS:
            wanted = _compatible(anchor.quote)
            spans = tuple(span for span in spans if _compatible(self.text[slice(*span)]) == wanted)
        if anchor.start is not None and spans:
            hint = anchor.start
            spans = (min(spans, key=lambda span: abs(span[0] - hint)),)
        return Found(spans, NORMALISED) if spans else None

    def _fuzzy(self, quote: str) -> Found | None:
        from rapidfuzz import fuzz

        wanted, text = _core(quote), self.folded.text
        if len(wanted) < _MIN_FUZZY or not text:
            return None
        if len(text) <= len(wanted):  # rapidfuzz would look for the document in the quote
            is_alike = fuzz.ratio(wanted, text) >= _MIN_SIMILARITY
            return Found((self.folded.span(0, len(text)),), FUZZY) if is_alike else None
        window = fuzz.partial_ratio_alignment(wanted, text, score_cutoff=_MIN_SIMILARITY)
        if window is None:
            return None
        start, end = _fitted(wanted, text, window.dest_start, window.dest_end)
        return Found((self.folded.span(start, end),), FUZZY) if start < end else None


def _occurrences(text: str, quote: str) -> Iterator[tuple[int, int]]:
    start = text.find(quote)
    while start >= 0:
        yield start, start + len(quote)
        start = text.find(quote, start + len(quote))


def _nearest_occurrence(text: str, quote: str, hint: int) -> int | None:
    hint = max(0, hint)
    before = text.rfind(quote, 0, hint + len(quote))
    after = text.find(quote, hint)
    if before < 0 or after < 0:
        return max(before, after) if max(before, after) >= 0 else None
    return before if hint - before <= after - hint else after


def _whole_words(text: str, found: Iterator[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    spans = tuple(found)
    whole = tuple(span for span in spans if not _splits_word(text, span[0]) and not _splits_word(text, span[1]))
    return whole or spans


def _splits_word(text: str, position: int) -> bool:
    """Whether a position lies within a word of a script that parts words by spaces."""
    if not 0 < position < len(text):
        return False
    before, after = text[position - 1], text[position]
    return _is_word(before) and (_is_word(after) or unicodedata.combining(after) > 0)


def _is_word(character: str) -> bool:
    return character.isalnum() and not "\u0e00" <= character <= "\u0eff" and not "\u3000" <= character <= "\u9fff"


def _core(quote: str) -> str:
    """A quote folded, without the quotation marks and dashes around it."""
    folded = fold(quote).text
    return folded.strip(" -'") or folded.strip()


def _compatible(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split()).strip("-'\"")


def _fitted(wanted: str, text: str, start: int, end: int) -> tuple[int, int]:
    """A window of the quote's length, moved to the whole words that are most like the quote."""
    from rapidfuzz import fuzz

    # The document may hold characters that the quote lacks, or lack some.
    reach = len(wanted) // 10 + 8
    ends = [position for position in _word_edges(text, end, reach) if position > start]
    end = max(ends, key=lambda position: fuzz.ratio(wanted, text[start:position]), default=end)
    starts = [position for position in _word_edges(text, start, reach) if position < end]
    start = max(starts, key=lambda position: fuzz.ratio(wanted, text[position:end]), default=start)
    inner = text[start:end]
    return start + len(inner) - len(inner.lstrip()), end - len(inner) + len(inner.rstrip())


def _word_edges(text: str, position: int, reach: int) -> list[int]:
    """Positions within ``reach`` of one that do not split a word, the nearest first."""
    around = range(max(0, position - reach), min(len(text), position + reach) + 1)
    return sorted((p for p in around if not _splits_word(text, p)), key=lambda p: abs(p - position))
