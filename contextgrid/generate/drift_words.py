"""Drift in words and in Markdown. Ids of questions are shown, their texts and answers never."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from contextgrid.core.markup import as_text

if TYPE_CHECKING:
    from contextgrid.generate.drift import Aspect, DriftReport

_IN_SENTENCE, _IN_TABLE = 5, 20
_LONGEST_ID = 40

Show = Callable[[object], str]


def sentence_of(report: DriftReport, show: Show = str) -> str:
    """One sentence: whether there is drift, in which questions, and what it did to the scores.

    Args:
        show: what names, ids and reasons are passed through.
    """
    if report.reason is not None:
        return f"Not compared: {show(report.reason.rstrip('.'))}."
    if not report.was_compared:
        why = _counted(report.answers, show) or "there are no questions"
        return f"Not compared: {why}."
    found = [_answers(report, show), *_metrics(report, show)]
    if report.answers.not_compared:
        left_out = len(report.answers.not_compared)
        why = _counted(report.answers, show)
        found.append(f"{left_out} of {left_out + len(report.answers.compared)} questions not compared ({why})")
    return f"{'Drift' if report.drifted else 'No drift'}: {'; '.join(found)}."


def markdown_of(report: DriftReport) -> str:
    """The sentence, a line for each comparison, and which questions it is about."""
    lines = [sentence_of(report, as_text)]
    if report.since is not None:
        asked = "once" if report.repetitions == 1 else f"{report.repetitions} times"
        lines += ["", f"Compared with the answers of {report.since:%Y-%m-%d %H:%M %Z}. Questions were asked {asked}."]
    if report.reason is not None:
        return "\n".join(lines) + "\n"
    # Dagster shows this in a narrow column; the other figures are in the table of the report.
    lines += [
        "",
        "| compared | questions | changed | before | now | difference, 95 % interval |",
        "| :-- | --: | --: | --: | --: | :-- |",
        *(_line(aspect) for aspect in (report.answers, *report.metrics)),
    ]
    questions = list(_questions(report))
    if questions:
        lines += ["", "| questions | count | ids |", "| :-- | --: | :-- |"]
        lines += [f"| {as_text(what)} | {len(ids)} | {_ids(ids, as_text, _IN_TABLE)} |" for what, ids in questions]
    return "\n".join(lines) + "\n"


def _answers(report: DriftReport, show: Show) -> str:
    answers = report.answers
    if not answers.changed:
        scores = " and none of their scores" if _nothing_moved(report) else ""
        said = f"none of {len(answers.compared)} answers{scores} changed"
    else:
        verb = f"of {len(answers.compared)} answers changed"
        said = f"{len(answers.changed)} {verb} ({_ids(answers.changed, show, _IN_SENTENCE)})"
    if answers.unstable:
        said += f", {len(answers.unstable)} differ between the {report.repetitions} repetitions"
        said += f" ({_ids(answers.unstable, show, _IN_SENTENCE)})"
    return said


def _nothing_moved(report: DriftReport) -> bool:
    metrics = report.metrics
    return bool(metrics) and all(m.compared and not (m.changed or m.unstable or m.direction) for m in metrics)


def _metrics(report: DriftReport, show: Show) -> Iterator[str]:
    moved = bool(report.answers.changed or report.answers.unstable)
    left_out: dict[str, list[str]] = {}
    for position, metric in enumerate(report.metrics):
        name = show(metric.name)
        if not metric.compared:
            why = _counted(metric, show)
            reason = f", as {show(metric.reason.rstrip('.'))}" if metric.reason else f" ({why})" if why else ""
            left_out.setdefault(reason, []).append(name)
            continue
        otherwise = report.judged_otherwise(metric)
        if otherwise:
            what = "1 unchanged answer" if len(otherwise) == 1 else f"{len(otherwise)} unchanged answers"
            yield f"{name} now judges {what} otherwise ({_ids(otherwise, show, _IN_SENTENCE)})"
        if metric.direction or otherwise or (moved and position == 0):
            yield f"{name} {_shift(metric)}"
    for reason, names in left_out.items():
        yield f"{' and '.join(names)} not compared{reason}"


def _shift(metric: Aspect) -> str:
    shift = metric.difference
    if shift is None or shift.difference is None:
        return "has no score before and now to compare"
    if metric.direction:
        return str(shift)
    if not round(shift.difference, 9) and shift.low == shift.high:
        return "did not change"
    if shift.low is None:
        return f"changed by {_signed(shift.difference)} over one question"
    return f"changed by {_signed(shift.difference)} {shift.interval}, within noise"


def _line(aspect: Aspect) -> str:
    shift, name = aspect.difference, as_text(aspect.name)
    if aspect.reason is not None:
        return f"| {name} | | | | | not compared: {as_text(aspect.reason)} |"
    compared, total = len(aspect.compared), len(aspect.compared) + len(aspect.not_compared)
    counts = f"{compared} of {total}" if compared < total else str(total)
    line = f"| {name} | {counts} | {len(aspect.changed)} |"
    if shift is None or shift.difference is None:
        return f"{line} | | |"
    return f"{line} {shift.baseline:.3f} | {shift.cell:.3f} | {_signed(shift.difference)} {shift.interval} |"


def _questions(report: DriftReport) -> Iterator[tuple[str, Sequence[str]]]:
    """What can be said of single questions, with their ids, where there are any."""
    found: list[tuple[str, Sequence[str]]] = [
        ("answer changed", report.answers.changed),
        ("answer differs between repetitions", report.answers.unstable),
    ]
    for metric in report.metrics:
        found.append((f"{metric.name}: unchanged answer judged otherwise", report.judged_otherwise(metric)))
    found += [(f"not compared: {why}", ids) for why, ids in _by_reason(report.answers).items()]
    yield from ((what, ids) for what, ids in found if ids)


def _counted(aspect: Aspect, show: Show) -> str:
    return ", ".join(f"{len(ids)} {show(reason)}" for reason, ids in _by_reason(aspect).items())


def _by_reason(aspect: Aspect) -> dict[str, list[str]]:
    by_reason: dict[str, list[str]] = {}
    for question, why in aspect.not_compared.items():
        by_reason.setdefault(why, []).append(question)
    return by_reason


def _ids(ids: Sequence[str], show: Show, most: int) -> str:
    shown = [show(id_ if len(id_) <= _LONGEST_ID else f"{id_[: _LONGEST_ID - 1]}…") for id_ in ids[:most]]
    return ", ".join(shown) + (f" and {len(ids) - most} more" if len(ids) > most else "")


def _signed(value: float) -> str:
    return f"{round(value, 3) + 0.0:+.3f}"
