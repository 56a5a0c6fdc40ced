"""What a reader of judge scores has to know about the judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from contextgrid.core.registry import Spec
from contextgrid.generate import MODEL_BACKED
from contextgrid.generate.judge import NEEDS_DEEPEVAL, deepeval_version
from contextgrid.generate.judging import judge_for
from contextgrid.models import build_model

if TYPE_CHECKING:
    from contextgrid.core.axes import Generation
    from contextgrid.evalset.llm import LLM
    from contextgrid.settings import RunSettings


def judge_notes(
    run: RunSettings, columns: Sequence[Generation], llm: LLM | None = None, judge_llm: LLM | None = None
) -> list[str]:
    """In sentences: where a model graded itself, where judges differ, and where there is none though asked for.

    Args:
        columns: the generation configurations of the grid.
        llm, judge_llm: objects that answer and judge instead of the models that the settings name.
    """
    if run.judge is None or not columns:
        return []
    judges = [_name(judge_for(run, column.model, llm, judge_llm)) for column in columns]
    answering = [_generator(column, llm) for column in columns]
    found = sorted({judge for judge in judges if judge is not None})
    if not found:
        asked = "judge" in run.model_fields_set
        return ["Answers were not judged: no model can judge. Set run.judge.model."] if asked else []
    notes = []
    own = sum(judge == model for judge, model in zip(judges, answering, strict=True) if judge is not None)
    if own:
        where = f"in {own} of {len(columns)} columns" if own < len(columns) else "in every column"
        notes.append(
            f"{' and '.join(found)} graded answers that the same model wrote, {where}. Models grade themselves"
            " generously; set run.judge.model to another one."
        )
    if len(found) > 1:
        notes.append(
            f"Columns were judged by different models ({', '.join(found)}), so their judge scores do not compare;"
            " set run.judge.model."
        )
    if run.judge.metrics and deepeval_version() is None:
        notes.append(f"Not judged by {', '.join(run.judge.metrics)}: {NEEDS_DEEPEVAL}.")
    return notes


def _generator(column: Generation, llm: LLM | None) -> str | None:
    if Spec.parse(column.generator).name not in MODEL_BACKED:
        return None
    return _name(llm if llm is not None else column.model)


def _name(model: LLM | str | None) -> str | None:
    """A model's name without options: another temperature does not make another judge."""
    if model is None:
        return None
    return build_model(model).name if isinstance(model, str) else model.name
