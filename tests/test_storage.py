"""Results on disk and on other file systems: whole, apart, and inside their folder."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from dagster import AssetKey, DagsterInstance
from hypothesis import given
from hypothesis import strategies as st
from upath import UPath

from contextgrid.core.errors import ConfigError, StageError
from contextgrid.core.fingerprint import fingerprint
from contextgrid.core.tables import ANSWERS, EVALSET
from contextgrid.grid.experiment import Experiment
from contextgrid.index import build_index
from contextgrid_dagster.executor import execute
from contextgrid_dagster.graph import GridGraph
from contextgrid_dagster.planner import plan
from contextgrid_dagster.storage import TableStore, safe_segment, storage_folder
from tests.dagster_fixtures import EXPERIMENT, write_experiment

KEY = AssetKey(["answers"])


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    monkeypatch.delenv("CONTEXTGRID_STORAGE", raising=False)
    return Experiment.load(write_experiment(tmp_path))


@given(st.text(min_size=1))
def test_any_text_is_one_safe_file_name(text: str) -> None:
    name = safe_segment(text)
    assert name.isascii()
    assert "/" not in name
    assert "\\" not in name
    assert name.strip(".")
    assert len(name) < 240


@given(st.text(min_size=1, max_size=300), st.text(min_size=1, max_size=300))
def test_different_texts_have_different_names(one: str, other: str) -> None:
    assert (safe_segment(one) == safe_segment(other)) == (one == other)


@pytest.mark.parametrize("partition", ["..", "../../etc/passwd", "/etc/passwd", "a/../../b", "x|../../y", "C:\\x", "."])
def test_no_partition_key_leaves_the_store(tmp_path: Path, partition: str) -> None:
    store = TableStore(UPath(tmp_path / "store"))
    path = Path(store.path_of(KEY, partition).path)
    assert path.resolve().is_relative_to(tmp_path / "store" / "answers")
    assert ".." not in path.parts


def test_a_write_that_fails_leaves_the_old_table_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = TableStore(UPath(tmp_path))
    path = store.path_of(KEY, "a")
    path.parent.mkdir(parents=True)
    store.write(path, b"old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        store.write(path, b"new")
    assert store.read(path) == b"old"
    assert [file.name for file in path.parent.iterdir()] == ["a.parquet"]


def test_a_file_left_half_written_by_a_killed_process_is_not_a_stored_partition(tmp_path: Path) -> None:
    store = TableStore(UPath(tmp_path))
    (tmp_path / "answers" / "g").mkdir(parents=True)
    (tmp_path / "answers" / "g" / ".0123.part").write_bytes(b"half")
    assert store.stored(KEY, ["g|r"]) == {}
    table = pa.table({"x": [1, 2]})
    store.write(store.path_of(KEY, "g|r"), store.serialise(table))
    assert store.stored(KEY, ["g|r", "g|s"]) == {"g|r": fingerprint(table)}


def test_a_damaged_file_is_told_from_a_whole_one_and_loading_it_names_it(tmp_path: Path) -> None:
    store = TableStore(UPath(tmp_path))
    path = store.path_of(KEY, "g|r")
    path.parent.mkdir(parents=True)
    content = store.serialise(pa.table({"x": list(range(100))}))
    for damaged in (b"", content[: len(content) // 2]):
        store.write(path, damaged)
        assert store.stored(KEY, ["g|r"]) == {"g|r": None}
        with pytest.raises(StageError, match=r"r\.parquet is damaged"):
            store.load_table(path)


@pytest.mark.parametrize("url", [None, "folder", "file", "memory"])
def test_tables_and_indexes_come_back_as_they_were_written(
    experiment: Experiment, tmp_path: Path, url: str | None
) -> None:
    location = {None: None, "folder": str(tmp_path / "s"), "file": f"file://{tmp_path}/s", "memory": "memory://s"}[url]
    graph = GridGraph(experiment, storage=location)
    with DagsterInstance.ephemeral() as instance:
        report = execute(plan(graph, instance, ["evalset", "+documents"]), instance)
        assert report.success, report.outcomes
        assert not plan(graph, instance, ["evalset", "+documents"]).pending
    evalset = graph.load("evalset")
    assert evalset.schema == EVALSET
    assert evalset["question_id"].to_pylist() == ["q1", "q2", "q3"]
    assert graph.load("documents", "markdown")["source_id"].to_pylist() == ["refunds.md", "shipping.md", "warranty.md"]
    assert graph.tables.stored(graph.key("documents"), ["markdown", "absent"]) == {
        "markdown": fingerprint(graph.load("documents", "markdown"))
    }
    assert graph.tables.stored(graph.key("corpus"), [None]) == {None: fingerprint(graph.load("corpus"))}


def test_an_index_comes_back_as_it_was_written(experiment: Experiment) -> None:
    chunks = pa.table(
        {
            "chunk_id": ["a:0-5", "a:6-9"],
            "source_id": ["a", "a"],
            "start": [0, 6],
            "end": [5, 9],
            "text": ["refunds take days", "parcels arrive"],
        }
    )
    store = GridGraph(experiment).indexes
    index = build_index(chunks, None, "bm25")
    path = store.path_of(AssetKey(["index"]), "a")
    path.parent.mkdir(parents=True)
    store.write(path, index.to_bytes())
    assert store.load_index(path).fingerprint() == index.fingerprint()


def test_experiments_that_share_a_store_keep_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXTGRID_STORAGE", str(tmp_path / "shared"))
    one = Experiment.load(write_experiment(tmp_path / "one"))
    other = Experiment.load(write_experiment(tmp_path / "two", EXPERIMENT.replace("name: bench", "name: ../one")))
    folders = [storage_folder(experiment) for experiment in (one, other)]
    assert folders[0] != folders[1]
    assert all(Path(folder.path).parent == tmp_path / "shared" for folder in folders)


def test_an_unknown_storage_protocol_is_a_clear_error(experiment: Experiment) -> None:
    with pytest.raises(ConfigError, match="CONTEXTGRID_STORAGE"):
        storage_folder(experiment, "nosuch://bucket/x")


def test_an_answers_table_with_nulls_and_lists_survives(tmp_path: Path) -> None:
    rows = [
        {"question_id": "q", "answer": None, "citations": [], "passages": None, "error": "<b>no</b>", "seconds": None},
        {"question_id": "r", "answer": "", "citations": [1, 2], "passages": [], "context": "ü", "prompt_tokens": 1},
    ]
    table = pa.Table.from_pylist(rows, schema=ANSWERS)
    store = TableStore(UPath(tmp_path))
    path = store.path_of(KEY, "a|b")
    path.parent.mkdir(parents=True)
    store.write(path, store.serialise(table))
    assert store.load_table(path).equals(table)


def test_a_file_that_is_not_the_recorded_one_is_built_again(experiment: Experiment, tmp_path: Path) -> None:
    """As after a kill between writing a file and recording it, or where two instances share a store."""
    with DagsterInstance.ephemeral() as instance:
        graph = GridGraph(experiment)
        execute(plan(graph, instance), instance)
        assert not plan(graph, instance).pending
        cell = next(node for node in graph.nodes if node.asset == "lexical_scores")
        path = graph.tables.path_of(graph.key(cell.asset), cell.partition)
        graph.tables.write(path, graph.tables.serialise(graph.load(cell.asset, cell.partition).slice(1)))
        index = next(node for node in graph.nodes if node.asset == "index")
        file = Path(graph.indexes.path_of(graph.key("index"), index.partition).path)
        file.write_bytes(file.read_bytes()[:100])
        pending = {step.node: step.reasons for step in plan(graph, instance).pending if step.status == "missing"}
        assert pending == {
            index: ("its stored file is damaged",),
            cell: ("its stored file is not the one that was recorded",),
        }
        assert execute(plan(graph, instance), instance).success
        assert not plan(graph, instance).pending
