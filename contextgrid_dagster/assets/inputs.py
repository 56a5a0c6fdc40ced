"""The inputs, whose content is stored so that no later stage needs the local files."""

# No postponed annotations here: Dagster reads them from the functions themselves.
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from dagster import AssetExecutionContext, AssetsDefinition, MaterializeResult

from contextgrid.grid.experiment import Experiment
from contextgrid_dagster.assets.declaration import Declaration
from contextgrid_dagster.display.metadata import characters, materialised, total


def input_assets(declaration: Declaration) -> list[AssetsDefinition]:
    """``corpus``, ``evalset``, and ``generation_spec`` if anything is generated."""
    experiment, parts = declaration.experiment, declaration.partitions

    @declaration.asset("corpus", kind="file")
    def corpus() -> MaterializeResult[Any]:
        """The documents as they lie on disk, byte for byte."""
        table = corpus_table(experiment)
        sizes = pc.binary_length(table["content"])
        shown = table.select(["source_id", "media_type"]).append_column("bytes", sizes)
        numbers = {"documents": table.num_rows, "document_bytes": total(shown, "bytes")}
        return materialised(table, made_for=declaration.made_for(), numbers=numbers, preview=shown)

    @declaration.asset("evalset", kind="file")
    def evalset() -> MaterializeResult[Any]:
        """The questions, their evidence as quotes, and reference answers where there are any."""
        table = evalset_table(experiment)
        numbers = {
            "questions": table.num_rows,
            "answerable": total(table, "answerable"),
            "with_reference_answer": table.num_rows - table["answer"].null_count,
        }
        return materialised(table, made_for=declaration.made_for(), numbers=numbers, preview=table)

    if not declaration.matrix.columns:
        return [corpus, evalset]

    @declaration.asset("generation_spec", kind="yaml", partitions=parts.generation)
    def generation_spec(context: AssetExecutionContext) -> MaterializeResult[Any]:
        """All that determines what a column answers: generator, prompt text, model and parameters."""
        table = generation_spec_table(experiment, context.partition_key)
        return materialised(
            table,
            made_for=declaration.made_for(parts.generation, context.partition_key),
            numbers={"prompt_characters": characters(table, "prompt")},
            preview=table.select(["generator", "prompt_name", "model"]),
        )

    return [corpus, evalset, generation_spec]


def corpus_table(experiment: Experiment) -> pa.Table:
    """The documents on disk now."""
    return experiment.load_corpus().to_table()


def evalset_table(experiment: Experiment) -> pa.Table:
    """The questions on disk now."""
    from contextgrid.evalset import evalset_to_table

    return evalset_to_table(experiment.load_evalset())


def generation_spec_table(experiment: Experiment, column: str) -> pa.Table:
    """What the experiment file and its prompt files say now about the column with this key."""
    return experiment.generation_spec(experiment.matrix.column(column))
