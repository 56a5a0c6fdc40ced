"""Question files: from JSONL or CSV to an eval set, and from an eval set to the table that stages pass on."""

from __future__ import annotations

import csv
import io
import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from contextgrid.core.errors import EvalSetError
from contextgrid.core.evalset import EvalItem, EvalSet, GoldAnchor

if TYPE_CHECKING:
    import pyarrow as pa

_ANCHOR_FIELDS = ("source_id", "quote", "start", "end")
_FIELDS = ("id", "question_id", "question", "anchors", *_ANCHOR_FIELDS, "answer", "answerable")
# A field counts as given if one that stands for it is.
_STAND_INS = {
    "id": ("question_id",),
    "question_id": ("id",),
    "anchors": ("quote", "start"),
    "quote": ("anchors", "start"),
    "source_id": ("anchors",),
    "start": ("anchors",),
    "end": ("anchors",),
}
_ALIKE = 0.82  # of difflib's ratio: takes "anchor" and "qestion", but not "source" or "alt_answers"
_FIELD_SIZE_LIMIT = threading.Lock()
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def load_evalset(path: str | os.PathLike[str], id: str | None = None) -> EvalSet:  # noqa: A002
    """Read the questions of a ``.jsonl`` or ``.csv`` file, in UTF-8.

    A JSONL line is ``{"id", "question", "anchors": [{"source_id", "quote", "start", "end"}], "answer",
    "answerable"}``. ``question_id`` may stand for ``id``, a ``source_id`` with ``quote`` beside the question for a
    single anchor, and offsets for a quote; all but id and question may be left out. Unknown fields are ignored unless
    they look like a misspelt one. A CSV file has the columns ``id, question, source_id, quote, start, end, answer,
    answerable``; further rows with the same id add anchors to that question.

    Args:
        path: the file.
        id: name of the eval set; by default the file's name without suffix.

    Raises:
        EvalSetError: naming file and line, what is wrong there and the mend.
    """
    file = Path(path)
    readers = {".jsonl": _read_jsonl, ".csv": _read_csv}
    reader = readers.get(file.suffix.lower())
    if reader is None:
        raise EvalSetError(f"{file}: questions are read from .jsonl and .csv files; convert it to one of these")
    items = list(reader(file, content_of(file)))
    if not items:
        raise EvalSetError(f"{file}: no questions in the file; write at least one")
    return EvalSet(id if id is not None else file.stem, tuple(items))


def evalset_to_table(evalset: EvalSet) -> pa.Table:
    """One row per question with the schema ``tables.EVALSET``.

    ``answerable`` stays null where nobody said it. A question with gold spans but no anchors keeps them as anchors that
    are offsets alone.
    """
    import pyarrow as pa

    from contextgrid.core.tables import EVALSET

    rows = [
        {
            "question_id": item.id,
            "question": item.question,
            "answer": item.answer,
            "answerable": item.answerable,
            "anchors": [vars(anchor) for anchor in item.anchors or _offset_anchors(item)],
        }
        for item in evalset
    ]
    return pa.Table.from_pylist(rows, schema=EVALSET)


def evalset_from_table(table: pa.Table, id: str) -> EvalSet:  # noqa: A002
    """The eval set that ``evalset_to_table`` stored, under the given id."""
    return EvalSet(id, tuple(items_of(table)))


def items_of(table: pa.Table) -> Iterator[EvalItem]:
    """The questions of a table of ``tables.EVALSET``, in order."""
    for row in table.to_pylist():
        anchors = tuple(
            GoldAnchor(anchor["source_id"], anchor["quote"] or "", anchor["start"], anchor["end"])
            for anchor in row["anchors"] or ()
        )
        yield EvalItem(row["question_id"], row["question"], anchors, answer=row["answer"], answerable=row["answerable"])


def _offset_anchors(item: EvalItem) -> Iterator[GoldAnchor]:
    return (GoldAnchor(gold.span.source_id, "", gold.span.start, gold.span.end) for gold in item.gold)


