"""What is missing or stale, why, and what a person means by a selection."""

from __future__ import annotations

import io
import time
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dagster import AssetMaterialization, DagsterInstance
from dagster._core.definitions.data_version import CODE_VERSION_TAG, DATA_VERSION_TAG, get_input_data_version_tag

from contextgrid.core.errors import ConfigError, EvalSetError
from contextgrid.grid.experiment import Experiment
from contextgrid.grid.matrix import partition_counts
from contextgrid_dagster.graph import GridGraph, Node
from contextgrid_dagster.notes import EXPERIMENT as EXPERIMENT_NOTE
from contextgrid_dagster.notes import INPUT_VERSIONS, SETTINGS
from contextgrid_dagster.planner import GridState, Status, plan
from contextgrid_dagster.selection import select
from contextgrid_dagster.versions import combined_version, dagster_input_version
from tests.dagster_fixtures import (
    EXPERIMENT,
    LLM_LONG,
    LLM_SHORT,
    Bench,
    bench,
    built_bench,
    new_bench,
    write_experiment,
)

__all__ = ["bench", "built_bench"]


@pytest.fixture
def graph(tmp_path: Path) -> GridGraph:
    return GridGraph(Experiment.load(write_experiment(tmp_path)))


def test_in_a_new_instance_everything_was_never_built(tmp_path: Path) -> None:
    with new_bench(tmp_path) as fresh:
        planned = fresh.plan()
        assert (
            len(planned.pending)
            == len(planned.steps)
            == sum(partition_counts(fresh.graph().experiment.matrix, fresh.graph().experiment.run).values())
        )
        assert {(step.status, step.reasons) for step in planned.steps} == {(Status.MISSING, ("never built",))}


def test_reasons_say_what_changed_in_the_inputs(bench: Bench) -> None:
    bench.edit("prompts/short.txt", "Answer", "Reply")
    bench.edit("documents/refunds.md", "thirty days", "30 days")
    (bench.folder / "documents" / "new.md").write_text("# New\n\nNew goods arrive.\n")
    bench.edit("questions.jsonl", "How long do", "How long will")
    reasons = bench.reasons()
    assert reasons[Node("corpus")] == ("1 document added, 1 document changed",)
    assert reasons[Node("evalset")] == ("1 question changed",)
    assert reasons[Node("generation_spec", LLM_SHORT)] == ("prompt text changed",)
    assert Node("generation_spec", LLM_LONG) not in reasons
    row = bench.graph().experiment.matrix.rows[0].key
    assert reasons[Node("answers", f"{LLM_SHORT}|{row}")] == ("generation_spec: prompt text changed",)
    assert reasons[Node("answers", f"{LLM_LONG}|{row}")] == ("retrieved_ids will be built again",)


@pytest.mark.parametrize(("asset", "edited"), [("corpus", "documents/refunds.md"), ("evalset", "questions.jsonl")])
def test_a_stored_input_that_is_damaged_inside_is_built_again_after_an_edit(
    bench: Bench, asset: str, edited: str
) -> None:
    graph = bench.graph()
    path = Path(str(graph.tables.path_of(graph.key(asset), None)))
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + b"\xff" * 100 + whole[104:])
    bench.edit(edited, "efunds", "epayments")
    assert bench.reasons()[Node(asset)] == (f"{asset} changed, and what is stored of it cannot be read",)
    assert bench.materialise().success
    assert not bench.plan().pending


def test_certain_and_possible_work_are_told_apart(bench: Bench) -> None:
    bench.edit("prompts/short.txt", "Answer", "Reply")
    counts = {asset: dict(statuses) for asset, statuses in bench.plan().counts().items()}
    assert counts["generation_spec"] == {Status.STALE: 1, Status.CURRENT: 2}
    assert counts["answers"] == {Status.STALE: 4, Status.CURRENT: 8}
    assert counts["lexical_scores"] == {Status.POSSIBLE: 4, Status.CURRENT: 8}
    assert counts["leaderboard"] == {Status.POSSIBLE: 1}
    assert counts["retrieved_ids"] == {Status.CURRENT: 4}


def test_a_changed_setting_is_named_with_both_values(bench: Bench) -> None:
    bench.edit("experiment.yaml", "k: 2", "k: 3")
    cell = f"{LLM_SHORT}|{bench.graph().experiment.matrix.rows[0].key}"
    assert bench.reasons()[Node("answers", cell)] == ("k changed: 2 -> 3",)


def test_another_baseline_makes_every_lift_report_stale(bench: Bench) -> None:
    bench.edit("experiment.yaml", "resamples: 200", "resamples: 200, baseline: {index: dense}")
    planned = bench.plan()
    assert {step.node.asset for step in planned.pending} == {"lift_reports", "leaderboard"}
    assert all("baseline changed: markdown__recursive-60__bm25 -> " in step.reasons[0] for step in planned.pending)
    assert bench.materialise().success
    assert not bench.plan().pending


def test_a_row_taken_off_the_grid_leaves_only_the_leaderboard_stale(bench: Bench) -> None:
    bench.edit("experiment.yaml", "[bm25, dense]", "bm25")
    assert {str(node): reasons for node, reasons in bench.reasons().items()} == {
        "leaderboard": ("retrieval_scores changed", "lift_reports changed")
    }


