"""Schemas of every table that a stage returns. Each is declared here once.

All offsets count Unicode code points. A score that could not be measured is null, never 0 and never NaN.
"""

from __future__ import annotations

import pyarrow as pa

SPAN_FIELDS = [("source_id", pa.string()), ("start", pa.int64()), ("end", pa.int64())]

CORPUS = pa.schema([("source_id", pa.string()), ("media_type", pa.string()), ("content", pa.binary())])

ANCHOR = pa.struct([("source_id", pa.string()), ("quote", pa.string()), ("start", pa.int64()), ("end", pa.int64())])
EVALSET = pa.schema(
    [
        ("question_id", pa.string()),
        ("question", pa.string()),
        ("answer", pa.string()),  # reference answer, null where none was written
        ("answerable", pa.bool_()),
        ("anchors", pa.list_(ANCHOR)),
    ]
)

HEADING = pa.struct([("level", pa.int32()), ("start", pa.int64()), ("end", pa.int64())])
DOCUMENTS = pa.schema(
    [
        ("source_id", pa.string()),
        ("text", pa.string()),  # null where the source could not be read
        ("headings", pa.list_(HEADING)),
        ("error", pa.string()),  # why it could not be read, else null
    ]
)

CHUNKS = pa.schema([("chunk_id", pa.string()), *SPAN_FIELDS, ("text", pa.string())])

# One row per question and rank. Rows carry their text, so nothing downstream reads chunks again.
RETRIEVED = pa.schema(
    [
        ("question_id", pa.string()),
        ("question", pa.string()),
        (
            "rank",
            pa.int32(),
        ),  # 1 is best; a question that found nothing has one row with rank 0 and null chunk
        ("score", pa.float64()),
        ("chunk_id", pa.string()),
        *SPAN_FIELDS,
        ("text", pa.string()),
    ]
)

# Evidence located in one parse. ``anchor`` numbers the question's pieces of evidence from 0; an anchor that
# occurs several times has several rows. ``match`` is exact, normalised or fuzzy.
GOLD = pa.schema(
    [
        ("question_id", pa.string()),
        ("anchor", pa.int32()),
        *SPAN_FIELDS,
        ("text", pa.string()),
        ("match", pa.string()),
    ]
)
EVIDENCE = pa.struct([("anchor", pa.int32()), *SPAN_FIELDS, ("text", pa.string())])

# Leading columns of retrieval scores; one float64 column per metric and cut-off follows (``recall@5``).
RETRIEVAL_SCORES = pa.schema(
    [
        ("question_id", pa.string()),
        ("question", pa.string()),
        ("reference", pa.string()),
        ("answerable", pa.bool_()),
        ("evidence", pa.list_(EVIDENCE)),
        ("unresolved", pa.list_(pa.string())),  # "source_id: quote (why)" of anchors not found here
    ]
)

# One row per generation configuration: all that determines what it answers.
GENERATION_SPEC = pa.schema(
    [
        ("generator", pa.string()),
        ("prompt_name", pa.string()),
        ("prompt", pa.string()),  # template text, null where the generator uses none
        ("model", pa.string()),  # model spec, null where the generator uses none
    ]
)

PASSAGE = pa.struct([("chunk_id", pa.string()), *SPAN_FIELDS, ("text", pa.string())])
ANSWERS = pa.schema(
    [
        ("question_id", pa.string()),
        ("question", pa.string()),
        ("answer", pa.string()),  # null where the call failed
        ("citations", pa.list_(pa.int32())),
        ("passages", pa.list_(PASSAGE)),  # what the generator saw, in the order it saw it
        ("context", pa.string()),  # the assembled text it saw
        ("prompt_tokens", pa.int32()),
        ("completion_tokens", pa.int32()),
        ("error", pa.string()),  # why there is no answer, else null
        ("status", pa.string()),  # answered, failed or skipped_budget
        # The rest is not part of the content: it may differ between two runs that give the same answers.
        ("seconds", pa.float64()),  # wall time
        ("model_calls", pa.int32()),  # calls made now; 0 where the ledger held the reply
        ("model_prompt_tokens", pa.int64()),  # as the provider counted them
        ("model_completion_tokens", pa.int64()),
        ("usd", pa.float64()),  # what the reply cost when it was made; null without a price
        ("usd_spent", pa.float64()),  # what it cost now
    ]
)

