"""The rubric judges: prompts, and reading what models reply."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextgrid.core.errors import ConfigError
from contextgrid.evalset.llm import RecordingLLM
from contextgrid.generate.rubric import (
    EVAL_USER_TEMPLATE,
    GROUNDEDNESS_SYSTEM,
    RELEVANCE_SYSTEM,
    EvalResult,
    Settings,
    evaluate_groundedness,
    evaluate_relevance,
)


def test_the_user_template_is_as_printed() -> None:
    assert EVAL_USER_TEMPLATE == "###Question\n{question}\n\n###Context\n{context}\n\n###Answer\n{answer}\n"


@pytest.mark.parametrize("system", [GROUNDEDNESS_SYSTEM, RELEVANCE_SYSTEM])
def test_the_system_prompts_name_the_headings_the_scale_and_the_form_of_the_reply(system: str) -> None:
    for part in (
        "###Question",
        "###Context",
        "###Answer",
        "from 1 (",
        "to 5 (",
        "Score: <number>\nJustification: <text>",
    ):
        assert part in system


def test_a_result_is_parsed_when_it_is_made() -> None:
    result = EvalResult("Groundedness", "Score: 4\nJustification: All but one claim is supported.")
    assert (result.score, result.justification) == (4, "All but one claim is supported.")
    assert EvalResult(dimension="Relevance", raw_response="").score is None


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ("**Score:** 4", 4),
        ("**Score**: **5**", 5),
        ("Score: 4/5", 4),
        ("Score: 4 out of 5", 4),
        ("score - 4", 4),
        ("Score – 3", 3),
        ("SCORE : 2", 2),
        ("Score (1-5): 3", 3),
        ("Score: [3]", 3),
        ("Score: 4.0", 4),
        ("1. **Score**: 4\n2. **Justification**: fine", 4),
        ("- Score: 4", 4),
        ("## Score\n\n**4**", 4),
        ("Score: <number>\nScore: 3", 3),
        ("I would say this.\nScore: 1", 1),
        ("Score: 0", None),
        ("Score: 6", None),
        ("Score: -1", None),
        ("Score: 4.5", None),
        ("Score: 8/10", None),
        ("Score: 4/10", None),
        ("Score: four", None),
        ("Score: " + "9" * 5000, None),
        ("4", None),
        ("The answer scores 4 points.", None),
    ],
)
def test_scores_are_read_as_models_write_them(reply: str, score: int | None) -> None:
    result = EvalResult("Relevance", reply)
    assert result.score == score
    assert result.raw_response == reply


@pytest.mark.parametrize(
    ("reply", "justification"),
    [
        ("Score: 4\nJustification: One.\nTwo.\n\nThree.", "One.\nTwo.\n\nThree."),
        ("**Score:** 4\n\n**Justification:** One.\nTwo.", "One.\nTwo."),
        ("Justification: One.\nTwo.\nScore: 4", "One.\nTwo."),
        ("Score: 4\n\nJustification:\n\n- One.\n- Two.", "- One.\n- Two."),
        ("Score: 4", ""),
    ],
)
def test_a_justification_may_have_several_lines(reply: str, justification: str) -> None:
    assert EvalResult("Relevance", reply).justification == justification


@given(st.text())
def test_any_reply_can_be_read(reply: str) -> None:
    assert EvalResult("Relevance", reply).score in (None, 1, 2, 3, 4, 5)


def test_degenerate_replies_take_no_time() -> None:
    start = time.perf_counter()
    for reply in ("Score" + " " * 100_000, "*" * 100_000, "(" * 50_000 + "score" + "_" * 50_000, "1" * 100_000):
        EvalResult("Relevance", reply)
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize(
    ("evaluate", "system", "dimension"),
    [
        (evaluate_groundedness, GROUNDEDNESS_SYSTEM, "Groundedness"),
        (evaluate_relevance, RELEVANCE_SYSTEM, "Relevance"),
    ],
)
def test_a_judge_sends_its_system_prompt_and_the_filled_template(evaluate, system, dimension) -> None:  # type: ignore[no-untyped-def]
    llm = RecordingLLM(replies=["Score: 5\nJustification: Yes."])
    result = evaluate("Why {answer}?", "Because {question}.", "So {context}.", Settings(llm))
    assert result == EvalResult(dimension, "Score: 5\nJustification: Yes.", 5, "Yes.")
    (prompt,) = llm.prompts
    assert prompt.startswith(system)
    assert prompt.endswith(
        "###Question\nWhy {answer}?\n\n###Context\nBecause {question}.\n\n###Answer\nSo {context}.\n"
    )


def test_a_model_that_takes_system_prompts_gets_one() -> None:
    class Model:
        name = "m"
        seen: tuple[str | None, str] = (None, "")

        def complete(self, prompt: str, *, max_tokens: int = 512, system: str | None = None) -> str:
            self.seen = (system, prompt)
            return "Score: 2"

    model = Model()
    assert evaluate_relevance("q", "c", "a", Settings(model)).score == 2
    assert model.seen == (RELEVANCE_SYSTEM, EVAL_USER_TEMPLATE.format(question="q", context="c", answer="a"))


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_tokens must be at least 1"):
        Settings(RecordingLLM(), max_tokens=0)
