"""Partitions that left the grid: which are found, what is removed, and above all what is not."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from upath import UPath

from contextgrid.generate.drift import not_compared
from contextgrid.grid.experiment import Experiment
from contextgrid_dagster.departed import departures, remove
from contextgrid_dagster.executor import Kind, execute
from contextgrid_dagster.graph import GridGraph, Node
from contextgrid_dagster.instance import home_of, open_instance
from contextgrid_dagster.planner import plan
from contextgrid_dagster.refreshing.drift_asset import stored_drift
from contextgrid_dagster.storage import TableStore
from tests.dagster_fixtures import EXPERIMENT, LLM_LONG, LLM_SHORT, Bench, bench, built_bench, write_experiment
from tests.test_dagster_cli import Terminal, terminal

__all__ = ["bench", "built_bench", "terminal"]

# One for each lift report of the chunker that is dropped.
PAGES = 2 * 3
TWO_CHUNKERS, ONE_CHUNKER = '["recursive:60", "recursive:200"]', "recursive:60"


def files(folder: Path) -> set[str]:
    storage = folder / ".contextgrid" / "storage"
    return {str(path.relative_to(storage)) for path in storage.rglob("*") if path.is_file()}


def found(bench: Bench) -> set[Node]:
    return {departed.node for departed in departures(bench.graph(), bench.instance).partitions}


def test_nothing_of_a_grid_that_did_not_change_departed(bench: Bench) -> None:
    nothing = departures(bench.graph(), bench.instance)
    assert (nothing.partitions, nothing.others) == ((), ())


def test_every_partition_of_a_dropped_chunker_and_no_other_is_found_and_removed(bench: Bench) -> None:
    before = bench.graph()
    bench.edit("experiment.yaml", TWO_CHUNKERS, ONE_CHUNKER)
    gone = {node for node in before.nodes if node.partition and "recursive-200" in node.partition}
    assert len(gone) == 1 + 2 + 2 + 2 + 3 * 2 * 3
    after = departures(bench.graph(), bench.instance)
    assert {departed.node for departed in after.partitions} == gone
    assert after.bytes == sum(departed.path.stat().st_size for departed in after.partitions) > 0

    stored = {
        str(before.store(node.asset).path_of(before.key(node.asset), node.partition)).partition("/storage/")[2]
        for node in gone
    }
    pages = {file.replace(".parquet", ".html") for file in stored if file.startswith("bench/lift_reports/")}
    assert pages < files(bench.folder)
    kept = files(bench.folder) - stored - pages
    remove(bench.graph(), after.partitions)
    assert files(bench.folder) == kept
    assert found(bench) == set()
    assert bench.materialise().success
    assert not bench.plan().pending


def test_cells_that_come_back_are_built_again_after_a_removal_and_kept_without_one(bench: Bench) -> None:
    bench.edit("experiment.yaml", TWO_CHUNKERS, ONE_CHUNKER)
    bench.edit("experiment.yaml", ONE_CHUNKER, TWO_CHUNKERS)
    assert not bench.plan().pending
    bench.edit("experiment.yaml", TWO_CHUNKERS, ONE_CHUNKER)
    remove(bench.graph(), departures(bench.graph(), bench.instance).partitions)
    bench.edit("experiment.yaml", ONE_CHUNKER, TWO_CHUNKERS)
    reasons = bench.reasons()
    assert {reasons[node] for node in reasons if node.asset == "chunks"} == {("its stored file is gone",)}
    assert bench.materialise().success


def test_a_renamed_prompt_leaves_its_old_column_behind_and_shares_no_file_with_it(bench: Bench) -> None:
    for name in ("prompts: {short", "prompt: [short"):
        bench.edit("experiment.yaml", name, name.replace("short", "brief"))
    report = bench.materialise()
    assert report.success
    built = {outcome.node for outcome in report.of_kind(Kind.BUILT, Kind.UNCHANGED)}
    assert {node.partition.partition("|")[0] for node in built if node.partition} == {"llm__brief__counting-a"}
    old = found(bench)
    assert {node.partition.partition("|")[0] for node in old if node.partition} == {LLM_SHORT}
    remove(bench.graph(), departures(bench.graph(), bench.instance).partitions)
    assert not bench.plan().pending


def test_a_chunker_that_comes_back_with_another_size_has_another_key(bench: Bench) -> None:
    bench.edit("experiment.yaml", TWO_CHUNKERS, '["recursive:60", "recursive:120"]')
    assert bench.materialise().success
    assert all("recursive-200" in str(node.partition) for node in found(bench))
    bench.edit("experiment.yaml", '["recursive:60", "recursive:120"]', TWO_CHUNKERS)
    # Only what all cells share was built since for other cells.
    assert {node.asset for node in bench.reasons()} == {"leaderboard"}


def test_an_asset_that_left_the_experiment_departs_whole(bench: Bench) -> None:
    bench.edit("experiment.yaml", "generator: [extractive, llm]", "generator: null")
    nodes = found(bench)
    assert {node.asset for node in nodes} == {"generation_spec", "answers", "lexical_scores", "lift_reports"}
    assert len(nodes) == 3 + 3 * 12


def test_what_another_experiment_stored_at_the_same_place_is_never_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two experiments that share the storage and the Dagster home, with the same asset keys."""
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CONTEXTGRID_STORAGE", str(tmp_path / "shared"))
    text = EXPERIMENT.replace("[extractive, llm]", "extractive")
    graphs = {}
    with open_instance(tmp_path / "home") as instance:
        for name, size in (("first", 60), ("second", 90)):
            changed = text.replace("name: bench", f"name: {name}").replace(TWO_CHUNKERS, f'"recursive:{size}"')
            graphs[name] = GridGraph(Experiment.load(write_experiment(tmp_path / name, changed)))
            assert execute(plan(graphs[name], instance), instance).success
        for graph in graphs.values():
            nothing = departures(graph, instance)
            assert (nothing.partitions, nothing.others) == ((), ())


