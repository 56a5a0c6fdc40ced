"""What is a retrieval change worth on your own documents?

Names are imported on first use, so that ``import contextgrid`` stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextgrid.assemble.context import AssembledContext as AssembledContext
    from contextgrid.assemble.context import ContextAssembler as ContextAssembler
    from contextgrid.core.documents import Chunk as Chunk
    from contextgrid.core.documents import Document as Document
    from contextgrid.core.documents import MediaType as MediaType
    from contextgrid.core.errors import ContextGridError as ContextGridError
    from contextgrid.core.evalset import EvalItem as EvalItem
    from contextgrid.core.evalset import EvalSet as EvalSet
    from contextgrid.core.evalset import GoldAnchor as GoldAnchor
    from contextgrid.core.evalset import GoldSpan as GoldSpan
    from contextgrid.core.span import Span as Span
    from contextgrid.corpus import Corpus as Corpus
    from contextgrid.evalset import load_evalset as load_evalset
    from contextgrid.evalset import resolve_evalset as resolve_evalset
    from contextgrid.evalset.llm import LLM as LLM
    from contextgrid.evalset.llm import LLMError as LLMError
    from contextgrid.evalset.llm import RecordingLLM as RecordingLLM
    from contextgrid.evalset.llm import get_llm as get_llm
    from contextgrid.generate import Answer as Answer
    from contextgrid.generate import AnswerScore as AnswerScore
    from contextgrid.generate import ExtractiveGenerator as ExtractiveGenerator
    from contextgrid.generate import GenerationReport as GenerationReport
    from contextgrid.generate import Generator as Generator
    from contextgrid.generate import LLMGenerator as LLMGenerator
    from contextgrid.generate import score_answer as score_answer
    from contextgrid.generate.lift import LiftReport as LiftReport
    from contextgrid.generate.lift import lift as lift
    from contextgrid.generate.lift import lift_report as lift_report
    from contextgrid.grid.experiment import Experiment as Experiment
    from contextgrid.grid.runner import Runner as Runner
    from contextgrid.lab import Lab as Lab
    from contextgrid.pipeline import Config as Config
    from contextgrid.pipeline import Pipeline as Pipeline
    from contextgrid.pipeline import build as build
    from contextgrid.report.results import Results as Results
    from contextgrid.report.results import RunResult as RunResult
    from contextgrid.settings import RunSettings as RunSettings

_HOMES = {
    "Answer": "generate",
    "AnswerScore": "generate",
    "AssembledContext": "assemble.context",
    "Chunk": "core.documents",
    "Config": "pipeline",
    "ContextAssembler": "assemble.context",
    "ContextGridError": "core.errors",
    "Corpus": "corpus",
    "Document": "core.documents",
    "EvalItem": "core.evalset",
    "EvalSet": "core.evalset",
    "Experiment": "grid.experiment",
    "ExtractiveGenerator": "generate",
    "GenerationReport": "generate",
    "Generator": "generate",
    "GoldAnchor": "core.evalset",
    "GoldSpan": "core.evalset",
    "LLM": "evalset.llm",
    "LLMError": "evalset.llm",
    "LLMGenerator": "generate",
    "Lab": "lab",
    "LiftReport": "generate.lift",
    "MediaType": "core.documents",
    "Pipeline": "pipeline",
    "RecordingLLM": "evalset.llm",
    "Results": "report.results",
    "RunResult": "report.results",
    "RunSettings": "settings",
    "Runner": "grid.runner",
    "Span": "core.span",
    "build": "pipeline",
    "get_llm": "evalset.llm",
    "lift": "generate.lift",
    "lift_report": "generate.lift",
    "load_evalset": "evalset",
    "resolve_evalset": "evalset",
    "score_answer": "generate",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("contextgrid-dagster")
    if name not in _HOMES:
        raise AttributeError(f"module 'contextgrid' has no attribute {name!r}")
    value = getattr(import_module(f"contextgrid.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
