"""The graph that Dagster sees: partitions, mappings, labels, metadata, and the job that brings it up to date."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from dagster import (
    AssetKey,
    DagsterInstance,
    Definitions,
    EventLogEntry,
    MarkdownMetadataValue,
    TableMetadataValue,
    evaluate_automation_conditions,
)
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest

from contextgrid.core.errors import ConfigError
from contextgrid.core.fingerprint import fingerprint
from contextgrid.grid.experiment import Experiment
from contextgrid.grid.matrix import partition_counts
from contextgrid.stages import code_version
from contextgrid_dagster import build_definitions
from contextgrid_dagster.display.labels import group_of
from contextgrid_dagster.executor import Kind, execute
from contextgrid_dagster.graph import GridGraph, Node
from contextgrid_dagster.instance import home_of, open_instance
from contextgrid_dagster.planner import plan
from contextgrid_dagster.records import Record, read_records
from tests.dagster_fixtures import (
    EXPERIMENT,
    LLM_SHORT,
    PROMPTS,
    Bench,
    bench,
    built_bench,
    new_bench,
    write_experiment,
)

__all__ = ["bench", "built_bench"]

BASELINE = "markdown__recursive-60__bm25"
ROW = "markdown__recursive-200__tfidf__dense"


@pytest.fixture
def graph(tmp_path: Path) -> GridGraph:
    return GridGraph(Experiment.load(write_experiment(tmp_path)))


def test_partition_counts_are_those_of_the_matrix(graph: GridGraph) -> None:
    counts = {name: len(graph.partitions(name)) for name in graph.names}
    assert counts == partition_counts(graph.experiment.matrix, graph.experiment.run)


def test_assets_are_declared_upstream_first(graph: GridGraph) -> None:
    seen: set[Node] = set()
    for node in graph.nodes:
        assert {parent for parents in graph.parents(node).values() for parent in parents} <= seen
        seen.add(node)


def test_each_partition_is_built_from_its_own_prefix(graph: GridGraph) -> None:
    assert graph.parents(Node("chunks", "markdown__recursive-200")) == {"documents": (Node("documents", "markdown"),)}
    assert graph.parents(Node("index", ROW)) == {"chunks": (Node("chunks", "markdown__recursive-200"),)}
    assert graph.parents(Node("retrieval_scores", ROW)) == {
        "evalset": (Node("evalset"),),
        "documents": (Node("documents", "markdown"),),
        "chunks": (Node("chunks", "markdown__recursive-200"),),
        "retrieved_ids": (Node("retrieved_ids", ROW),),
    }
    assert graph.parents(Node("answers", f"{LLM_SHORT}|{ROW}")) == {
        "generation_spec": (Node("generation_spec", LLM_SHORT),),
        "retrieved_ids": (Node("retrieved_ids", ROW),),
    }


def test_a_lift_report_reads_its_own_cell_and_the_baseline_of_its_column(graph: GridGraph) -> None:
    own, baseline = f"{LLM_SHORT}|{ROW}", f"{LLM_SHORT}|{BASELINE}"
    read = graph.parents(Node("lift_reports", own))["lexical_scores"]
    assert set(read) == {Node("lexical_scores", own), Node("lexical_scores", baseline)}
    assert graph.parents(Node("lift_reports", baseline))["lexical_scores"] == (Node("lexical_scores", baseline),)


def test_a_grid_that_generates_nothing_has_only_retrieval_assets(tmp_path: Path) -> None:
    text = EXPERIMENT.replace("  generator: [extractive, llm]\n  prompt: [short, long]\n  model: counting:a\n", "")
    with new_bench(tmp_path, text) as fresh:
        assert set(fresh.graph().names) == {
            "corpus", "evalset", "documents", "chunks", "index", "retrieved_ids", "retrieval_scores", "leaderboard"
        }  # fmt: skip
        assert fresh.materialise().success
        leaderboard = fresh.graph().load("leaderboard")
        assert leaderboard["generation"].null_count == leaderboard.num_rows == 4
        assert not fresh.plan().pending


def test_a_grid_of_one_cell_builds(tmp_path: Path) -> None:
    text = EXPERIMENT.replace('["recursive:60", "recursive:200"]', "recursive:60").replace("[bm25, dense]", "bm25")
    with new_bench(tmp_path, text.replace("[extractive, llm]", "extractive")) as fresh:
        assert fresh.materialise().success
        assert fresh.graph().load("leaderboard").num_rows == 1
        assert not fresh.plan().pending


def test_every_asset_is_labelled_and_versioned(graph: GridGraph) -> None:
    for asset in graph.assets:
        (spec,) = asset.specs
        name = spec.key.path[-1]
        assert spec.description
        assert spec.group_name == group_of(name)
        assert spec.kinds
        assert spec.code_version == code_version(name, graph.experiment.run, graph.experiment.matrix)
        assert (spec.automation_condition is None) == (not spec.deps)


def test_data_versions_are_the_fingerprints_of_what_is_stored(bench: Bench) -> None:
    graph, records = bench.graph(), read_records(bench.graph(), bench.instance)
    for node in graph.nodes:
        if node.asset == "index":
            index = graph.indexes.load_index(graph.indexes.path_of(graph.key("index"), node.partition))
            assert index.fingerprint() == records[node].version
        else:
            assert fingerprint(graph.load(node.asset, node.partition)) == records[node].version, node


def metadata_of(bench: Bench, node: Node) -> dict[str, object]:
    record: Record = read_records(bench.graph(), bench.instance)[node]
    return {name: value.value for name, value in record.materialization.metadata.items()}


def test_materialisations_carry_numbers_and_a_preview(bench: Bench) -> None:
    scores = metadata_of(bench, Node("retrieval_scores", ROW))
    assert 0 <= float(str(scores["recall@3"])) <= 1
    assert (scores["questions"], scores["scored_questions"]) == (3, 2)
    answers = metadata_of(bench, Node("answers", f"{LLM_SHORT}|{ROW}"))
    assert (answers["questions"], answers["failed_questions"], answers["dagster/row_count"]) == (3, 0, 3)
    assert answers["settings"] == (
        "generator=llm prompt=short model=counting:a parser=markdown chunker=recursive:200 embedder=tfidf index=dense"
    )
    node = Node("answers", f"{LLM_SHORT}|{ROW}")
    preview = read_records(bench.graph(), bench.instance)[node].materialization.metadata["preview"]
    assert isinstance(preview, TableMetadataValue)
    assert [record.data["question_id"] for record in preview.records] == ["q1", "q2", "q3"]


def test_a_lift_report_carries_its_sentence_its_numbers_and_the_split(bench: Bench) -> None:
    report = metadata_of(bench, Node("lift_reports", f"{LLM_SHORT}|{ROW}"))
    assert str(report["sentence"]).startswith("Retrieval did not change")
    assert str(report["differences"]).startswith("![chart](<data:image/svg+xml,")
    assert {"gain_converted", "gain_wasted", "gain_unexplained", "loss", "retrieval_gain", "answer_gain"} <= set(report)


def test_prompt_texts_are_in_no_log_and_no_metadata(bench: Bench) -> None:
    assert all("Sentinel" in text for text in PROMPTS.values())
    home = Path(bench.instance.root_directory)
    recorded = b"".join(file.read_bytes() for file in home.rglob("*") if file.is_file())
    assert b"lexical_scores" in recorded
    assert b"Sentinel" not in recorded


def test_markup_in_documents_reaches_no_metadata(bench: Bench) -> None:
    markup = "<script>refunds()</script> | **parcels** [x](javascript:1)"
    (bench.folder / "documents" / "a.md").write_text(f"{markup}\n")
    assert bench.materialise("+chunks").success
    record = read_records(bench.graph(), bench.instance)[Node("chunks", "markdown__recursive-200")]
    preview = record.materialization.metadata["preview"]
    assert isinstance(preview, TableMetadataValue)
    assert preview.records[0].data["text_characters"] == len(markup)
    assert all(markup not in str(cell) for row in preview.records for cell in row.data.values())
    assert not any(isinstance(value, MarkdownMetadataValue) for value in record.materialization.metadata.values())


def test_failed_questions_warn_in_the_log_and_count_in_the_metadata(bench: Bench) -> None:
    bench.edit("prompts/long.txt", "Sentinel long.", "fail once")
    assert bench.materialise("+answers").success
    node = Node("answers", f"llm__long__counting-a|{ROW}")
    assert metadata_of(bench, node)["failed_questions"] == 1
    run = bench.instance.get_runs(limit=1)[0]
    messages = [entry.user_message for entry in bench.instance.all_logs(run.run_id)]
    assert any(message.startswith("1 of 3 questions failed: q3: ") for message in messages)


def test_definitions_load_and_several_experiments_merge(tmp_path: Path) -> None:
    file = write_experiment(tmp_path)
    Definitions.validate_loadable(build_definitions(file))
    both = Definitions.merge(build_definitions(file, key_prefix="one"), build_definitions(file, key_prefix="two"))
    keys = both.resolve_asset_graph().get_all_asset_keys()
    assert {AssetKey(["one", "answers"]), AssetKey(["two", "answers"])} <= set(keys)
    assert both.resolve_job_def("one_bring_up_to_date") is not None


def test_the_default_definitions_name_the_variable_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import contextgrid_dagster.definitions as module

    monkeypatch.delitem(module.__dict__, "defs", raising=False)
    monkeypatch.delenv("CONTEXTGRID_EXPERIMENT", raising=False)
    with pytest.raises(ConfigError, match="CONTEXTGRID_EXPERIMENT is not set"):
        _ = module.defs
    monkeypatch.setenv("CONTEXTGRID_EXPERIMENT", str(write_experiment(tmp_path)))
    assert isinstance(module.defs, Definitions)
    monkeypatch.delitem(module.__dict__, "defs")


def test_the_job_brings_everything_up_to_date_in_one_run(tmp_path: Path) -> None:
    with new_bench(tmp_path) as fresh:
        job = build_definitions(fresh.file).resolve_job_def("bring_up_to_date")
        select = {"select": ["+answers:extractive*"]}
        result = job.execute_in_process(
            instance=fresh.instance, run_config={"ops": {"bring_up_to_date_op": {"config": select}}}
        )
        assert result.success
        messages = [entry.user_message for entry in fresh.instance.all_logs(result.run_id)]
        assert any(message.startswith(f"built: answers:extractive|{ROW} (") for message in messages)
        assert "answers: 4 built" in messages
        assert not [step for step in fresh.plan("+answers:extractive*").steps if step.is_pending]


def test_the_job_fails_if_a_cell_does_after_doing_the_others(bench: Bench) -> None:
    bench.edit("prompts/short.txt", "Sentinel short.", "fail always")
    job = build_definitions(bench.file).resolve_job_def("bring_up_to_date")
    result = job.execute_in_process(instance=bench.instance, raise_on_error=False)
    assert not result.success
    messages = [entry.user_message for entry in bench.instance.all_logs(result.run_id)]
    assert any(message.startswith("failed: answers:") for message in messages)
    assert {step.node.asset for step in bench.plan().pending} == {
        "answers", "lexical_scores", "lift_reports", "leaderboard"
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore::dagster.BetaWarning")
def test_automation_asks_only_for_what_an_upstream_change_of_content_touches(bench: Bench) -> None:
    definitions = bench.graph().definitions
    first = evaluate_automation_conditions(definitions, bench.instance)
    assert first.total_requested == 0
    assert bench.materialise("generation_spec", rebuild_all=True).of_kind(Kind.UNCHANGED)
    second = evaluate_automation_conditions(definitions, bench.instance, cursor=first.cursor)
    assert second.total_requested == 0
    bench.edit("prompts/short.txt", "Answer from", "Answer at length from")
    assert bench.materialise("generation_spec").success
    third = evaluate_automation_conditions(definitions, bench.instance, cursor=second.cursor)
    requested = third.get_requested_partitions(AssetKey(["answers"])) or set()
    assert requested == {f"{LLM_SHORT}|{row.key}" for row in bench.graph().experiment.matrix.rows}


def test_dagster_itself_finds_nothing_stale_after_a_build(bench: Bench) -> None:
    graph = bench.graph()
    assets = graph.definitions.resolve_asset_graph()
    resolver = CachingStaleStatusResolver(bench.instance, assets, LoadingContextForTest(bench.instance))
    for node in graph.nodes:
        assert resolver.get_status(graph.key(node.asset), node.partition) == StaleStatus.FRESH, node


def test_the_log_of_a_run_can_be_followed_live(bench: Bench) -> None:
    run = bench.instance.get_runs(limit=1)[0]
    seen: list[str] = []
    arrived = threading.Event()

    def note(entry: EventLogEntry, _: str) -> None:
        seen.append(entry.message)
        arrived.set()

    bench.instance.watch_event_logs(run.run_id, None, note)
    assert arrived.wait(timeout=10)
    bench.instance.end_watch_event_logs(run.run_id, note)
    assert seen


@pytest.mark.parametrize("prefix", ["a b", "1st", "a/b", "ü", "a__b", "-a"])
def test_a_key_prefix_that_dagster_could_not_use_is_refused(tmp_path: Path, prefix: str) -> None:
    with pytest.raises(ConfigError, match="key prefix"):
        build_definitions(write_experiment(tmp_path), key_prefix=prefix)


def test_a_key_prefix_with_a_hyphen_runs(tmp_path: Path) -> None:
    graph = GridGraph(Experiment.load(write_experiment(tmp_path)), key_prefix="my-project")
    with DagsterInstance.ephemeral() as instance:
        assert execute(plan(graph, instance, ["documents", "corpus"]), instance).success


def test_an_experiment_with_any_name_finds_a_home(tmp_path: Path) -> None:
    for number, name in enumerate(("my experiment", "a/b ü 100%", "x?y#z", "日本")):
        folder = tmp_path / str(number)
        file = write_experiment(folder)
        file.write_text(file.read_text(encoding="utf-8").replace("name: bench", f"name: {name!r}"), encoding="utf-8")
        experiment = Experiment.load(file)
        with open_instance(home_of(experiment)) as instance:
            assert execute(plan(GridGraph(experiment), instance, ["corpus"]), instance).success


def test_a_home_that_dagster_cannot_use_is_refused(tmp_path: Path) -> None:
    for part in ("a%20b", "q?"):
        with pytest.raises(ConfigError, match="set DAGSTER_HOME"), open_instance(tmp_path / part):
            pass
