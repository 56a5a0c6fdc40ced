"""How values are shown wherever a report is rendered or printed: texts and ids as text, numbers with their noun."""

from __future__ import annotations

import html
import re

_MARKS = re.compile(r"[\\`*_{}\[\]()#!|~$]|:(?=//)|(?<=www)\.")


def as_text(value: object) -> str:
    """Any value on one line, so that HTML, Markdown and links in it are shown and not rendered."""
    return html.escape(_MARKS.sub(r"\\\g<0>", " ".join(str(value).split())), quote=False)


def for_terminal(value: object, *, lines: bool = False) -> str:
    """Any value as Rich markup for a terminal: brackets stay brackets, and control characters are shown as ``\\x1b``.

    Characters that reorder the text beside them are shown likewise.

    Args:
        lines: whether line ends and tabs stay what they are.
    """
    from rich.markup import escape

    return escape(visible(value, lines=lines))


def visible(value: object, *, lines: bool = False) -> str:
    """Any value with the characters that :func:`for_terminal` shows as ``\\x1b`` shown so; for XML as well.

    Args:
        lines: whether line ends and tabs stay what they are.
    """

    def shown(found: re.Match[str]) -> str:
        character = found[0]
        return character if lines and character in "\n\t" else character.encode("unicode_escape").decode("ascii")

    return _CONTROLS.sub(shown, str(value))


def counted(number: int, what: str) -> str:
    """``1 question``, ``2 questions``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


# C0 and C1 controls, half surrogate pairs, line and paragraph separators, marks that change the direction, and what is
# no character at all.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
