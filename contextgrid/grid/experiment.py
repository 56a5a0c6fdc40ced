"""The experiment file: one YAML file that names documents, questions, prompts, the grid and how to run it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from contextgrid.checks.settings import SECTIONS, CheckSettings
from contextgrid.core.axes import AXES, Generation
from contextgrid.core.errors import ConfigError, ContextGridError, CorpusError
from contextgrid.core.matrix import Matrix
from contextgrid.core.registry import nearest
from contextgrid.generate.judging import check_answer_metric
from contextgrid.generate.prompts import DEFAULT_PROMPT, check_prompt
from contextgrid.grid.axis_values import DEFAULT_AXES, AxisValue, axis_values
from contextgrid.grid.experiment_yaml import is_prompt_text, read_yaml, refuse_secrets
from contextgrid.grid.matrix import build_matrix
from contextgrid.models import build_model
from contextgrid.models.calls import CallMode, has_price, unpriced
from contextgrid.models.settings import check_budget, mode_of_environment
from contextgrid.refresh_settings import RefreshSettings, matching
from contextgrid.settings import JudgeSettings, RunSettings, Strict

if TYPE_CHECKING:
    import pyarrow as pa
    from pydantic_core import ErrorDetails

    from contextgrid.core.evalset import EvalSet
    from contextgrid.corpus import Corpus

DEFAULT_LEDGER = ".contextgrid/ledger.sqlite"
_PROMPT_NAME = re.compile(r"[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*")


# A path or text that is not blank.
_Location = Annotated[str, StringConstraints(pattern=r"\S")]


class ReportSettings(Strict):
    """The ``report`` section: the title of the written report, and its folder (``results/<name>`` by default)."""

    title: str | None = None
    output: _Location | None = None


class _File(Strict):
    name: str = Field(min_length=1)
    corpus: _Location | Annotated[list[_Location], Field(min_length=1)]
    evalset: _Location
    prompts: dict[str, _Location] = Field(default_factory=dict)
    grid: dict[str, Any] = Field(default_factory=dict)
    run: RunSettings = Field(default_factory=RunSettings)
    report: ReportSettings = Field(default_factory=ReportSettings)
    checks: CheckSettings = CheckSettings()


@dataclass(frozen=True)
class Experiment:
    """A validated experiment file. Documents, questions and prompts are read when asked for, never cached.

    Attributes:
        path: the file; relative paths in it resolve against its folder.
        name: what the experiment is called.
        axes: the values of every axis, in the order written.
        run: how the grid is run.
        report: where and under what title results are written.
        checks: what has to hold of what is built; nothing that is built depends on it.
    """

    path: Path
    name: str
    axes: Mapping[str, tuple[AxisValue, ...]]
    run: RunSettings
    report: ReportSettings
    checks: CheckSettings
    _corpus: tuple[str, ...]
    _corpus_is_folder: bool
    _evalset: str
    _prompts: Mapping[str, str]

    @classmethod
    def load(cls, path: str | Path, *, budget_usd: float | None = None, calls: CallMode | None = None) -> Experiment:
        """Read and validate an experiment file.

        Args:
            budget_usd: dollars that a run may spend, instead of what the file says.
            calls: how calls are made, instead of what the environment or the file says.

        Raises:
            ConfigError: for anything that cannot run, naming the file, the key and the nearest valid name.
        """
        check_budget(budget_usd)
        path = Path(path).resolve()
        content = _validated(read_yaml(path), path)
        experiment = cls(
            path=path,
            name=content.name,
            axes=_axes(content.grid, path),
            run=content.run.model_copy(
                update={
                    "ledger": _ledger(content.run.ledger, path),
                    "calls": calls or mode_of_environment() or content.run.calls,
                    "budget_usd": content.run.budget_usd if budget_usd is None else budget_usd,
                }
            ),
            report=content.report,
            checks=content.checks,
            _corpus=(content.corpus,) if isinstance(content.corpus, str) else tuple(content.corpus),
            _corpus_is_folder=isinstance(content.corpus, str),
            _evalset=content.evalset,
            _prompts=content.prompts,
        )
        experiment._check()
        return experiment

    @cached_property
    def matrix(self) -> Matrix:
        """The rows and columns of the grid."""
        try:
            return build_matrix(self.axes, mode=self.run.mode, baseline=self.run.baseline, model=self.run.model)
        except ConfigError as error:
            raise ConfigError(f"{self.path}: {error}") from error

    def load_corpus(self) -> Corpus:
        """The documents as they lie on disk now."""
        from contextgrid.corpus import Corpus

        if self._corpus_is_folder:
            location = self._resolve(self._corpus[0])
            if location.is_file():
                return Corpus.from_files([location])
            return _without(Corpus.from_dir(location), location, self.output_folder)
        files = [self._resolve(file) for file in self._corpus]
        # Ids are paths below the experiment's folder, or below the folder that holds all files where some lie outside.
        inside = all(file.resolve().is_relative_to(self.path.parent) for file in files)
        root = self.path.parent if inside else Path(os.path.commonpath([file.parent for file in files]))
        return Corpus.from_files(files, root=root)

    def load_evalset(self) -> EvalSet:
        """The questions as they lie on disk now."""
        from contextgrid.evalset import load_evalset

        return load_evalset(self._resolve(self._evalset))

    def prompt_text(self, name: str | None) -> str:
        """The text of a prompt as it lies on disk now; the built-in prompt for ``None``."""
        if name is None:
            return DEFAULT_PROMPT
        value = self._prompts[name]
        if is_prompt_text(value):
            text, origin = value, f"{self.path}: prompts.{name}"
        else:
            text = _read_prompt(value, self.path, name)
            origin = str(self._resolve(value))
        refuse_secrets(text, origin)
        check_prompt(text, origin)
        return text

    def generation_spec(self, column: Generation) -> pa.Table:
        """One row that holds all that determines what a column answers (schema ``tables.GENERATION_SPEC``)."""
        import pyarrow as pa

        from contextgrid.core.tables import GENERATION_SPEC

        uses_model = column.model is not None
        row = {
            "generator": column.generator,
            "prompt_name": column.prompt,
            "prompt": self.prompt_text(column.prompt) if uses_model else None,
            "model": column.model,
        }
        return pa.Table.from_pylist([row], schema=GENERATION_SPEC)

    @property
    def refreshable_columns(self) -> tuple[str, ...]:
        """Keys of the columns that a model answers or judges, whose results may change by themselves."""
        return tuple(column.key for column in self.matrix.columns if column.model or self.run.judge_model(column.model))

    @property
    def watched_paths(self) -> tuple[Path, ...]:
        """Every file or folder whose content the experiment depends on, itself included."""
        prompts = [self._resolve(value) for value in self._prompts.values() if not is_prompt_text(value)]
        corpus = [self._resolve(value) for value in self._corpus]
        return (self.path, *corpus, self._resolve(self._evalset), *prompts)

    @property
    def output_folder(self) -> Path:
        """Where reports are written."""
        return self._resolve(self.report.output or f"results/{_path_part(self.name)}")

    def refuse_output(self, folder: Path) -> None:
        """Make sure that no report is written where the next run would take it for a document.

        Raises:
            ConfigError: for the corpus folder, or a folder in it that is not the experiment's own output folder.
        """
        corpus = self._resolve(self._corpus[0]).resolve()
        if not self._corpus_is_folder or not corpus.is_dir():
            return
        own, folder = self.output_folder.resolve(), folder.resolve()
        if folder == corpus or (folder.is_relative_to(corpus) and not folder.is_relative_to(own)):
            raise ConfigError(f"{self.path}: the report's folder {folder} lies among the documents; choose another")

    def _resolve(self, location: str) -> Path:
        return _located(location, self.path)

    def _check(self) -> None:
        for location in (*self._corpus, self._evalset):
            self._resolve(location)
        self.refuse_output(self.output_folder)
        for name in self._prompts:
            if not _PROMPT_NAME.fullmatch(name):
                raise ConfigError(
                    f"{self.path}: prompts.{name}: a prompt name is letters and digits, joined by single . _ or -"
                )
            self.prompt_text(name)
        for chosen in self.axes["prompt"]:
            if chosen is not None and chosen not in self._prompts:
                mend = nearest(str(chosen), self._prompts) if self._prompts else "; add it under prompts"
                raise ConfigError(f"{self.path}: grid.prompt: no prompt {chosen!r}{mend}")
        if self.run.model is not None:
            try:
                build_model(self.run.model)
            except ConfigError as error:
                raise ConfigError(f"{self.path}: run.model: {error}") from error
        self._check_prices()
        for candidates in self.axes["candidates"]:
            if isinstance(candidates, int) and candidates < self.run.k:
                raise ConfigError(
                    f"{self.path}: grid.candidates: {candidates} candidates cannot fill k={self.run.k} passages;"
                    f" use at least {self.run.k}"
                )
        columns = self.matrix.columns
        try:
            check_answer_metric(self.run, columns)
            self.checks.refuse_impossible(self.run.answer_metric)
        except ConfigError as error:
            raise ConfigError(f"{self.path}: {error}") from error
        if self.run.refresh is not None:
            try:
                matching(self.run.refresh.columns, self.refreshable_columns)
            except ConfigError as error:
                raise ConfigError(f"{self.path}: run.refresh.columns: {error}") from error

    def _check_prices(self) -> None:
        """Refuse a budget that cannot be kept because a model has no price."""
        calls = self.run.call_settings
        if calls.budget_usd is None or calls.mode == "replay":
            return
        for column in self.matrix.columns:
            for model in (column.model, self.run.judge_model(column.model)):
                if model is not None and not has_price(model, calls):
                    raise ConfigError(f"{self.path}: {unpriced(build_model(model).name)}")


def _ledger(written: str | None, path: Path) -> str:
    """The experiment's ledger: an address as it is, a file resolved against the experiment's folder."""
    if written is not None and "://" in written:
        return written
    return str(_located(written or DEFAULT_LEDGER, path))


def _located(location: str, path: Path) -> Path:
    """A path that an experiment file names, resolved against the file's folder."""
    try:
        found = path.parent / Path(location).expanduser()
        found.exists()
    except (OSError, RuntimeError, ValueError) as error:
        shown = location if len(location) <= 80 else f"{location[:80]}..."
        raise ConfigError(f"{path}: {shown!r} is no path: {getattr(error, 'strerror', None) or error}") from None
    return found


