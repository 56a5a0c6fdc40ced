"""Answers of every cell and what can be scored about them without a second model."""

# No postponed annotations here: Dagster reads them from the functions themselves.
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from dagster import AssetExecutionContext, AssetsDefinition, MaterializeResult

from contextgrid import stages
from contextgrid_dagster.assets.declaration import Declaration
from contextgrid_dagster.metadata import FAILED_QUESTIONS, materialised, means, total, warn_of_failures
from contextgrid_dagster.partitions import GENERATION, RETRIEVAL

GROUP = "answers"


def answer_assets(declaration: Declaration) -> list[AssetsDefinition]:
    """``answers`` and ``lexical_scores``."""
    parts, run, read = declaration.partitions, declaration.run, declaration.read

    @declaration.asset(
        "answers",
        group=GROUP,
        kind="ai",
        partitions=parts.cell,
        ins={
            "retrieved_ids": read("retrieved_ids", parts.cell_to(RETRIEVAL)),
            "generation_spec": read("generation_spec", parts.cell_to(GENERATION)),
        },
    )
    def answers(
        context: AssetExecutionContext, retrieved_ids: pa.Table, generation_spec: pa.Table
    ) -> MaterializeResult[Any]:
        """The answers of a column to every question, from a row's passages. Fails only if every question does."""
        table = stages.answer(retrieved_ids, generation_spec, run)
        failed = table.filter(pc.is_valid(table["error"]))
        failures = list(zip(failed["question_id"].to_pylist(), failed["error"].to_pylist(), strict=True))
        warn_of_failures(context, failures, "questions", table.num_rows)
        numbers = {
            "questions": table.num_rows,
            FAILED_QUESTIONS: len(failures),
            "prompt_tokens": total(table, "prompt_tokens"),
            "completion_tokens": total(table, "completion_tokens"),
            "answer_seconds": total(table, "seconds"),
        }
        made_for = declaration.made_for(parts.cell, context.partition_key)
        preview = table.select(["question_id", "question", "answer", "citations", "error"])
        return materialised(table, made_for=made_for, numbers=numbers, preview=preview)

    @declaration.asset(
        "lexical_scores",
        group=GROUP,
        kind="python",
        partitions=parts.cell,
        ins={
            "answers": read("answers"),
            "retrieval_scores": read("retrieval_scores", parts.cell_to(RETRIEVAL)),
        },
    )
    def lexical_scores(
        context: AssetExecutionContext, answers: pa.Table, retrieval_scores: pa.Table
    ) -> MaterializeResult[Any]:
        """Answer quality, groundedness, citations and abstention of every answer, without a model."""
        table = stages.score_answers(answers, retrieval_scores, run)
        statuses = {f"questions_{row['values']}": row["counts"] for row in pc.value_counts(table["status"]).to_pylist()}
        numbers = {**means(table), "questions": table.num_rows, **statuses}
        made_for = declaration.made_for(parts.cell, context.partition_key)
        preview = table.select(["question_id", "status", run.answer_metric, "groundedness", "retrieval"])
        return materialised(table, made_for=made_for, numbers=numbers, preview=preview)

    return [answers, lexical_scores]
