"""The sensors of an experiment. All of them are stopped until a person starts them: what they launch may cost money."""

# No postponed annotations here: Dagster reads them from the functions themselves.
from collections.abc import Callable, Iterator

from dagster import (
    AssetSelection,
    AutomationConditionSensorDefinition,
    DefaultSensorStatus,
    JobDefinition,
    RunRequest,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from contextgrid_dagster.graph import GridGraph
from contextgrid_dagster.notes import EXPERIMENT
from contextgrid_dagster.planner import Plan
from contextgrid_dagster.watching import Cursor, Finding, Watcher

_SECONDS = 30
_SPENDS = "Starting it allows it to spend money: what it launches calls the models that the experiment names."
# Other than the inputs, nothing is read from files.
_INPUTS = ("corpus", "evalset", "generation_spec")


def grid_sensors(graph: GridGraph, job: JobDefinition) -> list[SensorDefinition]:
    """``keep_current``, and for those who prefer declarative automation ``watch_inputs`` and ``follow_changes``."""
    return [_keep_current(graph, job), _watch_inputs(graph), _follow_changes(graph)]


def _keep_current(graph: GridGraph, job: JobDefinition) -> SensorDefinition:
    watcher = Watcher(graph)

    @sensor(
        name=graph.declaration.resource("keep_current"),
        job=job,
        minimum_interval_seconds=_SECONDS,
        default_status=DefaultSensorStatus.STOPPED,
        description=(
            f"Looks every {_SECONDS} seconds whether documents, questions, prompts or settings of the experiment"
            f" {graph.experiment.name!r} changed, and launches {job.name} when that made partitions missing or stale."
            f" {_SPENDS} It launches one run at a time and does not repeat one that left the same partitions behind."
        ),
    )
    def keep_current(context: SensorEvaluationContext) -> SensorResult:
        """Launch the job when the plan is not empty."""
        found = watcher.look(context.instance, Cursor.read(context.cursor))
        return _result(found, lambda planned: iter([RunRequest(tags=_tags(graph, "keep_current"))]))

    return keep_current


def _watch_inputs(graph: GridGraph) -> SensorDefinition:
    inputs = tuple(name for name in _INPUTS if name in graph.names)
    watcher = Watcher(graph, inputs)

    def changed(planned: Plan) -> Iterator[RunRequest]:
        tags = _tags(graph, "watch_inputs")
        for step in planned.pending:
            key = graph.key(step.node.asset)
            yield RunRequest(asset_selection=[key], partition_key=step.node.partition, tags=tags)

    @sensor(
        name=graph.declaration.resource("watch_inputs"),
        target=AssetSelection.assets(*(graph.key(name) for name in inputs)),
        minimum_interval_seconds=_SECONDS,
        default_status=DefaultSensorStatus.STOPPED,
        description=(
            f"Looks every {_SECONDS} seconds whether files of the experiment {graph.experiment.name!r} changed, and"
            f" materialises those of {', '.join(inputs)} that did. By itself it calls no model;"
            f" {graph.declaration.resource('follow_changes')} rebuilds what depends on them."
        ),
    )
    def watch_inputs(context: SensorEvaluationContext) -> SensorResult:
        """Materialise the inputs whose files changed."""
        return _result(watcher.look(context.instance, Cursor.read(context.cursor)), changed)

    return watch_inputs


def _follow_changes(graph: GridGraph) -> SensorDefinition:
    return AutomationConditionSensorDefinition(
        graph.declaration.resource("follow_changes"),
        target=AssetSelection.assets(*(graph.key(name) for name in graph.names)),
        minimum_interval_seconds=_SECONDS,
        default_status=DefaultSensorStatus.STOPPED,
        run_tags=_tags(graph, "follow_changes"),
        description=(
            "Declarative automation: rebuilds every partition whose inputs have new content, one run for each, level"
            f" by level. {_SPENDS} It needs {graph.declaration.resource('watch_inputs')} to notice edited files. An"
            f" alternative to {graph.declaration.resource('keep_current')}, which does all of it in one run; start"
            " one or the other."
        ),
    )


def _result(found: Finding, requests: Callable[[Plan], Iterator[RunRequest]]) -> SensorResult:
    if found.plan is None:
        return SensorResult(skip_reason=SkipReason(found.waiting), cursor=str(found.cursor))
    return SensorResult(run_requests=list(requests(found.plan)), cursor=str(found.cursor))


def _tags(graph: GridGraph, sensor_name: str) -> dict[str, str]:
    return {f"contextgrid/{EXPERIMENT}": graph.experiment.name, "contextgrid/started_by": sensor_name}
