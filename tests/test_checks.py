"""What each check measures, what it says, and when it fails."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from contextgrid.checks import CheckSettings
from contextgrid.checks.answer_metric import Change, floor_verdict
from contextgrid.checks.settings import AnswerFloor, AnswerRegression, ShareCheck
from contextgrid.checks.shares import citations_valid, judge_coverage
from contextgrid.checks.stages import READS, Built, checks_of, verdicts
from contextgrid.checks.verdict import Outcome, Share, Verdict, share_verdict
from contextgrid.core.errors import ConfigError
from contextgrid.core.tables import ANSWERS, JUDGE_SCORES, LEXICAL_SCORES, RETRIEVAL_SCORES
from contextgrid.grid.experiment import Experiment
from contextgrid.settings import RunSettings
from contextgrid.stages import code_version
from tests.dagster_fixtures import write_experiment

RUN = RunSettings(resamples=500)
JUDGED_RUN = RunSettings.model_validate(
    {"resamples": 500, "judge": {"metrics": [], "rubric": ["groundedness"]}, "answer_metric": "rubric_groundedness"}
)
PASSAGE = {"chunk_id": "c", "source_id": "a.md", "start": 0, "end": 1, "text": "x"}
EVIDENCE = {"anchor": 0, "source_id": "a.md", "start": 0, "end": 1, "text": "x"}


def table(schema: pa.Schema, rows: Sequence[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([{"question_id": f"q{number}"} | row for number, row in enumerate(rows, 1)], schema)


def answers(*rows: dict[str, Any]) -> pa.Table:
    return table(ANSWERS, [{"answer": "Yes.", "status": "answered", "passages": [PASSAGE] * 2} | row for row in rows])


def lexical(scores: Sequence[float | None], **columns: Any) -> pa.Table:
    return table(LEXICAL_SCORES, [{"status": "scored", "answer_quality": score} | columns for score in scores])


def judged(*statuses: str, metric: str = "faithfulness") -> pa.Table:
    rows = [{"metric": metric, "status": status, "score": 1.0 if status == "scored" else None} for status in statuses]
    return table(JUDGE_SCORES, rows)


def verdict(stage: str, check: str, built: Built, run: RunSettings = RUN, **settings: Any) -> Verdict:
    asked = CheckSettings.model_validate({check: settings} if settings else {})
    return next(found for found in verdicts(stage, built, asked, run) if found.check == check)


FAILED = {"answer": None, "status": "failed", "error": "LLMError: no"}
SKIPPED = {"answer": None, "status": "skipped_budget", "error": "budget"}


# Counts


def test_all_questions_have_to_be_answered_and_those_that_are_not_are_named() -> None:
    assert verdict("answers", "questions_answered", Built({"answers": answers({}, {})})).outcome is Outcome.PASSED
    failed = verdict("answers", "questions_answered", Built({"answers": answers({}, FAILED, SKIPPED, {})}))
    assert (failed.outcome, failed.severity) == (Outcome.FAILED, "error")
    assert failed.description == (
        "2 of 4 questions are answered (1 failed, 1 skipped for the budget), a share of 0.5; at least 1 wanted: q2, q3"
    )
    assert failed.measured == {"share": 0.5, "counted": 4, "min_share": 1}


def test_an_answer_that_declines_is_an_answer() -> None:
    declined = Built({"answers": answers({"answer": ""}, {"answer": "I do not know."})})
    assert verdict("answers", "questions_answered", declined).outcome is Outcome.PASSED


def test_a_threshold_may_tolerate_some() -> None:
    built = Built({"answers": answers(*[{}] * 9, FAILED)})
    assert verdict("answers", "questions_answered", built, min_share=0.9).passed
    assert not verdict("answers", "questions_answered", built, min_share=0.91).passed


def test_evidence_that_is_not_in_the_documents_is_a_warning_that_names_its_questions() -> None:
    rows: list[dict[str, Any]] = [
        {"evidence": [EVIDENCE], "unresolved": []},
        {"evidence": [EVIDENCE], "unresolved": ["a.md: secret quote (not found)"]},
        {"evidence": [], "unresolved": []},
    ]
    found = verdict("retrieval_scores", "anchors_resolved", Built({"retrieval_scores": table(RETRIEVAL_SCORES, rows)}))
    assert (found.outcome, found.severity, found.measured["counted"]) == (Outcome.FAILED, "warn", 2)
    assert "1 of 2 questions have all their evidence" in found.description
    assert found.description.endswith(": q2")
    assert "secret" not in found.description
    without = Built({"retrieval_scores": table(RETRIEVAL_SCORES, rows[2:])})
    assert verdict("retrieval_scores", "anchors_resolved", without).outcome is Outcome.ABSENT


@pytest.mark.parametrize("label", [False, None])
def test_an_unanswerable_question_has_to_be_declined(label: bool | None) -> None:
    questions: list[dict[str, Any]] = [
        {"answerable": True, "evidence": [EVIDENCE], "unresolved": []},
        {"answerable": label, "evidence": [], "unresolved": []},
        {"answerable": label, "evidence": [], "unresolved": []},
        # Its evidence is not in this parse, which does not make it unanswerable.
        {"answerable": True, "evidence": [], "unresolved": ["a.md: quote (not found)"]},
    ]
    retrieval = table(RETRIEVAL_SCORES, questions)

    def found(*abstained: bool | None, of: pa.Table = retrieval) -> Verdict:
        scores = table(LEXICAL_SCORES, [{"status": "scored", "abstained": value} for value in abstained])
        built = Built({"answers": answers(*[{}] * 4), "retrieval_scores": of, "lexical_scores": scores})
        return verdict("lexical_scores", "unanswerable_declined", built)

    assert found(False, True, True, False).outcome is Outcome.PASSED
    confident = found(False, True, False, False)
    assert (confident.outcome, confident.severity) == (Outcome.FAILED, "warn")
    assert confident.description.startswith("1 of 2 answers to unanswerable questions decline")
    assert confident.description.endswith(": q3")
    assert found(False, True, None, False).measured["counted"] == 1
    assert found(False, None, None, False).description == "no unanswerable question has an answer"
    assert found(False, of=retrieval.slice(0, 1)).description == "no question is unanswerable"


def test_citations_have_to_point_at_passages_that_were_shown() -> None:
    good = answers({"citations": [1, 2]}, {"citations": []}, {"citations": [2]})
    assert citations_valid(good).value == 1
    bad = answers({"citations": [1]}, {"citations": [99, 0, 2]}, FAILED, {"citations": [1], "passages": []})
    share = citations_valid(bad)
    assert (share.good, share.of, share.others) == (2, 5, ["q2", "q4"])


def test_where_nobody_cites_there_is_nothing_to_measure() -> None:
    share = citations_valid(answers({"citations": []}, FAILED))
    assert share_verdict("citations_valid", share, ShareCheck()).outcome is Outcome.ABSENT
    assert str(share) == "no answer cites a passage"


def test_a_judge_is_asked_only_about_answers_with_something_to_judge() -> None:
    table = judged("scored", "failed", "skipped_budget", "abstained", "empty_context", "vacuous", "failed")
    ((metric, share),) = judge_coverage(table, answers(*[{}] * 6, FAILED))
    assert (metric, share.good, share.of, share.others) == ("faithfulness", 1, 3, ["q2", "q3"])


def test_every_judged_metric_has_to_be_covered() -> None:
    scores = pa.concat_tables([judged(*["scored"] * 4), judged("scored", "scored", "failed", "failed", metric="other")])
    built = Built({"judge_scores": scores, "answers": answers(*[{}] * 4)})
    found = verdict("judge_scores", "judge_coverage", built)
    assert found.outcome is Outcome.FAILED
    assert found.description == (
        "2 of 4 answers have a score for other (2 failed), a share of 0.5; at least 0.9 wanted: q3, q4"
    )
    assert found.measured["faithfulness_share"] == 1
    assert verdict("judge_scores", "judge_coverage", built, min_share=0.5).outcome is Outcome.PASSED


def test_a_column_without_a_judge_has_nothing_to_measure() -> None:
    built = Built({"judge_scores": JUDGE_SCORES.empty_table(), "answers": answers({})})
    assert verdict("judge_scores", "judge_coverage", built).outcome is Outcome.ABSENT
    declined = Built({"judge_scores": judged("abstained"), "answers": answers({})})
    assert verdict("judge_scores", "judge_coverage", declined).outcome is Outcome.ABSENT


def test_an_index_needs_passages() -> None:
    assert verdict("index", "index_not_empty", Built(passages=1)).passed
    assert not verdict("index", "index_not_empty", Built(passages=0)).passed
    short = verdict("index", "index_not_empty", Built(passages=7), min_passages=8, severity="warn")
    assert (short.description, short.severity) == ("the index holds 7 passages, at least 8 wanted", "warn")


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 100))
def test_a_share_passes_exactly_if_it_reaches_its_threshold(good: int, bad: int, percent: int) -> None:
    share = Share("things are", good, good + bad, [f"q{number}" for number in range(bad)], absent="nothing")
    found = share_verdict("any", share, ShareCheck(min_share=percent / 100))
    if not good + bad:
        assert found.outcome is Outcome.ABSENT
    else:
        assert found.passed == (100 * good >= percent * (good + bad))
        assert len(found.description.partition("wanted: ")[2].split(", ")) <= 5


# The answer metric


def test_a_fall_beyond_noise_is_a_regression_and_names_what_fell_most() -> None:
    before = lexical([0.9] * 12)
    now = lexical([0.1, 0.0, 0.4, 0.3, 0.2, 0.5, 0.6, 0.1, 0.2, 0.3, 0.9, 0.9])
    change = Change.between(before, now, RUN)
    found = change.verdict(AnswerRegression())
    assert found.outcome is Outcome.FAILED
    assert "answer_quality fell -0.525" in found.description
    assert "over 12 of 12 questions; no fall is wanted: q2, q1, q8, q5, q9 ..." in found.description
    assert found.measured["answer_change_high"] < 0
    assert change.verdict(AnswerRegression(max_drop=0.9)).outcome is Outcome.PASSED


def test_a_fall_within_noise_is_none() -> None:
    change = Change.between(lexical([0.5] * 12), lexical([0.9, 0.0] * 6), RUN)
    assert change.verdict(AnswerRegression()).outcome is Outcome.PASSED


@pytest.mark.parametrize("questions", [1, 2, 5])
def test_a_handful_of_questions_shows_nothing(questions: int) -> None:
    change = Change.between(lexical([1.0] * questions), lexical([0.0] * questions), RUN)
    assert change.verdict(AnswerRegression()).passed


def test_without_a_common_question_there_is_nothing_to_compare() -> None:
    other = lexical([0.5] * 8)
    renamed = other.set_column(0, "question_id", pa.array([f"new{number}" for number in range(8)]))
    cases = {
        "no question is in both": (renamed, other),
        "answer_quality was measured for no question last time": (lexical([None] * 8), other),
        "answer_quality was measured for no question now": (other, lexical([None] * 8)),
        "answer_quality was measured for no question last time and now": (lexical([]), other.drop("answer_quality")),
    }
    for reason, (before, now) in cases.items():
        found = Change.between(before, now, RUN).verdict(AnswerRegression())
        assert (found.outcome, found.description) == (Outcome.ABSENT, f"nothing to compare: {reason}")


def test_questions_are_paired_by_id_and_only_common_ones_count() -> None:
    before, now = lexical([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]), lexical([0.1, 0.2, None, 0.4, 0.5, 0.6, 0.7, 0.8])
    change = Change.between(before.take(pa.array([7, 6, 5, 4, 3, 2, 1])), now, RUN)
    assert change.difference is not None
    assert (change.difference.difference, change.difference.n, change.difference.total) == (0, 6, 8)


def test_the_scores_of_a_judge_are_compared_where_they_are_the_answer_metric() -> None:
    def rated(score: float) -> pa.Table:
        rows = [{"metric": "rubric_groundedness", "status": "scored", "score": score + n / 100} for n in range(10)]
        return pa.concat_tables([table(JUDGE_SCORES, rows), judged(*["scored"] * 10, metric="rubric_relevance")])

    assert not Change.between(rated(4.5), rated(2.0), JUDGED_RUN).verdict(AnswerRegression(max_drop=2)).passed
    assert Change.between(rated(4.5), rated(2.0), JUDGED_RUN).verdict(AnswerRegression(max_drop=3)).passed


scores = st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=8, max_size=12)


@given(scores, scores, st.floats(0, 1))
def test_a_noted_change_gives_the_same_verdict_when_read_back(
    before: list[float | None], now: list[float | None], max_drop: float
) -> None:
    change = Change.between(lexical(before), lexical(now), RUN)
    again = Change.read(change.noted(), RUN)
    settings = AnswerRegression(max_drop=max_drop)
    assert again.verdict(settings) == change.verdict(settings)
    if change.verdict(settings).outcome is Outcome.FAILED:
        assert change.difference is not None
        assert change.difference.high is not None
        assert change.difference.high < -max_drop
        back = Change.between(lexical(now), lexical(before), RUN)
        assert back.verdict(AnswerRegression()).passed


def test_a_change_that_was_measured_otherwise_is_not_used() -> None:
    noted = Change.between(lexical([1.0] * 8), lexical([0.0] * 8), RUN).noted()
    other = RunSettings(answer_metric="groundedness")
    assert Change.read(noted, other).verdict(AnswerRegression()).description == (
        "nothing to compare: the last change was measured as answer_quality"
    )
    assert Change.read({}, RUN).verdict(AnswerRegression()).outcome is Outcome.ABSENT


def test_a_floor_fails_only_if_the_whole_interval_is_below_it() -> None:
    found = lexical([0.2, 0.4, 0.6, 0.3, 0.5, 0.4, 0.1, 0.7])
    assert floor_verdict(found, RUN, AnswerFloor(min_mean=0.45)).outcome is Outcome.PASSED
    failed = floor_verdict(found, RUN, AnswerFloor(min_mean=0.8))
    assert failed.outcome is Outcome.FAILED
    assert failed.description.startswith("answer_quality 0.400 [0.")
    assert failed.description.endswith("over 8 questions; at least 0.8 wanted, lowest: q7, q1, q4, q2, q6")
    assert floor_verdict(lexical([0.1]), RUN, AnswerFloor(min_mean=0.8)).outcome is Outcome.ABSENT
    assert floor_verdict(lexical([None]), RUN, AnswerFloor(min_mean=0.8)).outcome is Outcome.ABSENT


# Settings


def test_the_stage_that_measures_the_answer_metric_has_its_checks() -> None:
    asked = CheckSettings.model_validate({"answer_floor": {"min_mean": 0.5}})
    found = {stage: list(checks_of(stage, asked, RUN)) for stage in READS}
    assert found == {
        "index": ["index_not_empty"],
        "retrieval_scores": ["anchors_resolved"],
        "answers": ["questions_answered"],
        "lexical_scores": ["unanswerable_declined", "citations_valid", "answer_regression", "answer_floor"],
        "judge_scores": ["judge_coverage"],
    }
    assert list(checks_of("lexical_scores", asked, JUDGED_RUN)) == ["unanswerable_declined", "citations_valid"]
    assert list(checks_of("judge_scores", asked, JUDGED_RUN)) == [
        "judge_coverage", "answer_regression", "answer_floor"
    ]  # fmt: skip
    assert checks_of("lift_reports", asked, RUN) == {}


def test_null_switches_a_check_off_and_every_check_says_what_it_means() -> None:
    names = list(CheckSettings.model_fields)
    off = CheckSettings.model_validate(dict.fromkeys(names))
    assert not any(checks_of(stage, off, RUN) for stage in READS)
    described = CheckSettings().describe("judge_coverage")
    assert described.endswith("that got a score (severity error, min_share 0.9).")


@pytest.mark.parametrize(
    ("checks", "message"),
    [
        ("{judge_covrage: null}", "unknown key 'checks.judge_covrage'; did you mean 'judge_coverage'?"),
        ("{judge_coverage: {min_sahre: 1}}", "'checks.judge_coverage.min_sahre'; did you mean 'min_share'?"),
        ("{judge_coverage: {min_share: 90}}", "checks.judge_coverage.min_share: Input should be less than or equal"),
        ("{judge_coverage: {min_share: .nan}}", "checks.judge_coverage.min_share: Input should be a finite number"),
        ("{judge_coverage: 0.8}", "checks.judge_coverage: write its keys, as {severity, min_share: ...}, or null"),
        ("{citations_valid: off}", "checks.citations_valid: write its keys"),
        ("{citations_valid: {severity: fatal}}", "checks.citations_valid.severity: Input should be 'warn' or 'error'"),
        ("{index_not_empty: {min_passages: 0}}", "checks.index_not_empty.min_passages"),
        ("{answer_floor: {severity: warn}}", "'checks.answer_floor.min_mean' is missing"),
        ("{answer_floor: {min_mean: 60}}", "answer_quality lies between 0 and 1, so use at most 1; got 60"),
        ("{answer_regression: {max_drop: 2}}", "checks.answer_regression.max_drop: answer_quality lies between"),
    ],
)
def test_bad_settings_are_refused_by_key(tmp_path: Path, checks: str, message: str) -> None:
    file = write_experiment(tmp_path)
    file.write_text(f"{file.read_text()}checks: {checks}\n")
    with pytest.raises(ConfigError) as refused:
        Experiment.load(file)
    assert message in str(refused.value)


def test_a_rubric_may_have_a_floor_of_more_than_one() -> None:
    asked = CheckSettings.model_validate({"answer_floor": {"min_mean": 4}})
    asked.refuse_impossible("rubric_groundedness")
    with pytest.raises(ConfigError):
        asked.refuse_impossible("faithfulness")


def test_no_code_version_depends_on_a_check(tmp_path: Path) -> None:
    file = write_experiment(tmp_path)
    before = Experiment.load(file)
    file.write_text(f"{file.read_text()}checks: {{judge_coverage: null, answer_floor: {{min_mean: 0.5}}}}\n")
    after = Experiment.load(file)
    assert before.checks != after.checks
    for stage in ("corpus", *READS, "lift_reports", "leaderboard"):
        assert code_version(stage, before.run, before.matrix) == code_version(stage, after.run, after.matrix)


def test_the_page_shows_every_check_with_its_defaults() -> None:
    page = (Path(__file__).parents[1] / "docs" / "gate.md").read_text()
    shown = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0])["checks"]
    assert CheckSettings.model_validate(shown) == CheckSettings()
    assert list(shown) == list(CheckSettings.model_fields)
