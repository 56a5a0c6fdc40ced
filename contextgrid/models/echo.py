"""Messages without what they repeat of the texts they are about: no prompt or document ends up in an error."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import accumulate
from urllib.parse import unquote

# A message longer than this is cut.
_MESSAGE = 2_000
# So many letters in a row are no coincidence; a shorter text counts as a whole, one below the second not at all.
_REPEATED, _SHORT = 16, 6
# A letter of a script without spaces says as much as several of others.
_WIDE, _FIRST_WIDE = 4, "\u2e80"
# What JSON, Python, HTML and URLs write for a character; backslashes double each time a text is quoted once more.
_ESCAPED = re.compile(
    r"(?P<pair>\\+u(?P<high>d[89ab][0-9a-f]{2})\\+u(?P<low>d[c-f][0-9a-f]{2}))"
    r"|\\+(?:(?-i:U)(?P<wide>00(?:0[0-9a-f]|10)[0-9a-f]{4})|u(?P<unicode>[0-9a-f]{4}))"
    r"|(?P<bytes>(?:\\+x[0-9a-f]{2})+)|\\+[nrtbf]|(?P<entity>&(?:\#x?[0-9a-f]+|[a-z]+);)|(?P<percent>(?:%[0-9a-f]{2})+)",
    re.IGNORECASE,
)


def without_texts(message: str, texts: Iterable[str]) -> str:
    """The beginning of ``message``, with everything from its first to its last repetition of ``texts`` left out.

    Letters and digits are compared alone: neither case nor line ends, punctuation or escapes hide a repetition.
    """
    message = message[:_MESSAGE]
    letters, places = _letters(message)
    known = [_folded(_ESCAPED.sub(_character, text)) for text in texts]
    repeated = [*_long(letters, "\n".join(known)), *_whole(letters, known)]
    if not repeated:
        return message
    start = places[min(first for first, _ in repeated)][0]
    end = places[max(last for _, last in repeated) - 1][1]
    return f"{message[:start]}(...){message[end:]}"


def _long(letters: str, known: str) -> Iterator[tuple[int, int]]:
    """Where the shortest runs begin and end that are long enough to be no coincidence and stand in a known text."""
    until = [0, *accumulate(map(_weight, letters))]
    last = 0
    for first in range(len(letters)):
        while last < len(letters) and until[last] - until[first] < _REPEATED:
            last += 1
        if until[last] - until[first] >= _REPEATED and letters[first:last] in known:
            yield first, last


def _whole(letters: str, known: Iterable[str]) -> Iterator[tuple[int, int]]:
    for text in known:
        if _SHORT <= sum(map(_weight, text)) < _REPEATED:
            yield from (found.span() for found in re.finditer(re.escape(text), letters))


def _letters(message: str) -> tuple[str, list[tuple[int, int]]]:
    """The letters and digits of a message, and which characters of it stand for each."""
    letters: list[str] = []
    places: list[tuple[int, int]] = []

    def add(text: str, start: int, end: int) -> None:
        found = _folded(text)
        letters.append(found)
        places.extend([(start, end)] * len(found))

    position = 0
    for escaped in _ESCAPED.finditer(message):
        for at in range(position, escaped.start()):
            add(message[at], at, at + 1)
        add(_character(escaped), *escaped.span())
        position = escaped.end()
    for at in range(position, len(message)):
        add(message[at], at, at + 1)
    return "".join(letters), places


def _folded(text: str) -> str:
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKD", text).casefold()))


def _character(escaped: re.Match[str]) -> str:
    """What an escape stands for."""
    if escaped["pair"]:
        halves = bytes.fromhex(escaped["high"] + escaped["low"])
        return halves.decode("utf-16-be")
    if code := escaped["wide"] or escaped["unicode"]:
        return chr(int(code, 16))
    if escaped["bytes"]:
        written = bytes.fromhex(re.sub(r"\\+x", "", escaped["bytes"], flags=re.IGNORECASE))
        try:
            return written.decode()
        except UnicodeDecodeError:
            return written.decode("latin-1")
    if escaped["entity"]:
        return html.unescape(escaped["entity"])
    return unquote(escaped["percent"]) if escaped["percent"] else "\n"


def _weight(letter: str) -> int:
    return _WIDE if letter >= _FIRST_WIDE else 1
