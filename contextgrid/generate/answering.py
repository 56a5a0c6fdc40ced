"""All questions of a cell through one generator."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contextgrid.assemble.context import AssembledContext, ContextAssembler
from contextgrid.core.documents import Chunk
from contextgrid.core.errors import ConfigError, StageError
from contextgrid.core.span import Span
from contextgrid.core.tables import ANSWERS, PASSAGE
from contextgrid.generate.answer import Answer
from contextgrid.generate.base import Generator
from contextgrid.models import without_texts

_LONGEST_ERROR = 400


def answer_questions(retrieved: pa.Table, generator: Generator, *, k: int, assembler: ContextAssembler) -> pa.Table:
    """Answers to all questions of a retrieval, one row each, in the order in which they first occur.

    A question that cannot be answered has no answer and says why in ``error``; the others go on.

    Args:
        retrieved: schema ``tables.RETRIEVED``; a question without passages has one row of rank 0.
        generator: called once per question, in order.
        k: how many of the best passages are handed to ``assembler``, at least 1.
        assembler: turns them into the text that the generator reads.

    Returns:
        A table of schema ``tables.ANSWERS``.

    Raises:
        ConfigError: for ``k`` below 1.
        StageError: if no question at all could be answered, with the first cause.
    """
    if k < 1:
        raise ConfigError(f"k must be at least 1, got {k}")
    questions = _questions(retrieved, k)
    outcomes = [_answer(question, generator, assembler) for question in questions]
    failed = [position for position, outcome in enumerate(outcomes) if outcome.error is not None]
    if questions and len(failed) == len(questions):
        raise StageError(
            f"all {len(questions)} questions failed to be answered; the first, {questions[0].id!r}: {outcomes[0].error}"
        )
    return _table(questions, outcomes)


@dataclass(frozen=True)
class _Question:
    id: str
    text: str
    passages: list[Chunk]


@dataclass(frozen=True)
class _Outcome:
    context: AssembledContext
    answer: Answer | None
    error: str | None
    seconds: float


def _questions(retrieved: pa.Table, k: int) -> list[_Question]:
    best_first = retrieved.filter(pc.less_equal(retrieved["rank"], k))
    best_first = best_first.append_column("_row", pa.array(np.arange(best_first.num_rows)))
    best_first = best_first.sort_by([("rank", "ascending"), ("_row", "ascending")])
    names = ("question_id", "question", "rank", "chunk_id", "source_id", "start", "end", "text", "_row")
    found: dict[str, _Question] = {}
    first_row: dict[str, int] = {}
    for question_id, question, rank, chunk_id, source_id, start, end, text, row in zip(
        *(best_first[name].to_pylist() for name in names), strict=True
    ):
        entry = found.setdefault(question_id, _Question(question_id, question, []))
        first_row[question_id] = min(row, first_row.get(question_id, row))
        if rank > 0:
            entry.passages.append(Chunk(chunk_id, Span(source_id, start, end), text))
    return sorted(found.values(), key=lambda question: first_row[question.id])


def _answer(question: _Question, generator: Generator, assembler: ContextAssembler) -> _Outcome:
    context = assembler.assemble(question.passages)
    start = time.perf_counter()
    try:
        answer, error = generator.answer(question.text, context), None
    except Exception as cause:  # noqa: BLE001 - one question's failure, whatever it is, must not stop the others
        answer, error = None, _reason(cause, question, context)
    return _Outcome(context, answer, error, time.perf_counter() - start)


def _reason(cause: Exception, question: _Question, context: AssembledContext) -> str:
    message = " ".join(without_texts(str(cause), [question.text, context.text]).split())
    name = type(cause).__name__
    return f"{name}: {message}"[:_LONGEST_ERROR] if message else name


def _table(questions: Sequence[_Question], outcomes: Sequence[_Outcome]) -> pa.Table:
    answers = [outcome.answer for outcome in outcomes]
    shown = [outcome.context.chunks for outcome in outcomes]
    passages = list(chain.from_iterable(shown))
    columns = {
        "chunk_id": [passage.id for passage in passages],
        "source_id": [passage.span.source_id for passage in passages],
        "start": [passage.span.start for passage in passages],
        "end": [passage.span.end for passage in passages],
        "text": [passage.text for passage in passages],
    }
    structs = pa.StructArray.from_arrays(
        [pa.array(columns[field.name], field.type) for field in PASSAGE], fields=list(PASSAGE)
    )
    offsets = np.cumsum([0, *map(len, shown)], dtype=np.int32)
    return pa.table(
        {
            "question_id": [question.id for question in questions],
            "question": [question.text for question in questions],
            "answer": [answer and answer.text for answer in answers],
            "citations": [list(answer.citations) if answer else None for answer in answers],
            "passages": pa.ListArray.from_arrays(offsets, structs),
            "context": [outcome.context.text for outcome in outcomes],
            "prompt_tokens": [answer and answer.prompt_tokens for answer in answers],
            "completion_tokens": [answer and answer.completion_tokens for answer in answers],
            "error": [outcome.error for outcome in outcomes],
            "seconds": [outcome.seconds for outcome in outcomes],
        },
        schema=ANSWERS,
    )
