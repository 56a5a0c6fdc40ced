"""From the corpus to ranked and scored passages: one partition for each distinct prefix of the grid."""

# No postponed annotations here: Dagster reads them from the functions themselves.
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from dagster import AssetExecutionContext, AssetsDefinition, MaterializeResult

from contextgrid import stages
from contextgrid.index import PassageIndex
from contextgrid.report.means import cell_means
from contextgrid_dagster.assets.declaration import Declaration
from contextgrid_dagster.checks import check
from contextgrid_dagster.display.metadata import characters, materialised
from contextgrid_dagster.display.retrieval_metrics import at_headline, metrics_table
from contextgrid_dagster.display.run_log import means_in_words, summary, warn_of_failures
from contextgrid_dagster.partitions import CHUNKS, INDEX, PARSER, ROW


def retrieval_assets(declaration: Declaration) -> list[AssetsDefinition]:
    """``documents``, ``chunks``, ``index``, ``retrieved_ids`` and ``retrieval_scores``."""
    parts, matrix, run, read = declaration.partitions, declaration.matrix, declaration.run, declaration.read

    @declaration.asset(
        "documents",
        kind="python",
        partitions=parts.parser,
        ins={"corpus": read("corpus")},
    )
    def documents(context: AssetExecutionContext, corpus: pa.Table) -> MaterializeResult[Any]:
        """The corpus as a parser reads it. A file that cannot be read is reported and left out."""
        table = stages.parse_corpus(corpus, matrix.unique(PARSER)[context.partition_key].parser)
        unreadable = table.filter(pc.is_valid(table["error"]))
        failures = list(zip(unreadable["source_id"].to_pylist(), unreadable["error"].to_pylist(), strict=True))
        warn_of_failures(context, failures, "documents", table.num_rows)
        return materialised(
            table,
            made_for=declaration.made_for(parts.parser, context.partition_key),
            numbers={"documents": table.num_rows, "unreadable": len(failures), "characters": characters(table)},
            preview=table,
        )

    @declaration.asset(
        "chunks",
        kind="python",
        partitions=parts.chunks,
        ins={"documents": read("documents", parts.up(PARSER, CHUNKS))},
    )
    def chunks(context: AssetExecutionContext, documents: pa.Table) -> MaterializeResult[Any]:
        """Passages cut from the documents, each a literal slice with its span."""
        table = stages.chunk_documents(documents, matrix.unique(CHUNKS)[context.partition_key].chunker)
        length = characters(table)
        return materialised(
            table,
            made_for=declaration.made_for(parts.chunks, context.partition_key),
            numbers={"passages": table.num_rows, "mean_passage_characters": length / max(1, table.num_rows)},
            preview=table,
        )

    @declaration.asset(
        "index",
        kind="python",
        partitions=parts.index,
        ins={"chunks": read("chunks", parts.up(CHUNKS, INDEX))},
    )
    def index(context: AssetExecutionContext, chunks: pa.Table) -> MaterializeResult[Any]:
        """The passages made searchable, saved as one file."""
        row = matrix.unique(INDEX)[context.partition_key]
        built = stages.build_index(chunks, row.embedder, row.index, run, cell=context.partition_key)
        return materialised(
            built,
            version=built.fingerprint(),
            made_for=declaration.made_for(parts.index, context.partition_key),
            numbers={"passages": chunks.num_rows},
            checked=check(context, declaration, "index", passages=chunks.num_rows),
        )

    @declaration.asset(
        "retrieved_ids",
        kind="python",
        partitions=parts.retrieval,
        ins={"index": read("index", parts.up(INDEX, ROW)), "evalset": read("evalset")},
    )
    def retrieved_ids(context: AssetExecutionContext, index: PassageIndex, evalset: pa.Table) -> MaterializeResult[Any]:
        """The ranked passages of every question, with their text."""
        table = stages.retrieve(index, evalset, matrix.row(context.partition_key), run)
        found = pc.greater(table["rank"], 0)
        numbers = {
            "questions": evalset.num_rows,
            "questions_without_passages": pc.sum(pc.invert(found)).as_py(),
            "passages_per_question": pc.sum(found).as_py() / max(1, evalset.num_rows),
        }
        made_for = declaration.made_for(parts.retrieval, context.partition_key)
        return materialised(table, made_for=made_for, numbers=numbers, preview=table)

    @declaration.asset(
        "retrieval_scores",
        kind="python",
        partitions=parts.retrieval,
        ins={
            "retrieved_ids": read("retrieved_ids"),
            "chunks": read("chunks", parts.up(CHUNKS, ROW)),
            "documents": read("documents", parts.up(PARSER, ROW)),
            "evalset": read("evalset"),
        },
    )
    def retrieval_scores(
        context: AssetExecutionContext,
        retrieved_ids: pa.Table,
        chunks: pa.Table,
        documents: pa.Table,
        evalset: pa.Table,
    ) -> MaterializeResult[Any]:
        """Retrieval metrics of every question, and its evidence located in this parse."""
        table = stages.score_retrieval(retrieved_ids, chunks, documents, evalset, run)
        unresolved = pc.greater(pc.list_value_length(table["unresolved"]), 0)
        means = cell_means(table)
        numbers = {
            **at_headline(means, run.headline),
            "questions": table.num_rows,
            "scored_questions": table.num_rows - table[run.headline].null_count,
            "unresolved_evidence": pc.sum(unresolved).as_py(),
        }
        made_for = declaration.made_for(parts.retrieval, context.partition_key)
        preview = table.select(["question_id", "question", run.headline])
        more = {**summary(context, means_in_words(means, [run.headline])), "all_metrics": metrics_table(means)}
        checked = check(context, declaration, "retrieval_scores", retrieval_scores=table)
        return materialised(table, made_for=made_for, numbers=numbers, preview=preview, more=more, checked=checked)

    return [documents, chunks, index, retrieved_ids, retrieval_scores]
