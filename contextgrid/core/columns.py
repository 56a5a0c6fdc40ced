"""What the columns of the tables in ``tables.py`` mean, for whoever meets a table in Dagster without its code."""

from __future__ import annotations

from collections.abc import Mapping

_SPAN = {
    "source_id": "The document: its path below the corpus folder.",
    "start": "First character in the parsed document, counted in Unicode code points from 0.",
    "end": "One past the last character.",
}
_COST = {
    "seconds": "Wall time. Not part of the data version.",
    "model_calls": "Calls made now; 0 where the ledger held the reply. Not part of the data version.",
    "model_prompt_tokens": "Tokens sent, as the provider counted them. Not part of the data version.",
    "model_completion_tokens": "Tokens received, as the provider counted them. Not part of the data version.",
    "usd": "Dollars at the price when the reply was made; null without a price. Not part of the data version.",
    "usd_spent": "Dollars spent now. Not part of the data version.",
}
_QUESTION = {
    "question_id": "Id of the question in the eval set.",
    "question": "The question.",
}
_GAIN = "Mean paired difference to the baseline cell"

COLUMNS: Mapping[str, Mapping[str, str]] = {
    "corpus": {
        **_SPAN,
        "media_type": "What kind of file it is, such as text/markdown.",
        "content": "The file, byte for byte.",
    },
    "evalset": {
        **_QUESTION,
        "answer": "Reference answer; null where none was written.",
        "answerable": "Whether the documents hold an answer. Where they do not, declining is right.",
        "anchors": "The evidence: quotes from documents, with offsets where given.",
    },
    "generation_spec": {
        "generator": "The generator, such as extractive:2 or llm.",
        "prompt_name": "Name of the prompt in the experiment file.",
        "prompt": "Its text; null where the generator uses none.",
        "model": "The model, as provider:name; null where the generator uses none.",
    },
    "documents": {
        **_SPAN,
        "text": "The parsed text; null where the file could not be read.",
        "headings": "Level and span of each heading.",
        "error": "Why the file could not be read, else null.",
    },
    "chunks": {
        "chunk_id": "Id of the passage within this chunking.",
        **_SPAN,
        "text": "The passage: the literal slice of the document.",
    },
    "retrieved_ids": {
        **_QUESTION,
        "rank": "1 is best. A question that found nothing has one row with rank 0.",
        "score": "The retriever's or reranker's score; larger is better, comparable within a question only.",
        "chunk_id": "Id of the passage.",
        **_SPAN,
        "text": "The passage.",
    },
    "retrieval_scores": {
        **_QUESTION,
        "reference": "Reference answer, if any.",
        "answerable": "Whether the documents hold an answer. Others have no retrieval scores.",
        "evidence": "The evidence as found in this parse.",
        "unresolved": "Evidence that was not found in this parse, and why.",
    },
    "answers": {
        **_QUESTION,
        "answer": "What was answered; null where the call failed.",
        "citations": "Numbers of the passages it cites, from 1.",
        "passages": "The passages that the generator saw, in that order.",
        "context": "The assembled text that it saw.",
        "prompt_tokens": "Estimated tokens of the passages in the prompt.",
        "completion_tokens": "0 from the built-in generators; see model_completion_tokens.",
        "error": "Why there is no answer, else null.",
        "status": "answered, failed or skipped_budget.",
        **_COST,
    },
    "lexical_scores": {
        **_QUESTION,
        "status": "scored, abstained, empty_context, failed or skipped_budget.",
        "reason": "Why there is no score, else null.",
        "groundedness": "0 to 1: the share of the answer's content words that its context holds.",
        "citation_accuracy": "0 to 1: the share of citations that name a passage it was given.",
        "evidence_overlap": "0 to 1: the share of the evidence's content words that the answer holds.",
        "abstained": "Whether the answer declines.",
        "should_have_abstained": "Whether the documents hold no answer.",
        "abstention_correct": "1 where the two agree, else 0.",
        "answer_quality": "0 to 1: declining is right (1) where there is no answer and wrong (0) where there is one;"
        " else token F1 against the reference answer, or the share of the evidence's words in the answer.",
        "citation_precision": "0 to 1: the share of citations whose passage holds evidence.",
        "citation_recall": "0 to 1: the share of pieces of evidence that a cited passage holds.",
        "retrieval": "The question's headline retrieval score, carried for the lift.",
    },
    "judge_scores": {
        **_QUESTION,
        "metric": "What was judged.",
        "score": "0 to 1; 1 to 5 for the rubric judges; null unless scored.",
        "status": "scored, abstained, empty_context, vacuous, failed or skipped_budget.",
        "reason": "The judge's reason, or why there is no score.",
        "raw_reply": "A reply that could not be read, else null.",
        "calls": "Calls that the verdict took, whoever answered them.",
        **_COST,
    },
    "lift_reports": {
        "cell": "The cell, generation|retrieval.",
        "baseline": "The cell it is compared with: same generation, baseline retrieval.",
        "headline": "The retrieval metric.",
        "answer_metric": "The answer metric.",
        "verdict": "Both differences and what follows, in one sentence.",
        "reason": "Why nothing could be compared, else null.",
        "gain_converted": "Questions where retrieval and answer rose.",
        "gain_wasted": "Questions where retrieval rose and the answer did not.",
        "gain_unexplained": "Questions where the answer rose and retrieval did not.",
        "loss": "Questions where the answer fell.",
        "unchanged": "Questions where the answer stayed and retrieval did not rise.",
        "not_compared": "Questions without an answer score in both cells.",
        "question_ids": "All questions of the cell.",
        "retrieval_scores": "Their retrieval scores.",
        "answer_scores": "Their answer scores.",
        "metrics": "Mean, n and total of every numeric score of the cell.",
        **{
            f"{side}_{part}": text
            for side in ("retrieval", "answer")
            for part, text in {
                "cell": f"Mean {side} score of the cell over the compared questions.",
                "baseline": f"Mean {side} score of the baseline cell over them.",
                "difference": f"{_GAIN}, {side} score.",
                "low": "Lower end of its 95 % bootstrap interval.",
                "high": "Upper end of its 95 % bootstrap interval.",
                "p": "Its two-sided permutation p-value, 0 to 1.",
                "n": "Questions with a score in both cells.",
                "total": "Questions in either cell.",
            }.items()
        },
    },
}
