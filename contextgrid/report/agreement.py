"""How far scores agree with people, as a person reads it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from contextgrid.core.errors import ConfigError
from contextgrid.core.markup import as_text, for_terminal
from contextgrid.evalset.labels import LabelledAnswer, check_dimension, load_labels
from contextgrid.score.agreement import (
    Estimate,
    MetricAgreement,
    Ratings,
    agreement,
    middle_of_scale,
    rater_agreement,
)

if TYPE_CHECKING:
    from rich.console import Console

    from contextgrid.generate.answer_judges import AnswerJudges
    from contextgrid.generate.answer_scorers import Scorer

#: What stands before the name of a score that comes with the label file.
PUBLISHED = "judge."


@dataclass(frozen=True)
class AgreementReport:
    """How far scores agree with people's ratings of one dimension.

    Attributes:
        name: of the label file.
        dimension: what people rated.
        answers, questions: how many there are.
        systems: who answered; empty where the file does not say.
        rated: answers that have a rating.
        good: the mean rating at and above which an answer is good.
        metrics: best first. Scores that came with the file are called ``judge.<name>``.
        rater: one rater against the mean of the others, overall and within systems; ``None`` with a single rater.
        notes: what judges were asked, what that cost, and what they gave no score.
        problems: what is missing only because calls failed or the budget ended.
    """

    name: str
    dimension: str
    answers: int
    questions: int
    systems: tuple[str, ...]
    rated: int
    good: float
    metrics: tuple[MetricAgreement, ...]
    rater: tuple[Estimate, Estimate] | None
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def measured(self) -> tuple[MetricAgreement, ...]:
        """The metrics that scored at least one rated answer."""
        return tuple(metric for metric in self.metrics if metric.n)

    def sentences(self) -> list[str]:
        """What the table means."""
        return [*self._about_the_data(), *self._about_the_best(), *self._gaps(), *self.notes]

    def to_markdown(self) -> str:
        """The table, the correlation within each system, and the sentences."""
        lines = [f"# Agreement with people: {as_text(self.name)}, {as_text(self.dimension)}", ""]
        lines += _markdown_table([_HEADER, *map(_cells, self.measured)])
        if len(self.systems) > 1:
            lines += ["", "Spearman's correlation by system:", ""]
            rows = [
                [metric.metric, *(_value(metric.systems.get(name)) for name in self.systems)]
                for metric in self.measured
            ]
            lines += _markdown_table([["metric", *self.systems], *rows])
        lines += ["", *(f"- {as_text(sentence)}" for sentence in (*self.sentences(), *LEGEND))]
        return "\n".join(lines) + "\n"

    def _about_the_data(self) -> list[str]:
        by = f" by {len(self.systems)} systems" if len(self.systems) > 1 else ""
        share = [metric.base_rate for metric in self.measured if metric.n == self.rated]
        sentences = [
            f"Rated for {self.dimension}: {self.rated} of {_count(self.answers, 'answer')}{by} to "
            f"{_count(self.questions, 'question')}. Good means rated {self.good:g} or more on average"
            + (f"; {share[0]:.0%} are." if share and share[0] is not None else ".")
        ]
        if self.rater is not None:
            overall, within = self.rater
            sentences.append(
                f"Yardstick: one rater agrees with the mean of the others at {_interval(overall)} overall"
                + (f" and {_interval(within)} within systems." if within.value is not None else ".")
            )
        absent = [metric.metric for metric in self.metrics if not metric.n]
        if absent:
            sentences.append(f"Not measured, because no rated answer has a value: {', '.join(absent)}.")
        return sentences

    def _about_the_best(self) -> list[str]:
        if not self.measured:
            return ["No score could be held against the ratings."]
        best = self.measured[0]
        if best.within.value is None:
            if best.overall.value is None:
                return ["Scores or ratings do not vary, or are too few: there is no agreement to measure."]
            return [f"{best.metric} agrees best with people, overall at {_interval(best.overall)}."]
        spread = ", ".join(f"{name} {value:.2f}" for name, value in best.systems.items() if value is not None)
        return [f"{best.metric} agrees best with people within systems: {_interval(best.within)} ({spread})."]

    def _gaps(self) -> list[str]:
        best = self.measured[0] if self.measured else None
        sentences = []
        for metric in self.measured[1:]:
            if best is None or metric.behind is None or metric.behind.value is None:
                continue
            if metric.behind.low is None:
                verdict = "too few questions to tell"
            else:
                verdict = "cannot be told from it" if metric.like_the_best else "agrees less"
            sentences.append(f"{metric.metric} is {_interval(metric.behind)} below {best.metric}: {verdict}.")
        return sentences


LEGEND = (
    "= cannot be told from the best: the interval of the difference on the answers that both scored holds 0.",
    "Within systems: mean of the Spearman correlations of the systems that have scores. Overall also counts "
    "differences between systems, which can pass for agreement. Intervals: 95 %, bootstrap over questions.",
    "Balanced: mean of the shares of good and of bad answers on the right side of the best threshold; chance is 0.50. "
    "It is optimistic, since the threshold was chosen on the same answers; held out, it was chosen on other questions.",
    "Base: share of good answers among the n. Scores of unequal n were not given to the same answers.",
)
_HEADER = ["", "metric", "n of N", "within systems", "overall", "balanced", "held out", "base"]


def agreement_report(
    file: str | os.PathLike[str],
    *,
    dimension: str = "faithfulness",
    good: float | None = None,
    scorers: Mapping[str, Scorer] | None = None,
    judges: AnswerJudges | None = None,
    resamples: int = 2_000,
) -> AgreementReport:
    """Hold scores against the ratings in a label file (:func:`contextgrid.evalset.labels.load_labels`).

    Args:
        file: the label file.
        dimension: which ratings.
        good: the mean rating at and above which an answer is good; by default the middle of the scale in use.
        scorers: the metrics; by default those that need no model.
        judges: further metrics, scored by a model; it is asked about rated answers only.
        resamples: of the bootstrap.

    Raises:
        EvalSetError: for a malformed file, or a dimension that nobody rated.
        ConfigError: for a ``good`` that is not a number.
        StageError: if a replay does not hold a judge's call.
    """
    from contextgrid.generate.answer_scorers import LEXICAL

    answers = load_labels(file)
    check_dimension(answers, dimension, file)
    human = [answer.human.get(dimension, ()) for answer in answers]
    if good is None:
        good = middle_of_scale(human)
    if good is None or not np.isfinite(good):
        raise ConfigError(f"good must be a rating, got {good}")
    ratings = Ratings(
        ratings=np.array([answer.rating(dimension) for answer in answers], dtype=np.float64),
        questions=[answer.question_id for answer in answers],
        systems=[answer.model for answer in answers],
        good=good,
    )
    rated = [position for position, rating in enumerate(ratings.ratings) if np.isfinite(rating)]
    judged = None if judges is None else judges.judge([answers[position] for position in rated])
    scores = _scores(answers, LEXICAL if scorers is None else scorers)
    for name, values in ({} if judged is None else judged.scores).items():
        by_position = dict(zip(rated, values, strict=True))
        scores[name] = [by_position.get(position) for position in range(len(answers))]
    found = agreement(scores, ratings, resamples=resamples)
    return AgreementReport(
        name=Path(file).name,
        dimension=dimension,
        answers=len(answers),
        questions=len(set(ratings.questions)),
        systems=tuple(sorted({system for system in ratings.systems if system is not None})),
        rated=len(rated),
        good=good,
        metrics=tuple(found),
        rater=rater_agreement(human, ratings, resamples=resamples),
        notes=() if judged is None else judged.notes,
        problems=() if judged is None else judged.problems,
    )


def print_agreement(console: Console, report: AgreementReport) -> None:
    """The table and what it means."""
    from rich.table import Table

    title = f"Agreement with people: {report.name}, {report.dimension}"
    table = Table(title=for_terminal(title), title_justify="left", box=None, padding=(0, 1, 0, 0))
    for name in _HEADER:
        first = name == "metric"
        table.add_column(name, justify="left" if first else "right", overflow="fold", min_width=14 if first else None)
    for position, metric in enumerate(report.measured):
        table.add_row(*map(for_terminal, _cells(metric)), style="bold" if not position else None)
    console.print(table)
    for sentence in report.sentences():
        console.print(f"- {for_terminal(sentence)}", highlight=False)
    for line in LEGEND:
        console.print(for_terminal(line), style="dim", highlight=False)


def check_output(path: Path) -> None:
    """Refuse a file to write to that is not named as Markdown, before anything is computed."""
    if path.suffix.lower() not in (".md", ".markdown"):
        raise ConfigError(f"output {path}: the report is written as Markdown; name the file .md")


def write_agreement(report: AgreementReport, path: Path) -> None:
    """Write the report as Markdown.

    Raises:
        ConfigError: if the file cannot be written, or is not named as Markdown.
    """
    check_output(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(report.to_markdown(), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"output {path}: cannot be written ({error.strerror}); choose another place") from error


def _scores(answers: tuple[LabelledAnswer, ...], scorers: Mapping[str, Scorer]) -> dict[str, list[float | None]]:
    scores = {name: [scorer(answer) for answer in answers] for name, scorer in scorers.items()}
    published = dict.fromkeys(name for answer in answers for name in answer.judge)
    return scores | {f"{PUBLISHED}{name}": [answer.judge.get(name) for answer in answers] for name in published}


def _cells(metric: MetricAgreement) -> list[str]:
    return [
        "=" if metric.like_the_best else "",
        metric.metric,
        f"{metric.n} of {metric.total}",
        _interval(metric.within),
        _interval(metric.overall),
        _value(metric.balanced_accuracy),
        _value(metric.held_out),
        _value(metric.base_rate),
    ]


def _markdown_table(rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(as_text(cell) for cell in row) + " |" for row in rows]
    return [lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _value(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return _value(estimate.value)
    return f"{_value(estimate.value)} [{estimate.low:.2f}, {estimate.high:.2f}]"
