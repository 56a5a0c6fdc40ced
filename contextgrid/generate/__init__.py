"""From retrieved passages to answers, their scores, and whether a retrieval gain survived to them."""

from contextgrid.generate.abstention import is_abstention
from contextgrid.generate.answer import Answer
from contextgrid.generate.base import (
    GENERATORS,
    MODEL_BACKED,
    Generator,
    available_generators,
    check_generator,
    get_generator,
)
from contextgrid.generate.extractive import ExtractiveGenerator
from contextgrid.generate.judge import GenerationJudge, JudgedAnswer, JudgeError, available_generation_metrics

# Imported here and not on demand: the function has to replace the module of the same name for good.
from contextgrid.generate.lift import LiftReport, lift
from contextgrid.generate.llm import LLMGenerator
from contextgrid.generate.prompts import DEFAULT_PROMPT
from contextgrid.generate.scores import AnswerScore, GenerationReport, score_answer

__all__ = [
    "DEFAULT_PROMPT",
    "GENERATORS",
    "MODEL_BACKED",
    "Answer",
    "AnswerScore",
    "ExtractiveGenerator",
    "GenerationJudge",
    "GenerationReport",
    "Generator",
    "JudgeError",
    "JudgedAnswer",
    "LLMGenerator",
    "LiftReport",
    "available_generation_metrics",
    "available_generators",
    "check_generator",
    "get_generator",
    "is_abstention",
    "lift",
    "score_answer",
]
