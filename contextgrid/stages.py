"""The stages of an evaluation, each a function from plain inputs and a spec to one table or index.

``parse -> chunk -> index -> retrieve -> score retrieval -> answer -> score answers -> compare -> leaderboard``.
The library chains them in memory, the Dagster assets load, call and store. No stage knows who calls it, and
all questions go through a stage together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextgrid.chunk import chunk_documents
from contextgrid.core.errors import StageError
from contextgrid.core.tables import LEADERBOARD, RETRIEVAL_SCORES, RETRIEVED
from contextgrid.index import PassageIndex
from contextgrid.models.purpose import calls_for
from contextgrid.parse import parse_corpus

if TYPE_CHECKING:
    from contextgrid.core.axes import Retrieval
    from contextgrid.core.matrix import Matrix
    from contextgrid.evalset.llm import LLM
    from contextgrid.generate.judging import Memory
    from contextgrid.generate.lift import LiftReport
    from contextgrid.settings import RunSettings

__all__ = [
    "answer",
    "build_index",
    "chunk_documents",
    "code_version",
    "compare",
    "judge",
    "leaderboard",
    "parse_corpus",
    "retrieve",
    "score_answers",
    "score_retrieval",
]

# How many passages a reranker reads where the grid does not say.
DEFAULT_CANDIDATES = 50

# Raised when a stage's logic changes; paired with the settings that the stage's result depends on.
_VERSIONS: dict[str, tuple[int, tuple[str, ...]]] = {
    "corpus": (1, ()),
    "evalset": (1, ()),
    "generation_spec": (1, ()),
    "documents": (1, ()),
    "chunks": (1, ()),
    "index": (1, ()),
    "retrieved_ids": (1, ("depth",)),
    "retrieval_scores": (1, ("scored_cutoffs",)),
    "answers": (2, ("k", "ordering", "context_tokens", "max_tokens")),
    "lexical_scores": (1, ("headline",)),
    "judge_scores": (1, ("judge_key",)),
    "lift_reports": (1, ("headline", "answer_metric", "seed", "resamples")),
    "leaderboard": (1, ("headline", "answer_metric", "seed", "resamples")),
}
_KNOWS_BASELINE = frozenset({"lift_reports", "leaderboard"})


def code_version(stage: str, run: RunSettings, matrix: Matrix) -> str:
    """A stage's logic version with the run settings its result depends on, as ``1 k=5 ordering=relevance``."""
    version, names = _VERSIONS[stage]
    parts = [f"{name}={_plain(getattr(run, name))}" for name in names]
    if stage in _KNOWS_BASELINE:
        parts.append(f"baseline={matrix.baseline.key}")
    return " ".join([str(version), *parts])


def build_index(
    chunks: pa.Table, embedder: str | None, index: str, run: RunSettings | None = None, *, cell: str | None = None
) -> PassageIndex:
    """Index passages; as ``contextgrid.index.build_index``.

    Args:
        run: says how a hosted embedder is called; by default with plain settings. The index does not depend on it.
        cell: key of the index in the grid, noted with those calls in the ledger.

    Raises:
        LLMError: if a hosted embedder fails, or a replay does not hold a call.
    """
    from contextgrid.index import build_index as build

    if run is None:
        return build(chunks, embedder, index)
    with calls_for(lambda: run.call_settings, "index", cell):
        return build(chunks, embedder, index)


def retrieve(index: PassageIndex, evalset: pa.Table, row: Retrieval, run: RunSettings) -> pa.Table:
    """The ranked passages of every question, ``run.depth`` ranks deep or as many as there are passages.

    A reranker reorders the first ``row.candidates`` passages; those behind them keep their order.

    Returns:
        Schema ``tables.RETRIEVED``. A question that found nothing has one row with rank 0.

    Raises:
        LLMError: if a hosted embedder or reranker fails, or a replay does not hold a call.
    """
    from contextgrid.transform import TRANSFORMS

    questions: list[str] = evalset["question"].to_pylist()
    queries = TRANSFORMS.build(row.transform).transform(questions) if row.transform else questions
    passages = index.chunks.num_rows
    depth = min(run.depth, passages)
    candidates = min(row.candidates or max(DEFAULT_CANDIDATES, depth), passages)
    with calls_for(lambda: run.call_settings, "retrieved_ids", row.key):
        found, scores = index.search(queries, max(depth, candidates) if row.reranker else depth)
        if row.reranker:
            found, scores = _rerank(row.reranker, index, questions, found, scores, candidates)
    return _ranked_table(index.chunks, evalset, found[:, :depth], scores[:, :depth])


