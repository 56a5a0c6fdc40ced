"""Support: sentences of an answer held against single places of its context."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextgrid.core.errors import ConfigError
from contextgrid.evalset.labels import load_labels
from contextgrid.generate.support import Support, support_score, support_scores

CONTEXT = [
    "Refunds are issued within thirty days. They go to the card that was charged. Ask the desk.",
    "The warranty lasts 24 months. It does not cover water damage.",
]


@pytest.mark.parametrize(
    "answer",
    [
        "Refunds are issued within thirty days [1].",
        "1. Refunds are issued within thirty days.\n2. The warranty lasts 24 months.",
        "REFUNDS are issued within thirty days.",
    ],
)
def test_what_the_context_says_is_fully_supported(answer: str) -> None:
    assert support_score(answer, CONTEXT) == 1.0


def test_nothing_supports_a_claim_without_context() -> None:
    assert support_score("Refunds take a week.", []) == 0.0
    assert support_score("Refunds take a week.", ["", "  \n"]) == 0.0


@pytest.mark.parametrize("answer", ["", "I don't know.", "Keine Angabe in den Dokumenten.", "It is.", "[1]"])
def test_refusals_and_answers_that_claim_nothing_have_no_score(answer: str) -> None:
    assert support_score(answer, CONTEXT) is None


def test_words_from_different_places_do_not_add_up() -> None:
    scattered = ["The cat sleeps.", "A dog barks."]
    assert support_score("The cat barks.", scattered) == 0.5
    assert support_score("The cat barks.", ["The cat barks."]) == 1.0
    far = ["The cat sleeps. One. Two. Three. A dog barks."]
    assert support_score("The cat barks.", far) == 0.5
    assert Support(window=5).score("The cat barks.", far) == 1.0


def test_a_wrong_number_costs_more_than_a_wrong_word() -> None:
    number = support_score("The warranty lasts 36 months.", CONTEXT)
    word = support_score("The guarantee lasts 24 months.", CONTEXT)
    assert number == pytest.approx(3 / 5)
    assert word == pytest.approx(4 / 5)


def test_a_negation_that_the_context_lacks_halves_its_sentence() -> None:
    assert support_score("Refunds are not issued.", ["Refunds are issued."]) == 0.5
    assert support_score("Refunds aren’t issued.", ["Refunds are issued."]) == 0.5
    assert support_score("Es gibt keine Erstattung.", ["Es gibt eine Erstattung."]) == 0.5
    assert support_score("不支持退款", ["支持退款"]) == pytest.approx(0.5 * 3 / 4)
    assert support_score("Water damage is not covered.", ["It does not cover water damage."]) > 0.8  # type: ignore[operator]


def test_of_equal_places_one_that_negates_will_do() -> None:
    assert support_score("Refunds are not issued.", ["Refunds are issued.", "Refunds are not issued."]) == 1.0


def test_inflected_forms_count_in_part() -> None:
    inflected = support_score("Deleting", ["It was deleted."])
    assert inflected == pytest.approx(5 / 8)
    assert support_score("Die Garantien", ["Die Garantie"]) == pytest.approx((1 + 8 / 9) / 2)
    assert Support(inflections=False).score("Deleting", ["It was deleted."]) == 0.0
    assert support_score("Cat", ["catalogue"]) == 0.0
    assert support_score("Delta", ["It was deleted."]) == 0.0


def test_scripts_without_spaces_are_supported_by_their_context() -> None:
    assert support_score("保修期为24个月。", ["本产品的保修期为24个月，自购买之日起计算。"]) == 1.0
    assert support_score("保修期为36个月。", ["本产品的保修期为24个月，自购买之日起计算。"]) < 0.8  # type: ignore[operator]
    assert support_score("東", ["東京都"]) == 1.0


@given(st.text(max_size=200), st.lists(st.text(max_size=200), max_size=3))
def test_any_text_gives_a_share_or_nothing(answer: str, contexts: list[str]) -> None:
    score = support_score(answer, contexts)
    assert score is None or 0.0 <= score <= 1.0


@given(st.lists(st.sampled_from("alpha beta gamma delta 7 12".split()), min_size=1, max_size=12))
def test_an_answer_supports_itself_whatever_stands_around(found: list[str]) -> None:
    answer = " ".join(found)
    assert support_score(answer, ["Other words here.", answer]) == pytest.approx(1.0)


def test_a_batch_is_the_same_as_one_by_one() -> None:
    answers = ["Refunds are issued.", "I don't know.", "The moon is far."]
    contexts = [CONTEXT, CONTEXT, []]
    assert support_scores(answers, contexts) == [
        support_score(answer, passages) for answer, passages in zip(answers, contexts, strict=True)
    ]


def test_a_huge_answer_and_context_are_scored_in_seconds() -> None:
    words = " ".join(f"word{number}" for number in range(50_000))
    start = time.perf_counter()
    assert support_score(words, [words]) == pytest.approx(1.0)
    assert time.perf_counter() - start < 10


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"window": 0}, "window must be at least 1, got 0"),
        ({"number_weight": float("nan")}, "number_weight must be above 0, got nan"),
        ({"negation_penalty": 1.5}, "negation_penalty must be from 0 to 1, got 1.5"),
    ],
)
def test_bad_settings_are_refused_by_name(settings: dict[str, float], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Support(**settings)  # type: ignore[arg-type]


def test_own_passages_support_real_answers_better_than_those_of_another_question(shared_data: Path) -> None:
    answers = load_labels(shared_data / "mtrag_labels" / "labels.jsonl")
    texts = [answer.answer for answer in answers]
    contexts = [answer.contexts for answer in answers]
    own = support_scores(texts, contexts)
    other = support_scores(texts, contexts[30:] + contexts[:30])
    better = [
        mine > theirs
        for mine, theirs, passages in zip(own, other, contexts, strict=True)
        if mine is not None and theirs is not None and passages
    ]
    assert len(better) > 250
    assert sum(better) / len(better) > 0.97
