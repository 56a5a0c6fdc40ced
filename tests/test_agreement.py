"""Agreement of scores with people's ratings: label files, statistics and the command."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from contextgrid.core.errors import ConfigError, EvalSetError
from contextgrid.evalset.labels import load_labels
from contextgrid.generate.answer_judges import AnswerJudges
from contextgrid.generate.judge import JudgeError
from contextgrid.models.calls import CallSettings
from contextgrid.report.agreement import agreement_report
from contextgrid.score.agreement import (
    MetricAgreement,
    Ratings,
    agreement,
    balanced_accuracy,
    best_threshold,
    rater_agreement,
    spearman,
)
from tests.loopback import KEY, Fault, Loopback, kind_of

LABELLED = {
    "id": "q1",
    "model": "a",
    "question": "How long do refunds take?",
    "answer": "Refunds take thirty days.",
    "contexts": ["Refunds are issued within thirty days."],
    "human": {"faithfulness": [4, 3]},
}


def write(folder: Path, *records: Any) -> Path:
    file = folder / "labels.jsonl"
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def rated(ratings: Sequence[float | None], **options: Any) -> Ratings:
    values = np.array([np.nan if rating is None else rating for rating in ratings], dtype=np.float64)
    questions = options.get("questions", [f"q{number}" for number in range(len(values))])
    return Ratings(values, questions, options.get("systems", [None] * len(values)), options.get("good", 2.5))


def only(found: list[MetricAgreement]) -> MetricAgreement:
    assert len(found) == 1
    return found[0]


# Label files


def test_a_label_file_is_read_with_its_ratings_and_published_scores(tmp_path: Path) -> None:
    one = LABELLED | {"judge": {"x": 0.5, "y": None}, "reference": "Thirty days.", "history": []}
    two = LABELLED | {"model": "b", "human": {"faithfulness": float("nan"), "naturalness": 2}}
    first, second = load_labels(write(tmp_path, one, "", two))
    assert (first.question_id, first.model, first.rating("faithfulness")) == ("q1", "a", 3.5)
    assert first.judge == {"x": 0.5}
    assert first.reference == "Thirty days."
    assert second.rating("faithfulness") is None
    assert second.rating("naturalness") == 2.0


def test_other_names_of_the_question_id_are_read(tmp_path: Path) -> None:
    record = {name: value for name, value in LABELLED.items() if name != "id"}
    assert load_labels(write(tmp_path, record | {"task_id": "t<::>1"}))[0].question_id == "t<::>1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"human": {"faithfulness": ["good"]}}, "a rating of 'faithfulness' is a text"),
        ({"human": {"faithfulness": True}}, "a rating of 'faithfulness' is a true or false"),
        ({"human": {"faithfulness": 1e999}}, "a rating of 'faithfulness' is infinite"),
        ({"human": [4]}, "'human' is a list"),
        ({"judge": {"x": "high"}}, "the score 'x' in 'judge' is a text"),
        ({"contexts": "one text"}, "'contexts' is a text"),
        ({"contexts": [1]}, "context 1 is a number"),
        ({"answer": None}, "'answer' is a null"),
        ({"question": " "}, "'question' is blank"),
        ({"humans": {}, "human": None}, "unknown field 'humans'"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    changed = {name: value for name, value in (LABELLED | {"id": "q2"} | change).items() if value is not None}
    if change.get("answer", "") is None:
        changed["answer"] = None
    file = write(tmp_path, LABELLED, changed)
    with pytest.raises(EvalSetError) as raised:
        load_labels(file)
    assert f"{file}:2: {message}" in str(raised.value)


def test_a_line_that_is_not_json_and_an_answer_given_twice_are_named(tmp_path: Path) -> None:
    with pytest.raises(EvalSetError, match=r"labels.jsonl:2: not valid JSON"):
        load_labels(write(tmp_path, LABELLED, "{"))
    with pytest.raises(EvalSetError, match=r"labels.jsonl:2: system 'a' already answers question 'q1' in line 1"):
        load_labels(write(tmp_path, LABELLED, LABELLED))
    with pytest.raises(EvalSetError, match="no answers in the file"):
        load_labels(write(tmp_path, ""))


def test_a_dimension_that_nobody_rated_is_refused_with_those_that_are(tmp_path: Path) -> None:
    file = write(tmp_path, LABELLED)
    with pytest.raises(EvalSetError, match=r"nobody rated 'faithfullness'.*did you mean 'faithfulness'"):
        agreement_report(file, dimension="faithfullness")
    with pytest.raises(EvalSetError, match="no answer is rated"):
        agreement_report(write(tmp_path, LABELLED | {"human": {"faithfulness": []}}))


# Statistics

numbers = st.integers(-3, 3).map(float)


@given(st.lists(st.tuples(numbers, numbers), min_size=3, max_size=40))
def test_spearman_equals_scipy_ties_included(pairs: list[tuple[float, float]]) -> None:
    x, y = zip(*pairs, strict=True)
    found = spearman(x, y)
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(float(stats.spearmanr(x, y).statistic), abs=1e-9)


def test_spearman_leaves_out_pairs_that_were_not_measured() -> None:
    assert spearman([1, None, 3, 4, math.nan], [1, 5, 3, 4, 0]) == pytest.approx(1.0)
    assert spearman([1, 2], [1, 2]) is None


def test_each_bootstrap_sample_correlates_as_its_repeated_answers_do() -> None:
    from contextgrid.score.agreement import _spearman

    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 5, 20).astype(float), rng.integers(0, 5, 20).astype(float)
    weights = rng.integers(0, 4, (30, 20))
    found = _spearman(x, y, weights.astype(float))
    for row, value in zip(weights, found, strict=True):
        assert value == pytest.approx(stats.spearmanr(np.repeat(x, row), np.repeat(y, row)).statistic, abs=1e-9)


def test_a_difference_between_systems_does_not_pass_for_agreement_within_them() -> None:
    rng = np.random.default_rng(0)
    better = np.repeat([0.0, 10.0], 60)
    systems = ["weak"] * 60 + ["strong"] * 60
    questions = [f"q{number % 60}" for number in range(120)]
    ratings = rated(list(better + rng.normal(size=120)), systems=systems, questions=questions, good=5)
    found = only(agreement({"noise": better + rng.normal(size=120)}, ratings))
    assert found.overall.value is not None
    assert found.overall.value > 0.7
    assert found.within.value is not None
    assert abs(found.within.value) < 0.25
    assert found.within.low is not None
    assert found.within.low < 0 < (found.within.high or 0)


def test_within_is_the_mean_over_systems_and_leaves_out_those_that_do_not_vary() -> None:
    systems = ["a"] * 4 + ["b"] * 4 + ["c"] * 4
    ratings = rated([1, 2, 3, 4, 4, 3, 2, 1, 1, 2, 3, 4], systems=systems)
    found = only(agreement({"m": [1, 2, 3, 4, 1, 2, 4, 3, 5, 5, 5, 5]}, ratings))
    assert found.systems["a"] == pytest.approx(1.0)
    assert found.systems["b"] == pytest.approx(-0.8)
    assert found.systems["c"] is None
    assert found.within.value == pytest.approx(0.1)


def test_answers_to_one_question_are_resampled_together() -> None:
    rng = np.random.default_rng(3)
    signal = np.repeat(rng.normal(size=20), 5)
    scores = signal + np.repeat(rng.normal(size=20), 5)
    together = only(agreement({"m": scores}, rated(list(signal), questions=[f"q{n // 5}" for n in range(100)])))
    apart = only(agreement({"m": scores}, rated(list(signal))))
    assert together.overall.value == apart.overall.value
    widths = [(found.overall.high or 0) - (found.overall.low or 0) for found in (together, apart)]
    assert widths[0] > 1.5 * widths[1]


def test_nothing_depends_on_the_order_of_the_answers() -> None:
    rng = np.random.default_rng(5)
    ratings, scores = rng.integers(1, 5, 60).astype(float), rng.normal(size=60)
    questions, systems = [f"q{n // 2}" for n in range(60)], ["a", "b"] * 30
    order = rng.permutation(60)
    first = only(agreement({"m": scores}, rated(list(ratings), questions=questions, systems=systems)))
    shuffled = rated(list(ratings[order]), questions=[questions[n] for n in order], systems=[systems[n] for n in order])
    second = only(agreement({"m": scores[order]}, shuffled))
    assert second.within.low == pytest.approx(first.within.low)
    assert second.overall.high == pytest.approx(first.overall.high)
    assert second.held_out == first.held_out


def test_absent_scores_are_absent_and_counted() -> None:
    found = only(agreement({"m": [1, None, 3, 4, math.nan]}, rated([1, 2, 3, 4, None])))
    assert (found.n, found.total) == (3, 4)
    assert found.overall.value == pytest.approx(1.0)
    assert found.like_the_best
    empty = only(agreement({"m": [None] * 3}, rated([1, 2, 3])))
    assert (empty.n, empty.overall.value, empty.balanced_accuracy, empty.base_rate) == (0, None, None, None)
    assert not empty.like_the_best


@given(st.lists(st.tuples(numbers, st.booleans()), min_size=2, max_size=30))
def test_no_threshold_beats_the_best(pairs: list[tuple[float, bool]]) -> None:
    scores, good = np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
    threshold = best_threshold(scores, good)
    if good.all() or not good.any():
        assert threshold is None
        return
    assert threshold is not None
    best = balanced_accuracy(scores, good, threshold)
    tried = [balanced_accuracy(scores, good, cut) for cut in (*np.arange(-3.5, 4), math.inf)]
    assert best == pytest.approx(max(value for value in tried if value is not None))


def test_a_threshold_chosen_on_noise_does_not_hold_out() -> None:
    rng = np.random.default_rng(2)
    found = only(agreement({"noise": rng.normal(size=80)}, rated(list(rng.choice([1.0, 4.0], 80)))))
    assert found.balanced_accuracy is not None
    assert found.balanced_accuracy > 0.55
    assert found.held_out is not None
    assert found.held_out < found.balanced_accuracy - 0.05


def test_accuracy_is_balanced_and_the_base_rate_is_said() -> None:
    found = only(agreement({"m": [1.0] * 100}, rated([4.0] * 90 + [1.0] * 10)))
    assert found.base_rate == pytest.approx(0.9)
    assert found.balanced_accuracy == 0.5


def test_metrics_are_ranked_and_told_apart_on_answers_that_both_scored() -> None:
    rng = np.random.default_rng(4)
    signal = rng.normal(size=80)
    scores = {
        "noise": list(rng.normal(size=80)),
        "good": list(signal + 0.3 * rng.normal(size=80)),
        "same": list(signal + 0.3 * rng.normal(size=80)),
        "few": [*signal[:10], *[None] * 70],
    }
    found = agreement(scores, rated(list(signal)))
    assert {metric.metric for metric in found[:2]} == {"good", "same"}
    assert [metric.metric for metric in found[2:]] == ["noise", "few"]
    assert [metric.like_the_best for metric in found[:3]] == [True, True, False]
    assert found[0].behind is None


def test_scores_of_another_length_are_refused() -> None:
    with pytest.raises(ConfigError, match="m: 2 scores for 3 answers"):
        agreement({"m": [1, 2]}, rated([1, 2, 3]))


def test_one_rater_is_held_against_the_mean_of_the_others() -> None:
    human = [(1.0, 1.0, 4.0), (2.0, 2.0, 3.0), (3.0, 3.0, 2.0), (4.0, 4.0, 1.0), (4.0,)]
    found = rater_agreement(human, rated([2, 2, 3, 3, 4]))
    assert found is not None
    table = np.array(human[:4])
    expected = [spearman(table[:, n], np.delete(table, n, axis=1).mean(axis=1)) for n in range(3)]
    measured = [value for value in expected if value is not None]
    assert found[0].value == pytest.approx(np.mean(measured))
    assert rater_agreement([(1.0,), (2.0,), (3.0,)], rated([1, 2, 3])) is None


# The command


def command(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    code = "from contextgrid.cli import main; main()"
    line = [sys.executable, "-c", code, "agreement", *map(str, arguments)]
    settings = {"COLUMNS": "100", "PATH": "", **environment}
    return subprocess.run(line, capture_output=True, text=True, check=False, env=settings)


def small_file(folder: Path) -> Path:
    context = ["The parcel arrives after two days by train."]
    answers = {4: "The parcel arrives after two days.", 3: "The parcel arrives after days.", 1: "It flies to Rome."}
    records = [
        LABELLED
        | {"id": f"q{number}", "model": model, "answer": answer, "contexts": context}
        | {"human": {"faithfulness": [rating, rating]}, "judge": {"[red]": 5 - rating}}
        for number in range(4)
        for model in ("a", "b")
        for rating, answer in [list(answers.items())[(number + (model == "b")) % 3]]
    ]
    return write(folder, *records)


def test_the_command_prints_the_table_and_writes_it(tmp_path: Path) -> None:
    report = tmp_path / "out" / "report.md"
    result = command(small_file(tmp_path), "--output", report)
    assert result.returncode == 0, result.stderr
    assert "Rated for faithfulness: 8 of 8 answers by 2 systems to 4 questions." in result.stdout
    row = next(line.split() for line in result.stdout.splitlines() if line.split()[1:2] == ["support"])
    assert row[:5] == ["=", "support", "8", "of", "8"]
    assert "is 0.00 below groundedness: too few questions to tell." in result.stdout
    assert "judge.[red]" in result.stdout
    assert max(map(len, result.stdout.splitlines()[:5])) <= 100
    assert "judge.\\[red\\]" in report.read_text(encoding="utf-8")


def test_bad_input_is_one_message_and_exit_code_two(tmp_path: Path) -> None:
    absent = command(tmp_path / "absent.jsonl")
    assert (absent.returncode, "absent.jsonl: cannot be read" in absent.stderr) == (2, True)
    file = small_file(tmp_path)
    assert command(file, "--dimension", "tone").returncode == 2
    assert command(file, "--good", "nan").returncode == 2
    csv = command(file, "--output", tmp_path / "x.csv")
    assert (csv.returncode, csv.stdout) == (2, "")
    assert "name the file .md" in csv.stderr


def test_any_scorer_can_be_held_against_people(tmp_path: Path) -> None:
    report = agreement_report(small_file(tmp_path), scorers={"length": lambda given: float(len(given.answer))})
    assert [metric.metric for metric in report.metrics] == ["length", "judge.[red]"]


def test_an_answer_that_is_its_own_reference_has_no_answer_quality(tmp_path: Path) -> None:
    same = LABELLED | {"reference": LABELLED["answer"]}
    other = LABELLED | {"id": "q2", "reference": "Thirty days."}
    report = agreement_report(write(tmp_path, same, other, LABELLED | {"id": "q3"}))
    counts = {metric.metric: metric.n for metric in report.metrics}
    assert counts["answer_quality"] == 1
    assert counts["support"] == 3


# Judges


def judged_file(folder: Path) -> Path:
    """Five rated answers: two systems, one that declines and one without passages; and one that nobody rated."""
    context = ["The parcel arrives after two days by train."]
    answers = [
        ("q1", "a", "The parcel arrives after two days.", context, [4]),
        ("q1", "b", "The parcel arrives by ship.", context, [1]),
        ("q2", "a", "It comes by train.", context, [3]),
        ("q2", "b", "I do not know.", context, [2]),
        ("q3", "a", "Rome.", [], [1]),
        ("q3", "b", "Nobody rated this.", context, []),
    ]
    records = [
        {"id": question, "model": system, "question": f"How, {question}?", "answer": answer, "contexts": passages}
        | {"human": {"faithfulness": ratings}}
        for question, system, answer, passages, ratings in answers
    ]
    return write(folder, *records)


def judges(server: Loopback, folder: Path, *names: str, **calls: Any) -> AnswerJudges:
    return AnswerJudges(server.spec, CallSettings(ledger=str(folder / "ledger.sqlite"), **calls), names)


def test_judges_score_rated_answers_once_and_a_replay_needs_no_server(server: Loopback, tmp_path: Path) -> None:
    file = judged_file(tmp_path)
    server.delay = 0.05
    first = agreement_report(file, judges=judges(server, tmp_path), resamples=200)
    counts = {metric.metric: (metric.n, metric.total) for metric in first.metrics}
    names = ("faithfulness", "answer_relevancy", "rubric_groundedness", "rubric_relevance")
    assert [counts[name] for name in names] == [(3, 5)] * 4
    missing = f"No score from {', '.join(names)} for 2 of 5 answers: 1 abstained, 1 empty_context."
    assert first.notes[1:] == (missing,)
    calls = len(server.requests)
    assert server.kinds()["rating"] == 6
    assert server.kinds()["judgement"] > 6
    assert server.peak > 1
    assert not any("Nobody rated this" in prompt for prompt in server.prompts)
    said = re.match(
        r"Judged by openai:gpt-4o-mini: (\d+) calls made, (\d+) already in the ledger; \$0\.00", first.notes[0]
    )
    assert said is not None
    assert int(said[1]) == calls
    assert first.problems == ()

    second = agreement_report(file, judges=judges(server, tmp_path), resamples=200)
    assert len(server.requests) == calls
    total = int(said[1]) + int(said[2])  # this model finds the same claim in all answers, and rates it once
    assert f"0 calls made, {total} already in the ledger; $0.0000 spent now" in second.notes[0]
    assert second.metrics == first.metrics

    server.close()
    replayed = agreement_report(file, judges=judges(server, tmp_path, mode="replay"), resamples=200)
    assert replayed.metrics == first.metrics


def test_a_judges_scores_belong_to_the_answers_that_they_are_about(server: Loopback, tmp_path: Path) -> None:
    ratings = {"two days": 5, "by ship": 1, "by train": 4}

    def reply(prompt: str) -> str | None:
        answer = prompt.rpartition("###Answer")[2]
        score = next((score for text, score in ratings.items() if text in answer), 3)
        return f"Score: {score}\nJustification: So." if kind_of(prompt) == "rating" else None

    server.reply_for = reply
    report = agreement_report(judged_file(tmp_path), judges=judges(server, tmp_path, "rubric_groundedness"))
    found = next(metric for metric in report.metrics if metric.metric == "rubric_groundedness")
    assert found.n == 3
    assert found.overall.value == pytest.approx(1.0)
    assert server.kinds() == {"rating": 3}


def test_lost_verdicts_are_absent_and_said(server: Loopback, tmp_path: Path) -> None:
    server.fault_for = lambda prompt: Fault("status", 400) if "by ship" in prompt else None
    report = agreement_report(judged_file(tmp_path), judges=judges(server, tmp_path, "rubric_relevance", retries=0))
    found = next(metric for metric in report.metrics if metric.metric == "rubric_relevance")
    assert (found.n, found.total) == (2, 5)
    note = next(note for note in report.notes if note.startswith("No score from rubric_relevance"))
    assert "for 3 of 5 answers: 1 abstained, 1 empty_context, 1 failed; the first lost" in note
    assert "to question 'q1' by 'b'" in note
    assert report.problems == ()
    server.fault_for = lambda prompt: Fault("status", 400)
    report = agreement_report(judged_file(tmp_path), judges=judges(server, tmp_path, "rubric_groundedness", retries=0))
    assert report.problems == ("rubric_groundedness: no answer could be judged, 3 verdicts failed",)


def test_a_budget_leaves_verdicts_out_and_the_next_run_gets_them(server: Loopback, tmp_path: Path) -> None:
    file = judged_file(tmp_path)
    report = agreement_report(file, judges=judges(server, tmp_path, "rubric_relevance", budget_usd=0.0))
    assert report.problems == ("skipped_budget: 3 verdicts; run again to get them",)
    assert server.requests == []
    report = agreement_report(file, judges=judges(server, tmp_path, "rubric_relevance", budget_usd=1.0))
    assert report.problems == ()
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("model", "names", "message"),
    [
        ("openai:gpt-4o-mini", ("rubric_groundednes",), "unknown judge .*did you mean 'rubric_groundedness'"),
        ("openai:gpt-4o-mini", ("faithfulness", "faithfulness"), "judge 'faithfulness' is given twice"),
        ("offline:reader", ("rubric_relevance",), "cannot judge"),
        ("openai:never-heard-of", ("rubric_relevance",), "no price for model"),
    ],
)
def test_judges_that_cannot_be_used_are_refused(model: str, names: tuple[str, ...], message: str) -> None:
    with pytest.raises((JudgeError, ConfigError), match=message):
        AnswerJudges(model, CallSettings(budget_usd=1.0), names)


def test_without_deepeval_the_rubric_judges_go_on(
    server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("contextgrid.generate.answer_judges.deepeval_problem", lambda: "DeepEval is not here")
    report = agreement_report(judged_file(tmp_path), judges=judges(server, tmp_path))
    assert {metric.metric for metric in report.metrics} >= {"rubric_groundedness", "rubric_relevance"}
    assert "faithfulness" not in {metric.metric for metric in report.metrics}
    assert report.notes[-1] == "Not judged: DeepEval is not here."
    with pytest.raises(JudgeError, match="DeepEval is not here"):
        judges(server, tmp_path, "faithfulness")


def test_the_command_judges_records_and_replays(server: Loopback, tmp_path: Path) -> None:
    file = judged_file(tmp_path)
    options = (file, "--model", server.spec, "--judge", "faithfulness", "--judge", "rubric_relevance")
    missed = command(*options, "--replay", OPENAI_API_KEY=KEY)
    assert (missed.returncode, missed.stdout) == (2, "")
    assert "record one by running without replay" in missed.stderr
    first = command(*options, OPENAI_API_KEY=KEY)
    assert first.returncode == 0, first.stderr
    assert (tmp_path / ".contextgrid" / "ledger.sqlite").is_file()
    row = next(line for line in first.stdout.splitlines() if "rubric_relevance" in line)
    assert "3 of 5" in row
    assert "Judged by openai:gpt-4o-mini" in first.stdout
    calls = len(server.requests)
    again = command(*options, "--replay")
    assert again.returncode == 0, again.stderr
    assert len(server.requests) == calls
    missed = command(*options[:3], "--judge", "rubric_groundedness", "--replay")
    assert (missed.returncode, missed.stdout) == (2, "")
    assert len(missed.stderr.splitlines()) == 1
    assert "holds no reply of model 'openai:gpt-4o-mini'" in missed.stderr
    spent = command(*options[:3], "--judge", "rubric_groundedness", "--budget", 0, OPENAI_API_KEY=KEY)
    assert spent.returncode == 1
    assert "incomplete: skipped_budget: 3 verdicts" in spent.stderr
    assert KEY not in first.stdout + first.stderr
    alone = command(file, "--judge", "faithfulness")
    assert (alone.returncode, "name its model with --model" in alone.stderr) == (2, True)


def test_published_numbers_on_human_faithfulness_are_reproduced_and_support_is_ahead(shared_data: Path) -> None:
    report = agreement_report(shared_data / "mtrag_labels" / "labels.jsonl")
    by_name = {metric.metric: metric for metric in report.metrics}
    judge, support, grounded = (by_name[name] for name in ("judge.rl_f", "support", "groundedness"))
    assert judge.n == 276
    assert round(judge.overall.value or 0, 2) == 0.63
    assert round(judge.within.value or 0, 2) == 0.61
    assert support.n == grounded.n == 267
    assert (support.within.value or 0) > (grounded.within.value or 0) > (judge.within.value or 0)
    assert (support.held_out or 0) > (grounded.held_out or 0) > (judge.held_out or 0)
    assert report.metrics[0] is support
