"""From the lines of printed pages to paragraphs and headings."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from contextgrid.core.documents import Document, Heading
from contextgrid.parse._running_lines import without_running_lines


@dataclass(frozen=True)
class Line:
    """One line of a page. Lengths are points; ``baseline`` grows upwards, ``size`` is the usual font height."""

    text: str
    left: float
    right: float
    baseline: float
    size: float
    fixed: bool = False  # all of it in a monospaced font


@dataclass(frozen=True)
class _Block:
    """Lines that belong together, and whether only a line end parts them from the block before."""

    lines: tuple[Line, ...]
    closely: bool

    @property
    def size(self) -> float:
        return self.lines[0].size


_LARGER = 1.08  # a heading's size over the body's, at least
_SMALLER = 0.92  # a footnote's size over the body's, at most
_LONGEST_HEADING = 300  # characters; larger print that runs on for longer is body text
_WIDE_GAP = 1.35  # distance of baselines over the usual one that parts paragraphs
_INDENT = 0.8  # of the font size; smaller shifts are noise
_COLUMN = 72.0  # points; lines of one column begin no further apart

_GLYPHS = "•◦▪‣·●○■□∗"
_BULLET = re.compile(rf"\s*[{_GLYPHS}]\s+(?=\S)")
_NUMBERED = re.compile(r"\s*(?:[–—*-]|\(?(?:\d{1,3}|[a-zA-Z])[.)]|\[\d{1,3}\])\s+\S")
_LEADERS = re.compile(r"\s*(?:(?:\s\.){2,}|\.{4,})\s*(?:\d{1,5}|[ivxlcdm]{1,8})?\s*$")
_SUBSECTION_NUMBER = re.compile(r"[A-Z]?\d+(?:\.\d+)+\.?\s")
_SECTION_NUMBER = re.compile(r"[A-Z]?\d+(?:\.\d+)*\.?\s")
_LIGATURES = str.maketrans(
    {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st", "\xa0": " ", "\xad": "-", "‐": "-"}
)
_LONE_ACCENT = re.compile(r"\s?(?<![^\s])[\u0300-\u036f]")
_SPACING_ACCENTS = {"\u0300": "`", "\u0301": "´", "\u0302": "^", "\u0303": "~", "\u0308": "¨"}
_WORDS = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_FIRST_PART = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*-$")
_HYPHEN = re.compile(r"\w-$")
_BROKEN_URL = re.compile(r"(?:(?:https?|ftp)://|www\.)(?:\S*[/._=?&#%~:-])?$")
_UNSPACED = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]")


def document(source_id: str, pages: Sequence[Sequence[Line]]) -> Document:
    """Paragraphs parted by blank lines, list items and rows by line ends, larger print as headings.

    Args:
        source_id: of the document.
        pages: the lines of each page in reading order.
    """
    clean = [_whole_lines([replace(line, text=_clean(line.text)) for line in page]) for page in pages]
    body = _usual_size(clean)
    spacing = _line_spacing(clean)
    kept = without_running_lines(clean, body * _LARGER, spacing.get(body, 1.2 * body))
    known = _vocabulary(kept)
    blocks = [(block, _text(block, known)) for block in _Paragraphs(body, spacing).of(kept)]
    levels = _heading_levels([block.size for block, text in blocks if _is_heading(block, text, body)])
    parts: list[str] = []
    headings: list[Heading] = []
    length = 0
    for block, text in blocks:
        separator = "" if not parts else "\n" if block.closely else "\n\n"
        start, length = length + len(separator), length + len(separator) + len(text)
        parts += [separator, text]
        if _is_heading(block, text, body):
            headings.append(Heading(levels[block.size], start, length))
    return Document(source_id, "".join(parts), tuple(headings))


def _clean(text: str) -> str:
    return _with_spacing_accents(text).translate(_LIGATURES).strip()


def _with_spacing_accents(text: str) -> str:
    """Accents that are printed by themselves, as TeX prints an opening quote, back in their place.

    PDFium reports such a glyph as a no-break space, and its accent as a combining mark after some later blank.
    """
    accents = [match[0][-1] for match in _LONE_ACCENT.finditer(text)]
    if not accents:
        return text
    text = _LONE_ACCENT.sub(lambda match: match[0][:-1], text)
    for accent in accents:
        text = text.replace("\xa0", _SPACING_ACCENTS.get(accent, ""), 1)
    return text


def _whole_lines(page: Sequence[Line]) -> list[Line]:
    """A page's lines, with those put together again that PDFium broke at a raised or lowered character."""
    whole: list[Line] = []
    for line in page:
        joined = _beside(whole[-1], line) if whole and line.text else None
        if joined is not None:
            whole[-1] = joined
        elif line.text:
            whole.append(line)
    return whole


