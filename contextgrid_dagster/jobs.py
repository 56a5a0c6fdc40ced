"""The job that brings the grid up to date in one launched run."""

# No postponed annotations here: Dagster reads them from the functions themselves.
from dagster import Config, Failure, JobDefinition, OpExecutionContext, in_process_executor, job, op
from pydantic import Field

from contextgrid_dagster.executor import Kind, Outcome, execute
from contextgrid_dagster.graph import GridGraph
from contextgrid_dagster.planner import plan
from contextgrid_dagster.selection import SYNTAX


class BringUpToDate(Config):
    """What to bring up to date."""

    select: list[str] = Field(default_factory=list, description=f"{SYNTAX} Everything if empty.")
    rebuild_all: bool = Field(default=False, description="Build everything selected, even what is up to date.")


def bring_up_to_date_job(graph: GridGraph) -> JobDefinition:
    """A job with one op, which plans and then runs every pending partition in its own run."""
    name = graph.declaration.resource("bring_up_to_date")

    @op(name=f"{name}_op")
    def bring_up_to_date(context: OpExecutionContext, config: BringUpToDate) -> None:
        """Plan the grid and build what is missing or stale, each partition in its own run."""
        planned = plan(graph, context.instance, config.select, rebuild_all=config.rebuild_all)
        context.log.info(f"{len(planned.pending)} of {len(planned.steps)} partitions are missing or stale")
        report = execute(planned, context.instance, finished=lambda outcome: _log(context, outcome))
        for asset, counts in report.counts().items():
            context.log.info(f"{asset}: " + ", ".join(f"{count} {kind}" for kind, count in counts.items()))
        if not report.success:
            failed, skipped = len(report.of_kind(Kind.FAILED)), len(report.of_kind(Kind.SKIPPED))
            raise Failure(f"{failed} partitions failed and {skipped} were skipped; the rest is up to date")

    @job(
        name=name,
        executor_def=in_process_executor,
        description="Build every partition that is missing or stale, in dependency order, in this one run.",
    )
    def launched() -> None:
        bring_up_to_date()

    return launched


def _log(context: OpExecutionContext, outcome: Outcome) -> None:
    line = f"{outcome.kind}: {outcome.node} ({outcome.seconds:.2f} s)"
    if outcome.kind in (Kind.FAILED, Kind.SKIPPED):
        context.log.warning(f"{line}: {outcome.reason}")
    elif outcome.failed_questions:
        context.log.warning(f"{line}: failed questions: {outcome.failed_questions}")
    else:
        context.log.info(line)
