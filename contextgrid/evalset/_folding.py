"""The form in which quotes and documents are compared when they do not agree character for character."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SPACE, _QUOTE, _DASH = " ", "'", "-"
_QUOTES = "'\"`´‘’‚‛“”„‟′″‵‶ʼ«»‹›「」『』＇＂"
_DASHES = "-‐‑‒–—―−﹘﹣－•◦▪‣·∗*"  # with the marks of list items
_INVISIBLE = "\u00ad\u200b\u200c\u200d\u2060\ufeff\ufffe"
# A hyphen within a word, with the line end that may follow it: "docu-\nmentation", "error-prone", "32-bit".
_HYPHEN = r"[-‐‑\u00ad](?:[^\S\n]*\n\s*)?"
_INNER_HYPHEN = re.compile(rf"(?<=[^\W\d_]){_HYPHEN}(?=[^\W_])|(?<=\d){_HYPHEN}(?=[^\W\d_])")
_UNSPACED = ((0x3000, 0x30FF), (0x3400, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))


@dataclass(frozen=True)
class Folded:
    """A text in comparable form, and for each of its characters the offset it came from."""

    text: str
    origins: NDArray[np.int64]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The characters of the original text that became ``start`` to ``end`` of the folded one."""
        return int(self.origins[start]), int(self.origins[end - 1]) + 1


def fold(text: str) -> Folded:
    """Compatibility decomposition (NFKD), case folded, with white space, quotation marks and dashes made alike.

    Runs of white space, of quotation marks and of dashes become one. Hyphens within words, with a line end after them,
    and invisible characters go, and so does white space between characters of scripts written without it.
    """
    import numpy as np

    origins = np.arange(len(text), dtype=np.int64)
    hyphens = [match.span() for match in _INNER_HYPHEN.finditer(text)]
    if hyphens:
        gone = np.concatenate([np.arange(start, end) for start, end in hyphens])
        origins = np.delete(origins, gone)
        text = _INNER_HYPHEN.sub("", text)
    table = {ord(character): _folded(character) for character in set(text)}
    odd = {code: len(folded) for code, folded in table.items() if len(folded) != 1}
    if odd:
        codes = _codes(text)
        lengths = np.ones(int(codes.max()) + 1, dtype=np.int64)
        lengths[list(odd)] = list(odd.values())
        origins = np.repeat(origins, lengths[codes])
    return _collapsed(_codes(text.translate(table)), origins)


def _folded(character: str) -> str:
    if character.isspace():
        return _SPACE
    if character in _INVISIBLE:
        return ""
    if character in _QUOTES:
        return _QUOTE
    if character in _DASHES:
        return _DASH
    return unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())


def _codes(text: str) -> NDArray[np.uint32]:
    import numpy as np

    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def _collapsed(codes: NDArray[np.uint32], origins: NDArray[np.int64]) -> Folded:
    import numpy as np

    repeated = np.zeros(len(codes), dtype=bool)
    if len(codes) > 1:
        alike = codes[1:] == codes[:-1]
        repeated[1:] = alike & np.isin(codes[1:], [ord(_SPACE), ord(_QUOTE), ord(_DASH)])
    codes, origins = codes[~repeated], origins[~repeated]
    if len(codes) > 2:
        unspaced = np.zeros(len(codes), dtype=bool)
        for low, high in _UNSPACED:
            unspaced |= (codes >= low) & (codes <= high)
        needless = np.zeros(len(codes), dtype=bool)
        needless[1:-1] = (codes[1:-1] == ord(_SPACE)) & unspaced[:-2] & unspaced[2:]
        codes, origins = codes[~needless], origins[~needless]
    return Folded(codes.tobytes().decode("utf-32-le", "surrogatepass"), origins)
