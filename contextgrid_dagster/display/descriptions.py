"""What each asset is, what it costs and when it is rebuilt, for the asset pages of Dagster.

The first sentence, which Dagster shows alone in the graph, is the asset function's docstring.
"""

from __future__ import annotations

from inspect import cleandoc

_DETAILS = {
    "corpus": """
        Stored, so that no later stage and no other machine needs the folder.

        **Cost:** reads the files. **Rebuilt** when a document is added, changed or removed.
        """,
    "evalset": """
        Evidence is a quote, never a chunk id, so the same questions serve every parser and chunker.

        **Cost:** reads one file. **Rebuilt** when a question changes. Their scores and answers follow.
        """,
    "generation_spec": """
        One partition for each column of the grid. This is what makes a prompt edit a matter of one column.

        **Cost:** none. **Rebuilt** when that column's prompt or model changes.
        """,
    "documents": """
        **Cost:** seconds; PDFs take longest. **Rebuilt** when the corpus changes.
        """,
    "chunks": """
        One partition for each parser and chunker, however many rows of the grid use it.

        **Cost:** seconds. **Rebuilt** when the parse changes.
        """,
    "index": """
        One partition for each chunking, embedder and index.

        **Cost:** seconds; a hosted embedder (`hosted:...`) is paid for each passage that the ledger does not hold.
        **Rebuilt** when the passages change.
        """,
    "retrieved_ids": """
        One partition for each row of the grid. Rows carry the passages' text, so nothing later reads the chunks
        again.

        **Cost:** milliseconds a question; a hosted embedder or reranker is paid. **Rebuilt** when the index or a
        question changes.
        """,
    "retrieval_scores": """
        One partition for each row of the grid. Scores lie between 0 and 1; a question without evidence has none and
        is left out of the means. A passage counts if it holds half of a piece of evidence or lies half inside one.

        **Cost:** milliseconds a question. **Rebuilt** when rankings, passages or evidence change.

        *Plots* compare the rows at the headline's cut-off; `all_metrics` has the other cut-offs.
        """,
    "answers": """
        One partition for each cell: `generation|retrieval`. The **Partitions** tab is the matrix: columns generate,
        rows retrieve. A question whose call fails is counted and tried again by the next `bring_up_to_date`.

        **Cost:** one call to the column's model for each question, unless the ledger holds the reply; `extractive`
        is free. **Rebuilt** when the row's passages or the column's prompt or model change.
        """,
    "lexical_scores": """
        One partition for each cell. Scores lie between 0 and 1. `answer_quality`: where the documents hold no
        answer, declining is right (1) and answering wrong (0); else token F1 against the reference answer, or the
        share of the evidence's words in the answer, and 0 for declining. What could not be measured is absent,
        never 0.

        **Cost:** milliseconds. **Rebuilt** when the answers or the row's retrieval scores change.
        """,
    "judge_scores": """
        One partition for each cell, one row for each question and metric. Scores lie between 0 and 1, those of the
        rubric judges between 1 and 5. Refusals and empty contexts are not judged. Means come with `n` of `N`.

        **Cost:** several calls to the judge for each answer and metric, unless the ledger holds the reply.
        **Rebuilt** when the answers or the questions change.
        """,
    "lift_reports": """
        One partition for each cell, compared with the cell of the same column in the baseline row, question by
        question. The *differences* chart shows both changes with their 95 % intervals, grey where within noise. The
        *split* says what became of the questions: *converted* (retrieval and answer rose), *wasted* (retrieval
        rose, the answer did not), *unexplained* (the answer rose without retrieval), *loss* (the answer fell).

        **Cost:** milliseconds. **Rebuilt** when the scores of the cell or of its baseline change.
        """,
    "leaderboard": """
        In the table *answer* and *retrieval* are mean scores, and *gain* is the answer's paired difference to the
        baseline row with the same generation. In the chart each dot is a cell: its retrieval score across, its
        answer score up. Strong dots, and `≈` in the table, cannot be told from the best cell. The dashed line
        stands at the baseline row.

        **Cost:** milliseconds a cell. **Rebuilt** when any score or lift report changes. Cells that failed are left
        out.
        """,
}


def describe(asset: str, docstring: str | None) -> str:
    """An asset's description in Markdown: its function's docstring, then the details."""
    return f"{cleandoc(docstring or '')}\n\n{cleandoc(_DETAILS[asset])}"
