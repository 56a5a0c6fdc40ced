"""Whether the cited passages are the ones that hold the evidence."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contextgrid.score.relevance import holds

Floats = NDArray[np.float64]


def citation_scores(citations: pa.Array, passages: pa.Array, evidence: pa.Array) -> tuple[Floats, Floats]:
    """Precision and recall of the citations of many answers against the gold evidence.

    Precision is the share of an answer's citations whose passage holds a piece of evidence; a number that no
    passage has holds none. Recall is the share of the question's pieces of evidence that a cited passage holds;
    occurrences of the same anchor are one piece. ``contextgrid.score.relevance.holds`` says what holding is.

    Args:
        citations: one list of distinct passage numbers (from 1) per answer.
        passages: one list of ``tables.PASSAGE`` per answer, in the order shown.
        evidence: one list of ``tables.EVIDENCE`` per answer.

    Returns:
        Two arrays with one value per answer: nan for precision where nothing is cited or there is no evidence,
        nan for recall where there is no evidence.
    """
    answers = len(citations)
    answer_of_citation, numbers = _flat(citations)
    number = np.asarray(numbers, dtype=np.int64)
    _, shown = _flat(passages)
    passage_counts = _lengths(passages)
    answer_of_gold, gold = _flat(evidence)
    gold_counts = _lengths(evidence)

    # Pair every citation that points at a passage with every span of evidence of its answer.
    real = np.flatnonzero((number >= 1) & (number <= passage_counts[answer_of_citation]))
    passage = _starts(passage_counts)[answer_of_citation[real]] + number[real] - 1
    repeats = gold_counts[answer_of_citation[real]]
    left = np.repeat(np.arange(len(real)), repeats)
    right = np.arange(len(left)) - np.repeat(_starts(repeats) - _starts(gold_counts)[answer_of_citation[real]], repeats)
    shown_at, gold_at = shown.take(pa.array(passage[left])), gold.take(pa.array(right))
    held = holds(*(_integers(side, end) for side in (shown_at, gold_at) for end in ("start", "end")))
    held &= np.asarray(pc.equal(_field(shown_at, "source_id"), _field(gold_at, "source_id")), dtype=bool)

    cites_evidence = np.zeros(len(number), dtype=bool)
    cites_evidence[real[left[held]]] = True
    pieces = np.unique(np.stack([answer_of_gold, _integers(gold, "anchor")]), axis=1)
    found = np.unique(np.stack([answer_of_gold, _integers(gold, "anchor")])[:, right[held]], axis=1)
    with np.errstate(invalid="ignore"):
        precision = np.bincount(answer_of_citation, cites_evidence, answers) / _counts(answer_of_citation, answers)
        recall = np.bincount(found[0], minlength=answers) / _counts(pieces[0], answers)
    precision[gold_counts == 0] = np.nan
    return precision, recall


def _lengths(lists: pa.Array) -> NDArray[np.int64]:
    return np.asarray(pc.fill_null(pc.list_value_length(lists), 0), dtype=np.int64)


def _flat(lists: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """For each element the row it comes from, and the elements."""
    return np.repeat(np.arange(len(lists)), _lengths(lists)), pc.list_flatten(lists)


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.cumsum(counts) - counts


def _counts(rows: NDArray[np.int64], total: int) -> Floats:
    return np.bincount(rows, minlength=total).astype(np.float64)


def _field(structs: pa.Array, name: str) -> pa.Array:
    return pc.struct_field(structs, [structs.type.get_field_index(name)])


def _integers(structs: pa.Array, name: str) -> NDArray[np.int64]:
    return np.asarray(_field(structs, name), dtype=np.int64)