def score_retrieval(
    retrieved: pa.Table, chunks: pa.Table, documents: pa.Table, evalset: pa.Table, run: RunSettings
) -> pa.Table:
    """Retrieval metrics of every question, with its evidence located in this parse.

    Returns:
        Schema ``tables.RETRIEVAL_SCORES`` followed by one column per metric and cut-off. Metrics are null
        for questions without evidence in this parse.
    """
    from contextgrid.evalset.resolve import resolve_gold
    from contextgrid.score.retrieval import score_retrieval as measure

    gold, unresolved = resolve_gold(evalset, documents)
    ids: list[str] = evalset["question_id"].to_pylist()
    metrics = measure(retrieved, chunks, gold, ids, run.scored_cutoffs)
    evidence: dict[str, list[dict[str, object]]] = {}
    for piece in gold.select(["question_id", "anchor", "source_id", "start", "end", "text"]).to_pylist():
        evidence.setdefault(piece.pop("question_id"), []).append(piece)
    columns = [
        evalset["question_id"],
        evalset["question"],
        evalset["answer"],
        evalset["answerable"],
        pa.array([evidence.get(id_, []) for id_ in ids], RETRIEVAL_SCORES.field("evidence").type),
        pa.array([unresolved.get(id_, []) for id_ in ids], pa.list_(pa.string())),
    ]
    table = pa.Table.from_arrays(columns, schema=RETRIEVAL_SCORES)
    for name, values in metrics.items():
        table = table.append_column(name, pa.array(values, pa.float64(), mask=~np.isfinite(values)))
    return table


def answer(
    retrieved: pa.Table,
    generation_spec: pa.Table,
    run: RunSettings,
    llm: LLM | None = None,
    *,
    cell: str | None = None,
) -> pa.Table:
    """Answers of one generation configuration from the first ``run.k`` passages of every question.

    Args:
        generation_spec: one row, schema ``tables.GENERATION_SPEC``.
        llm: the model to call instead of the one that the generation spec names.
        cell: key of the cell, noted with its calls in the ledger.

    Raises:
        StageError: if every question failed, or a replay does not hold a call.
    """
    from contextgrid.assemble.context import ContextAssembler
    from contextgrid.generate import get_generator
    from contextgrid.generate.answering import answer_questions
    from contextgrid.models.calls import open_model

    spec = generation_spec.to_pylist()[0]
    chosen = spec["model"] if llm is None else llm
    if chosen is not None:
        llm = open_model(chosen, calls=run.call_settings, stage="answers", cell=cell)
    generator = get_generator(spec["generator"], llm=llm, prompt=spec["prompt"], max_tokens=run.max_tokens)
    if generator is None:
        raise StageError("a generation configuration without a generator has nothing to answer with")
    assembler = ContextAssembler(ordering=run.ordering, max_tokens=run.context_tokens)
    return answer_questions(retrieved, generator, k=run.k, assembler=assembler)


def score_answers(answers: pa.Table, retrieval_scores: pa.Table, run: RunSettings) -> pa.Table:
    """Lexical scores of every answer, with the question's headline retrieval score (``tables.LEXICAL_SCORES``)."""
    from contextgrid.generate.scoring import score_answers as measure

    return measure(answers, retrieval_scores, headline=run.headline)


def judge(
    answers: pa.Table,
    evalset: pa.Table,
    run: RunSettings,
    llm: LLM | str | None = None,
    *,
    answered_by: str | None = None,
    cell: str | None = None,
    memory: Memory | None = None,
) -> pa.Table:
    """Every answer judged by a model, as ``run.judge`` says (``tables.JUDGE_SCORES``).

    Args:
        llm: the judge, or its spec, instead of the one that ``run`` names.
        answered_by: spec of the model that wrote the answers; it judges where ``run`` names no model.
        cell: key of the cell, noted with its calls in the ledger.
        memory: verdicts to share between calls of this function.

    Raises:
        StageError: if there is no judge, or a replay does not hold a call.
    """
    from contextgrid.generate.judging import judge_answers
    from contextgrid.models.calls import open_model

    chosen = run.judge_model(answered_by) if llm is None else llm
    if run.judge is None or chosen is None:
        raise StageError("nothing can judge the answers; set run.judge.model")
    return judge_answers(
        answers,
        evalset,
        open_model(chosen, calls=run.call_settings, stage="judge_scores", cell=cell),
        metrics=run.judge.metrics,
        rubric=run.judge.rubric,
        threshold=run.judge.threshold,
        memory=memory,
    )


