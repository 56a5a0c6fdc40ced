from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextgrid.generate import Answer
from contextgrid.generate.citations import UNREADABLE, find_citations, without_citations


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("[1, 2]", (1, 2)),
        ("[1][2]", (1, 2)),
        ("[1-3]", (1, 2, 3)),
        ("[1–3]", (1, 2, 3)),
        ("【1】", (1,)),
        ("[^1]", (1,)),
        ("［１］", (1,)),
        ("【2†source】", (2,)),
        ("[ 1 ; 3 ]", (1, 3)),
        ("[1 and 2]", (1, 2)),
        ("[2, 4-5, 1]", (2, 4, 5, 1)),
        ("[Passage 2] and [Sources 1, 3]", (2, 1, 3)),
        ("[source 1, source 2]", (1, 2)),
        ("[1, source 2] and [passage 3]", (1, 2, 3)),
        ("[see passages 1-3] [Passage #4] [Source: 5]", (1, 2, 3, 4, 5)),
        ("[passage 1 – passage 3]", (1, 2, 3)),
        ("[Quelle 1 und Quelle 2] [出典 3]", (1, 2, 3)),
        ("退款需要三十天[2]。", (2,)),
        ("Thirty days[1].", (1,)),
        ("[[1]]", (1,)),
        ("[007]", (7,)),
        ("[2] first, then [1], again [2]", (2, 1)),
        ("[0] and [99]", (0, 99)),
        ("[3-1]", (3, 1)),
        ("[1]: as the handbook says", (1,)),
        ("[1](see below)", (1,)),
        # not citations
        ("none", ()),
        ("[sic] [a1] [1.5] [] [-1] (1)", ()),
        ("[section 3] [page 4] [source] [source one] [resource 1]", ()),
        ("a link [2](https://example.org/x) and [3](#note)", ()),
        ("[2]: https://example.org", ()),
        ("`x[1]` and ```\nrows[2]\n``` but [3]", (3,)),
        ("x[1] and my_list[0]", ()),
        ("vitamin C[1]", (1,)),
    ],
)
def test_markers(text: str, numbers: tuple[int, ...]) -> None:
    assert find_citations(text) == numbers


def test_numbers_that_no_passage_can_have_are_kept_without_blowing_up() -> None:
    assert find_citations(f"[{'9' * 5000}]") == (UNREADABLE,)
    assert find_citations("[1-999999999]") == (1, 999_999_999)
    assert find_citations(f"[1-{'9' * 5000}]") == (1, UNREADABLE)
    assert find_citations("[1-51]") == (1, 51)
    assert len(find_citations("[1-50]")) == 50


@pytest.mark.parametrize(
    "piece",
    [
        *("[", "[1", "[1,", "[1-", "[1 ", "[1†", "[1](", "[1](a", "_", "a_", "a[1]", "`", "``` ", "[1]: a", "[^"),
        *("[source ", "[source 1, ", "[1, source 2, ", "[see source ", "[1 - source "),
    ],
)
def test_degenerate_text_is_read_in_linear_time(piece: str) -> None:
    start = time.perf_counter()
    find_citations(piece * 20_000)
    find_citations(f"[{piece * 20_000}]")
    assert time.perf_counter() - start < 2


@given(st.lists(st.integers(0, 999), max_size=8), st.sampled_from(["[{}]", "【{}】", "［{}］", "[^{}]", "[ {} ]"]))
def test_every_marker_is_found_once_in_order_of_appearance(numbers: list[int], form: str) -> None:
    text = " and so on ".join(form.format(number) for number in numbers)
    assert find_citations(text) == tuple(dict.fromkeys(numbers))


@given(st.text(alphabet="ab[]【】^,-–12 0()`_\n:/†", max_size=60))
def test_nothing_is_left_to_cite_once_citations_are_taken_out(text: str) -> None:
    # Taking a marker out of [[1]2] may put a new one together, hence the repetition.
    for _ in range(30):
        text = without_citations(text)
    assert find_citations(text) == () or "`" in text or "(" in text or ":" in text


def test_taking_citations_out_keeps_the_rest() -> None:
    assert without_citations("Thirty days [1][2], see [3](http://x.y).").split() == [
        "Thirty",
        "days",
        ",",
        "see",
        "[3](http://x.y).",
    ]


def test_the_answer_prints_as_documented() -> None:
    answer = Answer(text="refunds take within 30 days of purchase [1].", prompt_tokens=39, citations=(1,))
    assert repr(answer) == (
        "Answer(text='refunds take within 30 days of purchase [1].', prompt_tokens=39, completion_tokens=0,"
        " citations=(1,))"
    )