def content_of(file: Path) -> str:
    """The text of a file in UTF-8, with or without a byte order mark.

    Raises:
        EvalSetError: if it cannot be read.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise EvalSetError(f"{file}: cannot be read ({error.strerror}); check the path") from error
    except ValueError as error:  # NUL or half a surrogate pair in the path
        raise EvalSetError(f"{str(file)!r}: cannot be read ({error}); check the path") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise EvalSetError(f"{file}:{line}: not UTF-8 text; save the file as UTF-8") from None


@dataclass(frozen=True)
class Place:
    """Where a value was read: every message about it begins with this."""

    file: Path
    line: int

    def fail(self, what: str, mend: str) -> NoReturn:
        """Raise an EvalSetError: what is wrong here, and the mend."""
        raise EvalSetError(f"{self.file}:{self.line}: {what}; {mend}")


def _read_jsonl(file: Path, content: str) -> Iterator[EvalItem]:
    lines: dict[str, int] = {}
    for place, record in json_objects(file, content):
        item = _item(record, place)
        if item.id in lines:
            place.fail(f"id {item.id!r} is already used in line {lines[item.id]}", "give each question its own id")
        lines[item.id] = place.line
        yield item


def json_objects(file: Path, content: str) -> Iterator[tuple[Place, dict[str, Any]]]:
    """The object on each line that is not blank, and where it stands.

    Raises:
        EvalSetError: for a line that is no JSON object.
    """
    for number, line in enumerate(content.split("\n"), start=1):
        if line.strip():
            place = Place(file, number)
            yield place, _json_object(line, place)


def _json_object(line: str, place: Place) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        place.fail(f"not valid JSON: {error.msg} at column {error.colno}", "write one JSON object per line")
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, or brackets nested that deep
        place.fail(f"not usable JSON: {error}", "write one plain JSON object per line")
    if not isinstance(value, dict):
        place.fail(f"a {kind_of(value)}, not an object", 'write {"id": ..., "question": ...}')
    return value


def _item(record: Mapping[str, Any], place: Place) -> EvalItem:
    check_spelling(record, _FIELDS, place)
    is_other_name = record.get("id") is None and record.get("question_id") is not None
    item = EvalItem(
        id=required_text(record, "question_id" if is_other_name else "id", place),
        question=required_text(record, "question", place),
        anchors=tuple(_anchors(record, place)),
        answer=text_of(record, "answer", place),
        answerable=_truth(record, place),
    )
    _check_answerable(item, place)
    return item


def _check_answerable(item: EvalItem, place: Place) -> None:
    if item.answerable is False and item.anchors:
        place.fail(f"question {item.id!r} has evidence but answerable is false", "remove one of the two")


def check_spelling(record: Mapping[str, Any], known: Iterable[str], place: Place) -> None:
    """Refuse a field that looks like a misspelt one; others are ignored."""
    known = tuple(known)
    for field in record:
        close = [] if field in known else get_close_matches(field.lower(), known, n=1, cutoff=_ALIKE)
        if close and not any(name in record for name in (close[0], *_STAND_INS.get(close[0], ()))):
            place.fail(f"unknown field {field!r}", f"did you mean {close[0]!r}?")


def _anchors(record: Mapping[str, Any], place: Place) -> Iterator[GoldAnchor]:
    given = record.get("anchors")
    if given is not None and not isinstance(given, list):
        place.fail(f"'anchors' is a {kind_of(given)}", 'write a list: [{"source_id": ..., "quote": ...}]')
    for number, anchor in enumerate(given or (), start=1):
        if not isinstance(anchor, dict):
            place.fail(f"anchor {number} is a {kind_of(anchor)}", 'write {"source_id": ..., "quote": ...}')
        check_spelling(anchor, _ANCHOR_FIELDS, place)
        yield _anchor(anchor, f"anchor {number}", place)
    if any(record.get(field) is not None for field in _ANCHOR_FIELDS):
        yield _anchor(record, "the anchor", place)


def _anchor(record: Mapping[str, Any], name: str, place: Place) -> GoldAnchor:
    source_id = text_of(record, "source_id", place)
    if source_id is None:
        place.fail(f"{name} has no 'source_id'", "name the document it is in")
    start, end = _offset(record, "start", place), _offset(record, "end", place)
    if (start is None) != (end is None):
        given, missing = ("start", "end") if end is None else ("end", "start")
        place.fail(f"{name} has {given!r} without {missing!r}", "give both or neither")
    if start is not None and end is not None and start >= end:
        place.fail(f"{name} ends at {end}, not after its start {start}", "give start < end, counted from 0")
    quote = text_of(record, "quote", place)
    if quote is None and start is None:
        place.fail(f"{name} has neither a 'quote' nor 'start' and 'end'", "copy the passage from the document")
    return GoldAnchor(source_id, quote or "", start, end)


def required_text(record: Mapping[str, Any], field: str, place: Place) -> str:
    """The text of a field that may be neither absent nor blank."""
    text = text_of(record, field, place)
    if text is None:
        problem = "is blank" if field in record else "is missing"
        place.fail(f"{field!r} {problem}", f"write {field!r} as text")
    return text


def text_of(record: Mapping[str, Any], field: str, place: Place) -> str | None:
    """The text of a field, None where it is absent or blank."""
    value = record.get(field)
    if value is None:
        return None
    if not isinstance(value, str):
        place.fail(f"{field!r} is a {kind_of(value)}", "write text in quotes")
    if any("\ud800" <= character <= "\udfff" for character in value):
        place.fail(f"{field!r} holds half a surrogate pair", "write the character itself")
    return value if value.strip() else None


def _offset(record: Mapping[str, Any], field: str, place: Place) -> int | None:
    value = record.get(field)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        place.fail(f"{field!r} is {value!r}", "write a whole number of characters, counted from 0")
    return value


def _truth(record: Mapping[str, Any], place: Place) -> bool | None:
    value = record.get("answerable")
    if value is not None and not isinstance(value, bool):
        place.fail(f"'answerable' is {value!r}", "write true or false")
    return value


def _read_csv(file: Path, content: str) -> Iterator[EvalItem]:
    items: dict[str, EvalItem] = {}
    lines: dict[str, int] = {}
    with _cells_up_to(len(content)):
        for place, record in _csv_rows(file, content):
            earlier = items.get(record.get("id", record.get("question_id", "")))
            if earlier is not None:
                record.setdefault("question", earlier.question)
            item = _item(record, place)
            if item.id in items:
                item = _merged(items[item.id], item, lines[item.id], place)
            lines.setdefault(item.id, place.line)
            items[item.id] = item
    yield from items.values()


@contextmanager
def _cells_up_to(size: int) -> Iterator[None]:
    """Lets the csv module read cells of ``size`` characters; its limit of 131,072 holds for the whole process."""
    with _FIELD_SIZE_LIMIT:
        before = csv.field_size_limit()
        csv.field_size_limit(max(before, size))
        try:
            yield
        finally:
            csv.field_size_limit(before)


def _csv_rows(file: Path, content: str) -> Iterator[tuple[Place, dict[str, Any]]]:
    reader = csv.reader(io.StringIO(content, newline=""), strict=True)
    header: list[str] | None = None
    end = 0
    while True:
        place = Place(file, end + 1)
        try:
            row = next(reader, None)
        except csv.Error as error:
            place.fail(f"not valid CSV: {error}", "check its quotation marks and commas")
        if row is None:
            return
        end = reader.line_num
        if not any(cell.strip() for cell in row):
            continue
        if header is None:
            header = _csv_header(row, place)
            continue
        if len(row) > len(header):
            place.fail(f"{len(row)} cells under {len(header)} columns", "put text that holds commas in double quotes")
        yield place, {name: _cell(name, cell) for name, cell in zip(header, row, strict=False) if cell.strip()}


def _cell(column: str, cell: str) -> Any:
    if column == "answerable":
        return _TRUTH.get(cell.strip().lower(), cell)
    if column in ("start", "end") and cell.strip().isdecimal() and len(cell.strip()) < 20:
        return int(cell)
    return cell


def _csv_header(row: list[str], place: Place) -> list[str]:
    header = [cell.strip() for cell in row]
    separator = next((mark for mark in ";\t|" if mark in row[0]), None)
    if len(header) == 1 and separator is not None:
        place.fail(f"columns are separated by {separator!r}", "separate them by commas")
    twice = next((name for name in header if name and header.count(name) > 1), None)
    if twice is not None:
        place.fail(f"column {twice!r} occurs twice", "remove one of the two")
    check_spelling(dict.fromkeys(header), [field for field in _FIELDS if field != "anchors"], place)
    missing = [name for name in ("id", "question") if name not in header and _not_given(name, header)]
    if missing:
        place.fail(
            f"no column {missing[0]!r} among {', '.join(header)}", "begin with a line id,question,source_id,quote"
        )
    return header


def _not_given(name: str, header: list[str]) -> bool:
    return not any(stand_in in header for stand_in in _STAND_INS.get(name, ()))


def _merged(first: EvalItem, further: EvalItem, line: int, place: Place) -> EvalItem:
    """The question of an earlier row with the evidence of a further one."""
    if not further.anchors:
        place.fail(
            f"id {further.id!r} is already used in line {line}", "give each question its own id, or add evidence"
        )
    for field in ("question", "answer", "answerable"):
        given, earlier = getattr(further, field), getattr(first, field)
        if given is not None and earlier is not None and given != earlier:
            place.fail(f"{field!r} of {further.id!r} differs from line {line}", "make the rows of a question agree")
    merged = replace(
        first,
        anchors=first.anchors + further.anchors,
        answer=first.answer if first.answer is not None else further.answer,
        answerable=first.answerable if first.answerable is not None else further.answerable,
    )
    _check_answerable(merged, place)
    return merged


def kind_of(value: object) -> str:
    """What people call the type of a JSON value."""
    names = {str: "text", bool: "true or false", int: "number", float: "number", list: "list", dict: "object"}
    return names.get(type(value), "null")
