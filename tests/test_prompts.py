from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextgrid.core.errors import ConfigError
from contextgrid.generate.prompts import DEFAULT_PROMPT, check_prompt, fill_prompt


def test_the_default_prompt_opens_as_documented() -> None:
    assert fill_prompt(DEFAULT_PROMPT, "passages", "why?")[:120] == (
        "Answer the question using only the passages below.\n"
        "Cite the passages you used by their number, like [1].\n"
        "If the passages"
    )
    check_prompt(DEFAULT_PROMPT, "default")


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("Answer {question}", r"prompts/short\.txt: the prompt has no \{context\}"),
        ("Use {context}", r"prompts/short\.txt: the prompt has no \{question\}"),
        ("", r"no \{context\}"),
        ("{ context } {question}", r"no \{context\} \(found '\{ context \}'\)"),
        ("{context.text} {question}", r"no \{context\} \(found '\{context\.text\}'\)"),
        ("{Context} {question}", r"no \{context\} \(found '\{Context\}'\)"),
    ],
)
def test_a_missing_placeholder_is_an_error_that_names_the_file(template: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_prompt(template, "prompts/short.txt")


def test_other_braces_stay_as_they_are() -> None:
    template = 'Reply as {"answer": "...", "n": {}}. {context.__class__} {0} {{x}} {context}|{question}|{{question}}'
    check_prompt(template, "json")
    assert fill_prompt(template, "C", "Q") == (
        'Reply as {"answer": "...", "n": {}}. {context.__class__} {0} {{x}} C|Q|{Q}'
    )


def test_placeholders_in_a_passage_or_question_are_text() -> None:
    assert fill_prompt("{context} / {question}", "say {question}", "what is {context}?") == (
        "say {question} / what is {context}?"
    )


@given(st.text(), st.text())
def test_what_is_inserted_arrives_unchanged(context: str, question: str) -> None:
    assert fill_prompt("<{context}|{question}|{context}>", context, question) == f"<{context}|{question}|{context}>"
