"""What is counted: questions, evidence, citations and verdicts that are as they should be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from contextgrid.checks.verdict import Share

_UNANSWERED = {"failed": "failed", "skipped_budget": "skipped for the budget"}
_JUDGED = ("scored", "failed", "skipped_budget")


def questions_answered(answers: pa.Table) -> Share:
    """The questions that have an answer, of all (``tables.ANSWERS``); one that declines is an answer."""
    missing = answers.filter(pc.is_null(answers["answer"]))
    kinds = Counter(_UNANSWERED.get(status, "without an answer") for status in missing["status"].to_pylist())
    return Share(
        "questions are answered",
        len(answers) - len(missing),
        len(answers),
        others=missing["question_id"].to_pylist(),
        absent="there are no questions",
        note=", ".join(f"{count} {kind}" for kind, count in kinds.items()),
    )


def anchors_resolved(retrieval_scores: pa.Table) -> Share:
    """The questions all of whose evidence was found in this parse, of those that have any."""
    found = pc.list_value_length(retrieval_scores["evidence"])
    lost = pc.list_value_length(retrieval_scores["unresolved"])
    counted = retrieval_scores.filter(pc.greater(pc.add(found, lost), 0))
    unresolved = counted.filter(pc.greater(pc.list_value_length(counted["unresolved"]), 0))
    return Share(
        "questions have all their evidence in the parsed documents",
        len(counted) - len(unresolved),
        len(counted),
        others=unresolved["question_id"].to_pylist(),
        absent="no question has evidence",
    )


def unanswerable_declined(lexical_scores: pa.Table, retrieval_scores: pa.Table) -> Share:
    """The unanswerable questions whose answer declines, of those that got an answer.

    A question is unanswerable by its label, and without one if it has no evidence, found or not.
    """
    labels = (retrieval_scores[name].to_pylist() for name in ("question_id", "answerable", "evidence", "unresolved"))
    unanswerable = {
        id_
        for id_, answerable, evidence, unresolved in zip(*labels, strict=True)
        if not (bool(evidence or unresolved) if answerable is None else answerable)
    }
    answered = zip(lexical_scores["question_id"].to_pylist(), lexical_scores["abstained"].to_pylist(), strict=True)
    declined = {id_: abstained for id_, abstained in answered if id_ in unanswerable and abstained is not None}
    confident = [id_ for id_, abstained in declined.items() if not abstained]
    return Share(
        "answers to unanswerable questions decline",
        len(declined) - len(confident),
        len(declined),
        others=confident,
        absent="no unanswerable question has an answer" if unanswerable else "no question is unanswerable",
    )


def citations_valid(answers: pa.Table) -> Share:
    """The citations that point at a passage which was shown, of all in all answers."""
    shown = pc.fill_null(pc.list_value_length(answers["passages"]), 0).to_pylist()
    wrong: list[str] = []
    good = cited = 0
    for id_, citations, passages in zip(
        answers["question_id"].to_pylist(), answers["citations"].to_pylist(), shown, strict=True
    ):
        valid = sum(1 <= number <= passages for number in citations or ())
        good, cited = good + valid, cited + len(citations or ())
        if valid < len(citations or ()):
            wrong.append(id_)
    return Share(
        "citations point at a passage that was shown", good, cited, others=wrong, absent="no answer cites a passage"
    )


def judge_coverage(judge_scores: pa.Table, answers: pa.Table) -> Iterator[tuple[str, Share]]:
    """For each judged metric, the answers that got a score, of those that there was something to judge about.

    An answer that declines, has no passages or claims nothing needs no judge and does not count; nor does a question
    without an answer, which :func:`questions_answered` counts.
    """
    has_answer = answers.filter(pc.is_valid(answers["answer"]))["question_id"].combine_chunks()
    counted = judge_scores.filter(pc.is_in(judge_scores["status"], value_set=pa.array(_JUDGED)))
    counted = counted.filter(pc.is_in(counted["question_id"], value_set=has_answer))
    for metric in pc.unique(judge_scores["metric"]).to_pylist():
        own = counted.filter(pc.equal(counted["metric"], metric))
        lost = own.filter(pc.not_equal(own["status"], "scored"))
        kinds = Counter(_UNANSWERED[status] for status in lost["status"].to_pylist())
        yield (
            metric,
            Share(
                f"answers have a score for {metric}",
                len(own) - len(lost),
                len(own),
                others=lost["question_id"].to_pylist(),
                absent=f"no answer needed a judge for {metric}",
                note=", ".join(f"{count} {kind}" for kind, count in kinds.items()),
            ),
        )