# One row per question. ``status`` is scored, abstained, empty_context, failed or skipped_budget (both with
# ``reason``).
LEXICAL_SCORES = pa.schema(
    [
        ("question_id", pa.string()),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("groundedness", pa.float64()),
        ("citation_accuracy", pa.float64()),
        ("evidence_overlap", pa.float64()),
        ("abstained", pa.bool_()),
        ("should_have_abstained", pa.bool_()),
        ("abstention_correct", pa.float64()),
        ("answer_quality", pa.float64()),
        ("citation_precision", pa.float64()),
        ("citation_recall", pa.float64()),
        ("retrieval", pa.float64()),  # the question's headline retrieval score, carried for the lift
    ]
)

# One row per question and metric.
JUDGE_SCORES = pa.schema(
    [
        ("question_id", pa.string()),
        ("metric", pa.string()),
        ("score", pa.float64()),  # null unless scored; 0 to 1, and 1 to 5 for rubric_groundedness and rubric_relevance
        ("status", pa.string()),  # scored, abstained, empty_context, vacuous, failed or skipped_budget
        ("reason", pa.string()),  # the judge's, or why there is no score
        ("raw_reply", pa.string()),  # the reply that could not be used, else null
        ("calls", pa.int32()),  # calls that the verdict took, whoever answered them
        # The rest is not part of the content, as in ANSWERS. An answer that occurs twice keeps its price and is paid in
        # its first row.
        ("seconds", pa.float64()),
        ("model_calls", pa.int32()),
        ("model_prompt_tokens", pa.int64()),
        ("model_completion_tokens", pa.int64()),
        ("usd", pa.float64()),
        ("usd_spent", pa.float64()),
    ]
)

METRIC = pa.struct([("name", pa.string()), ("mean", pa.float64()), ("n", pa.int64()), ("total", pa.int64())])

# One row per cell (per row of the grid where nothing is generated), best first.
LEADERBOARD = pa.schema(
    [
        ("rank", pa.int32()),
        ("retrieval", pa.string()),  # row key
        ("generation", pa.string()),  # column key, null where nothing is generated
        ("best", pa.bool_()),  # cannot be told from the first cell
        ("baseline", pa.bool_()),  # in the row that the others are compared with
        ("headline", pa.string()),
        ("retrieval_score", pa.float64()),
        ("retrieval_n", pa.int64()),
        ("answer_metric", pa.string()),
        ("answer_score", pa.float64()),
        ("answer_n", pa.int64()),
        ("questions", pa.int64()),
        ("retrieval_gain", pa.float64()),  # mean paired difference to the baseline row
        ("answer_gain", pa.float64()),
        ("answer_low", pa.float64()),  # 95 % bootstrap interval of answer_gain
        ("answer_high", pa.float64()),
        ("p_value", pa.float64()),  # of answer_gain, two-sided permutation
        ("verdict", pa.string()),
        ("metrics", pa.list_(METRIC)),  # every retrieval and answer metric of the cell
    ]
)

# One row per cell for its answers, named ``answer``, and one for each metric.
DRIFT = pa.schema(
    [
        ("cell", pa.string()),
        ("drifted", pa.bool_()),  # of the cell, as the sentence
        ("sentence", pa.string()),
        ("reason", pa.string()),  # why nothing of the cell, or of this row, could be compared, else null
        ("since", pa.timestamp("ms", tz="UTC")),  # when the earlier answers were stored
        ("repetitions", pa.int32()),  # how often each question was asked afresh
        ("what", pa.string()),
        ("compared", pa.int64()),  # questions
        ("changed", pa.list_(pa.string())),  # ids of those whose earlier value came back in no repetition
        ("unstable", pa.list_(pa.string())),  # ids of those whose repetitions differ from each other
        ("not_compared", pa.list_(pa.struct([("question_id", pa.string()), ("reason", pa.string())]))),
        # The rest is null for answers. Means are over the questions with a score in both.
        ("before", pa.float64()),
        ("now", pa.float64()),
        ("difference", pa.float64()),
        ("low", pa.float64()),  # 95 % bootstrap interval of the difference
        ("high", pa.float64()),
        ("p", pa.float64()),  # two-sided permutation
        ("p_corrected", pa.float64()),  # for all comparisons of the refresh (Holm)
    ]
)

# Columns whose values may differ between two runs of the same content.
VOLATILE = frozenset({"seconds", "model_calls", "model_prompt_tokens", "model_completion_tokens", "usd", "usd_spent"})
