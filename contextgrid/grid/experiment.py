"""The experiment file: one YAML file that names documents, questions, prompts, the grid and how to run it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from contextgrid.chunk import CHUNKERS
from contextgrid.core.axes import AXES, Generation
from contextgrid.core.errors import ConfigError, ContextGridError
from contextgrid.core.registry import Registry, nearest
from contextgrid.embed import EMBEDDERS
from contextgrid.generate import check_generator
from contextgrid.generate.judging import check_answer_metric
from contextgrid.generate.prompts import DEFAULT_PROMPT, check_prompt
from contextgrid.grid.experiment_yaml import read_yaml
from contextgrid.grid.matrix import AxisValue, Matrix, build_matrix
from contextgrid.index import INDEXES
from contextgrid.models import build_model
from contextgrid.models.calls import CallMode, has_price, unpriced
from contextgrid.models.settings import mode_of_environment
from contextgrid.parse import PARSERS
from contextgrid.rerank import RERANKERS
from contextgrid.settings import JudgeSettings, RunSettings, Strict
from contextgrid.transform import TRANSFORMS

if TYPE_CHECKING:
    import pyarrow as pa

    from contextgrid.core.evalset import EvalSet
    from contextgrid.corpus import Corpus

REGISTRIES: dict[str, Registry[Any]] = {
    "parser": PARSERS,
    "chunker": CHUNKERS,
    "embedder": EMBEDDERS,
    "index": INDEXES,
    "transform": TRANSFORMS,
    "reranker": RERANKERS,
}
# What an axis means when the file does not mention it.
DEFAULT_AXES: dict[str, AxisValue] = {
    "parser": "auto",
    "chunker": "recursive:512",
    "embedder": "tfidf",
    "index": "dense",
}
DEFAULT_LEDGER = ".contextgrid/ledger.sqlite"
_NEVER_NULL = ("parser", "chunker", "index")
_PROMPT_NAME = re.compile(r"[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*")


class ReportSettings(Strict):
    """The ``report`` section: the title of the written report, and its folder (``results/<name>`` by default)."""

    title: str | None = None
    output: str | None = None


class _File(Strict):
    name: str = Field(min_length=1)
    corpus: str | list[str]
    evalset: str
    prompts: dict[str, str] = Field(default_factory=dict)
    grid: dict[str, Any] = Field(default_factory=dict)
    run: RunSettings = Field(default_factory=RunSettings)
    report: ReportSettings = Field(default_factory=ReportSettings)


@dataclass(frozen=True)
class Experiment:
    """A validated experiment file. Documents, questions and prompts are read when asked for, never cached.

    Attributes:
        path: the file; relative paths in it resolve against its folder.
        name: what the experiment is called.
        axes: the values of every axis, in the order written.
        run: how the grid is run.
        report: where and under what title results are written.
    """

    path: Path
    name: str
    axes: Mapping[str, tuple[AxisValue, ...]]
    run: RunSettings
    report: ReportSettings
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
        path = Path(path).resolve()
        content = _validated(read_yaml(path), path)
        experiment = cls(
            path=path,
            name=content.name,
            axes=_axes(content.grid, path),
            run=content.run.model_copy(
                update={
                    "ledger": _ledger(content.run.ledger, path.parent),
                    "calls": calls or mode_of_environment() or content.run.calls,
                    "budget_usd": content.run.budget_usd if budget_usd is None else budget_usd,
                }
            ),
            report=content.report,
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
            return Corpus.from_files([location]) if location.is_file() else Corpus.from_dir(location)
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
        if _is_prompt_text(value):
            text, origin = value, f"{self.path}: prompts.{name}"
        else:
            file = self._resolve(value)
            if not file.is_file():
                raise ConfigError(f"{self.path}: prompts.{name}: no file {file}; give a file or the prompt itself")
            text, origin = file.read_text(encoding="utf-8-sig"), str(file)
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
    def watched_paths(self) -> tuple[Path, ...]:
        """Every file or folder whose content the experiment depends on, itself included."""
        prompts = [self._resolve(value) for value in self._prompts.values() if not _is_prompt_text(value)]
        corpus = [self._resolve(value) for value in self._corpus]
        return (self.path, *corpus, self._resolve(self._evalset), *prompts)

    @property
    def output_folder(self) -> Path:
        """Where reports are written."""
        return self._resolve(self.report.output or f"results/{_path_part(self.name)}")

    def _resolve(self, location: str) -> Path:
        return self.path.parent / Path(location).expanduser()

    def _check(self) -> None:
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
        try:
            check_answer_metric(self.run, self.matrix.columns)
        except ConfigError as error:
            raise ConfigError(f"{self.path}: {error}") from error

    def _check_prices(self) -> None:
        """Refuse a budget that cannot be kept because a model has no price."""
        calls = self.run.call_settings
        if calls.budget_usd is None or calls.mode == "replay":
            return
        for column in self.matrix.columns:
            for model in (column.model, self.run.judge_model(column.model)):
                if model is not None and not has_price(model, calls):
                    raise ConfigError(f"{self.path}: {unpriced(build_model(model).name)}")


def _ledger(written: str | None, folder: Path) -> str:
    """The experiment's ledger: an address as it is, a file resolved against the experiment's folder."""
    if written is not None and "://" in written:
        return written
    return str(folder / Path(written or DEFAULT_LEDGER).expanduser())


def _validated(content: dict[str, Any], path: Path) -> _File:
    try:
        return _File.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        location = [str(part) for part in first["loc"]]
        where = ".".join(location)
        if first["type"] == "extra_forbidden":
            sections: dict[str, type[Strict]] = {
                "run": RunSettings,
                "run.judge": JudgeSettings,
                "report": ReportSettings,
            }
            valid = sections.get(".".join(location[:-1]), _File).model_fields
            raise ConfigError(f"{path}: unknown key {where!r}{nearest(location[-1], valid)}") from None
        if first["type"] == "missing":
            raise ConfigError(
                f"{path}: {where!r} is missing; every experiment needs name, corpus and evalset"
            ) from None
        raise ConfigError(f"{path}: {where}: {first['msg'].removeprefix('Value error, ')}") from None
    except ContextGridError as error:
        raise ConfigError(f"{path}: run: {error}") from error


def _axes(grid: Mapping[str, Any], path: Path) -> dict[str, tuple[AxisValue, ...]]:
    for axis in grid:
        if axis not in AXES:
            raise ConfigError(f"{path}: unknown key 'grid.{axis}'{nearest(str(axis), AXES)}")
    try:
        return {axis: axis_values(axis, grid.get(axis, DEFAULT_AXES.get(axis))) for axis in AXES}
    except ConfigError as error:
        raise ConfigError(f"{path}: grid.{error}") from error


def axis_values(axis: str, value: Any) -> tuple[AxisValue, ...]:
    """The values of one axis from one value or a list, each checked against the axis's plugins.

    Raises:
        ConfigError: naming the axis and what is wrong with which value.
    """
    values = list(value) if isinstance(value, list | tuple) else [value]
    if not values:
        raise ConfigError(f"{axis}: an empty list; give one value or more, or leave the axis out")
    for item in values:
        try:
            _check_value(axis, item)
        except ConfigError as error:
            raise ConfigError(f"{axis}: {error}") from error
    for item in values:
        if values.count(item) > 1:
            raise ConfigError(f"{axis}: {item!r} is listed twice")
    return tuple(values)


def _check_value(axis: str, value: Any) -> None:
    if value is None:
        if axis in _NEVER_NULL:
            raise ConfigError(f"null is not possible here; choose one of: {', '.join(REGISTRIES[axis].names())}")
    elif axis == "candidates":
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(f"must be a whole number of at least 1, got {value!r}")
    elif not isinstance(value, str):
        raise ConfigError(f"expected text such as name:argument, got {value!r}")
    elif axis in REGISTRIES:
        REGISTRIES[axis].build(value)
    elif axis == "generator":
        check_generator(value)
    elif axis == "model":
        build_model(value)


def _path_part(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "experiment"


def _is_prompt_text(value: str) -> bool:
    # A template has to hold {context} and {question}; no sensible file name does.
    return "\n" in value or "{" in value
