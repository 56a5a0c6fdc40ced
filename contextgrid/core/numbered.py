"""How numbered passages are written into a prompt and found in it again; the one owner of that layout.

A passage is a header line ``[3] refunds.md`` and the passage's text below it. Lines of a passage that could
be taken for such a header are shown with a backslash in front, so that a number at the start of a line is
always a real one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# All that a reader may see as the end of a line, not only \n.
_BREAKS = "\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
_BLANK = rf"(?:(?![{_BREAKS}])[\s\u00ad\u200b-\u200f\u2060\ufeff])*"
_BRACKET = re.compile(r"[\[［【〔]")
_NUMBER = r"[\[［【〔]\s*\^?\s*\d+\s*[\]］】〕]"
_LIKE_HEADER = re.compile(rf"((?:\A|(?<=[{_BREAKS}])){_BLANK})(\\*)(?={_NUMBER})")
_ESCAPED = re.compile(rf"((?:\A|(?<=[{_BREAKS}])){_BLANK})\\(\\*)(?={_NUMBER})")
_UNPRINTABLE = re.compile(rf"[{_BREAKS}\x00-\x1f\x7f]+")
_HEADER = re.compile(r"^\[(\d{1,6})\] (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class NumberedPassage:
    """A passage found in a prompt: its number, its source and the characters ``start`` to ``end`` of its text."""

    number: int
    source_id: str
    header_start: int
    start: int
    end: int


def header(number: int, source_id: str) -> str:
    """The header line of a passage; line breaks in the id are shown as spaces."""
    return f"[{number}] {_UNPRINTABLE.sub(' ', source_id)}"


def escape(text: str) -> str:
    """``text`` with a backslash before every line start that looks like a header; ``unescape`` takes it away."""
    return _LIKE_HEADER.sub(r"\1\\\2", text) if _BRACKET.search(text) else text


def unescape(text: str) -> str:
    """The text that ``escape`` was given."""
    return _ESCAPED.sub(r"\1\2", text)


def find_passages(prompt: str) -> list[NumberedPassage]:
    """The numbered passages in a prompt, in order; none if it holds no header line ``[1] ...``.

    Of several runs that count up from 1 (an instruction may start a line with ``[1]`` as well) the longest is
    taken, and the last among equals. The last passage reaches to the end of the prompt: where a template goes
    on after the passages, the caller has to decide what still belongs to them.
    """
    best: list[re.Match[str]] = []
    run: list[re.Match[str]] = []
    for found in _HEADER.finditer(prompt):
        number = int(found[1])
        if run and number == len(run) + 1:
            run.append(found)
        else:
            run = [found] if number == 1 else []
        if len(run) >= len(best):
            best = run
    starts = [found.start() for found in best[1:]]
    return [
        NumberedPassage(int(found[1]), found[2], found.start(), min(found.end() + 1, len(prompt)), end)
        for found, end in zip(best, [*starts, len(prompt)], strict=False)
    ]
