"""When Dagster refreshes the grid by itself."""

from __future__ import annotations

import time
from collections.abc import Sequence

from dagster import DefaultScheduleStatus, JobDefinition, ScheduleDefinition
from dagster._utils.schedules import cron_string_iterator, is_valid_cron_schedule

from contextgrid.core.errors import ConfigError
from contextgrid.core.markup import counted
from contextgrid.grid.experiment import Experiment
from contextgrid.refresh_settings import matching
from contextgrid_dagster.assets.declaration import CALL_MODELS, Declaration


def refresh_of(
    experiment: Experiment, columns: Sequence[str] | None = None, repetitions: int | None = None
) -> tuple[list[str], int]:
    """What a refresh selects (cells, and everything that follows from them), and how often it asks.

    Args:
        columns: column keys, which may hold ``*`` and ``?``; by default as ``run.refresh`` says, else all.
        repetitions: likewise, else once.

    Raises:
        ConfigError: if there is no such column, naming the nearest.
    """
    settings = experiment.run.refresh
    patterns = columns or (settings.columns if settings else ("*",))
    chosen = matching(patterns, experiment.refreshable_columns)
    return [f"answers:{column}|*+" for column in chosen], repetitions or (settings.repetitions if settings else 1)


def refresh_schedules(declaration: Declaration, job: JobDefinition) -> list[ScheduleDefinition]:
    """The schedule that ``run.refresh`` asks for, if it does."""
    settings = declaration.run.refresh
    if settings is None:
        return []
    columns = matching(settings.columns, declaration.experiment.refreshable_columns)
    selections, repetitions = refresh_of(declaration.experiment)
    config = {"select": selections, "fresh": True, "repetitions": repetitions}
    chosen = f"{counted(len(columns), 'column')}: {', '.join(columns)}"
    calls = "every call" if settings.repetitions == 1 else f"every call {settings.repetitions} times"
    budget = declaration.run.budget_usd
    limit = "without a limit: set run.budget_usd" if budget is None else f"at most ${budget:g} each time"
    costly = any(map(declaration.costs_money, CALL_MODELS))
    spends = f"Starting this spends money, {limit}." if costly else "This costs nothing: all models are free."
    return [
        ScheduleDefinition(
            name=declaration.resource("refresh"),
            job=job,
            cron_schedule=settings.cron,
            execution_timezone=settings.timezone,
            run_config={"ops": {f"{job.name}_op": {"config": config}}},
            default_status=DefaultScheduleStatus.STOPPED,
            description=(
                f"{spends} It makes {calls} to the models that answer and judge once more,"
                f" at {settings.cron} ({settings.timezone}), for {chosen};"
                " and reports in drift_reports whether they drifted."
            ),
            tags={"contextgrid/refresh": "scheduled"},
        )
    ]


def check_cron(experiment: Experiment) -> None:
    """Refuse a refresh at a time that Dagster cannot read.

    Raises:
        ConfigError: naming the file, the key and what is expected.
    """
    settings = experiment.run.refresh
    if settings is not None and not _fires(settings.cron, settings.timezone):
        raise ConfigError(
            f"{experiment.path}: run.refresh.cron: {settings.cron!r} is no schedule, or never comes; the five"
            " fields are minute, hour, day of the month, month and day of the week: 0 4 * * 1 is Mondays at 4:00"
        )


def _fires(cron: str, timezone: str) -> bool:
    """Whether there is a next time: Dagster takes the 31st of April for a schedule, and fails on it once a minute."""
    try:
        return (
            is_valid_cron_schedule(cron) and next(cron_string_iterator(time.time(), cron, timezone), None) is not None
        )
    except ValueError:
        return False
