"""Checks of a real Dagster instance: what is recorded of every partition, and that the gate says the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from dagster import AssetCheckKey, AssetKey

from contextgrid.models import register_provider
from contextgrid_dagster import build_definitions
from contextgrid_dagster.graph import Node
from contextgrid_dagster.records import read_records
from tests.checked_experiment import (
    EXPERIMENT,
    LONG,
    QUESTIONS,
    SHORT,
    bench,
    built_folder,
    evaluations,
    gate,
    recorded_words,
    set_checks,
    surroundings,
    verdict_words,
    write_inputs,
)
from tests.dagster_fixtures import Bench, new_bench

__all__ = ["bench", "built_folder", "surroundings"]


def test_every_partition_has_an_evaluation_and_the_gate_says_the_same(bench: Bench) -> None:
    recorded = recorded_words(bench)
    assert {(node.asset, check) for node, check in recorded} == {
        ("index", "index_not_empty"),
        ("retrieval_scores", "anchors_resolved"),
        ("answers", "questions_answered"),
        ("lexical_scores", "unanswerable_declined"),
        ("lexical_scores", "citations_valid"),
        ("lexical_scores", "answer_regression"),
    }
    assert recorded == verdict_words(gate(bench))
    assert recorded[Node("lexical_scores", SHORT), "answer_regression"] == (
        True, "nothing to compare: this is the first materialisation"
    )  # fmt: skip


def test_an_evaluation_belongs_to_the_materialisation_of_its_own_run_and_partition(bench: Bench) -> None:
    graph = bench.graph()
    for name in ("index", "lexical_scores"):
        for record in bench.instance.fetch_materializations(graph.key(name), limit=10).records:
            logs = bench.instance.all_logs(record.run_id)
            found = [
                entry.dagster_event.asset_check_evaluation_data
                for entry in logs
                if entry.dagster_event and entry.dagster_event.event_type_value == "ASSET_CHECK_EVALUATION"
            ]
            assert found
            assert {evaluation.partition for evaluation in found} == {record.partition_key}
            targets = {evaluation.target_materialization_data for evaluation in found}
            assert {target.run_id for target in targets if target} == {record.run_id}


def test_a_failing_check_fails_neither_its_step_nor_what_is_downstream(bench: Bench) -> None:
    set_checks(bench, "{index_not_empty: {min_passages: 1000}, questions_answered: {min_share: 1}}")
    bench.edit("prompts/short.txt", "Sentinel", "Now fail on it. Sentinel")
    report = bench.materialise("+lift_reports", rebuild_all=True)
    assert report.success
    recorded = evaluations(bench.instance, bench.graph())
    failed = {
        (node.asset, check): evaluation for (node, check), evaluation in recorded.items() if not evaluation.passed
    }
    assert {("index", "index_not_empty"), ("answers", "questions_answered")} <= set(failed)
    assert failed["answers", "questions_answered"].severity.value == "ERROR"
    assert failed["lexical_scores", "unanswerable_declined"].severity.value == "WARN"
    assert not any(evaluation.blocking for evaluation in recorded.values())


def test_checks_are_switched_off_by_null(bench: Bench) -> None:
    names = ("index_not_empty", "anchors_resolved", "questions_answered", "unanswerable_declined", "citations_valid")
    set_checks(bench, f"{{{', '.join(f'{name}: null' for name in (*names, 'answer_regression'))}}}")
    assert not any(asset.check_keys for asset in bench.graph().assets)
    assert bench.materialise("answers", rebuild_all=True).success
    assert gate(bench).counts() == {}
    assert gate(bench).success


def test_definitions_carry_the_checks_without_a_warning(bench: Bench, recwarn: pytest.WarningsRecorder) -> None:
    definitions = build_definitions(bench.file, key_prefix="own")
    keys = definitions.resolve_asset_graph().asset_check_keys
    assert AssetCheckKey(AssetKey(["own", "lexical_scores"]), "answer_regression") in keys
    assert not [warning for warning in recwarn if "preview" in str(warning.message)]


# The answer metric against the last materialisation


def test_an_edit_that_makes_answers_worse_is_flagged_by_check_and_gate_alike(bench: Bench) -> None:
    bench.edit("prompts/short.txt", "Sentinel", "Be lazy. Sentinel")
    assert bench.materialise().success
    passed, words = recorded_words(bench)[Node("lexical_scores", SHORT), "answer_regression"]
    assert not passed
    assert words.startswith("answer_quality fell -")
    assert "q1" in words
    report = gate(bench)
    assert recorded_words(bench) == verdict_words(report)
    assert [node.partition for node, _ in report.failures("error")] == [SHORT]
    assert not report.success

    noted = read_records(bench.graph(), bench.instance)[Node("lexical_scores", SHORT)].materialization.metadata
    assert float(str(noted["answer_change"].value)) < 0
    assert float(str(noted["answer_change_high"].value)) < 0
    assert noted["answer_change_questions"].value == len(QUESTIONS)


def test_an_unchanged_rebuild_is_no_regression(bench: Bench) -> None:
    assert bench.materialise("lexical_scores", rebuild_all=True).success
    passed, words = recorded_words(bench)[Node("lexical_scores", SHORT), "answer_regression"]
    assert passed
    assert words == (
        "answer_quality did not change, +0.000 [+0.000, +0.000] against the last materialisation, over 9 of 9 questions"
    )
    assert gate(bench).success


def test_another_metric_or_a_damaged_table_leaves_nothing_to_compare(bench: Bench) -> None:
    graph = bench.graph()
    graph.tables.write(graph.tables.path_of(graph.key("lexical_scores"), SHORT), b"PAR1 no longer")
    assert bench.materialise("lexical_scores", rebuild_all=True).success
    recorded = recorded_words(bench)
    assert recorded[Node("lexical_scores", SHORT), "answer_regression"] == (
        True, "nothing to compare: the last materialisation's table cannot be read"
    )  # fmt: skip
    assert "over 9 of 9" in recorded[Node("lexical_scores", LONG), "answer_regression"][1]
    bench.edit("experiment.yaml", "resamples: 200", "resamples: 200, answer_metric: groundedness")
    told = verdict_words(gate(bench, "lexical_scores"))[Node("lexical_scores", LONG), "answer_regression"]
    assert told == (True, "nothing to compare: the last change was measured as answer_quality")


def test_new_question_ids_leave_nothing_to_compare(bench: Bench) -> None:
    bench.edit("questions.jsonl", '"id": "q', '"id": "new')
    assert bench.materialise().success
    told = recorded_words(bench)[Node("lexical_scores", SHORT), "answer_regression"]
    assert told == (True, "nothing to compare: no question is in both")


# Thresholds


def test_a_judges_answer_metric_is_checked_where_it_is_measured(tmp_path: Path) -> None:
    text = EXPERIMENT.replace(
        "judge: null",
        "answer_metric: rubric_groundedness, judge: {model: 'rater:a', metrics: [], rubric: [groundedness]}",
    )
    with new_bench(tmp_path, text) as fresh:
        write_inputs(tmp_path)
        assert fresh.materialise().success
        fresh.edit("prompts/short.txt", "Sentinel", "Please miscite. Sentinel")
        assert fresh.materialise().success
        recorded = recorded_words(fresh)
        assert recorded == verdict_words(gate(fresh))
        passed, words = recorded[Node("judge_scores", SHORT), "answer_regression"]
        assert not passed
        assert words.startswith("rubric_groundedness fell -4.000 [-4.000, -4.000]")
        assert (Node("lexical_scores", SHORT), "answer_regression") not in recorded
        assert recorded[Node("judge_scores", SHORT), "judge_coverage"] == (
            True, "9 of 9 answers have a score for rubric_groundedness"
        )  # fmt: skip


@dataclass(frozen=True)
class Rater:
    """Rates what it is shown: 5, or 1 for an answer that cites passage 9."""

    model: str

    @property
    def name(self) -> str:
        return f"rater:{self.model}"

    def complete(self, prompt: str, *, max_tokens: int = 512) -> str:
        return f"Score: {1 if '[9]' in prompt else 5}\nJustification: as told"


@register_provider("rater")
def _rater(model: str, options: Mapping[str, str]) -> Rater:
    return Rater(model)
