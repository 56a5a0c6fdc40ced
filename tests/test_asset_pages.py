"""What the pages of Dagster say of an asset: labels, columns, findings, the report's file, and the run's log."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from dagster import TableMetadataValue, TableSchema, TableSchemaMetadataValue

from contextgrid_dagster.display.labels import FLOW, model_kind, tags_of
from contextgrid_dagster.graph import GridGraph, Node
from contextgrid_dagster.records import read_records
from contextgrid_dagster.storage import TableStore
from tests.dagster_fixtures import LLM_LONG, LLM_SHORT, Bench, bench, built_bench

__all__ = ["bench", "built_bench"]

ROW = "markdown__recursive-200__tfidf__dense"


def messages(bench: Bench, asset: str) -> list[str]:
    """The log of the last run that built an asset."""
    record = bench.instance.fetch_materializations(bench.graph().key(asset), limit=1).records[0]
    return [entry.user_message for entry in bench.instance.all_logs(record.run_id)]


def test_groups_follow_the_flow_and_each_experiment_of_a_workspace_has_its_own(bench: Bench) -> None:
    plain, prefixed = bench.graph(), GridGraph(bench.graph().experiment, key_prefix="my-manual")
    order = [asset.specs_by_key[asset.key].group_name for asset in plain.assets]
    assert list(dict.fromkeys(order)) == sorted(FLOW)
    assert {asset.specs_by_key[asset.key].group_name for asset in prefixed.assets} == {f"my_manual_{g}" for g in FLOW}


def test_every_column_is_described_and_is_a_column_of_what_is_stored(bench: Bench) -> None:
    graph = bench.graph()
    for asset in graph.assets:
        name, shown = asset.key.path[-1], asset.specs_by_key[asset.key].metadata.get("dagster/column_schema")
        if name in ("index", "leaderboard"):
            assert shown is None
            continue
        schema = shown.schema if isinstance(shown, TableSchemaMetadataValue) else shown
        assert isinstance(schema, TableSchema)
        assert all(column.description for column in schema.columns), name
        stored = graph.load(name, graph.partitions(name)[0]).column_names
        assert {c.name.replace("@k", "@3") for c in schema.columns} <= set(stored)


def test_only_assets_that_call_paid_models_are_tagged_as_costly(bench: Bench) -> None:
    costly = {a.key.path[-1] for a in bench.graph().assets if "calls_models" in a.specs_by_key[a.key].tags}
    assert costly == {"answers"}
    assert tags_of("a b/" + "c" * 80, costs_money=False) == {"experiment": "a_b_" + "c" * 59}
    assert (model_kind(["openai:a", "openai:b"]), model_kind(["openai:a", "x:b"]), model_kind([])) == (
        "openai",
        "model",
        "model",
    )


def test_the_leaderboard_shows_scores_beside_short_names_and_a_chart(bench: Bench) -> None:
    metadata = read_records(bench.graph(), bench.instance)[Node("leaderboard")].materialization.metadata
    board = metadata["leaderboard"]
    assert isinstance(board, TableMetadataValue)
    assert [column.name for column in board.schema.columns] == ["rank", "answer", "gain", "retrieval", "cell"]
    assert len(board.records) == 12
    assert any(str(record.data["cell"]).endswith("· short") for record in board.records)
    assert str(metadata["chart"].value).startswith("![chart](<data:image/svg+xml,")
    assert metadata["report_file"].value == "leaderboard.html"
    folder = bench.folder / ".contextgrid" / "storage" / "bench"
    links = [part.split('"')[0] for part in (folder / "leaderboard.html").read_text().split('<a href="')[1:]]
    assert len(links) == 12
    assert all((folder / unquote(link)).is_file() for link in links)


def test_each_failed_question_has_its_own_line_in_the_log_and_the_run_says_what_came_out(bench: Bench) -> None:
    bench.edit("prompts/long.txt", "Sentinel long.", "fail once")
    assert bench.materialise(f"+lift_reports:{LLM_LONG}|{ROW}").success
    said = messages(bench, "answers")
    assert any(line.startswith("1 of 3 questions failed: q3: ") for line in said)
    assert any(line.startswith("2 answers, 1 failed; ") for line in said)
    assert any(
        line.startswith("answer_quality ") and " over 2 of 3" in line for line in messages(bench, "lexical_scores")
    )
    assert any(line.startswith("Report: ") for line in messages(bench, "lift_reports"))


def test_a_report_that_cannot_be_written_costs_no_result_and_says_why(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = TableStore.write

    def refuse_pages(store: TableStore, path: object, content: bytes) -> None:
        if str(path).endswith(".html"):
            raise PermissionError(13, "read-only storage")
        write(store, path, content)  # type: ignore[arg-type]

    monkeypatch.setattr(TableStore, "write", refuse_pages)
    node = Node("lift_reports", f"{LLM_SHORT}|{ROW}")
    before = read_records(bench.graph(), bench.instance)[node]
    assert bench.materialise(f"lift_reports:{LLM_SHORT}|{ROW}", rebuild_all=True).success
    after = read_records(bench.graph(), bench.instance)[node]
    assert "read-only storage" in str(after.materialization.metadata["report_file"].value)
    assert any(line.startswith("The report was not written to ") for line in messages(bench, "lift_reports"))
    # Charts and files are no part of the result: nothing that depends on it is stale.
    assert after.version == before.version
    assert not bench.plan().pending
