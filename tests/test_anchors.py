"""Evidence is found in every parse where it stands, at exact offsets, and reported where it does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from contextgrid.core.documents import Document
from contextgrid.core.evalset import EvalItem, EvalSet, GoldAnchor, GoldSpan
from contextgrid.core.span import Span
from contextgrid.core.tables import DOCUMENTS, GOLD
from contextgrid.corpus import Corpus
from contextgrid.evalset import evalset_to_table, load_evalset, resolve_evalset, resolve_gold
from contextgrid.evalset._folding import fold
from contextgrid.evalset._locate import SearchedText
from contextgrid.parse import parse_corpus

LETTERS = st.characters(codec="utf-8")
TEXTS = st.text(LETTERS, min_size=1, max_size=60)
WORDS = st.lists(st.text("abcdeXYZäßéﬁ1", min_size=1, max_size=8), min_size=6, max_size=30)


def located(text: str, quote: str, start: int | None = None, end: int | None = None) -> list[str]:
    """What the document holds where the quote is found."""
    found = SearchedText(text).locate(GoldAnchor("d", quote, start, end))
    return [text[slice(*span)] for span in found.spans] if found else []


def match(text: str, quote: str, start: int | None = None, end: int | None = None) -> str | None:
    found = SearchedText(text).locate(GoldAnchor("d", quote, start, end))
    return found.match if found else None


@given(TEXTS, st.data())
def test_a_slice_resolves_to_itself_by_its_offsets(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    for quote in (text[start:end], ""):
        found = SearchedText(text).locate(GoldAnchor("d", quote, start, end))
        assert found is not None
        assert (found.spans, found.match) == (((start, end),), "exact")


@given(WORDS, st.data())
def test_a_quote_with_other_case_and_white_space_resolves_to_what_it_quotes(
    words: list[str], data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first + 1, len(words)))
    quoted = words[first:last]
    space = data.draw(st.sampled_from([" ", "\n", "  \t", "\u00a0", " \u200b"]))
    change = data.draw(st.sampled_from([str.upper, str.lower, str.swapcase, str.title]))
    quote = space.join(change(word) for word in quoted)
    assume(len(fold(quote).text) >= 5)
    text = " ".join(words)
    found = located(text, quote)
    assert found
    assert all(fold(slice_).text == fold(quote).text for slice_ in found)


@given(TEXTS, TEXTS, st.none() | st.integers(0, 80))
def test_every_span_lies_in_the_document(text: str, quote: str, start: int | None) -> None:
    found = SearchedText(text).locate(GoldAnchor("d", quote, start, None if start is None else start + len(quote)))
    assert found is None or all(0 <= low < high <= len(text) for low, high in found.spans)


@given(st.text(max_size=80))
def test_folding_maps_every_character_back_in_order(text: str) -> None:
    folded = fold(text)
    assert len(folded.text) == len(folded.origins)
    assert all(0 <= origin < len(text) for origin in folded.origins)
    assert list(folded.origins) == sorted(folded.origins)


def test_all_occurrences_count_unless_offsets_are_given() -> None:
    text = "cat dog cat dog cat dog cat dog cat"
    assert len(located(text, "cat")) == 5
    found = SearchedText(text).locate(GoldAnchor("d", "cat", 9, 12))  # one off from the second
    assert found is not None
    assert found.spans == ((8, 11),)
    assert SearchedText(text).locate(GoldAnchor("d", "cat", 900, 903)) == replace(found, spans=((32, 35),))


def test_occurrences_within_words_count_only_if_there_are_no_others() -> None:
    found = SearchedText("In 2014 he had 4, in 1964 none.").locate(GoldAnchor("d", "4"))
    assert found is not None
    assert found.spans == ((15, 16),)
    assert len(located("in 2014 and 1964", "4")) == 2
    assert located("保修期为24个月", "保修期") == ["保修期"]


@pytest.mark.parametrize(
    ("text", "quote", "expected"),
    [
        ("He said “don’t go” twice.", 'said "don\'t go"', "said “don’t go"),
        ("The ﬁrst oﬃce, re\u0301sume\u0301", "first office, résumé", "ﬁrst oﬃce, re\u0301sume\u0301"),
        ("Ｆｕｌｌ ｗｉｄｔｈ here", "full width", "Ｆｕｌｌ ｗｉｄｔｈ"),
        ("die Straße nach Bonn", "DIE STRASSE NACH", "die Straße nach"),
        ("if applicable, docu-\n   mentation is given", "documentation is given", "docu-\n   mentation is given"),
        ("if it is docu\u00admentation", "documentation", "docu\u00admentation"),
        ("an error-\nprone process", "error-prone process", "error-\nprone process"),
        ("an error‑prone process", "error-prone process", "error‑prone process"),
        ("from 1990–1995 — or so", "from 1990-1995 - or so", "from 1990–1995 — or so"),
        ("one\n\n  two\tthree", "one two three", "one\n\n  two\tthree"),
        ("• first point\n• second point", "- first point - second point", "first point\n• second point"),
        ("这是 一个\n测试 文件", "这是一个测试文件", "这是 一个\n测试 文件"),
        ("so-called `` parent of the nation ''.", "“parent of the nation”", "parent of the nation"),
    ],
)
def test_unicode_quotation_marks_dashes_and_hyphenation_are_made_alike(text: str, quote: str, expected: str) -> None:
    assert match(text, quote) == "normalised"
    assert located(text, quote) == [expected]


def test_a_short_word_in_capitals_does_not_find_a_pronoun() -> None:
    assert located("tell us about it", "US") == []
    assert located("the ＵＳ economy", "US") == ["ＵＳ"]


def test_a_misspelt_quote_is_found_at_whole_words_and_marked_fuzzy() -> None:
    text = "Refunds. Refunds are issued within thirty days of purchase, if the goods are unused. Shipping is free."
    quote = "Refunds are isued within thirty (30) days of purchase, if the gods are unused."
    assert match(text, quote) == "fuzzy"
    assert located(text, quote) == ["Refunds are issued within thirty days of purchase, if the goods are unused."]


def test_short_or_different_quotes_are_not_found_approximately() -> None:
    assert located("the warranty period", "waranty") == []
    assert located("The warranty lasts two years for all goods.", "Shipping takes three days in most countries.") == []
    assert located("days", "Refunds are issued within thirty days of purchase") == []


def test_a_document_as_short_as_its_quote_is_found_whole() -> None:
    assert match("Refunds take thirty days", "Refunds take thirty dayz") == "fuzzy"


def test_offsets_alone_must_lie_in_the_document() -> None:
    assert located("0123456789", "", 2, 5) == ["234"]
    assert located("0123456789", "", 8, 11) == []


def documents(**texts: str | None) -> pa.Table:
    rows: list[dict[str, object]] = [
        {"source_id": name, "text": text, "headings": [], "error": None if text is not None else "damaged"}
        for name, text in texts.items()
    ]
    return pa.Table.from_pylist(rows, schema=DOCUMENTS)


EVALSET = EvalSet(
    "es",
    (
        EvalItem("q1", "?", (GoldAnchor("a", "missing passage"), GoldAnchor("a", "beta"))),
        EvalItem("q2", "?"),
        EvalItem("q3", "?", (GoldAnchor("gone", "beta"), GoldAnchor("broken", "", 0, 4), GoldAnchor("a", "", 90, 99))),
    ),
)


def test_gold_rows_number_the_anchors_and_the_rest_is_reported() -> None:
    gold, unresolved = resolve_gold(evalset_to_table(EVALSET), documents(a="alpha beta gamma beta", broken=None))
    assert gold.schema == GOLD
    row = {"question_id": "q1", "anchor": 1, "source_id": "a", "text": "beta", "match": "exact"}
    assert gold.to_pylist() == [row | {"start": 6, "end": 10}, row | {"start": 17, "end": 21}]
    assert unresolved == {
        "q1": ["a: missing passage (the document does not hold the quote)"],
        "q3": [
            "gone: beta (no such document in the corpus)",
            "broken: characters 0-4 (the document could not be read)",
            "a: characters 90-99 (the offsets lie outside the document's 21 characters)",
        ],
    }


def test_evidence_in_a_document_under_another_folder_names_the_id_that_is_meant() -> None:
    texts = pa.Table.from_pylist([{"source_id": "docs/refunds.md", "text": "thirty days"}], schema=DOCUMENTS)
    evalset = EvalSet("es", (EvalItem("q1", "?", (GoldAnchor("refunds.md", "thirty days"),)),))
    _, unresolved = resolve_gold(evalset_to_table(evalset), texts)
    assert unresolved == {"q1": ["refunds.md: thirty days (no such document; did you mean 'docs/refunds.md'?)"]}


def test_no_evidence_gives_an_empty_table() -> None:
    gold, unresolved = resolve_gold(evalset_to_table(EvalSet("es", (EvalItem("q", "?"),))), documents(a="x"))
    assert (gold.schema, gold.num_rows, unresolved) == (GOLD, 0, {})


def test_a_resolved_eval_set_carries_gold_and_says_why_anchors_are_missing() -> None:
    resolved = resolve_evalset(EVALSET, [Document("a", "alpha beta gamma beta")])
    first, second, third = resolved
    assert first.gold == (GoldSpan(Span("a", 6, 10), 1), GoldSpan(Span("a", 17, 21), 1))
    assert first.anchors == EVALSET.items[0].anchors
    assert [item.is_resolved for item in (first, second, third)] == [True, False, False]
    assert third.expects_answer
    assert [(missing.question_id, missing.reason) for missing in resolved.unresolved] == [
        ("q1", "the document does not hold the quote"),
        ("q3", "no such document in the corpus"),
        ("q3", "no such document in the corpus"),
        ("q3", "the offsets lie outside the document's 21 characters"),
    ]


def test_gold_given_without_anchors_is_kept_and_stale_gold_is_replaced() -> None:
    gold = (GoldSpan(Span("a", 0, 5)),)
    items = (EvalItem("q1", "?", gold=gold), EvalItem("q2", "?", (GoldAnchor("a", "beta"),), gold))
    resolved = resolve_evalset(EvalSet("es", items), [Document("a", "alpha beta")])
    assert [item.gold for item in resolved] == [gold, (GoldSpan(Span("a", 6, 10)),)]


@pytest.mark.parametrize(
    ("folder", "file"),
    [
        ("clapnq", "questions.jsonl"),
        ("xquad", "questions.en.jsonl"),
        ("xquad", "questions.de.jsonl"),
        ("xquad", "questions.zh.jsonl"),
    ],
)
def test_every_quote_of_the_real_sets_is_found_exactly(shared_data: Path, folder: str, file: str) -> None:
    parsed = parse_corpus(Corpus.from_dir(shared_data / folder / "documents").to_table(), "auto")
    evalset = load_evalset(shared_data / folder / file)
    gold, unresolved = resolve_gold(evalset_to_table(evalset), parsed)
    assert unresolved == {}
    assert set(gold["match"].to_pylist()) == {"exact"}
    quotes = [anchor.quote for item in evalset for anchor in item.anchors]
    assert gold["text"].to_pylist() == quotes  # one row each: their offsets pick the occurrence

    without_offsets = EvalSet(
        evalset.id,
        tuple(
            replace(item, anchors=tuple(GoldAnchor(anchor.source_id, anchor.quote) for anchor in item.anchors))
            for item in evalset
        ),
    )
    more, unresolved = resolve_gold(evalset_to_table(without_offsets), parsed)
    assert unresolved == {}
    assert more.num_rows > gold.num_rows
