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
from contextgrid.generate.llm import LLMGenerator
from contextgrid.models.calls import BudgetExceeded, Meter, MeteredLLM, ReplayMiss, count_calls, map_in_order
from contextgrid.models.echo import without_texts

_LONGEST_ERROR = 400


def answer_questions(retrieved: pa.Table, generator: Generator, *, k: int, assembler: ContextAssembler) -> pa.Table:
    """Answers to all questions of a retrieval, one row each, in the order in which they first occur.

    A question that cannot be answered has no answer and says why in ``error``; the others go on. One that the
    run's budget does not cover has the status ``skipped_budget``: it is answered when the cell is run again.

    Args:
        retrieved: schema ``tables.RETRIEVED``; a question without passages has one row of rank 0.
        generator: called once per question: side by side if its model allows it, else in order.
        k: how many of the best passages are handed to ``assembler``, at least 1.
        assembler: turns them into the text that the generator reads.

    Returns:
        A table of schema ``tables.ANSWERS``.

    Raises:
        ConfigError: for ``k`` below 1.
        StageError: if every question failed, with the first cause, and for a replay that does not hold a call.
    """
    if k < 1:
        raise ConfigError(f"k must be at least 1, got {k}")
    questions = _questions(retrieved, k)
    asked = [(question, assembler.assemble(question.passages)) for question in questions]
    model = generator.llm if isinstance(generator, LLMGenerator) else None
    if isinstance(model, MeteredLLM) and isinstance(generator, LLMGenerator):
        prompts = (generator.prompt_for(question.text, context) for question, context in asked)
        model.prefetch(prompts, max_tokens=generator.max_tokens)
    results = map_in_order(model, lambda pair: _answer(*pair, generator), asked)
    outcomes = []
    for result in results:
        if isinstance(result, Exception):
            raise result
        outcomes.append(result)
    _refuse_useless(questions, outcomes)
    return _table(questions, outcomes)


def ask(retrieved: pa.Table, *, k: int, assembler: ContextAssembler) -> list[tuple[str, AssembledContext]]:
    """What :func:`answer_questions` hands to its generator: every question with its context, in order."""
    return [(question.text, assembler.assemble(question.passages)) for question in _questions(retrieved, k)]


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
    status: str
    seconds: float
    meter: Meter | None  # None where the model's calls are not counted


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


def _answer(question: _Question, context: AssembledContext, generator: Generator) -> _Outcome:
    answer, error, status = None, None, "answered"
    counted = not isinstance(generator, LLMGenerator) or isinstance(generator.llm, MeteredLLM)
    start = time.perf_counter()
    with count_calls() as meter:
        try:
            answer = generator.answer(question.text, context)
        except BudgetExceeded as cause:
            error, status = _reason(cause, question, context), "skipped_budget"
        except ReplayMiss as cause:
            error, status = str(cause), "not_recorded"
        except Exception as cause:  # noqa: BLE001 - one question's failure, whatever it is, must not stop the others
            error, status = _reason(cause, question, context), "failed"
    return _Outcome(context, answer, error, status, time.perf_counter() - start, meter if counted else None)


def _refuse_useless(questions: Sequence[_Question], outcomes: Sequence[_Outcome]) -> None:
    """Raise where there is nothing to go on with: all questions failed, or a replay is not complete."""
    pairs = list(zip(questions, outcomes, strict=True))
    unrecorded = [(question, outcome) for question, outcome in pairs if outcome.status == "not_recorded"]
    if unrecorded:
        question, outcome = unrecorded[0]
        raise StageError(
            f"{len(unrecorded)} of {len(questions)} calls are not recorded; the first, {question.id!r}: {outcome.error}"
        )
    if questions and all(outcome.status == "failed" for outcome in outcomes):
        raise StageError(
            f"all {len(questions)} questions failed to be answered; the first, {questions[0].id!r}: {outcomes[0].error}"
        )


def _reason(cause: Exception, question: _Question, context: AssembledContext) -> str:
    message = " ".join(without_texts(str(cause), [question.text, context.text]).split())
    name = type(cause).__name__
    return f"{name}: {message}"[:_LONGEST_ERROR] if message else name


def _table(questions: Sequence[_Question], outcomes: Sequence[_Outcome]) -> pa.Table:
    answers = [outcome.answer for outcome in outcomes]
    meters = [outcome.meter for outcome in outcomes]
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
            "status": [outcome.status for outcome in outcomes],
            "seconds": [outcome.seconds for outcome in outcomes],
            "model_calls": [meter and meter.calls for meter in meters],
            "model_prompt_tokens": [meter and meter.prompt_tokens for meter in meters],
            "model_completion_tokens": [meter and meter.completion_tokens for meter in meters],
            "usd": [meter and meter.price for meter in meters],
            "usd_spent": [None if meter is None or meter.price is None else meter.spent for meter in meters],
        },
        schema=ANSWERS,
    )
