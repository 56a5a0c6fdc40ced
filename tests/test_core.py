"""Spans, words, tokens, specs, plugin registry, eval items and content hashes."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextgrid.core.errors import ConfigError, EvalSetError
from contextgrid.core.evalset import EvalItem, EvalSet
from contextgrid.core.fingerprint import fingerprint
from contextgrid.core.registry import Registry, Spec
from contextgrid.core.span import Span
from contextgrid.core.words import content_words, count_tokens, words

OFFSETS = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(sorted)


@given(OFFSETS, OFFSETS)
def test_overlap_counts_the_shared_characters(one: list[int], other: list[int]) -> None:
    first, second = Span("d", *one), Span("d", *other)
    shared = set(range(*one)) & set(range(*other))
    assert first.overlap(second) == second.overlap(first) == len(shared)
    assert first.overlap(Span("e", *other)) == 0


def test_a_span_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(ValueError, match="not a span"):
        Span("d", 3, 2)


@given(st.text(max_size=40))
def test_words_do_not_depend_on_the_unicode_form(text: str) -> None:
    assert words(unicodedata.normalize("NFD", text)) == words(unicodedata.normalize("NFC", text))


def test_curly_apostrophes_full_width_and_sharp_s_equal_their_plain_forms() -> None:
    assert words("don’t") == words("don't") == ("don't",)
    assert words("ＡＢＣ１２") == ("abc12",)
    assert words("STRASSE") == words("straße")


def test_scripts_without_spaces_are_read_as_bigrams() -> None:
    assert words("保修期为24个月") == ("保修", "修期", "期为", "24", "个月")
    assert words("東") == ("東",)


def test_korean_is_read_as_bigrams_so_that_particles_do_not_hide_a_word() -> None:
    assert words("한국어를 말한다") == ("한국", "국어", "어를", "말한", "한다")
    assert set(words("한국어")) <= set(words("한국어를 말한다"))
    assert content_words("AI는 24개월") == ("ai", "24", "개월")
    assert words("大韓民國은") == ("大韓", "韓民", "民國", "은")
    assert words("집") == ("집",)


def test_vowel_signs_stay_inside_their_word() -> None:
    assert words("हिन्दी भाषा") == ("हिन्दी", "भाषा")


def test_content_words_leave_out_function_words_only() -> None:
    assert content_words("How long does the refund of 30 days take?") == ("long", "refund", "30", "days", "take")
    assert content_words("Wie lange dauert die Erstattung?") == ("lange", "dauert", "die", "erstattung")


def test_tokens_count_words_marks_and_each_unspaced_character() -> None:
    assert count_tokens("[1] refunds.md") == 6
    assert count_tokens("保修期 24") == 4


def test_a_spec_has_one_canonical_spelling() -> None:
    assert str(Spec.parse(" recursive:512, overlap = 64 ")) == "recursive:512,overlap=64"
    assert Spec.parse("ollama:llama3:8b,temperature=0.2") == Spec("ollama", "llama3:8b", (("temperature", "0.2"),))


@pytest.mark.parametrize("text", ["", ":5", "a:1,b", "a:1,b=2,b=3"])
def test_a_malformed_spec_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        Spec.parse(text)


def sizes() -> Registry[object]:
    registry: Registry[object] = Registry("sizer", "contextgrid.core")

    @registry.register("window")
    @dataclass(frozen=True)
    class Window:
        size: int = 3
        ratio: float = 0.5
        strict: bool = False

    return registry


def test_an_argument_sets_the_first_field_and_options_their_own() -> None:
    assert str(sizes().build("window:7,ratio=0.25,strict=yes")).endswith("Window(size=7, ratio=0.25, strict=True)")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("windw:7", "did you mean 'window'"),
        ("window:seven", "size must be a whole number"),
        ("window:7,ratio=nan", "ratio must be a finite number"),
        ("window:7,strict=maybe", "strict must be true or false"),
        ("window:7,raito=1", "did you mean 'ratio'"),
        ("window:7,size=8", "twice"),
        (f"window:{'9' * 5000}", "size must be a whole number"),
    ],
)
def test_a_spec_that_a_plugin_cannot_take_names_the_mend(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        sizes().build(spec)


def test_eval_sets_refuse_blank_and_repeated_ids_and_blank_questions() -> None:
    item = EvalItem("q1", "Why?")
    with pytest.raises(EvalSetError, match="twice"):
        EvalSet("es", (item, item))
    with pytest.raises(EvalSetError, match="blank id"):
        EvalSet("es", (EvalItem(" ", "Why?"),))
    with pytest.raises(EvalSetError, match="'q1' is blank"):
        EvalSet("es", (EvalItem("q1", "  "),))


@given(st.lists(st.one_of(st.none(), st.text(max_size=5)), min_size=1, max_size=8), st.integers(0, 8))
def test_a_fingerprint_depends_on_rows_and_not_on_batches(values: list[str | None], cut: int) -> None:
    table = pa.table({"x": pa.array(values, pa.string())})
    split = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    assert fingerprint(split) == fingerprint(table)
    assert fingerprint(table.append_column("seconds", pa.array([1.0] * len(values)))) == fingerprint(table)
    assert fingerprint(pa.concat_tables([table, table])) != fingerprint(table)
