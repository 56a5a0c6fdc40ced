"""Which passages an answer cites."""

from __future__ import annotations

import re
import unicodedata

# A number that no context can hold: stands for numbers too long to be one, and fits a 32-bit column.
UNREADABLE = 2**31 - 1
# A longer range is read as its two ends: nobody cites that many passages, and it must not fill the memory.
_LONGEST_RANGE = 50

_DASH = r"[-‐‑‒–—−~〜～]"
# "[source 1]", "[see passages 1-3]", "[Source: #2]"; a section or page is a place in a document, not a passage.
_LABEL = (
    r"(?:(?i:(?:(?:see|cf\.|siehe|vgl\.|voir|ver)\s+)?(?:passages?|sources?|documents?|docs?|contexts?|excerpts?|extracts?"
    r"|snippets?|citations?|references?|refs?\.?|quellen?|dokumente?|textstellen?|extraits?|fuentes?|pasajes?|documentos?"
    r"|fragmentos?)\s*:?\s*(?:(?:no|nr)\.?\s*|\#)?)"
    r"|(?:段落|来源|來源|文档|文檔|出典|資料)\s*)"
)
_ITEM = rf"(?:{_LABEL})?\^?\d+(?:\s*{_DASH}\s*(?:{_LABEL})?\^?\d+)?"
_BETWEEN = r"\s*(?:[,;、，；&]|(?<!\w)(?:and|und|et|y)\b)\s*"
_MARKER = re.compile(
    rf"""
    (?P<code> ```.*?(?:```|\Z) | `[^`\n]*` )
    | [\[［【〔] \s* (?P<inside> {_ITEM}(?:{_BETWEEN}{_ITEM})* ) \s*
      (?:†[^\]］】〕\n]{{0,80}})? [\]］】〕]                                                # 【1†source】
      (?P<link> \((?=[^()\s]*[/#:.])[^()\s]+(?:\s"[^"\n]*")?\) | :\s*<?[a-z]+:// )?    # [2](address), [2]: address
    """,
    re.VERBOSE | re.DOTALL,
)
# What stands before the bracket of a subscript: a lone lower-case letter, or a name with an underscore in it.
_VARIABLE = re.compile(r"(?:(?<!\w)[a-z]|[^\W_]_+[^\W_]+)\Z")
_RANGE = re.compile(rf"(\d+)(?:\s*{_DASH}\s*(?:{_LABEL})?\^?(\d+))?")


def find_citations(text: str) -> tuple[int, ...]:
    """Passage numbers cited in ``text``, in order of first appearance, without repetitions.

    Read as citations: ``[1]``, ``[1, 2]``, ``[1][2]``, ``[1-3]``, ``[^1]``, ``【1】``, ``【1†source】``, the same with
    full-width digits, and with a word for a passage before a number (``[source 1, source 2]``). Not read: code
    between backticks, subscripts (``x[1]``, ``my_list[1]``), and numbered Markdown links (``[2](https://...)``),
    which come from a passage's own markup. Numbers that no passage has, such as ``[0]`` or ``[99]``, are kept, so
    that they count as wrong; a number of more than nine digits is reported as ``UNREADABLE``.
    """
    found: dict[int, None] = {}
    for marker in _MARKER.finditer(text):
        if _cites(marker):
            for first, last in _RANGE.findall(marker["inside"]):
                found.update(dict.fromkeys(_numbers(first, last)))
    return tuple(found)


def without_citations(text: str) -> str:
    """``text`` with its citation markers replaced by spaces; links, code and subscripts stay."""
    return _MARKER.sub(lambda marker: " " if _cites(marker) else marker[0], text)


def _cites(marker: re.Match[str]) -> bool:
    if marker["inside"] is None or marker["link"]:
        return False
    before = marker.string[max(0, marker.start() - 64) : marker.start()]
    return not _VARIABLE.search(before)


def _numbers(first: str, last: str) -> list[int]:
    start = _number(first)
    if not last:
        return [start]
    end = _number(last)
    return list(range(start, end + 1)) if 0 <= end - start < _LONGEST_RANGE else [start, end]


def _number(digits: str) -> int:
    # NFKC is enough for full-width digits; int() reads the decimal digits of every script itself.
    digits = unicodedata.normalize("NFKC", digits).lstrip("0") or "0"
    return int(digits) if len(digits) <= 9 else UNREADABLE
