"""Ranked passages of all questions, judged against the evidence: the arrays that every retrieval metric reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextgrid.core.errors import StageError
from contextgrid.score.intervals import Ints, overlapping
from contextgrid.score.relevance import holds

NOT_RETRIEVED = int(np.iinfo(np.int64).max)


@dataclass(frozen=True)
class JudgedRankings:
    """What was retrieved for each question, and what of it is evidence.

    Positions are characters on one line on which every question has its own copy of all documents, laid end to
    end, so that one interval operation serves all questions and documents.

    Attributes:
        relevant: (questions, depth) whether the chunk at rank ``column + 1`` holds evidence.
        n_relevant: (questions,) relevant chunks in the whole corpus.
        anchor_question: (anchors,) question of each piece of evidence.
        anchor_rank: (anchors,) best rank of a chunk that holds an occurrence of it, else ``NOT_RETRIEVED``.
        gold_start, gold_end: (occurrences,) positions of every occurrence of every anchor.
        gold_anchor: (occurrences,) the anchor, as a row of ``anchor_question``.
        found_start, found_end, found_rank: (retrieved chunks,) positions and ranks.
        stride: length of one question's part of the line.
    """

    relevant: NDArray[np.bool_]
    n_relevant: Ints
    anchor_question: Ints
    anchor_rank: Ints
    gold_start: Ints
    gold_end: Ints
    gold_anchor: Ints
    found_start: Ints
    found_end: Ints
    found_rank: Ints
    stride: int

    def question_at(self, position: Ints) -> Ints:
        """The question whose part of the line a position lies in."""
        return position // self.stride

    def per_question(self, question: Ints, amounts: NDArray[np.float64] | Ints | None = None) -> NDArray[np.float64]:
        """(questions,) sums of ``amounts``, or counts, over the rows that belong to each question."""
        return np.bincount(question, weights=amounts, minlength=len(self.n_relevant)).astype(np.float64)


def judge_rankings(
    retrieved: pa.Table, chunks: pa.Table, gold: pa.Table, question_ids: Sequence[str]
) -> JudgedRankings:
    """Judge what was retrieved for ``question_ids``; arguments and errors as for ``score_retrieval``."""
    questions = pa.array(question_ids, pa.string())
    if len(set(question_ids)) != len(question_ids):
        raise StageError("retrieval scores: a question id is listed twice; question ids must be unique")
    gold = gold.filter(pc.is_in(gold["question_id"], value_set=questions))
    (chunk_start, chunk_end), (gold_start, gold_end), length = _lay_out(chunks, gold)
    gold_question = _rows(gold["question_id"], questions)
    anchor_question, gold_anchor = _anchors(gold_question, _ints(gold["anchor"]))
    question, chunk, rank = _ranked(retrieved, chunks, questions)

    # Pairs of an occurrence and a chunk that holds it, and for each pair the rank that its question gave the chunk.
    occurrence, holder = overlapping(gold_start, gold_end, chunk_start, chunk_end)
    held = holds(chunk_start[holder], chunk_end[holder], gold_start[occurrence], gold_end[occurrence])
    occurrence, holder = occurrence[held], holder[held]
    held_key = gold_question[occurrence] * len(chunks) + holder
    found_key = question * len(chunks) + chunk
    relevant_key = np.unique(held_key)

    relevant = np.zeros((len(questions), int(rank.max(initial=1))), dtype=np.bool_)
    relevant[question, rank - 1] = np.isin(found_key, relevant_key)
    anchor_rank = np.full(len(anchor_question), NOT_RETRIEVED)
    np.minimum.at(anchor_rank, gold_anchor[occurrence], _look_up(held_key, found_key, rank))
    stride = length + 1  # the gap keeps intervals of neighbouring questions from touching
    return JudgedRankings(
        relevant=relevant,
        n_relevant=np.bincount(relevant_key // max(len(chunks), 1), minlength=len(questions)),
        anchor_question=anchor_question,
        anchor_rank=anchor_rank,
        gold_start=gold_start + gold_question * stride,
        gold_end=gold_end + gold_question * stride,
        gold_anchor=gold_anchor,
        found_start=chunk_start[chunk] + question * stride,
        found_end=chunk_end[chunk] + question * stride,
        found_rank=rank,
        stride=stride,
    )


def ratio(part: NDArray[np.float64] | Ints, whole: NDArray[np.float64] | Ints) -> NDArray[np.float64]:
    """``part / whole``, and 0 where ``whole`` is 0: nothing of nothing was found."""
    return np.divide(part, whole, out=np.zeros(np.shape(part)), where=np.asarray(whole) > 0)


def _lay_out(chunks: pa.Table, gold: pa.Table) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints], int]:
    """Spans of both tables as positions on one line of all documents end to end, and the length of that line."""
    tables = (chunks, gold)
    names = [piece for table in tables for piece in table["source_id"].chunks]
    sources = pc.unique(pa.chunked_array(names, pa.string()))
    spans = [(_rows(table["source_id"], sources), _ints(table["start"]), _ints(table["end"])) for table in tables]
    length = np.zeros(len(sources), dtype=np.int64)
    for source, _, end in spans:
        np.maximum.at(length, source, end)
    offset = np.cumsum(length) - length
    of_chunks, of_gold = ((offset[source] + start, offset[source] + end) for source, start, end in spans)
    return of_chunks, of_gold, int(length.sum())


def _anchors(question: Ints, anchor: Ints) -> tuple[Ints, Ints]:
    """The question of each distinct anchor, and for each occurrence the row of its anchor therein."""
    stride = anchor.max(initial=0) + 1
    distinct, row = np.unique(question * stride + anchor, return_inverse=True)
    return distinct // stride, row.astype(np.int64)


def _ranked(retrieved: pa.Table, chunks: pa.Table, questions: pa.Array) -> tuple[Ints, Ints, Ints]:
    """Question row, chunk row and rank of everything retrieved for ``questions``."""
    wanted = pc.is_in(retrieved["question_id"], value_set=questions)
    found = retrieved.filter(pc.and_(wanted, pc.greater(retrieved["rank"], 0)))
    question, rank = _rows(found["question_id"], questions), _ints(found["rank"])
    chunk = _rows(found["chunk_id"], chunks["chunk_id"].combine_chunks())
    _refuse(found, chunk < 0, "is not among the chunks; score rankings with the chunks they were retrieved from")
    _refuse(found, _repeated(question * len(chunks) + chunk), "is retrieved twice; rank each chunk once")
    _refuse(found, _repeated(question * (rank.max(initial=0) + 1) + rank), "shares its rank with another chunk")
    return question, chunk, rank


def _refuse(found: pa.Table, bad: NDArray[np.bool_], complaint: str) -> None:
    if bad.any():
        row = int(bad.argmax())
        question_id, chunk_id = found["question_id"][row].as_py(), found["chunk_id"][row].as_py()
        raise StageError(f"retrieval scores: question {question_id!r}: chunk {chunk_id!r} {complaint}")


def _repeated(keys: Ints) -> NDArray[np.bool_]:
    repeated = np.ones(len(keys), dtype=np.bool_)
    repeated[np.unique(keys, return_index=True)[1]] = False
    return repeated


def _look_up(wanted: Ints, keys: Ints, ranks: Ints) -> Ints:
    """The rank at each wanted key, ``NOT_RETRIEVED`` where the key is absent."""
    order = np.argsort(keys)
    keys, ranks = np.append(keys[order], -1), np.append(ranks[order], NOT_RETRIEVED)
    position = np.searchsorted(keys[:-1], wanted)
    return np.where(keys[position] == wanted, ranks[position], NOT_RETRIEVED)


def _rows(values: pa.ChunkedArray, among: pa.Array) -> Ints:
    """Row of each value in ``among``, -1 where it is absent."""
    return _ints(pc.fill_null(pc.index_in(values, value_set=among), -1))


def _ints(column: pa.ChunkedArray) -> Ints:
    integers: Ints = column.to_numpy().astype(np.int64)
    return integers