def _read_prompt(location: str, path: Path, name: str) -> str:
    where = f"{path}: prompts.{name}"
    mend = "give a file, or a prompt with {context} and {question}"
    try:
        file = _located(location, path)
    except ConfigError as error:
        raise ConfigError(f"{where}: {str(error).removeprefix(f'{path}: ')}; {mend}") from None
    if not file.is_file():
        raise ConfigError(f"{where}: no file {file}; {mend}")
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where}: {file} is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{where}: cannot read {file}: {error.strerror}") from None


def _without(corpus: Corpus, root: Path, folder: Path) -> Corpus:
    """A corpus without what lies in ``folder`` and without reports: what a run wrote is no document of the next."""
    from contextgrid.corpus import Corpus

    folder, inside = folder.resolve(), root.resolve()
    prefix = f"{folder.relative_to(inside).as_posix()}/" if folder.is_relative_to(inside) else None
    # Other experiments write elsewhere; a leaderboard beside it tells a report from a document of that name.
    written = {name.removesuffix(_LEADERBOARD) + _REPORT for name in corpus.ignored if name.endswith(_LEADERBOARD)}

    def is_kept(name: str) -> bool:
        return name not in written and not (prefix and name.startswith(prefix))

    sources = tuple(source for source in corpus if is_kept(source.id))
    if not sources:
        raise CorpusError(f"no documents below {str(root)!r}, only reports of earlier runs")
    return Corpus(sources, tuple(filter(is_kept, corpus.ignored)))


