"""Retrieval metrics of all questions at once: how well rankings found the evidence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contextgrid.core.errors import ConfigError
from contextgrid.core.registry import nearest
from contextgrid.score.judged import judge_rankings
from contextgrid.score.metrics import METRICS


def score_retrieval(
    retrieved: pa.Table,
    chunks: pa.Table,
    gold: pa.Table,
    question_ids: Sequence[str],
    cutoffs: Sequence[int],
) -> dict[str, NDArray[np.float64]]:
    """Every retrieval metric at every cut-off, for every question.

    A chunk is relevant to a question if it holds any occurrence of the question's evidence, as
    :func:`contextgrid.score.relevance.holds` decides. A ranking shorter than a cut-off is scored as trec_eval
    does: the missing ranks are misses.

    Args:
        retrieved: ``RETRIEVED`` rows; those of other questions are left aside.
        chunks: ``CHUNKS``, all that could have been retrieved.
        gold: ``GOLD``, the evidence located in the parse that the chunks were cut from.
        question_ids: the questions to score, in the order of the result.
        cutoffs: how many of the best ranks count, each at least 1.

    Returns:
        Arrays of shape (questions,) by metric name (``recall@5``), nan where a question has no evidence.

    Raises:
        ConfigError: for a bad cut-off.
        StageError: if question ids repeat, or a ranking has a chunk twice, two chunks at one rank, or a chunk
            that is not among ``chunks``.
    """
    names = metric_names(cutoffs)
    judged = judge_rankings(retrieved, chunks, gold, question_ids)
    has_gold = judged.per_question(judged.anchor_question) > 0
    metrics = {name: METRICS.build(name.replace("@", ":")) for name in names}
    return {name: np.where(has_gold, metric.values(judged), np.nan) for name, metric in metrics.items()}


def metric_names(cutoffs: Sequence[int]) -> list[str]:
    """Names of all metrics at these cut-offs, cut-offs ascending within a metric: ``recall@1``, ``recall@5``.

    Raises:
        ConfigError: if there is no cut-off, or one is repeated or not a whole number of at least 1.
    """
    if not cutoffs:
        raise ConfigError("cutoffs: give at least one, as in [1, 5, 10]")
    for k in cutoffs:
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ConfigError(f"cutoffs: each must be a whole number of at least 1, got {k!r}")
        if list(cutoffs).count(k) > 1:
            raise ConfigError(f"cutoffs: {k} is given twice")
    return [f"{name}@{k}" for name in METRICS.names() for k in sorted(cutoffs)]


def parse_metric(text: str, cutoffs: Sequence[int] | None = None) -> tuple[str, int]:
    """The metric and the cut-off that a name such as ``recall@5`` stands for.

    Args:
        text: the name.
        cutoffs: the cut-offs that are measured; ``None`` accepts any.

    Raises:
        ConfigError: for an unknown metric, a missing or bad cut-off, or one that is not measured.
    """
    name, _, cutoff = text.strip().partition("@")
    k = int(cutoff) if cutoff.isascii() and cutoff.isdigit() and len(cutoff) < 10 else 0
    if name not in METRICS.names():
        valid = metric_names(cutoffs or [k or 5])
        raise ConfigError(f"unknown metric {text!r}{nearest(text.strip().lower(), valid)}")
    if k < 1 or str(k) != cutoff:
        raise ConfigError(f"metric {text!r} needs a cut-off of at least 1, as in {name}@{k or 5}")
    if cutoffs is not None and k not in cutoffs:
        measured = [f"{name}@{cutoff}" for cutoff in sorted(cutoffs)]
        raise ConfigError(f"metric {text!r} is not measured; choose one of: {', '.join(measured)}")
    return name, k
