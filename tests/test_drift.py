"""Drift between two readings of a cell: which questions, beyond noise or not, and what could not be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextgrid.core.tables import ANSWERS, DRIFT, JUDGE_SCORES, LEXICAL_SCORES
from contextgrid.generate.drift import DriftReport, corrected, drift_report, not_compared
from contextgrid.generate.drift_reading import Reading

QUALITY, RUBRIC = "answer_quality", "rubric_groundedness"

Answers = Mapping[str, str | None]
IDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=6)
TEXTS = st.sampled_from(["yes", "no", "thirty days", "I do not know", ""])
CELLS = st.dictionaries(IDS, TEXTS, min_size=1, max_size=12)


def reading(
    answers: Answers,
    quality: Mapping[str, float] | None = None,
    verdicts: Mapping[str, float | str] | None = None,
    context: Mapping[str, str] | None = None,
    status: Mapping[str, str] | None = None,
) -> Reading:
    """A cell's tables with these contents, read. A verdict is a score or a status."""
    contexts, scores, given_status = context or {}, quality or {}, status or {}
    rows, lexical, judged = [], [], []
    for id_, text in answers.items():
        state = given_status.get(id_, "answered" if text is not None else "failed")
        seen = contexts.get(id_, "passages")
        rows.append({"question_id": id_, "answer": text, "status": state, "context": seen})
        scored = "scored" if text is not None else state
        lexical.append({"question_id": id_, "status": scored, QUALITY: scores.get(id_, 0.5)})
    for id_, verdict in (verdicts or {}).items():
        score, state = (None, verdict) if isinstance(verdict, str) else (verdict, "scored")
        judged.append({"question_id": id_, "metric": RUBRIC, "status": state, "score": score})
    return Reading.of(
        pa.Table.from_pylist(rows, ANSWERS),
        pa.Table.from_pylist(lexical, LEXICAL_SCORES),
        pa.Table.from_pylist(judged, JUDGE_SCORES),
        metrics=[QUALITY, *([RUBRIC] if verdicts else [])],
    )


def drift(before: Reading, *after: Reading) -> DriftReport:
    return drift_report(before, after, cell="c|r", metrics=list(before.metrics), resamples=500)


@given(CELLS, st.integers(1, 3))
def test_the_same_answers_are_no_drift(answers: Answers, repetitions: int) -> None:
    found = drift(*[reading(answers)] * (1 + repetitions))
    assert not found.drifted
    assert found.answers.compared == tuple(answers)
    assert found.answers.changed == found.answers.unstable == ()
    assert "none of" in found.sentence
    assert found.to_table().schema == DRIFT


@given(CELLS, st.data(), st.integers(1, 3))
def test_exactly_the_changed_questions_are_named(answers: Answers, data: st.DataObject, repetitions: int) -> None:
    changed = data.draw(st.sets(st.sampled_from(sorted(answers))))
    now = {id_: f"{text} otherwise" if id_ in changed else text for id_, text in answers.items()}
    found = drift(reading(answers), *[reading(now)] * repetitions)
    assert set(found.answers.changed) == changed
    assert found.drifted == bool(changed)
    assert found.answers.unstable == ()


@given(CELLS, CELLS, st.randoms())
def test_the_order_of_questions_changes_nothing(before: Answers, after: Answers, random: object) -> None:
    def shuffled(answers: Answers) -> Answers:
        ids = list(answers)
        random.shuffle(ids)  # type: ignore[attr-defined]
        return {id_: answers[id_] for id_ in ids}

    quality = {id_: len(id_) / 7 for id_ in after}
    one = drift(reading(before), reading(after, quality))
    other = drift(reading(shuffled(before)), reading(shuffled(after), quality))
    assert set(one.answers.changed) == set(other.answers.changed)
    assert one.answers.not_compared == other.answers.not_compared
    assert one.metrics[0].difference == other.metrics[0].difference
    assert one.drifted == other.drifted


def test_white_space_is_no_change_and_case_is() -> None:
    found = drift(reading({"q1": "thirty  days\n", "q2": "Yes"}), reading({"q1": " thirty days", "q2": "yes"}))
    assert found.answers.changed == ("q2",)


