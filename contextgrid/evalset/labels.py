"""Label files: answers that people have rated, to hold scores against."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contextgrid.core.errors import EvalSetError
from contextgrid.core.registry import nearest
from contextgrid.evalset.reading import Place, check_spelling, content_of, json_objects, kind_of, required_text, text_of

_IDS = ("id", "question_id", "task_id")
_FIELDS = (*_IDS, "model", "question", "answer", "contexts", "reference", "human", "judge")


@dataclass(frozen=True)
class LabelledAnswer:
    """An answer that people rated.

    Attributes:
        question_id: the question; answers of several systems to one question share it.
        question, answer: their texts.
        contexts: the passages that the answer was given from; may be empty.
        reference: a reference answer.
        model: the system that answered.
        human: ratings by dimension, one per rater, higher is better.
        judge: scores that others have published for this answer, by name, higher is better.
    """

    question_id: str
    question: str
    answer: str
    contexts: tuple[str, ...] = ()
    reference: str | None = None
    model: str | None = None
    human: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    judge: Mapping[str, float] = field(default_factory=dict)

    def rating(self, dimension: str) -> float | None:
        """Mean of the ratings of a dimension; ``None`` if nobody rated it."""
        ratings = self.human.get(dimension)
        return math.fsum(ratings) / len(ratings) if ratings else None


def load_labels(path: str | os.PathLike[str]) -> tuple[LabelledAnswer, ...]:
    """Read rated answers from a JSONL file in UTF-8, one answer a line.

    A line is ``{"id", "question", "answer", "contexts": ["...", ...], "reference", "model", "human": {"faithfulness":
    [4, 4, 3], ...}, "judge": {"name": 0.9, ...}}``. ``id`` names the question, which several systems may answer;
    ``question_id`` and ``task_id`` may stand for it. ``model`` names the system; each system answers a question
    once. ``human`` holds one rating or a list per dimension, on any scale on which higher is better. ``judge`` holds
    scores from elsewhere. ``reference``, ``model`` and ``judge`` may be left out; null and NaN are no rating and no
    score. Other fields are ignored unless they look like a misspelt one.

    Raises:
        EvalSetError: naming file and line, what is wrong there and the mend.
    """
    file = Path(path)
    answers = []
    lines: dict[tuple[str, str | None], int] = {}
    for place, record in json_objects(file, content_of(file)):
        answer = _answer(record, place)
        key = (answer.question_id, answer.model)
        if key in lines:
            who = f"system {answer.model!r} already answers" if answer.model else "there is already an answer to"
            place.fail(
                f"{who} question {answer.question_id!r} in line {lines[key]}",
                "name the system of each answer in 'model'",
            )
        lines[key] = place.line
        answers.append(answer)
    if not answers:
        raise EvalSetError(f"{file}: no answers in the file; write at least one")
    return tuple(answers)


def check_dimension(answers: tuple[LabelledAnswer, ...], dimension: str, file: object) -> None:
    """Refuse a dimension that nobody rated.

    Raises:
        EvalSetError: naming the dimensions that are rated.
    """
    rated = sorted({name for answer in answers for name, ratings in answer.human.items() if ratings})
    if not rated:
        raise EvalSetError(f'{file}: no answer is rated; give ratings as "human": {{{dimension!r}: [4, 3]}}')
    if dimension not in rated:
        hint = nearest(dimension, rated)
        raise EvalSetError(f"{file}: nobody rated {dimension!r}{hint}; rated are {', '.join(rated)}")


def _answer(record: Mapping[str, Any], place: Place) -> LabelledAnswer:
    check_spelling({name: None for name in record if name not in _IDS}, _FIELDS, place)
    given = next((name for name in _IDS if record.get(name) is not None), "id")
    answer = record.get("answer")
    if not isinstance(answer, str):
        problem = f"is a {kind_of(answer)}" if "answer" in record else "is missing"
        place.fail(f"'answer' {problem}", "write the answer as text; it may be empty")
    return LabelledAnswer(
        question_id=required_text(record, given, place),
        question=required_text(record, "question", place),
        answer=answer,
        contexts=tuple(_contexts(record, place)),
        reference=text_of(record, "reference", place),
        model=text_of(record, "model", place),
        human={name: tuple(_ratings(name, value, place)) for name, value in _object(record, "human", place).items()},
        judge=dict(_scores(_object(record, "judge", place), place)),
    )


def _contexts(record: Mapping[str, Any], place: Place) -> Iterator[str]:
    contexts = record.get("contexts")
    if not isinstance(contexts, list):
        problem = f"is a {kind_of(contexts)}" if "contexts" in record else "is missing"
        place.fail(f"'contexts' {problem}", "write the list of passages that the answer was given from, or []")
    for number, context in enumerate(contexts, start=1):
        if not isinstance(context, str):
            place.fail(f"context {number} is a {kind_of(context)}", "write text in quotes")
        yield context


def _object(record: Mapping[str, Any], name: str, place: Place) -> Mapping[str, Any]:
    value = record.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        place.fail(f"{name!r} is a {kind_of(value)}", f'write "{name}": {{"faithfulness": ...}}')
    return value


def _ratings(dimension: str, value: Any, place: Place) -> Iterator[float]:
    for rating in value if isinstance(value, list) else [value]:
        number = _number(rating, f"a rating of {dimension!r}", place)
        if number is not None:
            yield number


def _scores(values: Mapping[str, Any], place: Place) -> Iterator[tuple[str, float]]:
    for name, value in values.items():
        number = _number(value, f"the score {name!r} in 'judge'", place)
        if number is not None:
            yield name, number


def _number(value: Any, what: str, place: Place) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        place.fail(f"{what} is a {kind_of(value)}", "write a number, or null where there is none")
    if math.isinf(value):
        place.fail(f"{what} is infinite", "write a number, or null where there is none")
    return None if math.isnan(value) else float(value)
