"""Results on S3: the same content as on a disk, few requests, one clear error when the bucket is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from dagster import DagsterInstance

from contextgrid.core.errors import ConfigError
from contextgrid.grid.experiment import Experiment
from contextgrid_dagster.executor import execute
from contextgrid_dagster.graph import GridGraph, Node
from contextgrid_dagster.planner import plan
from tests.dagster_fixtures import EXPERIMENT, Bench, bench, built_bench, write_experiment
from tests.services import SECRET, Bucket, bucket, s3_server

__all__ = ["bench", "bucket", "built_bench", "s3_server"]

NAME = "bench Ünï & co/.. 100%"
SMALL = EXPERIMENT.replace("[extractive, llm]", "extractive").replace("[bm25, dense]", "bm25")


@pytest.fixture
def experiment(tmp_path: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    monkeypatch.setenv("CONTEXTGRID_STORAGE", f"{bucket.url}/evals/2026 ü%20+x")
    return Experiment.load(write_experiment(tmp_path, SMALL.replace("name: bench", f"name: '{NAME}'")))


def versions(graph: GridGraph) -> dict[Node, str | None]:
    return {
        Node(name, partition): version
        for name in graph.names
        for partition, version in graph.store(name).stored(graph.key(name), graph.partitions(name)).items()
    }


def test_everything_on_s3_is_what_it_is_on_a_disk(
    bench: Bench, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk = versions(bench.graph())
    bench.edit("experiment.yaml", "name: bench", f"name: '{NAME}'")
    monkeypatch.setenv("CONTEXTGRID_STORAGE", f"{bucket.url}/evals/2026 ü%20+x")
    graph = bench.graph()
    with DagsterInstance.ephemeral() as instance:
        report = execute(plan(graph, instance), instance)
        assert report.success, report.outcomes
        assert not plan(graph, instance).pending
    assert versions(graph) == on_disk
    assert len(on_disk) == len(graph.nodes)
    below = f"{bucket.url}/evals/2026 ü%20+x/".removeprefix("s3://")
    assert all(file.startswith(below) for file in graph.tables.fs.find(bucket.url))


def test_a_partition_costs_one_request_for_each_table_it_reads_and_one_to_write(
    experiment: Experiment, bucket: Bucket
) -> None:
    graph = GridGraph(experiment)
    with DagsterInstance.ephemeral() as instance:
        execute(plan(graph, instance), instance)
        bucket.requests.clear()
        planned = plan(graph, instance, ["answers"], rebuild_all=True)
        partitioned = len(graph.names) - 3  # one listing for each asset that has partitions
        assert bucket.requests == {"GET": partitioned + len(graph.nodes)}
        bucket.requests.clear()
        assert execute(planned, instance).success
    cells = len(graph.partitions("answers"))
    assert bucket.requests == {"GET": 2 * cells, "PUT": cells}


def test_damaged_and_missing_objects_are_built_again(experiment: Experiment) -> None:
    graph = GridGraph(experiment)
    with DagsterInstance.ephemeral() as instance:
        execute(plan(graph, instance), instance)
        before = versions(graph)
        index = next(node for node in graph.nodes if node.asset == "index")
        gone, empty = (node for node in graph.nodes if node.asset == "lexical_scores")
        cut = next(node for node in graph.nodes if node.asset == "retrieval_scores")
        for node, damage in ((index, 100), (empty, 0), (cut, 500)):
            store = graph.store(node.asset)
            path = store.path_of(graph.key(node.asset), node.partition)
            store.write(path, store.read(path)[:damage])
        graph.tables.fs.rm_file(graph.tables.path_of(graph.key(gone.asset), gone.partition).path)

        missing = {step.node: step.reasons for step in plan(graph, instance).pending if step.status == "missing"}
        damaged = ("its stored file is damaged",)
        assert missing == {gone: ("its stored file is gone",), index: damaged, empty: damaged, cut: damaged}
        assert execute(plan(graph, instance), instance).success
        assert not plan(graph, instance).pending
        assert versions(graph) == before


def test_what_another_process_writes_is_seen_at_once(experiment: Experiment) -> None:
    graph = GridGraph(experiment)
    path = graph.tables.path_of(graph.key("leaderboard"), None)
    graph.tables.write(path, b"short")
    assert graph.tables.fs.find(graph.tables.folder.path)  # a listing that could be remembered
    from boto3 import client

    bucket_name, _, key = path.path.partition("/")
    client("s3").put_object(Bucket=bucket_name, Key=key, Body=b"longer than before" * 10_000)
    assert len(graph.tables.read(path)) == 180_000


@pytest.mark.parametrize("missing", ["bucket", "credentials", "server"])
def test_a_store_that_cannot_be_reached_is_one_clear_error(
    experiment: Experiment, missing: str, monkeypatch: pytest.MonkeyPatch, bucket: Bucket
) -> None:
    url, expected = f"{bucket.url}/{missing}", {"credentials": "NoCredentials", "server": "Could not connect"}
    if missing == "bucket":
        url = "s3://nobody-made-this/evals"
    elif missing == "credentials":
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
        monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    else:
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("CONTEXTGRID_STORAGE", url)
    with DagsterInstance.ephemeral() as instance, pytest.raises(ConfigError) as raised:
        plan(GridGraph(experiment), instance)
    assert f"storage {url}" in str(raised.value)
    assert expected.get(missing, "The specified bucket does not exist") in str(raised.value)
    assert "check CONTEXTGRID_STORAGE" in str(raised.value)
    assert SECRET not in str(raised.value)
