"""How a grid is run: depths, metrics, baseline, seeds. The ``run`` section of an experiment file."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from contextgrid.score.retrieval import parse_metric

# Numeric columns of the lexical scores that an experiment may compare answers by.
ANSWER_METRICS = (
    "answer_quality",
    "groundedness",
    "citation_accuracy",
    "evidence_overlap",
    "abstention_correct",
    "citation_precision",
    "citation_recall",
)


class Strict(BaseModel):
    """A section of the experiment file that refuses keys it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


class RunSettings(Strict):
    """The ``run`` section.

    Attributes:
        mode: ``factorial`` combines all values of the axes, ``ofat`` varies one axis at a time.
        k: passages handed to the generator.
        cutoffs: ranks at which retrieval is scored.
        headline: the retrieval metric that the lift is about.
        answer_metric: the per-question answer score that the lift is about.
        baseline: axis values of the row that the others are compared with; by default the first of each axis.
        model: the model of model-backed generators where the grid does not vary it.
        seed: seeds every resampling.
        resamples: draws of the bootstrap and of the permutation test.
        ordering: how passages are ordered in the context.
        context_tokens: budget of the assembled context, in estimated tokens; whole passages are dropped.
        max_tokens: cap on the length of a model's answer.
    """

    mode: Literal["factorial", "ofat"] = "factorial"
    k: int = Field(default=5, ge=1)
    cutoffs: tuple[int, ...] = (1, 3, 5, 10)
    headline: str = "recall@5"
    answer_metric: str = "answer_quality"
    baseline: dict[str, str | int | None] = Field(default_factory=dict)
    model: str | None = None
    seed: int = 0
    resamples: int = Field(default=10_000, ge=100, le=1_000_000)
    ordering: Literal["relevance", "ends", "document", "reversed"] = "relevance"
    context_tokens: int | None = Field(default=None, ge=1)
    max_tokens: int = Field(default=400, ge=1)

    @field_validator("cutoffs")
    @classmethod
    def _distinct_positive(cls, cutoffs: tuple[int, ...]) -> tuple[int, ...]:
        if not cutoffs or min(cutoffs) < 1:
            raise ValueError("cut-offs must be whole numbers of at least 1")
        if len(set(cutoffs)) < len(cutoffs):
            raise ValueError("a cut-off is listed twice")
        return cutoffs

    @model_validator(mode="after")
    def _known_metrics(self) -> RunSettings:
        parse_metric(self.headline)
        if self.answer_metric not in ANSWER_METRICS:
            raise ValueError(f"answer_metric must be one of {', '.join(ANSWER_METRICS)}; got {self.answer_metric!r}")
        return self

    @property
    def scored_cutoffs(self) -> tuple[int, ...]:
        """The cut-offs to score at, the headline's included, ascending."""
        return tuple(sorted({*self.cutoffs, parse_metric(self.headline)[1]}))

    @property
    def depth(self) -> int:
        """How many ranks are kept: enough for the generator and for every cut-off."""
        return max(self.k, *self.scored_cutoffs)
