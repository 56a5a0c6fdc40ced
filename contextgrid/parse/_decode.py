"""From bytes to text with LF line ends: the one rule for encodings."""

from __future__ import annotations

import codecs
import re

from contextgrid.core.documents import Source
from contextgrid.core.errors import CorpusError

_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_DECLARED = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]+)|<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]+)""", re.I
)
# Web pages label supersets by the name of the subset; these are the ones the WHATWG Encoding Standard redirects.
_WEB_LABELS = {
    "iso8859-1": "cp1252",
    "ascii": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "iso8859-9": "cp1254",
    "utf-16": "utf-8",
    "utf-16-le": "utf-8",
    "utf-16-be": "utf-8",
}


def decode(source: Source) -> str:
    """The text of a source in UTF-8 (or UTF-16 with a byte order mark), without mark, with LF line ends.

    Raises:
        CorpusError: if the bytes are not in that encoding.
    """
    return _decode(source, _by_bom(source.content) or "utf-8")


def decode_web_page(source: Source) -> str:
    """As ``decode``, but the page itself may declare its encoding.

    Raises:
        CorpusError: if the bytes are not in the declared encoding.
    """
    return _decode(source, _by_bom(source.content) or _declared(source.content) or "utf-8")


def _by_bom(content: bytes) -> str | None:
    return next((encoding for bom, encoding in _BOMS if content.startswith(bom)), None)


def _declared(content: bytes) -> str | None:
    match = _DECLARED.search(content[:4096])
    if match is None:
        return None
    try:
        name = codecs.lookup((match[1] or match[2]).decode("ascii")).name
    except (LookupError, UnicodeDecodeError):
        return None
    return _WEB_LABELS.get(name, name)


def _decode(source: Source, encoding: str) -> str:
    try:
        text = source.content.decode(encoding)
    except UnicodeDecodeError as error:
        name = encoding.removesuffix("-sig").upper()
        raise CorpusError(
            f"{source.id!r} is not {name} text: bad byte at offset {error.start}; save it as UTF-8"
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")