def test_a_change_beyond_noise_is_stated_with_its_interval() -> None:
    ids = [f"q{number}" for number in range(40)]
    before = reading(dict.fromkeys(ids, "yes"), dict.fromkeys(ids, 0.9))
    after = reading(dict.fromkeys(ids, "no"), {id_: 0.4 + 0.01 * (n % 5) for n, id_ in enumerate(ids)})
    found = drift(before, after)
    answers, scores = found.sentence.split("; ")
    assert answers == "Drift: 40 of 40 answers changed (q0, q1, q2, q3, q4 and 35 more)"
    assert scores.startswith("answer_quality fell -0.480 [-0.4")
    difference = found.metrics[0].difference
    assert difference is not None
    assert difference.low is not None
    assert difference.high is not None
    assert difference.low < -0.48 < difference.high < 0
    few = drift(reading({"q1": "yes"}), reading({"q1": "no"}, {"q1": 0.1}))
    assert few.sentence == "Drift: 1 of 1 answers changed (q1); answer_quality changed by -0.400 over one question."


def test_answers_that_differ_between_repetitions_are_no_drift_by_themselves() -> None:
    before = reading({"q1": "yes", "q2": "yes", "q3": "yes"})
    found = drift(before, reading({"q1": "a", "q2": "yes", "q3": "no"}), reading({"q1": "b", "q2": "no", "q3": "no"}))
    assert found.answers.changed == ("q1", "q3")
    assert found.answers.unstable == ("q1", "q2")
    assert found.answers.stably_changed == ("q3",)
    assert found.drifted
    assert "2 differ between the 2 repetitions (q1, q2)" in found.sentence
    noisy = drift(before, reading({"q1": "a", "q2": "b", "q3": "c"}), reading({"q1": "d", "q2": "e", "q3": "f"}))
    assert not noisy.drifted
    assert noisy.sentence.startswith("No drift: 3 of 3 answers changed")


def test_the_mean_over_repetitions_counts() -> None:
    before = reading({"q1": "yes", "q2": "yes"}, {"q1": 0.5, "q2": 0.5})
    after = [reading({"q1": "a", "q2": "b"}, {"q1": score, "q2": score}) for score in (0.2, 0.8)]
    difference = drift(before, *after).metrics[0].difference
    assert difference is not None
    assert difference.difference == 0


def test_a_judge_may_drift_while_answers_do_not() -> None:
    answers = {"q1": "yes", "q2": "yes", "q3": "yes"}
    before = reading(answers, verdicts={"q1": 5, "q2": 4, "q3": 3})
    found = drift(before, reading({**answers, "q3": "no"}, verdicts={"q1": 2, "q2": 4, "q3": 1}))
    assert found.judged_otherwise(found.metrics[1]) == ("q1",)  # of q3 the answer changed
    assert "rubric_groundedness now judges 1 unchanged answer otherwise (q1)" in found.sentence
    only = drift(before, reading(answers, verdicts={"q1": 2, "q2": 4, "q3": 3}))
    assert only.drifted
    assert only.sentence.startswith("Drift: none of 3 answers changed; rubric_groundedness now judges 1")
    vacuous = drift(before, reading(answers, verdicts={"q1": "vacuous", "q2": 4, "q3": 3}))
    assert vacuous.judged_otherwise(vacuous.metrics[1]) == ("q1",)


def test_a_judge_that_differs_between_repetitions_is_no_drift_by_itself() -> None:
    answers = {"q1": "yes", "q2": "yes"}
    before = reading(answers, verdicts={"q1": 5, "q2": 4})
    after = [reading(answers, verdicts={"q1": score, "q2": 4}) for score in (3, 4)]
    found = drift(before, *after)
    assert not found.drifted
    assert found.metrics[1].unstable == ("q1",)


