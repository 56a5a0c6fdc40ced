"""What a cell says at one time, as far as drift is about it.

Two answers are the same if they have the same words and signs in the same order; how much white space lies between
them does not matter. Everything else does, case included: whether a change of wording matters is what the scores say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

_UNMEASURED = frozenset({"failed", "skipped_budget"})


@dataclass(frozen=True)
class Value:
    """A question's answer, or its score by a metric.

    Attributes:
        content: what is compared; ``None`` where there is none, for ``status``.
        score: the score, where there is one.
        task: stands for what the generator read, where that is known.
    """

    status: str | None
    content: Hashable = None
    score: float | None = None
    task: bytes | None = None


@dataclass(frozen=True)
class Reading:
    """What a cell says at one time: answers by question id, and for each metric scores by question id."""

    answers: Mapping[str, Value]
    metrics: Mapping[str, Mapping[str, Value]]

    @classmethod
    def of(
        cls,
        answers: pa.Table,
        lexical: pa.Table | None = None,
        judged: pa.Table | None = None,
        *,
        metrics: Iterable[str] = ("answer_quality",),
    ) -> Reading:
        """Read a cell's tables; they are not kept.

        Args:
            answers, lexical, judged: schemas ``ANSWERS``, ``LEXICAL_SCORES`` and ``JUDGE_SCORES``.
            metrics: the scores to read; those that no table has are left out.
        """
        found: dict[str, Mapping[str, Value]] = {}
        for metric in metrics:
            if lexical is not None and metric in lexical.column_names:
                found[metric] = _scores(lexical, metric)
            elif judged is not None and (verdicts := _verdicts(judged, metric)):
                found[metric] = verdicts
        return cls(_answers(answers), found)


def _answers(table: pa.Table) -> dict[str, Value]:
    columns = (table[name].to_pylist() for name in ("question_id", "answer", "status", "question", "context"))
    return {
        id_: Value(
            status,
            None if answer is None or status in _UNMEASURED else " ".join(answer.split()),
            task=hashlib.blake2b(f"{question}\0{context}".encode("utf-8", "replace"), digest_size=16).digest(),
        )
        for id_, answer, status, question, context in zip(*columns, strict=True)
    }


def _scores(lexical: pa.Table, metric: str) -> dict[str, Value]:
    columns = (lexical[name].to_pylist() for name in ("question_id", metric, "status"))
    return {id_: _value(score, status) for id_, score, status in zip(*columns, strict=True)}


def _verdicts(judged: pa.Table, metric: str) -> dict[str, Value]:
    columns = (judged[name].to_pylist() for name in ("question_id", "metric", "score", "status"))
    return {id_: _value(score, status) for id_, of, score, status in zip(*columns, strict=True) if of == metric}


def _value(score: float | None, status: str) -> Value:
    if status in _UNMEASURED:
        return Value(status)
    # Rounding in the ninth decimal is no change. A verdict without a score, as vacuous, is a value too.
    content = (status, None if score is None else round(float(score), 9))
    return Value(status, content, None if score is None else float(score))
