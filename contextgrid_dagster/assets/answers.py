"""Answers of every cell and what can be scored about them without a second model."""

# No postponed annotations here: Dagster reads them from the functions themselves.
from typing import Any

import pyarrow as pa
from dagster import AssetExecutionContext, AssetsDefinition, MaterializeResult

from contextgrid import stages
from contextgrid.models.calls import count_calls
from contextgrid.report.means import cell_means
from contextgrid_dagster.assets.declaration import Declaration
from contextgrid_dagster.checks import check
from contextgrid_dagster.display.labels import model_kind
from contextgrid_dagster.display.metadata import calls_of, materialised, means, statuses, total
from contextgrid_dagster.display.run_log import answers_in_words, means_in_words, summary, warn_of_gaps
from contextgrid_dagster.notes import FAILED_QUESTIONS, SKIPPED_QUESTIONS
from contextgrid_dagster.partitions import GENERATION, RETRIEVAL


def answer_assets(declaration: Declaration) -> list[AssetsDefinition]:
    """``answers`` and ``lexical_scores``."""
    parts, run, read = declaration.partitions, declaration.run, declaration.read

    @declaration.asset(
        "answers",
        kind=model_kind(declaration.models),
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
        with count_calls() as meter:
            table = stages.answer(retrieved_ids, generation_spec, run, cell=context.partition_key)
        warn_of_gaps(context, table)
        said = summary(context, answers_in_words(table, meter))
        counts = statuses(table)
        numbers = {
            "questions": table.num_rows,
            FAILED_QUESTIONS: counts.get("failed", 0),
            SKIPPED_QUESTIONS: counts.get("skipped_budget", 0),
            "context_tokens": total(table, "prompt_tokens"),
            "answer_seconds": total(table, "seconds"),
            **calls_of(meter),
        }
        made_for = declaration.made_for(parts.cell, context.partition_key)
        preview = table.select(["question_id", "question", "answer", "citations", "error"])
        checked = check(context, declaration, "answers", answers=table)
        return materialised(table, made_for=made_for, numbers=numbers, preview=preview, more=said, checked=checked)

    @declaration.asset(
        "lexical_scores",
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
        counts = {f"questions_{status}": count for status, count in statuses(table).items()}
        shown = [run.answer_metric, "groundedness", "abstention_accuracy"]
        said = summary(context, means_in_words(cell_means(table), shown))
        numbers = {**means(table), "questions": table.num_rows, **counts}
        made_for = declaration.made_for(parts.cell, context.partition_key)
        columns = ("question_id", "status", run.answer_metric, "groundedness", "retrieval")
        preview = table.select([name for name in dict.fromkeys(columns) if name in table.column_names])
        seen = {"lexical_scores": table, "answers": answers, "retrieval_scores": retrieval_scores}
        checked = check(context, declaration, "lexical_scores", **seen)
        return materialised(table, made_for=made_for, numbers=numbers, preview=preview, more=said, checked=checked)

    return [answers, lexical_scores]