def test_a_file_that_someone_else_wrote_since_is_left_alone_and_said(bench: Bench, terminal: Terminal) -> None:
    graph = bench.graph()
    cells = [cell for cell in graph.partitions("answers") if str(cell).startswith(LLM_LONG)]
    own, foreign = (graph.tables.path_of(graph.key("answers"), cell) for cell in cells[:2])
    foreign.write_bytes(TableStore.serialise(graph.load("answers", cells[0])))
    stray = own.parent / "notes.parquet"
    stray.write_bytes(b"not ours")
    bench.edit("experiment.yaml", "prompt: [short, long]", "prompt: [short]")

    result = departures(bench.graph(), bench.instance)
    assert own in [departed.path for departed in result.partitions]
    assert set(result.others) == {foreign, stray}
    code, out, _ = terminal("departed", bench.file, "--remove", "--yes")
    assert code == 0
    assert "2 other files are no part of the grid" in out
    assert (foreign.exists(), stray.exists(), own.exists()) == (True, True, False)


def test_without_records_nothing_may_be_removed(bench: Bench, tmp_path: Path) -> None:
    bench.edit("experiment.yaml", TWO_CHUNKERS, ONE_CHUNKER)
    with open_instance(tmp_path / "new home") as instance:
        result = departures(bench.graph(), instance)
    assert not result.partitions
    assert len(result.others) == 25


def test_long_keys_whose_file_names_hold_a_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.delenv("CONTEXTGRID_STORAGE", raising=False)
    name = "a" * 180
    text = EXPERIMENT.replace("[extractive, llm]", "llm").replace("[bm25, dense]", "bm25")
    text = text.replace(TWO_CHUNKERS, ONE_CHUNKER).replace(
        "counting:a", '["offline:reader", "offline:reader,threshold=0.3"]'
    )
    text = text.replace("short: prompts/short.txt", f"{name}: prompts/short.txt").replace("[short, long]", f"[{name}]")
    file = write_experiment(tmp_path, text)
    with open_instance(home_of(Experiment.load(file))) as instance:
        assert execute(plan(GridGraph(Experiment.load(file)), instance), instance).success
        file.write_text(text.replace('["offline:reader", "offline:reader,threshold=0.3"]', "offline:reader"))
        graph = GridGraph(Experiment.load(file))
        result = departures(graph, instance)
        assert {departed.node.asset for departed in result.partitions} >= {"generation_spec", "answers"}
        assert all("~" in str(departed.path) for departed in result.partitions)
        remove(graph, result.partitions)
        assert departures(graph, instance) == type(result)((), ())
        assert {step.node.asset for step in plan(graph, instance).pending} == {"leaderboard"}


def test_on_a_store_that_is_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    url = f"memory://departed-{tmp_path.name}"
    monkeypatch.setenv("CONTEXTGRID_STORAGE", url)
    text = EXPERIMENT.replace("[extractive, llm]", "extractive")
    file = write_experiment(tmp_path, text)
    with open_instance(home_of(Experiment.load(file))) as instance:
        assert execute(plan(GridGraph(Experiment.load(file)), instance), instance).success
        file.write_text(text.replace(TWO_CHUNKERS, ONE_CHUNKER))
        graph = GridGraph(Experiment.load(file))
        result = departures(graph, instance)
        assert len(result.partitions) == 1 + 2 + 2 + 2 + 3 * 2
        stored = len(UPath(url).fs.find(UPath(url).path))
        remove(graph, result.partitions)
        pages = sum(departed.node.asset == "lift_reports" for departed in result.partitions)
        assert len(UPath(url).fs.find(UPath(url).path)) == stored - len(result.partitions) - pages


def test_the_command_lists_asks_and_removes(bench: Bench, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Nothing is stored of cells that left the grid" in terminal("departed", bench.file)[1]
    bench.edit("experiment.yaml", TWO_CHUNKERS, ONE_CHUNKER)
    before = files(bench.folder)
    code, out, _ = terminal("departed", bench.file)
    assert code == 0
    assert "25 stored partitions of cells that left the grid" in out
    assert "... and 5 more" in out
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert terminal("departed", bench.file, "--remove")[0] == 1
    assert files(bench.folder) == before
    code, out, _ = terminal("departed", bench.file, "--remove", "--yes")
    assert (code, "Removed 25 files." in out) == (0, True)
    assert len(files(bench.folder)) == len(before) - 25 - PAGES


def test_reports_of_drift_depart_with_their_cell_and_not_before(bench: Bench) -> None:
    graph = bench.graph()
    for cell in graph.partitions("answers"):
        if str(cell).startswith("llm"):
            bench.instance.report_runless_asset_event(stored_drift(graph, not_compared(str(cell), "a test")))
    assert found(bench) == set()
    bench.edit("experiment.yaml", TWO_CHUNKERS, ONE_CHUNKER)
    departed = {node.partition for node in found(bench) if node.asset == "drift_reports"}
    assert departed == {cell for cell in graph.partitions("answers") if "llm" in str(cell) and "-200_" in str(cell)}
