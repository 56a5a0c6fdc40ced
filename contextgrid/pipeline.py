"""One configuration, built over a corpus and asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contextgrid.core.axes import Generation, Retrieval
from contextgrid.core.documents import Chunk
from contextgrid.core.errors import ConfigError, ContextGridError
from contextgrid.core.registry import Spec
from contextgrid.core.span import Span
from contextgrid.settings import MAX_RANK

if TYPE_CHECKING:
    from contextgrid.assemble.context import AssembledContext, ContextAssembler
    from contextgrid.corpus import Corpus
    from contextgrid.evalset.llm import LLM
    from contextgrid.generate import Answer, Generator
    from contextgrid.index import PassageIndex

__all__ = ["Config", "Pipeline", "build"]


@dataclass(frozen=True)
class Config:
    """One cell of a grid: a spec for each axis.

    Attributes:
        k: passages returned by a search and handed to the generator.
        candidates: passages a reranker reads; more than ``k``.
        prompt: a template with ``{context}`` and ``{question}``, or in a grid the name of one.
        model: the spec of the model that a model-backed generator calls, as ``openai:gpt-4o-mini``.
        generator: ``None`` only retrieves: no context is assembled and no model called.
    """

    parser: str = "auto"
    chunker: str = "recursive:512"
    embedder: str | None = "tfidf"
    index: str = "dense"
    transform: str | None = None
    reranker: str | None = None
    candidates: int | None = None
    k: int = 5
    prompt: str | None = None
    model: str | None = None
    generator: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.k <= MAX_RANK:
            raise ConfigError(f"k must be from 1 to {MAX_RANK}, got {self.k}")
        if self.candidates is not None and self.candidates < self.k:
            raise ConfigError(f"candidates must be at least k={self.k}, got {self.candidates}")

    @property
    def retrieval(self) -> Retrieval:
        """The half that ranks passages; axes that cannot matter are left out."""
        return retrieval_of(
            self.parser, self.chunker, self.embedder, self.index, self.transform, self.reranker, self.candidates
        )

    @property
    def generation(self) -> Generation | None:
        """The half that answers, or ``None`` for a configuration that only retrieves."""
        return generation_of(self.generator, self.prompt, self.model)


def retrieval_of(
    parser: str,
    chunker: str,
    embedder: str | None,
    index: str,
    transform: str | None = None,
    reranker: str | None = None,
    candidates: int | None = None,
) -> Retrieval:
    """A row without the axes that cannot matter: an embedder under ``bm25``, candidates without a reranker.

    Raises:
        ConfigError: if the index needs an embedder and there is none.
    """
    from contextgrid.index import INDEXES

    if not INDEXES.plugin(Spec.parse(index).name).needs_embedder:
        embedder = None
    elif embedder is None:
        raise ConfigError(f"index {index!r} needs an embedder")
    return Retrieval(parser, chunker, embedder, index, transform, reranker, candidates if reranker else None)


def generation_of(generator: str | None, prompt: str | None = None, model: str | None = None) -> Generation | None:
    """A column without the axes that cannot matter: prompt and model under a model-free generator."""
    from contextgrid.generate import MODEL_BACKED

    if generator is None:
        return None
    if Spec.parse(generator).name in MODEL_BACKED:
        return Generation(generator, prompt, model)
    return Generation(generator)


@dataclass(frozen=True)
class Pipeline:
    """A built configuration. ``generator`` is ``None`` where it only retrieves."""

    config: Config
    index: PassageIndex
    generator: Generator | None
    assembler: ContextAssembler

    def search(self, question: str) -> list[str]:
        """Ids of the best ``config.k`` passages for a question, best first."""
        import pyarrow as pa

        from contextgrid.core.tables import EVALSET
        from contextgrid.settings import RunSettings
        from contextgrid.stages import retrieve

        asked = pa.Table.from_pylist([{"question_id": "q", "question": question}], schema=EVALSET)
        k = self.config.k
        run = RunSettings(k=k, cutoffs=(k,), headline=f"recall@{k}")
        ranked = retrieve(self.index, asked, self.config.retrieval, run)
        return [chunk_id for chunk_id in ranked["chunk_id"].to_pylist() if chunk_id is not None]

    def answer(self, question: str, chunk_ids: Sequence[str]) -> tuple[Answer, AssembledContext]:
        """Answer from passages that a search returned, in their order.

        Raises:
            ContextGridError: if the pipeline has no generator, or an id names no passage of the index.
        """
        if self.generator is None:
            raise ContextGridError(
                "this pipeline has no generator configured -- check `pipeline.generator is not None` before"
                " calling `answer`"
            )
        context = self.assembler.assemble(self._chunks(chunk_ids))
        return self.generator.answer(question, context), context

    def _chunks(self, chunk_ids: Sequence[str]) -> list[Chunk]:
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted = list(chunk_ids)
        rows = pc.index_in(pa.array(wanted, pa.string()), self.index.chunks["chunk_id"].combine_chunks())
        if rows.null_count:
            unknown = wanted[rows.to_pylist().index(None)]
            raise ContextGridError(f"no passage {unknown!r} in this index; pass ids that `search` returned")
        return [
            Chunk(row["chunk_id"], Span(row["source_id"], row["start"], row["end"]), row["text"])
            for row in self.index.chunks.take(rows).to_pylist()
        ]


def build(config: Config, corpus: Corpus, llm: LLM | None = None) -> Pipeline:
    """Parse, chunk and index a corpus for one configuration.

    Args:
        llm: the model of a model-backed generator; without it ``config.model`` is resolved.

    Raises:
        ContextGridError: for a spec that cannot be built, before anything is indexed.
    """
    from contextgrid import stages
    from contextgrid.assemble.context import ContextAssembler
    from contextgrid.evalset.llm import get_llm
    from contextgrid.generate import get_generator

    if llm is None and config.generation is not None and config.model is not None:
        llm = get_llm(config.model)
    generator = get_generator(config.generator, llm=llm, prompt=config.prompt)
    row = config.retrieval
    documents = stages.parse_corpus(corpus.to_table(), row.parser)
    chunks = stages.chunk_documents(documents, row.chunker)
    return Pipeline(config, stages.build_index(chunks, row.embedder, row.index), generator, ContextAssembler())
