"""The ``pdf`` parser: the running text of a PDF file, put together from the lines of its pages."""

from __future__ import annotations

import ctypes
import math
import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from contextgrid.core.documents import Document, MediaType, Source
from contextgrid.core.errors import CorpusError
from contextgrid.parse._layout import Line, document
from contextgrid.parse.base import PARSERS

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

# PDFium keeps global state and may not be entered by two threads at once.
_PDFIUM = threading.Lock()
_HYPHEN = 0x02  # what PDFium reports for a hyphen at the end of a line, in place of the line end
_LINE_ENDS = frozenset({0x0A, 0x0D, _HYPHEN})
_FIXED_PITCH = 1  # bit of the PDF font flags
_AFTER_WORD = re.compile(r"[^\W\d_]{3}$|[^\w\s]$")
_SAMPLES = 9  # characters looked at to tell a line's font size


@PARSERS.register("pdf")
@dataclass(frozen=True)
class PdfParser:
    """Paragraphs joined from lines, without end-of-line hyphens, running headers, footers and page numbers.

    Headings are lines set larger than the body text; the largest size is level 1.
    """

    accepts: ClassVar[frozenset[MediaType]] = frozenset({MediaType.PDF})

    def parse(self, source: Source) -> Document:
        """The text and headings of all pages.

        Raises:
            CorpusError: for a damaged or encrypted file, and for one without any text (a scan).
        """
        import pypdfium2

        with _PDFIUM:
            try:
                pages = _pages(source.content)
            except pypdfium2.PdfiumError as error:
                raise CorpusError(f"{source.id!r} {_cause(error)}") from None
        if not any(pages):
            raise CorpusError(f"{source.id!r} holds no text, only images; run text recognition (OCR) on it first")
        return document(source.id, pages)


def _cause(error: Exception) -> str:
    if "password" in str(error).lower():
        return "is encrypted; save it without a password"
    return f"is not a readable PDF file ({error}); export it again"


def _pages(content: bytes) -> list[list[Line]]:
    import pypdfium2

    pdf = pypdfium2.PdfDocument(content)
    try:
        return [list(_lines(pdf, number)) for number in range(len(pdf))]
    finally:
        pdf.close()


def _lines(pdf: PdfDocument, number: int) -> Iterator[Line]:
    import pypdfium2.raw as pdfium

    page = pdf[number]
    text_page = page.get_textpage()
    try:
        codes = [pdfium.FPDFText_GetUnicode(text_page, index) for index in range(text_page.count_chars())]
        start = 0
        for end in [index for index, code in enumerate(codes) if code in _LINE_ENDS] + [len(codes)]:
            line = _line(text_page, codes, start, end)
            if line is not None:
                yield line
            start = end + 1
    finally:
        text_page.close()
        page.close()


def _line(text_page: Any, codes: list[int], start: int, end: int) -> Line | None:
    visible = [index for index in range(start, end) if codes[index] > 0x20 and codes[index] != 0xA0]
    if not visible:
        return None
    samples = visible[:: max(1, len(visible) // _SAMPLES)]
    sizes, fixed = zip(*(_font(text_page, index) for index in samples), strict=True)
    size = Counter(sizes).most_common(1)[0][0]
    left, _ = _origin(text_page, visible[0])
    _, baseline = _origin(text_page, samples[sizes.index(size)])
    text = _text(_with_brackets(text_page, codes, range(start, end), size, baseline))
    if end < len(codes) and codes[end] == _HYPHEN:
        text += "-"
    # Of accents that are printed by themselves PDFium reports another place than theirs.
    last = next((index for index in reversed(visible) if not 0x300 <= codes[index] <= 0x36F), visible[-1])
    return Line(text, left, _right(text_page, last), baseline, size, all(fixed))


def _text(codes: Sequence[int]) -> str:
    characters = "".join(chr(code) for code in codes if code >= 0x20 and code not in (0xFFFE, 0xFFFF))
    # PDFium reports characters beyond the basic plane as two UTF-16 units.
    return characters.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _with_brackets(text_page: Any, codes: Sequence[int], indices: range, size: float, baseline: float) -> list[int]:
    """The codes of a line, with its footnote numbers (small raised digits after a word) as ``[1]``."""
    written: list[int] = []
    is_note = False
    for index in indices:
        is_digit = 0x30 <= codes[index] <= 0x39
        if is_note and not is_digit:
            written.append(ord("]"))
            is_note = False
        if is_digit and not is_note and _takes_note(written) and _is_raised(text_page, index, size, baseline):
            written.append(ord("["))
            is_note = True
        written.append(codes[index])
    return [*written, ord("]")] if is_note else written


def _takes_note(before: Sequence[int]) -> bool:
    # After a letter or two it is an exponent: m², km³.
    return not before or _AFTER_WORD.search("".join(map(chr, before[-3:]))) is not None


def _is_raised(text_page: Any, index: int, size: float, baseline: float) -> bool:
    return _font(text_page, index)[0] < 0.85 * size and _origin(text_page, index)[1] > baseline + 0.15 * size


def _font(text_page: Any, index: int) -> tuple[float, bool]:
    """Height in points to the nearest tenth, and whether the font is monospaced."""
    import pypdfium2.raw as pdfium

    matrix = pdfium.FS_MATRIX()
    pdfium.FPDFText_GetMatrix(text_page, index, matrix)
    scale = math.hypot(matrix.c, matrix.d) or 1.0
    name, flags = ctypes.create_string_buffer(128), ctypes.c_int()
    pdfium.FPDFText_GetFontInfo(text_page, index, name, len(name), flags)
    # The standard fonts need no descriptor and may have no flags.
    fixed = (flags.value > 0 and bool(flags.value & _FIXED_PITCH)) or b"Courier" in name.value
    return round(pdfium.FPDFText_GetFontSize(text_page, index) * scale, 1), fixed


def _origin(text_page: Any, index: int) -> tuple[float, float]:
    import pypdfium2.raw as pdfium

    x, y = ctypes.c_double(), ctypes.c_double()
    pdfium.FPDFText_GetCharOrigin(text_page, index, x, y)
    return _upright(text_page, index, x.value, y.value)


def _right(text_page: Any, index: int) -> float:
    import pypdfium2.raw as pdfium

    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    pdfium.FPDFText_GetCharBox(text_page, index, left, right, bottom, top)
    corners = [(x.value, y.value) for x in (left, right) for y in (bottom, top)]
    return max(_upright(text_page, index, x, y)[0] for x, y in corners)


def _upright(text_page: Any, index: int, x: float, y: float) -> tuple[float, float]:
    """Coordinates turned so that the character's baseline runs left to right."""
    import pypdfium2.raw as pdfium

    angle = pdfium.FPDFText_GetCharAngle(text_page, index)
    if angle <= 0:
        return x, y
    cosine, sine = math.cos(angle), math.sin(angle)
    return x * cosine + y * sine, y * cosine - x * sine
