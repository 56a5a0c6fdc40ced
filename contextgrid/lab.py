"""Many cells in memory: a corpus, a grid, an eval set in; a leaderboard and lift reports out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from contextgrid.core.axes import AXES, Generation, Retrieval, settings_of
from contextgrid.core.errors import ConfigError, ContextGridError, StageError
from contextgrid.core.matrix import Matrix
from contextgrid.core.registry import nearest
from contextgrid.generate.judging import check_answer_metric
from contextgrid.grid.axis_values import DEFAULT_AXES, AxisValue, axis_values
from contextgrid.grid.experiment import Experiment
from contextgrid.grid.matrix import build_matrix
from contextgrid.grid.runner import Runner
from contextgrid.pipeline import Config
from contextgrid.report.judges import judge_notes
from contextgrid.report.results import Results, RunResult
from contextgrid.settings import RunSettings

if TYPE_CHECKING:
    import pyarrow as pa

    from contextgrid.core.evalset import EvalSet
    from contextgrid.corpus import Corpus
    from contextgrid.evalset.llm import LLM
    from contextgrid.generate.lift import LiftReport

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Lab:
    """A grid over one corpus, run in memory with every common prefix shared.

    Args:
        corpus: the documents.
        prompts: template texts by name, for the ``prompt`` axis.
        settings: depths, metrics, baseline, seed.
        llm: an object to call instead of the models that the grid names; it judges too.
        judge_llm: an object that judges answers, instead of ``llm`` and the models that the settings name.
        axes: values of every axis; set them with :meth:`grid`.
    """

    corpus: Corpus
    prompts: Mapping[str, str] = field(default_factory=dict)
    settings: RunSettings = field(default_factory=RunSettings)
    llm: LLM | None = None
    judge_llm: LLM | None = None
    axes: Mapping[str, tuple[AxisValue, ...]] = field(default_factory=dict)

    @classmethod
    def from_experiment(cls, experiment: Experiment) -> Lab:
        """The lab that an experiment file describes, its documents and prompts read now."""
        names = [name for name in experiment.axes["prompt"] if isinstance(name, str)]
        prompts = {name: experiment.prompt_text(name) for name in names}
        return cls(experiment.load_corpus(), prompts, experiment.run, axes=experiment.axes)

    def grid(self, *, mode: Literal["factorial", "ofat"] | None = None, **axes: Any) -> Lab:
        """This lab with other axis values: ``lab.grid(chunker=["recursive:256", "recursive:512"])``.

        Raises:
            ConfigError: for an unknown axis or a value that its axis does not take.
        """
        for axis in axes:
            if axis not in AXES:
                raise ConfigError(f"unknown axis {axis!r}{nearest(axis, AXES)}")
        checked = {axis: axis_values(axis, value) for axis, value in axes.items()}
        settings = self.settings.model_copy(update={"mode": mode}) if mode else self.settings
        return replace(self, axes={**self.axes, **checked}, settings=settings)

    @property
    def matrix(self) -> Matrix:
        """The rows and columns of the grid."""
        defaults = {axis: axis_values(axis, DEFAULT_AXES.get(axis)) for axis in AXES}
        model = self.settings.model or (self.llm.name if self.llm is not None else None)
        return build_matrix(
            {**defaults, **self.axes}, mode=self.settings.mode, baseline=self.settings.baseline, model=model
        )

    def run(self, evalset: EvalSet, progress: Progress | None = None) -> Results:
        """Score every cell. A cell that fails does not stop the others; ``Results.failed`` says why it did.

        What is left out because documents or evidence cannot be found is among ``Results.warnings``.

        Args:
            progress: called with the cell's key, its number and the number of cells before each cell is run.

        Raises:
            ContextGridError: for bad input, if every cell failed, and if none is left to compare with its baseline.
        """
        from contextgrid.models.calls import begin_run
        from contextgrid.stages import leaderboard

        begin_run(self.settings.call_settings)
        matrix = self.matrix
        check_answer_metric(self.settings, matrix.columns, self.llm, self.judge_llm)
        runner = Runner(
            self.corpus, self.settings.headline, self.llm, self.prompts, self.settings, judge_llm=self.judge_llm
        )
        columns: list[Generation | None] = [*matrix.columns] or [None]
        cells = [(row, column) for row in matrix.rows for column in columns]
        results: dict[str, RunResult] = {}
        failed: dict[str, Exception] = {}
        for number, (row, column) in enumerate(cells, start=1):
            key = _cell_key(row, column)
            if progress is not None:
                progress(key, number, len(cells))
            try:
                results[key] = runner.run_one(self._config(row, column), evalset)
            except Exception as error:  # noqa: BLE001 - a plugin that breaks must not cost the other cells either
                failed[key] = error
        if not results:
            raise _of_all(failed)
        retrieval_scores = {result.config.retrieval.key: result.retrieval_scores for result in results.values()}
        lifts = self._lifts(matrix, results)
        reasons = {key: _reason(error) for key, error in failed.items()}
        if matrix.columns:
            reasons |= _without_baseline(matrix, results, lifts, reasons)
        table = leaderboard(retrieval_scores, lifts, self.settings, matrix)
        notes = judge_notes(self.settings, matrix.columns, self.llm, self.judge_llm)
        ranked = tuple(results[key] for key in _ranked_keys(table))
        return Results(table, ranked, lifts, reasons, tuple(notes), tuple(_left_out(runner, matrix, ranked)))

    def _lifts(self, matrix: Matrix, results: Mapping[str, RunResult]) -> dict[str, LiftReport]:
        """Lift of every cell that has results and whose baseline cell has."""
        from contextgrid.stages import compare

        lifts: dict[str, LiftReport] = {}
        for column in matrix.columns:
            baseline_key = _cell_key(matrix.baseline, column)
            for key in (_cell_key(row, column) for row in matrix.rows):
                if key in results and baseline_key in results:
                    cell, baseline = results[key], results[baseline_key]
                    lifts[key] = compare(
                        cell.lexical_scores,
                        baseline.lexical_scores,
                        self.settings,
                        cell_key=key,
                        baseline_key=baseline_key,
                        cell_judge=cell.judge_scores,
                        baseline_judge=baseline.judge_scores,
                    )
        return lifts

    def _config(self, row: Retrieval, column: Generation | None) -> Config:
        generation = {} if column is None else settings_of(column)
        return Config(k=self.settings.k, **settings_of(row), **generation)  # type: ignore[arg-type]


def _cell_key(row: Retrieval, column: Generation | None) -> str:
    return row.key if column is None else f"{column.key}|{row.key}"


def _of_all(failed: Mapping[str, Exception]) -> Exception:
    """What to raise where every cell failed: the error itself where they share it, as they share their input."""
    first, *others = failed.values()
    if all(str(other) == str(first) for other in others) and not isinstance(first, StageError):
        return first
    return StageError(f"all {len(failed)} cells failed; the first: {_reason(first)}")


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, ContextGridError) else f"{type(error).__name__}: {error}"


def _without_baseline(
    matrix: Matrix, results: Mapping[str, RunResult], lifts: Mapping[str, LiftReport], failed: Mapping[str, str]
) -> dict[str, str]:
    """Why cells that have results are not on the leaderboard: there is nothing to compare them with.

    Raises:
        StageError: if that concerns all of them.
    """
    lost: dict[str, str] = {}
    for column in matrix.columns:
        baseline_key = _cell_key(matrix.baseline, column)
        if baseline_key in failed:
            keys = [_cell_key(row, column) for row in matrix.rows]
            reason = f"its baseline {baseline_key} failed: {failed[baseline_key]}"
            lost |= {key: reason for key in keys if key in results and key not in lifts}
    if lost and not lifts:
        raise StageError(f"no cell can be compared, {next(iter(lost.values()))}; choose another run.baseline")
    return lost


def _left_out(runner: Runner, matrix: Matrix, runs: Sequence[RunResult]) -> list[str]:
    """A sentence for each parser that could not read all documents or does not show all evidence."""
    parsers = matrix.unique("parser_key")
    sentences: list[str] = []
    for key in parsers:
        run = next((run for run in runs if run.config.retrieval.parser_key == key), None)
        if run is None:
            continue
        documents = runner.documents(run.config.retrieval)
        unreadable = len(documents) - documents["error"].null_count
        missing = sum(len(quotes) for quotes in run.retrieval_scores["unresolved"].to_pylist())
        parser = f"parser {key}: " if len(parsers) > 1 else ""
        if unreadable:
            what = "1 document" if unreadable == 1 else f"{unreadable} documents"
            sentences.append(f"{parser}{what} could not be read; see contextgrid check")
        if missing:
            what = "1 piece of evidence was" if missing == 1 else f"{missing} pieces of evidence were"
            sentences.append(f"{parser}{what} not found and left out of the scores; see contextgrid check")
    return sentences


def _ranked_keys(leaderboard: pa.Table) -> list[str]:
    return [
        line["retrieval"] if line["generation"] is None else f"{line['generation']}|{line['retrieval']}"
        for line in leaderboard.select(["retrieval", "generation"]).to_pylist()
    ]
