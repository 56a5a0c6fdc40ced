"""Building one partition in a run of its own, in whatever process this is called."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dagster import AssetMaterialization, DagsterError, DagsterInstance, ExecuteInProcessResult
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.execute_in_process import core_execute_in_process, merge_run_tags
from dagster_shared.error import SerializableErrorInfo
from sqlalchemy.exc import SQLAlchemyError

from contextgrid_dagster.graph import GridGraph, Node
from contextgrid_dagster.instance import database_problem

# A run without a console logger would get Dagster's default one, which prints every event.
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
_INTERRUPTIONS = frozenset({"KeyboardInterrupt", "DagsterExecutionInterruptedError"})


@dataclass(frozen=True)
class Order:
    """A partition to build, and the keys of the partitions that it has to do without."""

    node: Node
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Built:
    """What a run gave: a materialisation, or the reason why there is none; seconds, and names of failed checks."""

    materialization: AssetMaterialization | None = None
    reason: str | None = None
    seconds: float = 0.0
    failed_checks: tuple[str, ...] = ()


def build(
    graph: GridGraph,
    instance: DagsterInstance,
    order: Order,
    *,
    run_id: str | None = None,
    tags: Mapping[str, str] | None = None,
) -> Built:
    """Build a partition in its own run. A run that fails is no error here, but a reason.

    Args:
        run_id, tags: of the run; by default a new id and no tags.

    Raises:
        KeyboardInterrupt: if the run is interrupted.
    """
    begin = time.perf_counter()
    try:
        result = _run(graph, instance, order, run_id, tags)
        reason = None if result.success else _cause(result)
    except SQLAlchemyError as error:
        reason = f"{type(error).__name__}: {database_problem(error)}"
    except (DagsterError, OSError) as error:
        reason = f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - begin
    if reason is not None:
        return Built(reason=reason, seconds=seconds)
    (materialization,) = result.asset_materializations_for_node(_op(graph, order.node))
    evaluations = result.get_asset_check_evaluations()
    failed = tuple(evaluation.check_name for evaluation in evaluations if not evaluation.passed)
    return Built(materialization, seconds=seconds, failed_checks=failed)


def _run(
    graph: GridGraph, instance: DagsterInstance, order: Order, run_id: str | None, tags: Mapping[str, str] | None
) -> ExecuteInProcessResult:
    config: dict[str, Any] = dict(_QUIET)
    if order.without:
        config["ops"] = {_op(graph, order.node): {"config": {"without": list(order.without)}}}
    job, selected = graph.job_of(order.node.asset), [graph.key(order.node.asset)]
    # JobDefinition.execute_in_process without making, and describing to Dagster, the asset's job for each run.
    return core_execute_in_process(
        job=InMemoryJob(job_def=job),
        run_config=config,
        instance=instance,
        output_capturing_enabled=False,
        raise_on_error=False,
        run_tags=merge_run_tags(job, order.node.partition, tags, selected, instance, config),
        run_id=run_id,
        asset_selection=frozenset(selected),
    )


def _op(graph: GridGraph, node: Node) -> str:
    return graph.key(node.asset).to_python_identifier()


def _cause(result: ExecuteInProcessResult) -> str:
    """Why a run failed: the error that was raised, without Dagster's wrapping."""
    errors = [event.step_failure_data.error for event in result.all_events if event.is_step_failure]
    errors += [event.job_failure_data.error for event in result.all_events if event.is_job_failure]
    chain = _chain(next((error for error in errors if error is not None), None))
    if any(error.cls_name in _INTERRUPTIONS for error in chain):
        raise KeyboardInterrupt
    # Dagster wraps what was raised in errors of its own.
    raised = [error for error in chain if not str(error.cls_name).startswith("Dagster")] or chain
    return _words(raised[0]) if raised else "the run failed without an error; see its log in Dagster"


def _chain(error: SerializableErrorInfo | None) -> list[SerializableErrorInfo]:
    return [] if error is None else [error, *_chain(error.cause)]


def _words(error: SerializableErrorInfo) -> str:
    # The message of a serialised error starts with its class and module.
    name, _, message = error.message.strip().partition(": ")
    return message if name.startswith("contextgrid.") and message else error.message.strip()