def compare(
    cell: pa.Table,
    baseline: pa.Table,
    run: RunSettings,
    *,
    cell_key: str,
    baseline_key: str,
    cell_judge: pa.Table | None = None,
    baseline_judge: pa.Table | None = None,
) -> LiftReport:
    """What a cell gained over its baseline cell (same generation, baseline retrieval), question by question.

    Args:
        cell, baseline: schema ``tables.LEXICAL_SCORES``.
        cell_judge, baseline_judge: schema ``tables.JUDGE_SCORES``; ``None`` where nothing was judged.
    """
    from contextgrid.generate.judging import with_judge_scores
    from contextgrid.generate.lift import lift_report

    judged = () if run.judge is None else run.judge.judged
    needs = run.answer_metric if run.answer_metric in judged else None
    return lift_report(
        with_judge_scores(cell, cell_judge, needs=needs),
        with_judge_scores(baseline, baseline_judge, needs=needs),
        answer_metric=run.answer_metric,
        headline=run.headline,
        cell_key=cell_key,
        baseline_key=baseline_key,
        seed=run.seed,
        resamples=run.resamples,
    )


def leaderboard(
    retrieval_scores: Mapping[str, pa.Table], lifts: Mapping[str, LiftReport], run: RunSettings, matrix: Matrix
) -> pa.Table:
    """All cells that have results, best first by the answer metric (by the headline where nothing is generated).

    Args:
        retrieval_scores: tables of :func:`score_retrieval` by row key.
        lifts: reports of :func:`compare` by ``column_key|row_key``.

    Returns:
        Schema ``tables.LEADERBOARD``. ``best`` marks the cells that cannot be told from the first one after
        correction for the number of comparisons.
    """
    from contextgrid.report.leaderboard import build_leaderboard

    return build_leaderboard(retrieval_scores, lifts, run, matrix).cast(LEADERBOARD)


def _rerank(
    spec: str,
    index: PassageIndex,
    questions: list[str],
    found: NDArray[np.int64],
    scores: NDArray[np.float64],
    candidates: int,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Reorder the first ``candidates`` columns by the reranker's scores; ties keep the order they came in."""
    from contextgrid.rerank import RERANKERS

    texts = np.asarray(index.chunks["text"].to_numpy(zero_copy_only=False), dtype=object)
    head = found[:, :candidates]
    rated = np.full(head.shape, -np.inf)
    passages = [list(texts[hits[hits >= 0]]) for hits in head]
    for ratings, values in zip(rated, RERANKERS.build(spec).scores(questions, passages), strict=True):
        ratings[: len(values)] = values
    order = np.argsort(-rated, axis=1, kind="stable")
    ranked = np.take_along_axis(head, order, axis=1)
    rated = np.where(ranked >= 0, np.take_along_axis(rated, order, axis=1), np.nan)
    tail = slice(candidates, None)
    return np.hstack([ranked, found[:, tail]]), np.hstack([rated, scores[:, tail]])


def _ranked_table(
    chunks: pa.Table, evalset: pa.Table, found: NDArray[np.int64], scores: NDArray[np.float64]
) -> pa.Table:
    hit = found >= 0
    empty = ~hit.any(axis=1)
    # One placeholder row keeps a question that found nothing in the table.
    kept = hit.copy()
    kept[empty, 0] = True
    question, column = np.nonzero(kept)
    chunk = found[question, column]
    missing = chunk < 0
    passages = chunks.take(pa.array(chunk, mask=missing))
    columns = {
        "question_id": evalset["question_id"].take(pa.array(question)),
        "question": evalset["question"].take(pa.array(question)),
        "rank": pa.array(np.where(missing, 0, column + 1), pa.int32()),
        "score": pa.array(scores[question, column], pa.float64(), mask=missing),
        **{name: passages[name] for name in ("chunk_id", "source_id", "start", "end", "text")},
    }
    return pa.table([columns[name] for name in RETRIEVED.names], schema=RETRIEVED)


def _plain(value: object) -> str:
    return ",".join(str(item) for item in value) if isinstance(value, tuple) else str(value)
