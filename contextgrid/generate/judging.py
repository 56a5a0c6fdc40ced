"""All answers of a cell through the judges."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from contextgrid.core.errors import ConfigError, StageError
from contextgrid.core.registry import nearest
from contextgrid.core.tables import JUDGE_SCORES
from contextgrid.generate.judge import (
    DEFAULT_METRICS,
    NEEDS_DEEPEVAL,
    GenerationJudge,
    JudgeError,
    Usage,
    Verdict,
    decided_without_judge,
    deepeval_problem,
    deepeval_version,
    failure_reason,
    failure_status,
)
from contextgrid.generate.rubric import RUBRICS, Settings
from contextgrid.models import LLM
from contextgrid.models.concurrency import map_in_order
from contextgrid.models.meter import count_calls
from contextgrid.models.metered import ReplayMiss
from contextgrid.score.statistics import mean_of

if TYPE_CHECKING:
    from contextgrid.core.axes import Generation
    from contextgrid.settings import RunSettings

RUBRIC_PREFIX = "rubric_"
# Models with this prefix read passages; they cannot judge.
OFFLINE = "offline:"


@dataclass(frozen=True)
class Judged:
    """All that a judge is told about an answer; ``answer`` is ``None`` where there is none, for ``missing``."""

    question: str
    answer: str | None
    contexts: tuple[str, ...]
    reference: str | None
    missing: tuple[str, str] | None = None


# Verdicts by judge, metrics and item: what has been judged once is not judged again.
Memory = MutableMapping[tuple[Any, ...], tuple[Verdict, ...]]


def judge_answers(
    answers: pa.Table,
    evalset: pa.Table,
    judge_llm: LLM,
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    rubric: Sequence[str] = (),
    threshold: float = 0.5,
    memory: Memory | None = None,
) -> pa.Table:
    """Every answer judged by every metric, from the passages that its generator saw.

    Different answers are judged side by side where the model allows it, with the same result as one after the
    other. The same answer to the same question from the same passages is judged once; where it occurs again, its
    verdicts keep their original price, ``usd``, and nothing is spent.

    Args:
        answers: schema ``tables.ANSWERS``.
        evalset: schema ``tables.EVALSET``; has the reference answers.
        judge_llm: the model that judges.
        metrics: DeepEval metrics; left out where DeepEval cannot be imported.
        rubric: rubric judges, ``groundedness`` and ``relevance``; their scores are called ``rubric_<name>``.
        threshold: see :class:`GenerationJudge`.
        memory: verdicts of earlier calls, consulted and added to.

    Returns:
        A table of schema ``tables.JUDGE_SCORES``, in the order of ``answers`` and then of the metrics.

    Raises:
        JudgeError: for an unknown or repeated metric or rubric.
        StageError: if a replay does not hold a call.
    """
    check_rubric(rubric)
    judge = _Judge.of(judge_llm, metrics, rubric, threshold)
    items = _items(answers, evalset, with_reference="contextual_recall" in metrics)
    memory = {} if memory is None else memory
    known = {item: memory[judge.key(item)] for item in set(items) if judge.key(item) in memory}
    asked = [item for item in dict.fromkeys(items) if item not in known]
    verdicts: dict[Judged, tuple[Verdict, ...]] = {}
    for item, outcome in zip(asked, map_in_order(judge_llm, judge.judge, asked), strict=True):
        if isinstance(outcome, ReplayMiss):
            raise StageError(str(outcome)) from outcome
        if isinstance(outcome, Exception):
            raise outcome
        verdicts[item] = outcome
        if all(verdict.status not in ("failed", "skipped_budget") for verdict in outcome):
            memory[judge.key(item)] = _shared(outcome)
    rows: list[dict[str, Any]] = []
    for question_id, item in zip(answers["question_id"].to_pylist(), items, strict=True):
        rows += [_row(question_id, verdict) for verdict in (known[item] if item in known else verdicts[item])]
        if item not in known:
            known[item] = _shared(verdicts[item])
    return pa.Table.from_pylist(rows, schema=JUDGE_SCORES)


def judge_for(
    run: RunSettings, answered_by: str | None, llm: LLM | None = None, judge_llm: LLM | None = None
) -> LLM | str | None:
    """The model that judges answers, or its spec; ``None`` where nothing is judged.

    Args:
        answered_by: spec of the model that wrote the answers, ``None`` if none did.
        llm: an object that stands in for the models that the settings name.
        judge_llm: an object that judges, whatever else there is.
    """
    if run.judge is None:
        return None
    if judge_llm is not None:
        return judge_llm
    if run.judge.model is None and llm is not None:
        return None if llm.name.startswith(OFFLINE) else llm
    return run.judge_model(answered_by)


def check_answer_metric(
    run: RunSettings, columns: Sequence[Generation], llm: LLM | None = None, judge_llm: LLM | None = None
) -> None:
    """Refuse to compare answers by a judge metric that nothing here can judge.

    Raises:
        ConfigError: saying what is missing.
    """
    if run.judge is None or run.answer_metric not in run.judge.judged or not columns:
        return
    if all(judge_for(run, column.model, llm, judge_llm) is None for column in columns):
        raise ConfigError(
            f"run.answer_metric: {run.answer_metric!r} needs a model that judges, and there is none (the offline reader"
            " cannot); set run.judge.model"
        )
    if run.answer_metric in run.judge.metrics and deepeval_version() is None:
        raise ConfigError(f"run.answer_metric: {run.answer_metric!r}: {NEEDS_DEEPEVAL}")


def check_rubric(rubric: Iterable[str]) -> None:
    """Refuse unknown and repeated rubric judges.

    Raises:
        JudgeError: naming the nearest valid one.
    """
    rubric = list(rubric)
    for name in rubric:
        if name not in RUBRICS:
            raise JudgeError(f"unknown rubric judge {name!r}{nearest(name, RUBRICS)}")
        if rubric.count(name) > 1:
            raise JudgeError(f"rubric judge {name!r} is given twice")


def with_judge_scores(scores: pa.Table, judge_scores: pa.Table | None, *, needs: str | None = None) -> pa.Table:
    """A table of scores with one more column per judge metric, joined by question.

    Args:
        scores: one row per question, as ``tables.LEXICAL_SCORES``.
        judge_scores: schema ``tables.JUDGE_SCORES``; ``None`` where nothing was judged.
        needs: a metric that gets a column of nulls if it was not judged.
    """
    if judge_scores is not None:
        for metric in pc.unique(judge_scores["metric"]).to_pylist():
            own = judge_scores.filter(pc.equal(judge_scores["metric"], metric))
            row = pc.index_in(scores["question_id"], value_set=own["question_id"].combine_chunks())
            scores = scores.append_column(metric, own["score"].take(row))
    if needs is not None and needs not in scores.column_names:
        scores = scores.append_column(needs, pa.nulls(len(scores), pa.float64()))
    return scores


def coverage_warnings(judge_scores: pa.Table) -> list[str]:
    """One sentence for each metric some of whose verdicts failed or were skipped: over how many its mean is."""
    sentences = []
    for metric in pc.unique(judge_scores["metric"]).to_pylist():
        own = judge_scores.filter(pc.equal(judge_scores["metric"], metric))
        statuses = Counter(own["status"].to_pylist())
        lost = own.filter(pc.is_in(own["status"], value_set=pa.array(["failed", "skipped_budget"])))
        if not len(lost):
            continue
        mean = mean_of(own["score"])
        stated = "no mean" if mean.mean is None else f"mean {mean.mean:.3f}"
        counted = ", ".join(
            f"{statuses[name]} {words}"
            for name, words in (("failed", "failed"), ("skipped_budget", "skipped for the budget"))
            if statuses[name]
        )
        first = lost.slice(0, 1).to_pylist()[0]
        sentences.append(
            f"{metric}: {stated}, n={mean.n} of {mean.total}: {counted}; the first, question"
            f" {first['question_id']!r}: {first['reason'] or 'no reason given'}"
        )
    return sentences


@dataclass(frozen=True)
class _Judge:
    """DeepEval metrics and rubric judges of one model."""

    llm: LLM
    deepeval: GenerationJudge | None
    rubric: tuple[str, ...]

    @classmethod
    def of(cls, llm: LLM, metrics: Sequence[str], rubric: Sequence[str], threshold: float) -> _Judge:
        judge = GenerationJudge(llm, tuple(metrics), threshold) if metrics else None
        # Imported here, before threads would import it side by side.
        return cls(llm, judge if judge and deepeval_problem() is None else None, tuple(rubric))

    def key(self, item: Judged) -> tuple[Any, ...]:
        return (self.llm.name, self.deepeval and self.deepeval.metrics, self.rubric, item)

    def judge(self, item: Judged) -> tuple[Verdict, ...]:
        if item.missing is not None:
            status, reason = item.missing
            names = [*(self.deepeval.metrics if self.deepeval else ()), *(RUBRIC_PREFIX + name for name in self.rubric)]
            return tuple(Verdict(name, status, reason=reason) for name in names)
        verdicts: list[Verdict] = []
        if self.deepeval is not None:
            verdicts += self.deepeval.score(
                query_id="",
                question=item.question,
                answer=item.answer,
                contexts=item.contexts,
                reference=item.reference,
            ).verdicts
        return (*verdicts, *(self._rate(name, item) for name in self.rubric))

    def _rate(self, name: str, item: Judged) -> Verdict:
        metric, texts = RUBRIC_PREFIX + name, [text for text in item.contexts if text.strip()]
        decided = decided_without_judge(item.answer, texts)
        if decided is not None:
            return Verdict(metric, decided[0], reason=decided[1])
        started = time.perf_counter()
        with count_calls() as meter:
            try:
                result = RUBRICS[name](item.question, "\n\n".join(texts), item.answer or "", Settings(self.llm))
            except ReplayMiss:
                raise
            except Exception as error:  # noqa: BLE001 - one verdict's failure must not stop the others
                reason = failure_reason(error, [item.question, item.answer or "", *texts])
                status = failure_status(error)
                calls = 0 if status == "skipped_budget" else 1
                used = Usage.of(meter, calls, time.perf_counter() - started)
                return Verdict(metric, status, reason=reason, calls=calls, usage=used)
        used = Usage.of(meter, 1, time.perf_counter() - started)
        if result.score is None:
            reason = "the reply gives no score from 1 to 5"
            return Verdict(metric, "failed", reason=reason, raw_reply=result.raw_response, calls=1, usage=used)
        return Verdict(metric, "scored", float(result.score), result.justification or None, calls=1, usage=used)


def _items(answers: pa.Table, evalset: pa.Table, *, with_reference: bool) -> list[Judged]:
    references: dict[str, str | None] = {}
    if with_reference:
        references = dict(zip(evalset["question_id"].to_pylist(), evalset["answer"].to_pylist(), strict=True))
    names = ("question_id", "question", "answer", "passages", "error", "status")
    columns = [answers[name].to_pylist() if name in answers.column_names else [None] * len(answers) for name in names]
    items = []
    for question_id, question, answer, passages, error, status in zip(*columns, strict=True):
        contexts = tuple(passage["text"] or "" for passage in passages or ())
        missing = None
        if answer is None or error is not None:
            missing = ("skipped_budget" if status == "skipped_budget" else "failed", _no_answer(error))
        items.append(Judged(question, answer, contexts, references.get(question_id), missing))
    return items


def _no_answer(error: str | None) -> str:
    return f"there is no answer: {error}" if error else "there is no answer"


def _shared(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Verdicts as if the ledger had held every call: nothing is called or spent again, but what they cost stays.

    So what judging a cell costs does not depend on which cells were judged before it.
    """
    return tuple(replace(verdict, usage=_used_again(verdict.usage)) for verdict in verdicts)


def _used_again(usage: Usage) -> Usage:
    return replace(usage, calls=0, seconds=0.0, usd_spent=None if usage.usd_spent is None else 0.0)


def _row(question_id: str, verdict: Verdict) -> dict[str, Any]:
    used = verdict.usage
    return {
        "question_id": question_id,
        "metric": verdict.metric,
        "score": verdict.score,
        "status": verdict.status,
        "reason": verdict.reason,
        "raw_reply": verdict.raw_reply,
        "calls": verdict.calls,
        "seconds": used.seconds,
        "model_calls": used.calls,
        "model_prompt_tokens": used.prompt_tokens,
        "model_completion_tokens": used.completion_tokens,
        "usd": used.usd,
        "usd_spent": used.usd_spent,
    }
