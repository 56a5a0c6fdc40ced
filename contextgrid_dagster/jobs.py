"""The job that brings the grid up to date in one launched run."""

# No postponed annotations here: Dagster reads them from the functions themselves.
import os
from collections.abc import Callable

from dagster import Config, DagsterInstance, Failure, JobDefinition, OpExecutionContext, in_process_executor, job, op
from pydantic import Field

from contextgrid.core.errors import ConfigError
from contextgrid_dagster.assets.declaration import MODEL_POOL
from contextgrid_dagster.calls import begun
from contextgrid_dagster.executor import WORKERS_VARIABLE, ExecutionReport, Kind, Outcome, execute
from contextgrid_dagster.graph import GridGraph
from contextgrid_dagster.instance import keep_connections
from contextgrid_dagster.planner import Plan, plan
from contextgrid_dagster.refreshing.refresh import refresh
from contextgrid_dagster.selection import SYNTAX
from contextgrid_dagster.terminal import failed_checks, spending


class BringUpToDate(Config):
    """What to bring up to date, and how models are called for it."""

    select: list[str] = Field(default=[], description=f"{SYNTAX} Everything if empty.")
    rebuild_all: bool = Field(default=False, description="Build everything selected, even what is up to date.")
    budget: float | None = Field(default=None, ge=0, description="Dollars that this run may spend on calls to models.")
    fresh: bool = Field(
        default=False, description="Call models once more for everything selected, and report whether they drifted."
    )
    repetitions: int = Field(default=1, ge=1, description="How often every call is made; more than once needs fresh.")
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
        workers = config.workers or os.environ.get(WORKERS_VARIABLE) or None

        def run(planned: Plan) -> ExecutionReport:
            context.log.info(f"{len(planned.pending)} of {len(planned.steps)} partitions are to be built")
            return execute(planned, context.instance, workers=workers, finished=lambda outcome: _log(context, outcome))

        if config.fresh:
            report = _refreshed(graph, context, config, run)
        else:
            report = run(_planned(graph, context.instance, config))
        for asset, counts in report.counts().items():
            context.log.info(f"{asset}: " + ", ".join(f"{count} {kind}" for kind, count in counts.items()))
        for said in filter(None, (failed_checks(report), spending(report.calls))):
            context.log.info(said)
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


def _planned(graph: GridGraph, instance: DagsterInstance, config: BringUpToDate) -> Plan:
    if config.repetitions > 1:
        raise ConfigError("repetitions: more than one needs fresh: true, for the ledger would serve the same replies")
    ready = begun(graph, budget=config.budget, replay=config.replay)
    return plan(ready, instance, config.select, rebuild_all=config.rebuild_all)


def _refreshed(
    graph: GridGraph, context: OpExecutionContext, config: BringUpToDate, run: Callable[[Plan], ExecutionReport]
) -> ExecutionReport:
    if config.replay:
        raise ConfigError("fresh calls everything and replay nothing; choose one")
    if config.rebuild_all:
        raise ConfigError("fresh builds whatever a model may say otherwise now; leave out rebuild_all")
    found = refresh(
        graph,
        context.instance,
        config.select,
        run=run,
        record=context.log_event,
        repetitions=config.repetitions,
        budget=config.budget,
    )
    for drift in found.drifts:
        (context.log.warning if drift.drifted else context.log.info)(f"{drift.cell}: {drift.sentence}")
    if found.drifts:
        context.log.info(found.summary)
    if found.unwritten:
        raise Failure(found.unwritten)
    return found.report


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
