"""The job that brings the grid up to date in one launched run."""

# No postponed annotations here: Dagster reads them from the functions themselves.
import os

from dagster import Config, Failure, JobDefinition, OpExecutionContext, in_process_executor, job, op
from pydantic import Field

from contextgrid_dagster.assets.declaration import MODEL_POOL
from contextgrid_dagster.calls import begun
from contextgrid_dagster.executor import WORKERS_VARIABLE, ExecutionReport, Kind, Outcome, execute
from contextgrid_dagster.graph import GridGraph
from contextgrid_dagster.instance import keep_connections
from contextgrid_dagster.planner import plan
from contextgrid_dagster.selection import SYNTAX
from contextgrid_dagster.terminal import spending


class BringUpToDate(Config):
    """What to bring up to date, and how models are called for it."""

    select: list[str] = Field(default_factory=list, description=f"{SYNTAX} Everything if empty.")
    rebuild_all: bool = Field(default=False, description="Build everything selected, even what is up to date.")
    budget: float | None = Field(default=None, ge=0, description="Dollars that this run may spend on calls to models.")
    fresh: bool = Field(default=False, description="Call models once more for everything selected.")
    replay: bool = Field(default=False, description="Call no model: the ledger has to hold every reply.")
    workers: str | None = Field(
        default=None,
        description="Who builds: a Dask scheduler (tcp://host:8786), or a number of processes to start beside this run."
        " By default what CONTEXTGRID_WORKERS says, else this run alone.",
    )


def bring_up_to_date_job(graph: GridGraph) -> JobDefinition:
    """A job with one op, which plans and then runs every pending partition in its own run."""
    name = graph.declaration.resource("bring_up_to_date")

    @op(name=f"{name}_op", pool=MODEL_POOL)
    def bring_up_to_date(context: OpExecutionContext, config: BringUpToDate) -> None:
        """Plan the grid and build what is missing or stale, each partition in its own run."""
        keep_connections(context.instance)
        ready = begun(graph, budget=config.budget, fresh=config.fresh, replay=config.replay)
        planned = plan(ready, context.instance, config.select, rebuild_all=config.rebuild_all, fresh=config.fresh)
        context.log.info(f"{len(planned.pending)} of {len(planned.steps)} partitions are missing or stale")
        workers = config.workers or os.environ.get(WORKERS_VARIABLE) or None
        report = execute(planned, context.instance, workers=workers, finished=lambda outcome: _log(context, outcome))
        for asset, counts in report.counts().items():
            context.log.info(f"{asset}: " + ", ".join(f"{count} {kind}" for kind, count in counts.items()))
        if (spent := spending(report.calls)) is not None:
            context.log.info(spent)
        if not report.success:
            raise Failure(_shortfall(report))

    @job(
        name=name,
        executor_def=in_process_executor,
        description="Build every partition that is missing or stale, in dependency order, in this one run.",
    )
    def launched() -> None:
        bring_up_to_date()

    return launched


def _shortfall(report: ExecutionReport) -> str:
    failed, skipped = len(report.of_kind(Kind.FAILED)), len(report.of_kind(Kind.SKIPPED))
    short = sum(outcome.skipped is not None for outcome in report.outcomes)
    parts = [f"{failed} partitions failed and {skipped} were skipped"] if failed or skipped else []
    parts += [f"the budget did not cover all questions of {short} partitions"] if short else []
    lost = sum(outcome.lost is not None for outcome in report.outcomes)
    parts += [f"every verdict of a judge failed in {lost} partitions"] if lost else []
    return f"{'; '.join(parts)}; the rest is up to date"


def _log(context: OpExecutionContext, outcome: Outcome) -> None:
    line = f"{outcome.kind}: {outcome.node} ({outcome.seconds:.2f} s)"
    if outcome.kind in (Kind.FAILED, Kind.SKIPPED):
        context.log.warning(f"{line}: {outcome.reason}")
    elif outcome.unfinished:
        context.log.warning(f"{line}: {outcome.unfinished}")
    else:
        context.log.info(line)
