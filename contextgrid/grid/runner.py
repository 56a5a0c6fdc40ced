"""Configurations run over one corpus in memory, every common prefix built once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from contextgrid.core.axes import Generation, Retrieval
from contextgrid.core.errors import ConfigError
from contextgrid.core.registry import Spec, nearest
from contextgrid.generate.judge import IncompleteScoresWarning
from contextgrid.generate.judging import Memory, judge_for
from contextgrid.pipeline import Config
from contextgrid.report.results import RunResult
from contextgrid.settings import RunSettings

if TYPE_CHECKING:
    import pyarrow as pa

    from contextgrid.core.evalset import EvalSet
    from contextgrid.corpus import Corpus
    from contextgrid.evalset.llm import LLM
    from contextgrid.index import PassageIndex

T = TypeVar("T")


@dataclass
class Runner:
    """Runs configurations over one corpus and keeps what they share.

    Args:
        corpus: the documents.
        headline: the retrieval metric of the leaderboard and of the lift.
        llm: the model of model-backed generators; it wins over a configuration's ``model``.
        prompts: template texts by name, for configurations that name one.
        run: every other setting; its ``headline`` gives way to the argument.
        judge_llm: the model that judges answers, instead of the one that the settings name. Without either,
            ``llm`` judges too.
    """

    corpus: Corpus
    headline: str = "recall@5"
    llm: LLM | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    run: RunSettings = field(default_factory=RunSettings)
    judge_llm: LLM | None = None
    _verdicts: Memory = field(default_factory=dict, init=False, repr=False)
    _built: dict[tuple[Any, ...], Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self.run = RunSettings.model_validate(self.run.model_dump() | {"headline": self.headline})

    def run_one(self, config: Config, evalset: EvalSet) -> RunResult:
        """Every score of one configuration over an eval set."""
        run = self.run.model_copy(update={"k": config.k})
        row, column = config.retrieval, config.generation
        if column is not None:
            self._check_model(column)
        retrieval_scores = self.retrieval_scores(row, evalset, run)
        if column is None:
            return RunResult.of(config, run, retrieval_scores)
        answers, lexical = self.answers(row, column, evalset, run)
        judge_scores = self.judge_scores(row, column, evalset, run)
        result = RunResult.of(config, run, retrieval_scores, answers, lexical, judge_scores)
        for sentence in result.warnings:
            warnings.warn(f"{column.key}|{row.key}: {sentence}", IncompleteScoresWarning, stacklevel=2)
        return result

    def documents(self, row: Retrieval) -> pa.Table:
        """The corpus as the row's parser reads it."""
        from contextgrid.stages import parse_corpus

        return self._once(("documents", row.parser_key), lambda: parse_corpus(self.corpus.to_table(), row.parser))

    def chunks(self, row: Retrieval) -> pa.Table:
        """The row's passages."""
        from contextgrid.stages import chunk_documents

        return self._once(("chunks", row.chunks_key), lambda: chunk_documents(self.documents(row), row.chunker))

    def index(self, row: Retrieval) -> PassageIndex:
        """The index the row searches."""
        from contextgrid.stages import build_index

        return self._once(
            ("index", row.index_key),
            lambda: build_index(self.chunks(row), row.embedder, row.index, self.run, cell=row.index_key),
        )

    def retrieved(self, row: Retrieval, evalset: EvalSet, run: RunSettings) -> pa.Table:
        """The row's ranked passages for every question."""
        from contextgrid.stages import retrieve

        return self._once(
            ("retrieved", row.key, run.depth, evalset),
            lambda: retrieve(self.index(row), self._questions(evalset), row, run),
        )

    def retrieval_scores(self, row: Retrieval, evalset: EvalSet, run: RunSettings) -> pa.Table:
        """The row's retrieval metrics for every question."""
        from contextgrid.stages import score_retrieval

        return self._once(
            ("retrieval_scores", row.key, run.scored_cutoffs, run.depth, evalset),
            lambda: score_retrieval(
                self.retrieved(row, evalset, run),
                self.chunks(row),
                self.documents(row),
                self._questions(evalset),
                run,
            ),
        )

    def answers(
        self, row: Retrieval, column: Generation, evalset: EvalSet, run: RunSettings
    ) -> tuple[pa.Table, pa.Table]:
        """A cell's answers and their lexical scores."""
        from contextgrid.stages import answer, score_answers

        def answer_and_score() -> tuple[pa.Table, pa.Table]:
            retrieved = self.retrieved(row, evalset, run)
            cell = f"{column.key}|{row.key}"
            answers = answer(retrieved, self._generation_spec(column), run, self._model_for(column), cell=cell)
            return answers, score_answers(answers, self.retrieval_scores(row, evalset, run), run)

        settings = (
            run.k,
            run.depth,
            run.scored_cutoffs,
            run.headline,
            run.ordering,
            run.context_tokens,
            run.max_tokens,
        )
        return self._once(("answers", row.key, column, settings, evalset), answer_and_score)

    def judge_scores(self, row: Retrieval, column: Generation, evalset: EvalSet, run: RunSettings) -> pa.Table | None:
        """What a judge says about a cell's answers; ``None`` where there is no judge."""
        from contextgrid.stages import judge

        chosen = self.judge_of(column, run)
        if chosen is None:
            return None
        answers, _ = self.answers(row, column, evalset, run)
        cell = f"{column.key}|{row.key}"
        return judge(answers, self._questions(evalset), run, chosen, cell=cell, memory=self._verdicts)

    def judge_of(self, column: Generation, run: RunSettings) -> LLM | str | None:
        """The model that judges a column: an object that was given, else the one that the settings name."""
        return judge_for(run, column.model, self.llm, self.judge_llm)

    def _questions(self, evalset: EvalSet) -> pa.Table:
        from contextgrid.evalset import evalset_to_table

        return self._once(("evalset", evalset), lambda: evalset_to_table(evalset))

    def _generation_spec(self, column: Generation) -> pa.Table:
        import pyarrow as pa

        from contextgrid.core.tables import GENERATION_SPEC

        row = {
            "generator": column.generator,
            "prompt_name": column.prompt,
            "prompt": self._prompt_text(column.prompt),
            "model": column.model,
        }
        return pa.Table.from_pylist([row], schema=GENERATION_SPEC)

    def _prompt_text(self, prompt: str | None) -> str | None:
        if prompt is None or "{" in prompt:
            return prompt
        if prompt not in self.prompts:
            raise ConfigError(f"no prompt {prompt!r}{nearest(prompt, self.prompts) if self.prompts else ''}")
        return self.prompts[prompt]

    def _check_model(self, column: Generation) -> None:
        """Fail before anything is built where a model-backed generator has no model."""
        from contextgrid.generate import MODEL_BACKED, get_generator

        if Spec.parse(column.generator).name in MODEL_BACKED and self.llm is None and column.model is None:
            get_generator(column.generator)

    def _model_for(self, column: Generation) -> LLM | None:
        from contextgrid.generate import MODEL_BACKED

        return self.llm if Spec.parse(column.generator).name in MODEL_BACKED else None

    def _once(self, key: tuple[Any, ...], build: Callable[[], T]) -> T:
        if key not in self._built:
            self._built[key] = build()
        result: T = self._built[key]
        return result
