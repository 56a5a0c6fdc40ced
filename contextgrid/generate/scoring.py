"""Lexical scores of all answers of a cell."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from contextgrid.core.errors import ConfigError, StageError
from contextgrid.core.registry import nearest
from contextgrid.core.tables import LEXICAL_SCORES, RETRIEVAL_SCORES
from contextgrid.generate.abstention import is_abstention
from contextgrid.generate.citation_scores import citation_scores
from contextgrid.generate.quality import answer_quality, evidence_overlap
from contextgrid.generate.scores import citation_accuracy, groundedness


def score_answers(answers: pa.Table, retrieval_scores: pa.Table, *, headline: str) -> pa.Table:
    """Scores of all answers, one row each, in their order.

    ``status`` is ``failed`` where there is no answer, ``skipped_budget`` where there is none yet,
    ``empty_context`` where the generator saw no passage, ``abstained`` where it declined, else ``scored``. What
    says something about an answer's content (``groundedness``, ``citation_accuracy``,
    ``evidence_overlap``, ``citation_precision``, ``citation_recall``) is null unless ``scored``; ``answer_quality``
    and ``abstention_correct`` are there for every answer that did not fail. A question is unanswerable by its label,
    and without one if it has no evidence, found or not.

    Args:
        answers: schema ``tables.ANSWERS``.
        retrieval_scores: schema ``tables.RETRIEVAL_SCORES`` with metric columns; needs a row for every question.
        headline: the metric column to carry as ``retrieval``, for example ``recall@5``.

    Returns:
        A table of schema ``tables.LEXICAL_SCORES``.

    Raises:
        ConfigError: if there is no column ``headline``.
        StageError: if a question has no retrieval scores.
    """
    if headline not in retrieval_scores.column_names:
        metrics = [name for name in retrieval_scores.column_names if name not in RETRIEVAL_SCORES.names]
        raise ConfigError(f"no retrieval metric {headline!r}{nearest(headline, metrics)}")
    question_ids = answers["question_id"].to_pylist()
    questions = retrieval_scores.take(pa.array(_rows(question_ids, retrieval_scores), pa.int64()))
    precision, recall = citation_scores(
        *(_array(column) for column in (answers["citations"], answers["passages"], questions["evidence"]))
    )
    columns = zip(
        *(answers[name].to_pylist() for name in ("answer", "citations", "context", "error", "status")),
        *(questions[name].to_pylist() for name in ("reference", "answerable", "evidence", "unresolved", headline)),
        _array(answers["passages"]).value_lengths().to_pylist(),
        precision.tolist(),
        recall.tolist(),
        strict=True,
    )
    rows = [{"question_id": name} | _score(*values) for name, values in zip(question_ids, columns, strict=True)]
    return pa.Table.from_pylist(rows, schema=LEXICAL_SCORES)


def _score(
    answer: str | None,
    citations: list[int] | None,
    context: str,
    error: str | None,
    status: str | None,
    reference: str | None,
    answerable: bool | None,
    evidence: list[dict[str, Any]] | None,
    unresolved: list[str] | None,
    retrieval: float | None,
    passages: int | None,
    precision: float,
    recall: float,
) -> dict[str, Any]:
    row: dict[str, Any] = {"retrieval": _measured(retrieval)}
    if answer is None or error is not None:
        missing = "skipped_budget" if status == "skipped_budget" else "failed"
        return row | {"status": missing, "reason": error or "there is no answer"}
    evidence = evidence or []
    # One text for each piece of evidence, however often it occurs in its document.
    quotes = list({span["anchor"]: span["text"] for span in reversed(evidence)}.values())
    abstained = is_abstention(answer)
    should_abstain = not evidence or not passages
    row |= {
        "status": "empty_context" if not passages else "abstained" if abstained else "scored",
        "abstained": abstained,
        "should_have_abstained": should_abstain,
        "abstention_correct": float(abstained == should_abstain),
        "answer_quality": answer_quality(
            answer,
            abstained=abstained,
            answerable=bool(evidence or unresolved) if answerable is None else answerable,
            reference=reference,
            gold_quotes=quotes,
        ),
    }
    if row["status"] == "scored":
        row |= {
            "groundedness": groundedness(answer, context),
            "citation_accuracy": citation_accuracy(citations or [], passages or 0),
            "evidence_overlap": evidence_overlap(answer, quotes),
            "citation_precision": _measured(precision),
            "citation_recall": _measured(recall),
        }
    return row


def _rows(question_ids: list[str], retrieval_scores: pa.Table) -> list[int]:
    row_of = {name: row for row, name in enumerate(retrieval_scores["question_id"].to_pylist())}
    for question_id in question_ids:
        if question_id not in row_of:
            raise StageError(
                f"question {question_id!r} was answered but has no retrieval scores; score retrieval again"
            )
    return [row_of[question_id] for question_id in question_ids]


def _array(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _measured(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
