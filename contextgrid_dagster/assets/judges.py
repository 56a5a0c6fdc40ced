"""What judges say about the answers of every cell."""

# No postponed annotations here: Dagster reads them from the functions themselves.
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from dagster import AssetExecutionContext, AssetsDefinition, MaterializeResult

from contextgrid import stages
from contextgrid.core.tables import JUDGE_SCORES
from contextgrid.generate.judging import coverage_warnings
from contextgrid.models.calls import count_calls
from contextgrid.report.means import cell_means, lost_metrics
from contextgrid_dagster.assets.declaration import Declaration
from contextgrid_dagster.checks import check
from contextgrid_dagster.display.labels import model_kind
from contextgrid_dagster.display.metadata import Number, calls_of, materialised, shorten, statuses
from contextgrid_dagster.display.run_log import failed_rows, means_in_words, summary, warn_of_failures
from contextgrid_dagster.notes import FAILED_VERDICTS, LOST_METRICS, SKIPPED_QUESTIONS


def judge_assets(declaration: Declaration) -> list[AssetsDefinition]:
    """``judge_scores``, for experiments that have a judge for any of their columns."""
    parts, matrix, run, judges = declaration.partitions, declaration.matrix, declaration.run, declaration.judges

    @declaration.asset(
        "judge_scores",
        kind=model_kind(declaration.judges.values()),
        partitions=parts.cell,
        ins={"answers": declaration.read("answers"), "evalset": declaration.read("evalset")},
    )
    def judge_scores(context: AssetExecutionContext, answers: pa.Table, evalset: pa.Table) -> MaterializeResult[Any]:
        """What a model says about every answer, one row for each question and metric."""
        cell = context.partition_key
        column = matrix.column(cell.partition("|")[0])
        made_for = declaration.made_for(parts.cell, cell)
        if column.key not in judges:
            note = "no model can judge this column; name one as run.judge.model"
            table = JUDGE_SCORES.empty_table()
            checked = check(context, declaration, "judge_scores", judge_scores=table, answers=answers)
            return materialised(table, made_for=made_for, numbers={}, more={"note": note}, checked=checked)
        with count_calls() as meter:
            table = stages.judge(answers, evalset, run, answered_by=column.model, cell=cell)
        for sentence in coverage_warnings(table):
            context.log.warning(sentence)
        warn_of_failures(
            context, failed_rows(table, names=["question_id", "metric"], reason="reason"), "verdicts", table.num_rows
        )
        said = summary(context, means_in_words(_means(table), list(_means(table))))
        numbers, preview = {**_numbers(table), **calls_of(meter)}, table.select(_SHOWN)
        more = {**said, "coverage": _coverage(table), **_noted(judges[column.key], column.model)}
        if lost := lost_metrics([table]):
            more[LOST_METRICS] = ", ".join(f"{metric} ({shorten(reason)})" for metric, reason in lost.items())
        checked = check(context, declaration, "judge_scores", judge_scores=table, answers=answers)
        return materialised(table, made_for=made_for, numbers=numbers, more=more, preview=preview, checked=checked)

    return [judge_scores]


_SHOWN = ["question_id", "metric", "score", "status", "calls"]


def _numbers(table: pa.Table) -> dict[str, Number]:
    """Means, how many answers each is over, and how the verdicts ended."""
    numbers: dict[str, Number] = {}
    for name, mean in _means(table).items():
        numbers |= {name: mean.mean, f"{name}_scored": mean.n}
    counts = {f"verdicts_{status}": count for status, count in statuses(table).items()}
    skipped = table.filter(pc.equal(table["status"], "skipped_budget"))
    return {
        **numbers,
        "verdicts": table.num_rows,
        **counts,
        FAILED_VERDICTS: _worth_another_try(table),
        SKIPPED_QUESTIONS: pc.count_distinct(skipped["question_id"]).as_py(),
    }


def _worth_another_try(table: pa.Table) -> int:
    """Verdicts without a reply. A reply that cannot be used would come again, from the ledger."""
    called = pc.and_(pc.equal(table["status"], "failed"), pc.greater(table["calls"], 0))
    return int(pc.sum(pc.and_(called, pc.is_null(table["raw_reply"]))).as_py() or 0)


def _coverage(table: pa.Table) -> str:
    parts = [f"{name}: {mean.n} of {mean.total}" for name, mean in _means(table).items()]
    return ", ".join(parts) or "nothing was judged: DeepEval cannot be imported"


def _means(table: pa.Table) -> dict[str, Any]:
    return cell_means(pa.table({}), judge_scores=table)


def _noted(judge: str, answered_by: str | None) -> dict[str, str]:
    noted = {"judge": judge}
    return noted | {"note": "the model judges its own answers"} if judge == answered_by else noted