_LEADERBOARD, _REPORT = "/leaderboard.parquet", "/report.md"


def _validated(content: dict[str, Any], path: Path) -> _File:
    try:
        return _File.model_validate(content)
    except ValidationError as error:
        errors = error.errors()
        # Where a value may be of several kinds, the error that says most about it.
        alike = [other for other in errors if other["loc"][0] == errors[0]["loc"][0]]
        first = max(alike, key=lambda other: (len(other["loc"]), other["type"] == "too_short"))
        location = [str(part) for part in first["loc"]]
        if location[0] == "corpus":  # The rest says which of its kinds was tried.
            location = location[:1]
        where = ".".join(location)
        if first["type"] == "extra_forbidden":
            sections: dict[str, type[BaseModel]] = {
                "run": RunSettings,
                "run.judge": JudgeSettings,
                "run.refresh": RefreshSettings,
                "report": ReportSettings,
                **SECTIONS,
            }
            valid = sections.get(".".join(location[:-1]), _File).model_fields
            raise ConfigError(f"{path}: unknown key {where!r}{nearest(location[-1], valid)}") from None
        if first["type"] == "missing":
            mend = "every experiment needs name, corpus and evalset"
            if location[1:]:
                mend = f"write it, or leave out {'.'.join(location[:-1])!r}"
            raise ConfigError(f"{path}: {where!r} is missing; {mend}") from None
        raise ConfigError(f"{path}: {where}: {_problem(first)}") from None
    except ContextGridError as error:
        raise ConfigError(f"{path}: run: {error}") from error


def _problem(error: ErrorDetails) -> str:
    """What is wrong with a value, and the value where it is short."""
    if error["type"] == "string_pattern_mismatch":
        return "is blank; give a path, or leave the key out"
    if error["type"] == "missing":
        return "is missing"
    problem = error["msg"].removeprefix("Value error, ")
    value = error["input"]
    shown = isinstance(value, str | int | float) and error["type"] != "value_error" and len(str(value)) <= 40
    return f"{problem}, got {value!r}" if shown else problem


def _axes(grid: Mapping[str, Any], path: Path) -> dict[str, tuple[AxisValue, ...]]:
    for axis in grid:
        if axis not in AXES:
            raise ConfigError(f"{path}: unknown key 'grid.{axis}'{nearest(str(axis), AXES)}")
    try:
        return {axis: axis_values(axis, grid.get(axis, DEFAULT_AXES.get(axis))) for axis in AXES}
    except ConfigError as error:
        raise ConfigError(f"{path}: grid.{error}") from error


def _path_part(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "experiment"
