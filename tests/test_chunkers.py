"""Chunkers: literal slices, sizes, overlap, coverage, headings; and the sentence rule they share."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextgrid.chunk import CHUNKERS, chunk_documents
from contextgrid.chunk.base import Chunker
from contextgrid.core.documents import Document, Heading
from contextgrid.core.errors import ConfigError, CorpusError
from contextgrid.core.sentences import sentence_spans
from contextgrid.core.tables import CHUNKS, DOCUMENTS

NAMES = ("fixed", "recursive", "sentence", "structural")

PROSE = st.lists(
    st.sampled_from(
        "one |sentence. |Ünïcödé|😀|句子。|第二|\n|\n\n|\n# Head\n|   |e\u0301|\x1c|\t|\u00a0|\u2028|"
        "wordwordwordwordword|Dr. |3. Mai |?! |- item\n".split("|")
    )
    | st.text(max_size=8),
    max_size=40,
).map("".join)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    text = draw(PROSE)
    starts = sorted(draw(st.sets(st.integers(0, max(0, len(text) - 1)), max_size=5)) if text else set())
    ends = [*starts[1:], len(text)]
    headings = [
        Heading(draw(st.integers(1, 4)), start, draw(st.integers(start, end)))
        for start, end in zip(starts, ends, strict=False)
    ]
    return Document("doc.md", text, tuple(headings))


@given(document=documents(), name=st.sampled_from(NAMES), size=st.integers(1, 60), data=st.data())
def test_passages_are_trimmed_slices_within_size_that_cover_all_text(
    document: Document, name: str, size: int, data: st.DataObject
) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    spans = CHUNKERS.build(f"{name}:{size},overlap={overlap}").spans(document)
    text = document.text
    covered: set[int] = set()
    for start, end in spans:
        piece = text[start:end]
        assert piece == piece.strip() != ""
        assert len(piece) <= size
        covered.update(range(start, end))
    assert {i for i, char in enumerate(text) if not char.isspace()} <= covered
    for (start, end), (next_start, next_end) in pairwise(spans):
        assert start < next_start
        assert end < next_end
        assert end - next_start <= overlap


@given(text=PROSE)
def test_sentences_are_disjoint_trimmed_and_cover_all_text(text: str) -> None:
    spans = sentence_spans(text)
    covered = {i for start, end in spans for i in range(start, end)}
    assert covered >= {i for i, char in enumerate(text) if not char.isspace()}
    assert all(text[start:end].strip() == text[start:end] != "" for start, end in spans)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))


@pytest.mark.parametrize(
    "sentences",
    [
        ["refunds take 30 days of purchase.", "digital goods are not refundable once downloaded."],
        ["Dr. Smith met J. K. Rowling at 5 p.m. on Jan. 5.", "He left."],
        ["The U.S. Government agreed, e.g. in Sec. 4 and No. 7.", "It is law in the U.S.", "The end."],
        ["Apple Inc. Chairman Bob resigned.", "It hurt Apple Inc.", "The company recovered etc.", "Fine."],
        [
            "Am 3. Mai 1945 endete der 2. Weltkrieg.",
            "Im 19. Jahrhundert z. B. war das anders.",
            "Vgl. Abs. 2 usw.",
            "Gut.",
        ],
        ["He was born in 1990.", "In section 4.", "The rate is 3.14 percent.", "See example.com."],
        ['"Why?" he asked.', '"Go."', "She waited ... and left.", "Really?!"],
        ["The warranty is long [1].", "It ends late. [2, 3]", "Nobody knows.[4]"],
        ["यह है।", "वह है।"],
        ["It takes 5 min. at most.", "It takes 5 min.", "Then it ends."],
    ],
)
def test_sentences_written_with_spaces(sentences: list[str]) -> None:
    text = " ".join(sentences)
    assert [text[start:end] for start, end in sentence_spans(text)] == sentences


def test_sentences_written_without_spaces() -> None:
    text = "中文句子在这里。第二句！“你好。”他说。「行く。」と言った。真的吗?终于"
    found = [text[start:end] for start, end in sentence_spans(text)]
    assert found == ["中文句子在这里。", "第二句！", "“你好。”", "他说。", "「行く。」と言った。", "真的吗?", "终于"]


def test_blank_lines_headings_and_list_items_end_sentences_and_wrapped_lines_do_not() -> None:
    text = "# Title\nA wrapped\nline\n\n- item one\n- item two\n1. first step. Then more\n\nLast"
    found = [text[start:end] for start, end in sentence_spans(text)]
    assert found == ["# Title", "A wrapped\nline", "- item one", "- item two", "1. first step.", "Then more", "Last"]


def test_sentence_chunks_hold_whole_sentences_and_repeat_whole_sentences() -> None:
    text = "Aaaa aaa. Bbbb bbb. Cccc ccc. Dddd ddd."
    assert pieces("sentence:20", text) == ["Aaaa aaa. Bbbb bbb.", "Cccc ccc. Dddd ddd."]
    assert pieces("sentence:20,overlap=10", text) == [
        "Aaaa aaa. Bbbb bbb.",
        "Bbbb bbb. Cccc ccc.",
        "Cccc ccc. Dddd ddd.",
    ]


def test_a_sentence_longer_than_the_size_is_cut_between_words() -> None:
    assert pieces("sentence:12", "alpha beta gamma delta epsilon.") == ["alpha beta", "gamma delta", "epsilon."]


def test_recursive_overlap_repeats_words_even_where_sentences_are_longer_than_it() -> None:
    text = "The first sentence has quite a few words in it. The second sentence has quite a few as well."
    first, second = pieces("recursive:70,overlap=20", text)
    assert first == "The first sentence has quite a few words in it."
    assert second == "a few words in it. The second sentence has quite a few as well."


def test_recursive_prefers_paragraphs_to_lines() -> None:
    assert pieces("recursive:20", "one two\nthree\n\nfour five\nsix seven") == [
        "one two\nthree",
        "four five\nsix seven",
    ]


@pytest.mark.parametrize("name", ["recursive", "structural"])
def test_no_passage_ends_with_a_heading_that_has_text_below_it(name: str) -> None:
    text = "# Title\n\n" + "Some words here. " * 8 + "\n\n## Next\n\n" + "More words there. " * 8 + "\n\n## Last"
    found = pieces(f"{name}:60", text, outline(text))
    assert found[0].startswith("# Title\n\nSome words")
    assert sum(piece.startswith("## Next\n\nMore words") for piece in found) == 1
    assert not any(piece.endswith(("# Title", "## Next")) for piece in found)
    assert found[-1].endswith("## Last")


def test_a_heading_as_long_as_a_passage_stands_alone() -> None:
    text = "# A heading that is long\nand text below it"
    assert pieces("recursive:24", text, outline(text)) == ["# A heading that is long", "and text below it"]


def test_white_space_between_a_heading_and_its_text_counts_towards_the_size() -> None:
    assert pieces("recursive:4", "one one", (Heading(1, 0, 3),)) == ["one", "one"]


def test_fixed_windows_start_at_equal_steps() -> None:
    assert pieces("fixed:4", "abcdefghij") == ["abcd", "efgh", "ij"]
    assert pieces("fixed:4,overlap=2", "abcdefghij") == ["abcd", "cdef", "efgh", "ghij"]


OUTLINE = "intro\n# A\n## B\nbbbb\n## C\ncccc\n### D\ndddd\n# E\neeee"


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (100, [OUTLINE]),
        (35, ["intro", "# A\n## B\nbbbb\n## C\ncccc\n### D\ndddd", "# E\neeee"]),
        (22, ["intro", "# A\n## B\nbbbb", "## C\ncccc\n### D\ndddd", "# E\neeee"]),
        (14, ["intro", "# A\n## B\nbbbb", "## C\ncccc", "### D\ndddd", "# E\neeee"]),
    ],
)
def test_structural_keeps_a_heading_with_all_below_it_where_that_fits(size: int, expected: list[str]) -> None:
    assert pieces(f"structural:{size}", OUTLINE, outline(OUTLINE)) == expected


def test_structural_cuts_a_long_section_and_never_joins_sibling_sections() -> None:
    text = "# A\n" + "alpha " * 10 + "\n# B\nb\n# C\nc"
    found = pieces("structural:40", text, outline(text))
    assert found[-2:] == ["# B\nb", "# C\nc"]
    assert found[0].startswith("# A")
    assert len(found) == 4


@pytest.mark.parametrize("name", NAMES)
def test_a_short_document_is_one_passage_named_by_its_span(name: str) -> None:
    text = "refunds take within 30 days of purchase. digital goods are not refundable once downloaded."
    table = chunk_documents(documents_table({"refunds.md": text}), f"{name}:512")
    assert table.schema == CHUNKS
    assert table.to_pylist() == [
        {"chunk_id": "refunds.md:0-90", "source_id": "refunds.md", "start": 0, "end": 90, "text": text}
    ]


def test_unreadable_and_blank_documents_are_skipped() -> None:
    table = documents_table({"a.txt": None, "b.txt": " \n", "c.txt": " 😀 abc\n", "d.txt": "dd ee"})
    chunks = chunk_documents(table, "fixed:3")
    assert chunks["chunk_id"].to_pylist() == ["c.txt:1-2", "c.txt:3-6", "d.txt:0-2", "d.txt:3-5"]
    assert chunks["text"].to_pylist() == ["😀", "abc", "dd", "ee"]


@pytest.mark.parametrize("rows", [{}, {"a.txt": None, "b.txt": " \n\t"}])
def test_documents_without_any_text_are_an_error(rows: dict[str, str | None]) -> None:
    with pytest.raises(CorpusError, match="no text"):
        chunk_documents(documents_table(rows), "recursive:512")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("0", "{}: size must be at least 1, got 0"),
        ("-5", "{}: size must be at least 1, got -5"),
        ("10,overlap=10", r"{}: overlap must be from 0 to 9 \(below size=10\), got 10"),
        ("10,overlap=-1", r"{}: overlap must be from 0 to 9 \(below size=10\), got -1"),
    ],
)
def test_sizes_that_cannot_work_are_refused(name: str, options: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.format(name)):
        CHUNKERS.build(f"{name}:{options}")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("unit", ["lorem ipsum dolor sit amet ", "x"])
def test_five_million_characters_on_one_line_take_seconds(name: str, unit: str) -> None:
    document = Document("big.txt", unit * (5_000_000 // len(unit)))
    started = time.perf_counter()
    spans = CHUNKERS.build(f"{name}:512,overlap=32").spans(document)
    assert time.perf_counter() - started < 10
    assert 9_000 < len(spans) < 40_000


@pytest.mark.parametrize("name", NAMES)
def test_unpunctuated_text_without_spaces_takes_time_in_proportion_to_its_length(name: str) -> None:
    document = Document("big.txt", "没有句号的文字" * 70_000)
    started = time.perf_counter()
    assert len(CHUNKERS.build(f"{name}:512,overlap=64").spans(document)) > 900
    assert time.perf_counter() - started < 5


def pieces(spec: str, text: str, headings: tuple[Heading, ...] = ()) -> list[str]:
    chunker: Chunker = CHUNKERS.build(spec)
    return [text[start:end] for start, end in chunker.spans(Document("doc.md", text, headings))]


def outline(text: str) -> tuple[Heading, ...]:
    """Headings of Markdown written with # only."""
    found: list[Heading] = []
    offset = 0
    for line in text.splitlines(keepends=True):
        if line.startswith("#"):
            found.append(Heading(len(line) - len(line.lstrip("#")), offset, offset + len(line.rstrip())))
        offset += len(line)
    return tuple(found)


def documents_table(texts: dict[str, str | None]) -> pa.Table:
    rows: list[dict[str, Any]] = [
        {"source_id": name, "text": text, "headings": [], "error": None} for name, text in texts.items()
    ]
    return pa.Table.from_pylist(rows, schema=DOCUMENTS)
