"""Question files are read, or refused with the line and the mend."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextgrid.core.errors import EvalSetError
from contextgrid.core.evalset import EvalItem, EvalSet, GoldAnchor, GoldSpan
from contextgrid.core.span import Span
from contextgrid.core.tables import EVALSET
from contextgrid.evalset import evalset_from_table, evalset_to_table, load_evalset


def jsonl(folder: Path, *lines: object, name: str = "questions.jsonl") -> Path:
    path = folder / name
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines), "utf-8")
    return path


def csv_file(folder: Path, text: str) -> Path:
    path = folder / "questions.csv"
    path.write_bytes(text.encode("utf-8"))
    return path


def question(number: int = 1, **fields: object) -> dict[str, object]:
    return {"id": f"q{number}", "question": "How long do refunds take?"} | fields


def test_a_jsonl_line_becomes_an_item(tmp_path: Path) -> None:
    anchors = [
        {"source_id": "a.md", "quote": "thirty days", "start": 3, "end": 14},
        {"source_id": "b.md", "quote": "x"},
    ]
    evalset = load_evalset(jsonl(tmp_path, question(anchors=anchors, answer="30 days", answerable=True, lang="en")))
    assert evalset == EvalSet(
        "questions",
        (
            EvalItem(
                "q1",
                "How long do refunds take?",
                (GoldAnchor("a.md", "thirty days", 3, 14), GoldAnchor("b.md", "x")),
                answer="30 days",
                answerable=True,
            ),
        ),
    )
    assert load_evalset(tmp_path / "questions.jsonl", id="mine").id == "mine"


def test_question_id_a_bare_quote_and_bare_offsets_are_accepted(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path,
        {"question_id": "q1", "question": "?", "source_id": "a.md", "quote": "x"},
        {"id": "q2", "question": "?", "anchors": [{"source_id": "a.md", "start": 0, "end": 4}]},
        {"id": "q3", "question": "?", "anchors": None, "answer": " ", "answerable": None},
    )
    one, two, three = load_evalset(path)
    assert (one.id, one.anchors) == ("q1", (GoldAnchor("a.md", "x"),))
    assert two.anchors == (GoldAnchor("a.md", "", 0, 4),)
    assert (three.anchors, three.answer, three.answerable) == ((), None, None)


def test_a_byte_order_mark_crlf_and_blank_lines_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    lines = [json.dumps(question(1)), "", json.dumps(question(2)), " "]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    assert [item.id for item in load_evalset(path)] == ["q1", "q2"]
    path = csv_file(tmp_path, "\ufeffid,question\r\nq1,one\r\n\r\nq2,two\r\n")
    assert [item.id for item in load_evalset(path)] == ["q1", "q2"]


def test_line_separators_inside_a_question_do_not_end_its_line(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps(question(1, question="a\u2028b\x85c"), ensure_ascii=False), "utf-8")
    assert next(iter(load_evalset(path))).question == "a\u2028b\x85c"


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b"\n \r\n"])
@pytest.mark.parametrize("name", ["q.jsonl", "q.csv"])
def test_an_empty_file_is_an_error(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(EvalSetError, match="no questions in the file"):
        load_evalset(tmp_path / name)


def test_a_csv_with_only_a_header_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EvalSetError, match="no questions"):
        load_evalset(csv_file(tmp_path, "id,question\n"))


def test_a_bad_line_37_is_named(tmp_path: Path) -> None:
    lines: list[object] = [question(number) for number in range(1, 40)]
    lines[36] = '{"id": "q37", "question": '
    with pytest.raises(EvalSetError, match=r"questions.jsonl:37: not valid JSON: .* at column \d+; write one JSON"):
        load_evalset(jsonl(tmp_path, *lines))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1]", r":1: a list, not an object; write"),
        ('"text"', r":1: a text, not an object"),
        ("null", r":1: a null, not an object"),
        ("9" * 5000, r":1: not usable JSON"),
        ("[" * 100_000, r":1: not usable JSON"),
        ({"question": "?"}, r":1: 'id' is missing; write 'id' as text"),
        ({"id": " ", "question": "?"}, r":1: 'id' is blank"),
        ({"id": 7, "question": "?"}, r":1: 'id' is a number; write text in quotes"),
        ({"id": "q"}, r":1: 'question' is missing"),
        (question(question="\t"), r":1: 'question' is blank"),
        (question(question=["?"]), r":1: 'question' is a list"),
        ({"id": "q", "qestion": "?"}, r":1: unknown field 'qestion'; did you mean 'question'\?"),
        ({"ID": "q", "question": "?"}, r":1: unknown field 'ID'; did you mean 'id'\?"),
        (question(anchor=[]), r":1: unknown field 'anchor'; did you mean 'anchors'\?"),
        (question(answr="x"), r":1: unknown field 'answr'; did you mean 'answer'\?"),
        (question(Answerable=False), r":1: unknown field 'Answerable'; did you mean 'answerable'\?"),
        (question(anchors={}), r":1: 'anchors' is a object; write a list"),
        (question(anchors=["x"]), r":1: anchor 1 is a text"),
        (question(anchors=[{"quote": "x"}]), r":1: anchor 1 has no 'source_id'; name the document"),
        (question(anchors=[{"source_id": "a", "quot": "x"}]), r":1: unknown field 'quot'; did you mean 'quote'\?"),
        (question(anchors=[{"source_id": "a"}]), r":1: anchor 1 has neither a 'quote' nor 'start' and 'end'"),
        (question(anchors=[{"source_id": "a", "quote": " "}]), r":1: anchor 1 has neither"),
        (question(anchors=[{"source_id": "a", "quote": "x", "start": 1}]), r":1: anchor 1 has 'start' without 'end'"),
        (question(anchors=[{"source_id": "a", "quote": "x", "end": 1}]), r":1: anchor 1 has 'end' without 'start'"),
        (question(anchors=[{"source_id": "a", "start": 4, "end": 4}]), r":1: anchor 1 ends at 4, not after its start"),
        (question(anchors=[{"source_id": "a", "start": -1, "end": 4}]), r":1: 'start' is -1; write a whole number"),
        (question(anchors=[{"source_id": "a", "start": "0", "end": 4}]), r":1: 'start' is '0'"),
        (question(anchors=[{"source_id": "a", "start": 0.5, "end": 4}]), r":1: 'start' is 0.5"),
        (question(anchors=[{"source_id": "a", "start": True, "end": 4}]), r":1: 'start' is True"),
        (question(quote="x"), r":1: the anchor has no 'source_id'"),
        (question(answer=42), r":1: 'answer' is a number"),
        (question(answerable="no"), r":1: 'answerable' is 'no'; write true or false"),
        (question(answerable=0), r":1: 'answerable' is 0"),
        (
            question(answerable=False, source_id="a", quote="x"),
            r":1: question 'q1' has evidence but answerable is false",
        ),
        (r'{"id": "q", "question": "\ud800"}', r":1: 'question' holds half a surrogate pair"),
    ],
)
def test_a_malformed_line_says_what_is_wrong_and_the_mend(tmp_path: Path, line: object, message: str) -> None:
    with pytest.raises(EvalSetError, match=message):
        load_evalset(jsonl(tmp_path, line))


def test_unknown_fields_are_ignored_even_where_they_resemble_given_ones(tmp_path: Path) -> None:
    extra: dict[str, Any] = {
        "parallel_id": "p",
        "lang": "de",
        "distractor_source_id": None,
        "alt_answers": [],
        "answers": ["a"],
    }
    record = question(**extra, anchors=[{"source_id": "a", "quote": "x", "quotes": 1}], answer="a")
    assert len(load_evalset(jsonl(tmp_path, record))) == 1


def test_a_question_may_be_answerable_without_evidence_or_reference(tmp_path: Path) -> None:
    [item] = load_evalset(jsonl(tmp_path, question(answerable=True)))
    assert item.expects_answer


def test_a_repeated_id_names_both_lines(tmp_path: Path) -> None:
    with pytest.raises(EvalSetError, match=r":3: id 'q1' is already used in line 1; give each question its own id"):
        load_evalset(jsonl(tmp_path, question(1), question(2), question(1)))


def test_text_that_is_not_utf8_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_bytes(json.dumps(question(1)).encode() + b'\n{"id": "q2", "question": "caf\xe9"}\n')
    with pytest.raises(EvalSetError, match=r"q.jsonl:2: not UTF-8 text"):
        load_evalset(path)


def test_missing_files_and_other_formats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EvalSetError, match=r"gone.jsonl: cannot be read"):
        load_evalset(tmp_path / "gone.jsonl")
    with pytest.raises(EvalSetError, match=r"q.xlsx: questions are read from .jsonl and .csv files"):
        load_evalset(tmp_path / "q.xlsx")


def test_csv_rows_of_one_id_add_anchors(tmp_path: Path) -> None:
    text = (
        "id,question,source_id,quote,start,end,answer,answerable,note\n"
        'q1,"Which, exactly?",a.md,"one ""two""\nthree",,,yes,true,n\n'
        "q2,No evidence,,,,,,no,\n"
        "q1,,b.md,four,3,7,,,\n"
    )
    one, two = load_evalset(csv_file(tmp_path, text))
    assert one == EvalItem(
        "q1",
        "Which, exactly?",
        (GoldAnchor("a.md", 'one "two"\nthree'), GoldAnchor("b.md", "four", 3, 7)),
        answer="yes",
        answerable=True,
    )
    assert (two.anchors, two.answerable) == ((), False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("question,quote\n?,x\n", r":1: no column 'id' among question, quote; begin with"),
        ("id;question\nq1;?\n", r":1: columns are separated by ';'; separate them by commas"),
        ("id,qestion\nq1,?\n", r":1: unknown field 'qestion'; did you mean 'question'\?"),
        ("id,question,id\nq1,?,q2\n", r":1: column 'id' occurs twice"),
        ("id,question\nq1,a, b\n", r":2: 3 cells under 2 columns; put text that holds commas in double quotes"),
        ('id,question\nq1,"a\nb"\nq2,\n', r":4: 'question' is missing"),
        ('id,question\nq1,"open\n', r":2: not valid CSV"),
        ("id,question\nq1,a\nq1,a\n", r":3: id 'q1' is already used in line 2"),
        ("id,question,source_id,quote\nq1,a,s,x\nq1,b,s,y\n", r":3: 'question' of 'q1' differs from line 2"),
        ("id,question,source_id,quote,answer\nq1,a,s,x,1\nq1,a,s,y,2\n", r":3: 'answer' of 'q1' differs from line 2"),
        ("id,question,source_id,quote,answerable\nq1,a,,,no\nq1,a,s,y,\n", r":3: question 'q1' has evidence but"),
        ("id,question,source_id,start,end\nq1,a,s,x,2\n", r":2: 'start' is 'x'; write a whole number"),
        ("id,question,answerable\nq1,a,maybe\n", r":2: 'answerable' is 'maybe'; write true or false"),
    ],
)
def test_a_malformed_csv_names_the_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(EvalSetError, match=message):
        load_evalset(csv_file(tmp_path, text))


def test_a_csv_cell_may_be_longer_than_the_csv_module_reads_by_itself(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    quote = "word " * 40_000 + "end"
    [item] = load_evalset(csv_file(tmp_path, f'id,question,source_id,quote\nq1,?,a.md,"{quote}"\n'))
    assert item.anchors == (GoldAnchor("a.md", quote),)
    with pytest.raises(EvalSetError):
        load_evalset(csv_file(tmp_path, 'id,question\nq1,"open\n'))
    assert csv.field_size_limit() == before


@pytest.mark.parametrize("name", ["a\0b.jsonl", "a\0b.csv", "\ud800.jsonl", "~nouser/q.jsonl", "x" * 5000 + ".jsonl"])
def test_a_path_that_no_file_can_have_is_one_clear_error(name: str) -> None:
    with pytest.raises(EvalSetError, match=r"cannot be read .*; check the path"):
        load_evalset(name)


def _anchors() -> st.SearchStrategy[GoldAnchor]:
    offsets = st.one_of(
        st.just((None, None)), st.tuples(st.integers(0, 99), st.integers(1, 99)).map(lambda o: (o[0], o[0] + o[1]))
    )
    return st.builds(lambda s, q, o: GoldAnchor(s, q, *o), st.text(min_size=1), st.text(min_size=1), offsets)


@given(
    st.lists(
        st.builds(
            EvalItem,
            st.text(min_size=1).filter(str.strip),
            st.text(min_size=1).filter(str.strip),
            st.lists(_anchors(), max_size=3).map(tuple),
            answer=st.none() | st.text(),
            answerable=st.none() | st.booleans(),
        ),
        unique_by=lambda item: item.id,
        max_size=4,
    )
)
def test_an_eval_set_survives_its_table(items: list[EvalItem]) -> None:
    evalset = EvalSet("es", tuple(items))
    table = evalset_to_table(evalset)
    assert table.schema == EVALSET
    assert evalset_from_table(table, "es") == evalset


def test_gold_spans_without_anchors_are_kept_as_offsets() -> None:
    item = EvalItem("q", "?", gold=(GoldSpan(Span("a.md", 3, 9)),))
    [stored] = evalset_from_table(evalset_to_table(EvalSet("es", (item,))), "es")
    assert stored.anchors == (GoldAnchor("a.md", "", 3, 9),)


@pytest.mark.parametrize(
    ("file", "questions", "anchors"),
    [
        ("clapnq/questions.jsonl", 283, 285),
        ("xquad/questions.en.jsonl", 603, 603),
        ("xquad/questions.de.jsonl", 603, 603),
        ("xquad/questions.zh.jsonl", 603, 603),
    ],
)
def test_real_question_files_are_read_whole(shared_data: Path, file: str, questions: int, anchors: int) -> None:
    evalset = load_evalset(shared_data / file)
    assert len(evalset) == questions
    assert sum(len(item.anchors) for item in evalset) == anchors