def test_what_could_not_be_compared_is_counted_with_its_reason() -> None:
    before = reading({"q1": "yes", "q2": None, "q3": "yes", "q4": "yes", "q6": "yes"})
    after = reading(
        {"q1": "yes", "q2": "yes", "q3": None, "q4": None, "q5": "new", "q6": "no"},
        status={"q4": "skipped_budget"},
        context={"q6": "other passages"},
    )
    found = drift(before, after)
    assert found.answers.compared == ("q1",)
    assert found.answers.not_compared == {
        "q2": "failed before",
        "q3": "failed now",
        "q4": "skipped for the budget now",
        "q5": "not asked before",
        "q6": "asked with other passages or in other words",
    }
    assert not found.drifted
    assert "5 of 6 questions not compared (1 failed before, 1 failed now" in found.sentence
    row = found.to_table().to_pylist()[0]
    assert (row["what"], row["compared"]) == ("answer", 1)
    assert {"question_id": "q3", "reason": "failed now"} in row["not_compared"]


def test_one_good_repetition_is_enough_to_compare() -> None:
    found = drift(reading({"q1": "yes"}), reading({"q1": None}), reading({"q1": "no"}))
    assert found.answers.changed == ("q1",)
    assert found.answers.unstable == ()


def test_where_nothing_could_be_compared_nothing_is_claimed() -> None:
    found = drift(reading({"q1": "yes", "q2": "yes"}), reading({"q1": None, "q2": None}))
    assert not found.was_compared
    assert found.sentence == "Not compared: 2 failed now."
    why = not_compared("c|r", "prompt text changed")
    assert (why.drifted, why.sentence) == (False, "Not compared: prompt text changed.")
    (row,) = why.to_table().to_pylist()
    assert (row["reason"], row["compared"]) == ("prompt text changed", 0)
    assert "Not compared" in why.to_markdown()


def test_a_metric_that_cannot_be_compared_says_why() -> None:
    both = reading({"q1": "yes"}, verdicts={"q1": 5})
    lost = drift(both, reading({"q1": "yes"}, verdicts={"q1": "failed"}))
    assert "rubric_groundedness not compared (1 failed now)" in lost.sentence
    assert not lost.drifted
    changed = drift_report(
        both, [both], cell="c|r", metrics=[QUALITY, RUBRIC], reasons={RUBRIC: "judge changed: a -> b"}
    )
    assert "rubric_groundedness not compared, as judge changed: a -> b" in changed.sentence
    assert changed.to_table().to_pylist()[2]["reason"] == "judge changed: a -> b"


def test_many_comparisons_are_corrected_together() -> None:
    ids = [f"q{number}" for number in range(7)]
    before = reading(dict.fromkeys(ids, "yes"), dict.fromkeys(ids, 0.9))
    after = [reading({id_: f"{text}{n}" for n, id_ in enumerate(ids)}, dict.fromkeys(ids, 0.1)) for text in ("a", "b")]
    alone = drift(before, *after)
    assert alone.metrics[0].direction == -1
    same = [replace(drift(before, before), cell=f"c|{number}") for number in range(9)]
    together = corrected([alone, *same])
    assert together[0].metrics[0].direction == 0
    assert not together[0].drifted
    assert [report.cell for report in together[1:]] == [report.cell for report in same]


def test_markdown_shows_ids_as_text_and_names_the_time_of_the_earlier_answers() -> None:
    evil = "<script>|`q`[x](http://e)"
    since = datetime(2025, 3, 3, 4, 0, tzinfo=UTC)
    found = replace(drift(reading({evil: "yes"}), reading({evil: "no"})), since=since)
    shown = found.to_markdown()
    assert "<script>" not in shown
    assert "[x](" not in shown
    assert "Compared with the answers of 2025-03-03 04:00 UTC." in shown
    rows = [line for line in shown.splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in rows[:4]}) == 1
    assert found.to_table()["since"][0].as_py() == since


@pytest.mark.parametrize("count", [1, 30])
def test_markdown_lists_at_most_twenty_ids(count: int) -> None:
    ids = [f"q{number}" for number in range(count)]
    shown = drift(reading(dict.fromkeys(ids, "yes")), reading(dict.fromkeys(ids, "no"))).to_markdown()
    assert ("and 10 more" in shown) == (count == 30)
