"""Judges of answers that people have rated, for holding their scores against the ratings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from contextgrid.core.errors import ConfigError
from contextgrid.core.registry import nearest
from contextgrid.generate.judge import DEFAULT_METRICS, JudgeError, available_generation_metrics, deepeval_problem
from contextgrid.generate.judging import OFFLINE, RUBRIC_PREFIX, judge_answers
from contextgrid.generate.rubric import RUBRICS
from contextgrid.models import LLM
from contextgrid.models.calls import CallSettings, Meter, begin_run, has_price, open_model

if TYPE_CHECKING:
    import pyarrow as pa

    from contextgrid.evalset.labels import LabelledAnswer

JUDGES = (*available_generation_metrics(), *(RUBRIC_PREFIX + name for name in RUBRICS))
DEFAULT_JUDGES = (*DEFAULT_METRICS, *(RUBRIC_PREFIX + name for name in RUBRICS))


@dataclass(frozen=True)
class JudgedLabels:
    """What judges say about rated answers.

    Attributes:
        scores: by judge one score per answer, ``None`` where there is none.
        notes: in sentences, what was called and spent, and what has no score.
        problems: in sentences, what is missing only because calls failed or the budget ended.
    """

    scores: Mapping[str, Sequence[float | None]]
    notes: tuple[str, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class AnswerJudges:
    """Judges of one model.

    Args:
        model: the model, or its spec, as ``openai:gpt-4o-mini``.
        calls: how the model is called.
        names: of :data:`JUDGES`. By default those of :data:`DEFAULT_JUDGES` that can be used here.

    Raises:
        ConfigError: for a model that cannot judge, or one without a price under a budget.
        JudgeError: for an unknown or repeated name, or one that needs DeepEval where it cannot be imported.
    """

    model: LLM | str
    calls: CallSettings
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.names:
            if name not in JUDGES:
                raise JudgeError(f"unknown judge {name!r}{nearest(name, JUDGES)}")
            if self.names.count(name) > 1:
                raise JudgeError(f"judge {name!r} is given twice")
        problem = self._deepeval_problem
        if self.names and problem is not None:
            raise JudgeError(problem)
        if not isinstance(self.model, str):
            return
        if self.model.startswith(OFFLINE):
            raise ConfigError(f"model {self.model!r} reads passages and cannot judge; name a hosted or local model")
        calls = self.calls
        if calls.budget_usd is not None and calls.mode != "replay" and not has_price(self.model, calls):
            raise ConfigError(f"there is no price for model {self.model!r}, so no budget can be kept; set none")

    def judge(self, answers: Sequence[LabelledAnswer]) -> JudgedLabels:
        """The judges' scores of these answers; different answers are judged side by side.

        Raises:
            StageError: if a replay does not hold a call.
        """
        problem = self._deepeval_problem
        metrics = () if problem is not None else tuple(name for name in self._chosen if name not in _RUBRICS)
        begin_run(self.calls)
        llm = open_model(self.model, calls=self.calls, stage="agreement")
        rubric = tuple(_RUBRICS[name] for name in self._chosen if name in _RUBRICS)
        table = judge_answers(_answers(answers), _references(answers), llm, metrics=metrics, rubric=rubric)
        verdicts: dict[str, list[dict[str, Any]]] = {name: [] for name in self._chosen}
        for row in table.select(["metric", "score", "status", "reason"]).to_pylist():
            verdicts[row["metric"]].append(row)
        judged = {name: rows for name, rows in verdicts.items() if rows}
        return JudgedLabels(
            scores={name: [row["score"] for row in rows] for name, rows in judged.items()},
            notes=(
                _spending(llm.name, llm.meter),
                *_missing(judged, answers),
                *([f"Not judged: {problem}."] if problem else ()),
            ),
            problems=tuple(_problems(judged)),
        )

    @property
    def _chosen(self) -> tuple[str, ...]:
        return self.names or DEFAULT_JUDGES

    @property
    def _deepeval_problem(self) -> str | None:
        """Why judges that were asked for cannot be used; imports DeepEval only where one of them needs it."""
        return None if all(name in _RUBRICS for name in self._chosen) else deepeval_problem()


_RUBRICS = {RUBRIC_PREFIX + name: name for name in RUBRICS}


def _answers(answers: Sequence[LabelledAnswer]) -> pa.Table:
    """As ``tables.ANSWERS``. Several systems answer a question, so the ids are the answers' numbers."""
    import pyarrow as pa

    from contextgrid.core.tables import ANSWERS

    rows = [
        {
            "question_id": str(number),
            "question": given.question,
            "answer": given.answer,
            "passages": [{"text": text} for text in given.contexts],
            "status": "answered",
        }
        for number, given in enumerate(answers)
    ]
    return pa.Table.from_pylist(rows, schema=ANSWERS)


def _references(answers: Sequence[LabelledAnswer]) -> pa.Table:
    """As ``tables.EVALSET``, with the ids of :func:`_answers`."""
    import pyarrow as pa

    from contextgrid.core.tables import EVALSET

    rows = [
        {"question_id": str(number), "question": given.question, "answer": given.reference}
        for number, given in enumerate(answers)
    ]
    return pa.Table.from_pylist(rows, schema=EVALSET)


def _missing(judged: Mapping[str, Sequence[dict[str, Any]]], answers: Sequence[LabelledAnswer]) -> Iterator[str]:
    """Which judges gave how many answers no score, and why."""
    names: dict[str, list[str]] = {}
    for name, rows in judged.items():
        statuses = Counter(row["status"] for row in rows if row["status"] != "scored")
        if not statuses:
            continue
        counted = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
        why = f"{statuses.total()} of {len(rows)} answers: {counted}"
        lost = next((number for number, row in enumerate(rows) if row["status"] in _LOST), None)
        if lost is not None:
            given = answers[lost]
            whose = f" by {given.model!r}" if given.model else ""
            reason = rows[lost]["reason"] or "no reason given"
            why += f"; the first lost, to question {given.question_id!r}{whose}: {reason}"
        names.setdefault(why, []).append(name)
    for why, who in names.items():
        yield f"No score from {', '.join(who)} for {why}."


def _problems(judged: Mapping[str, Sequence[dict[str, Any]]]) -> Iterator[str]:
    statuses = {name: Counter(row["status"] for row in rows) for name, rows in judged.items()}
    skipped = sum(counts["skipped_budget"] for counts in statuses.values())
    if skipped:
        yield f"skipped_budget: {skipped} verdicts; run again to get them"
    for name, counts in statuses.items():
        if counts["failed"] and not counts["scored"]:
            yield f"{name}: no answer could be judged, {counts['failed']} verdicts failed"


_LOST = ("failed", "skipped_budget")


def _spending(model: str, meter: Meter) -> str:
    failed = f", {meter.failed} failed" if meter.failed else ""
    unpriced = f"; {meter.unpriced} replies have no price" if meter.unpriced else ""
    return (
        f"Judged by {model}: {meter.calls} calls made, {meter.hits} already in the ledger{failed}; "
        f"${meter.spent:.4f} spent now, ${meter.usd:.4f} at the original price{unpriced}."
    )