def test_results_of_another_experiment_do_not_count_as_built(bench: Bench) -> None:
    bench.edit("experiment.yaml", "name: bench", "name: other")
    assert {step.reasons for step in bench.plan().pending} == {("built by another experiment, 'bench'",)}


def test_a_bad_input_file_is_an_error_that_names_it(bench: Bench) -> None:
    (bench.folder / "questions.jsonl").write_text('{"id": "q1"\n')
    with pytest.raises(EvalSetError, match=r"questions\.jsonl"):
        bench.plan()


def test_selections_name_assets_partitions_and_what_is_above_and_below(graph: GridGraph) -> None:
    assert {str(node) for node in select(graph, ["chunks"])} == {
        "chunks:markdown__recursive-60",
        "chunks:markdown__recursive-200",
    }
    assert {node.asset for node in select(graph, ["*_scores"])} == {"retrieval_scores", "lexical_scores"}
    assert {node.partition for node in select(graph, ["generation_spec:*short*"])} == {LLM_SHORT}
    above = select(graph, [f"+answers:{LLM_SHORT}|*bm25"])
    assert {node.partition for node in above if node.asset == "generation_spec"} == {LLM_SHORT}
    assert {node.asset for node in above} == {
        "corpus", "evalset", "generation_spec", "documents", "chunks", "index", "retrieved_ids", "answers"
    }  # fmt: skip
    below = select(graph, ["lexical_scores:extractive|*dense+"])
    assert {node.asset for node in below} == {"lexical_scores", "lift_reports", "leaderboard"}
    # Dense rows are no baseline, so only their own lift reports depend on them.
    assert {node.partition for node in below if node.asset == "lift_reports"} == {
        key for key in graph.partitions("lift_reports") if key and key.startswith("extractive|") and "dense" in key
    }
    assert select(graph, []) == frozenset(graph.nodes)


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ("anwsers", "did you mean 'answers'"),
        ("answers:*nothing*", "no partition of answers matches"),
        ("corpus:x", "it has no partitions"),
        ("", "no asset is called"),
    ],
)
def test_a_selection_of_nothing_is_an_error(graph: GridGraph, selection: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        select(graph, [selection])


LARGE = EXPERIMENT.replace('["recursive:60", "recursive:200"]', str([f"recursive:{60 + 10 * i}" for i in range(10)]))
LARGE = LARGE.replace("[short, long]", "[short, long, p3, p4]").replace(
    "long: prompts/long.txt", "long: prompts/long.txt, p3: prompts/long.txt, p4: prompts/short.txt"
)


def test_a_large_grid_is_planned_within_two_seconds_and_its_leaderboard_can_be_current(tmp_path: Path) -> None:
    """20 rows x 5 columns: the leaderboard reads 100 cells, for which Dagster itself records no version."""
    with new_bench(tmp_path, LARGE) as fresh:
        graph = fresh.graph()
        assert len(graph.partitions("lift_reports")) == 100
        record_everything_as_built(graph, fresh.instance)
        begin = time.perf_counter()
        planned = plan(graph, fresh.instance)
        seconds = time.perf_counter() - begin
        assert [step for step in planned.steps if step.is_pending] == []
        assert seconds < 2

        # One cell among a hundred gets new content.
        state = GridState.read(graph, fresh.instance)
        cell = graph.nodes[-2]
        assert cell.asset == "lift_reports"
        state.records[cell].materialization.tags[DATA_VERSION_TAG] = "new"  # type: ignore[index]
        state.stored[cell] = "new"
        assert state.step(Node("leaderboard")).reasons == ("lift_reports changed",)


def file_that_states(version: str, *, is_index: bool) -> bytes:
    """An empty file of a store that states a data version."""
    buffer = io.BytesIO()
    if is_index:
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.comment = version.encode()
    else:
        pq.write_table(pa.table({"x": []}).replace_schema_metadata({"contextgrid.version": version}), buffer)
    return buffer.getvalue()


def record_everything_as_built(graph: GridGraph, instance: DagsterInstance) -> None:
    """Report every partition as materialised, with the versions a build would record, without building it."""
    state = GridState.read(graph, instance)
    versions = {node: version for node in state.inputs if (version := state.version(node)) is not None}
    for node in graph.nodes:
        versions.setdefault(node, f"version of {node}")
        tags = {DATA_VERSION_TAG: versions[node], CODE_VERSION_TAG: graph.code_version(node.asset)}
        notes = {EXPERIMENT_NOTE: graph.experiment.name}
        for name, parents in graph.parents(node).items():
            by_key = {str(parent.partition): versions[parent] for parent in parents}
            single = graph.partitions_def(name) is None
            version = by_key["None"] if single else dagster_input_version(by_key)
            tags[get_input_data_version_tag(graph.key(name))] = version
            if node.asset == "leaderboard":
                notes[INPUT_VERSIONS + name] = combined_version(by_key)
        definition = graph.partitions_def(node.asset)
        if definition is not None and node.partition is not None:
            notes[SETTINGS] = graph.declaration.partitions.settings(definition, node.partition)
        path = graph.store(node.asset).path_of(graph.key(node.asset), node.partition)
        Path(path.path).parent.mkdir(parents=True, exist_ok=True)
        Path(path.path).write_bytes(file_that_states(versions[node], is_index=node.asset == "index"))
        instance.report_runless_asset_event(
            AssetMaterialization(graph.key(node.asset), partition=node.partition, tags=tags, metadata=notes)
        )
