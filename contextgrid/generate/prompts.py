"""Prompt templates: the built-in one, what a template must hold, and how it is filled."""

from __future__ import annotations

import re

from contextgrid.core.errors import ConfigError

DEFAULT_PROMPT = """\
Answer the question using only the passages below.
Cite the passages you used by their number, like [1].
If the passages do not contain the answer, say plainly that they do not contain it; do not guess.

Passages:

{context}

Question: {question}
Answer:"""

PLACEHOLDERS = ("context", "question")
_PLACEHOLDER = re.compile(r"\{(context|question)\}")


def check_prompt(text: str, origin: str) -> None:
    """Make sure that a template holds both placeholders.

    Args:
        text: the template.
        origin: what messages call it: its file or its name in the experiment.

    Raises:
        ConfigError: if ``{context}`` or ``{question}`` is missing.
    """
    present = set(_PLACEHOLDER.findall(text))
    for name in PLACEHOLDERS:
        if name not in present:
            where = "the passages go" if name == "context" else "the question goes"
            similar = re.search(rf"\{{\s*\W*{name}\b[^{{}}]*\}}", text, re.IGNORECASE)
            instead = f" (found {similar[0]!r})" if similar else ""
            raise ConfigError(f"{origin}: the prompt has no {{{name}}}{instead}; write {{{name}}} where {where}")


def fill_prompt(template: str, context: str, question: str) -> str:
    """The template with ``{context}`` and ``{question}`` replaced, both in one pass.

    Nothing else is a placeholder: other braces stay as they are, and so do braces in what is inserted.
    """
    values = {"context": context, "question": question}
    return _PLACEHOLDER.sub(lambda found: values[found[1]], template)
