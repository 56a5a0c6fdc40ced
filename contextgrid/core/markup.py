"""Text from documents, questions and ids shown as text, wherever a report is rendered."""

from __future__ import annotations

import html
import re

_MARKS = re.compile(r"[\\`*_{}\[\]()#!|~$]|:(?=//)|(?<=www)\.")


def as_text(value: object) -> str:
    """Any value on one line, so that HTML, Markdown and links in it are shown and not rendered."""
    return html.escape(_MARKS.sub(r"\\\g<0>", " ".join(str(value).split())), quote=False)