def _beside(last: Line, line: Line) -> Line | None:
    """Both as one line if ``line`` stands to the right of ``last``; footnote marks as ``[1]``."""
    distance = line.left - last.right
    larger = max(last, line, key=lambda part: part.size)
    if not -1 < distance < 2 * larger.size:
        return None
    if abs(line.baseline - last.baseline) < 0.3 * last.size:
        text = last.text + (" " if distance > 0.15 * last.size else "") + line.text
    elif _is_mark(last, line):
        text = f"[{last.text}] {line.text}"
    elif _is_mark(line, last):
        text = f"{last.text}[{line.text}]"
    else:
        return None
    return replace(larger, text=text, left=last.left, right=line.right, fixed=last.fixed and line.fixed)


def _is_mark(mark: Line, line: Line) -> bool:
    is_raised = 0 < mark.baseline - line.baseline < 0.6 * line.size
    return mark.text.isdecimal() and mark.size < 0.85 * line.size and is_raised


def _usual_size(pages: Iterable[Iterable[Line]]) -> float:
    """The size in which most characters are set."""
    counts: Counter[float] = Counter()
    for line in (line for page in pages for line in page):
        counts[line.size] += len(line.text)
    return counts.most_common(1)[0][0]


def _line_spacing(pages: Iterable[Sequence[Line]]) -> dict[float, float]:
    """The usual distance of baselines for each font size."""
    gaps: dict[float, list[float]] = {}
    for page in pages:
        for above, below in pairwise(page):
            gap = above.baseline - below.baseline
            if above.size == below.size and 0 < gap < 2.5 * above.size:
                gaps.setdefault(above.size, []).append(gap)
    # Below the median, for in a list or a short text many of the gaps part paragraphs.
    return {size: sorted(found)[len(found) // 3] for size, found in gaps.items()}


def _vocabulary(pages: Iterable[Iterable[Line]]) -> frozenset[str]:
    """The words that stand whole on a line, and the parts of those with hyphens."""
    known: set[str] = set()
    for page in pages:
        in_two = False
        for line in page:
            words = _WORDS.findall(line.text)[1 if in_two else 0 :]
            in_two = line.text.endswith("-")
            for word in words[:-1] if in_two else words:
                known.update((word.casefold(), *word.casefold().split("-")))
    return frozenset(known)


@dataclass(frozen=True)
class _Paragraphs:
    """Decides which lines belong together, from where they stand on the page."""

    body: float
    spacing: dict[float, float]

    def of(self, pages: Iterable[Sequence[Line]]) -> Iterator[_Block]:
        """The blocks of all pages. Footnotes follow the paragraph that their page ends in."""
        current: list[Line] = []
        closely = False
        waiting: list[_Block] = []
        for page in pages:
            main, notes = self._without_footnotes(page)
            margins = _right_margins(page, self.body)
            for number, line in enumerate(main):
                if not current:
                    current = [line]
                elif number == 0:
                    if not _runs_on(current[-1], line):
                        yield _Block(tuple(current), closely)
                        yield from waiting
                        current, closely, waiting = [line], False, []
                    else:
                        current.append(line)
                elif self._continues(current, line, margins):
                    current.append(line)
                else:
                    yield _Block(tuple(current), closely)
                    closely = not waiting and self._follows_closely(current, line)
                    yield from waiting
                    current, waiting = [line], []
            if notes:
                waiting += self.of([notes])
        if current:
            yield _Block(tuple(current), closely)
        yield from waiting

    def _without_footnotes(self, page: Sequence[Line]) -> tuple[Sequence[Line], Sequence[Line]]:
        end = len(page)
        while end and page[end - 1].size <= self.body * _SMALLER:
            end -= 1
        return (page[:end], page[end:]) if end else (page, [])

    def _gap(self, above: Line, below: Line) -> float:
        """Distance of two baselines over the usual one; not positive at the head of a new column."""
        return (above.baseline - below.baseline) / self.spacing.get(below.size, 1.2 * below.size)

    def _continues(self, block: Sequence[Line], line: Line, margins: dict[Line, float]) -> bool:
        last = block[-1]
        gap = self._gap(last, line)
        if abs(last.size - line.size) > 0.06 * line.size:
            return False
        if gap <= 0:
            return _runs_on(last, line)
        if gap > _WIDE_GAP:
            return False
        if line.size > self.body * _LARGER:
            return not _SECTION_NUMBER.match(line.text)
        if _BULLET.match(line.text) or _ends_contents_entry(last, line):
            return False
        if last.fixed and line.fixed:
            return all(above.fixed for above in block)
        has_room = _has_room(last, line, margins[last])
        if _NUMBERED.match(line.text) and (has_room or last.text[-1:] in ".:;!?" or _NUMBERED.match(block[0].text)):
            return False
        return not has_room and self._is_aligned(block, line)

    def _is_aligned(self, block: Sequence[Line], line: Line) -> bool:
        shift = (line.left - block[-1].left) / line.size
        is_item = bool(_BULLET.match(block[0].text) or _NUMBERED.match(block[0].text))
        if shift > _INDENT:  # only below the first line of an item or of a hanging paragraph
            return len(block) == 1
        if shift < -_INDENT:  # only below an indented first line
            return len(block) == 1 and not is_item
        return True

    def _follows_closely(self, block: Sequence[Line], line: Line) -> bool:
        last = block[-1]
        if not 0 < self._gap(last, line) <= _WIDE_GAP or last.size != line.size or line.size > self.body * _LARGER:
            return False
        is_item = bool(_BULLET.match(line.text) or _NUMBERED.match(line.text))
        return is_item or len(block) == 1


def _right_margins(page: Sequence[Line], body: float) -> dict[Line, float]:
    """For each line, how far lines of its column reach."""
    text = [line for line in page if line.size <= body * _LARGER]
    margins = {}
    for line in page:
        column = [other for other in text if abs(other.left - line.left) < _COLUMN]
        if len(column) < 3:  # a line that stands alone is measured by those above and below it
            column = [other for other in text if other.left < line.right and line.left < other.right]
        rights = sorted(other.right for other in column)
        # The few that jut out are overfull, not a measure.
        margins[line] = rights[math.ceil(0.95 * (len(rights) - 1))] if rights else line.right
    return margins


def _ends_contents_entry(last: Line, line: Line) -> bool:
    """Whether ``last`` is the end of an entry of a table of contents: leaders, or a page before the next number."""
    if _LEADERS.search(last.text):
        return True
    return last.text[-1:].isdigit() and _SUBSECTION_NUMBER.match(line.text) is not None


def _has_room(last: Line, line: Line, margin: float) -> bool:
    """Whether the first word of ``line`` would have fitted on ``last``: then the line end was meant."""
    if _HYPHEN.search(last.text):
        return False
    character = (line.right - line.left) / max(1, len(line.text))
    first_word = len(line.text.split(maxsplit=1)[0]) if line.text else 0
    return margin - last.right > (first_word + 1.5) * character


def _runs_on(last: Line, line: Line) -> bool:
    """Whether a paragraph goes on in the next column or on the next page."""
    if last.size != line.size or last.fixed != line.fixed or _BULLET.match(line.text) or _NUMBERED.match(line.text):
        return False
    if _UNSPACED.match(line.text) and _UNSPACED.match(last.text[-1]):
        return last.text[-1] not in "。！？：」』"
    return last.text[-1] not in ".!?:;" and (line.text[0].islower() or last.text[-1] in "-,")


def _text(block: _Block, known: frozenset[str]) -> str:
    if all(line.fixed for line in block.lines) and len(block.lines) > 1:
        return _verbatim(block.lines)
    text = ""
    for line in block.lines:
        words = _LEADERS.sub("", line.text)
        text = _joined(text, words, known) if text else words
    return _BULLET.sub("- ", text, count=1)


def _verbatim(lines: Sequence[Line]) -> str:
    """Lines of a listing with their indentation."""
    width = median((line.right - line.left) / max(1, len(line.text)) for line in lines) or 1.0
    margin = min(line.left for line in lines)
    return "\n".join(" " * round((line.left - margin) / width) + line.text for line in lines)


def _joined(text: str, following: str, known: frozenset[str]) -> str:
    if _BROKEN_URL.search(text) and _goes_on_as_url(text, following):
        return text + following
    if text.endswith("/-") and following[:1].islower():
        return text[:-1] + following
    if following[:1].islower() and (part := _FIRST_PART.search(text)):
        rest = _WORDS.match(following)
        is_compound = rest is not None and _is_compound(part[0][:-1].casefold(), rest[0].casefold(), known)
        return text + following if is_compound else text[:-1] + following
    if _HYPHEN.search(text) or (_UNSPACED.match(text[-1]) and _UNSPACED.match(following)):
        return text + following
    return f"{text} {following}"


def _is_compound(first: str, second: str, known: frozenset[str]) -> bool:
    """Whether the hyphen belongs to the word, going by how the document writes it and its parts elsewhere."""
    if first + second in known:
        return False
    return f"{first}-{second}" in known or (len(first) > 2 and first in known and second in known)


def _goes_on_as_url(text: str, following: str) -> bool:
    first = following.split(maxsplit=1)[0] if following else ""
    return not text.endswith(".") or (first[:1].islower() and ("/" in first or "." in first[:-1] or len(first) <= 4))


def _is_heading(block: _Block, text: str, body: float) -> bool:
    return block.size > body * _LARGER and len(text) <= _LONGEST_HEADING and any(map(str.isalpha, text))


def _heading_levels(sizes: Iterable[float]) -> dict[float, int]:
    """Level of each font size, 1 for the largest; sizes that differ by less than 3 % share a level."""
    levels: dict[float, int] = {}
    level, largest = 0, math.inf
    for size in sorted(set(sizes), reverse=True):
        if size < 0.97 * largest:
            level, largest = level + 1, size
        levels[size] = min(level, 6)
    return levels
