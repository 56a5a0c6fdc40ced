"""Small charts as SVG text: a lift with its intervals, the split of its questions, and the leaderboard.

They are kept short because a page of Dagster shows a picture only inside Markdown of less than a thousand characters.
Grey text and a transparent ground read on a light page and on a dark one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from itertools import cycle
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from contextgrid.report.findings import short_names

if TYPE_CHECKING:
    import pyarrow as pa

    from contextgrid.generate.lift import Difference, LiftReport

_ROSE, _FELL, _NOISE = "seagreen", "crimson", "gray"
_PARTS = {
    "gain_converted": ("converted", "seagreen"),
    "gain_wasted": ("wasted", "orange"),
    "gain_unexplained": ("unexplained", "steelblue"),
    "loss": ("loss", "crimson"),
    "unchanged": ("unchanged", "silver"),
    "not_compared": ("not compared", "gray"),
}
_COLUMNS = ("teal", "orange", "orchid", "steelblue", "crimson", "olive")
_LONGEST_LABEL = 24
_STEPS = (1, 2, 5)

# Left and right end of the drawing of a lift, and of the leaderboard with its top and bottom.
_LIFT_LEFT, _LIFT_RIGHT = 120, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 20, 196, 12, 90


def lift_chart(report: LiftReport) -> str | None:
    """Both differences to the baseline with their 95 % intervals; coloured where they are beyond noise.

    ``None`` for the baseline itself and where nothing could be compared.
    """
    sides = [(report.headline, report.retrieval), (report.answer_metric, report.answer)]
    measured = [side for _, side in sides if side.difference is not None]
    if report.is_baseline or not measured:
        return None
    ends = [end for side in measured for end in (side.low, side.difference, side.high) if end is not None]
    low, high, ticks = _axis([*ends, 0.0])

    def x(value: float) -> int:
        return round(_LIFT_LEFT + (value - low) / (high - low) * (_LIFT_RIGHT - _LIFT_LEFT))

    grid = "".join(f"M{x(tick)} 4v48" for tick in ticks if tick)
    parts = [f"<path stroke='silver' d='{grid}'/>", f"<path stroke='gray' d='M{x(0)} 4v48'/>"]
    for y, (name, side) in zip((16, 40), sides, strict=True):
        parts.append(f"<text y='{y + 4}'>{_label(name)}</text>")
        if side.difference is not None:
            parts.append(_whisker(side, x, y))
    numbers = "".join(f"<text x='{x(tick)}' y='66'>{tick:+g}</text>" if tick else _zero(x(0)) for tick in ticks)
    return _svg("width='430' height='70'", "11px", "".join(parts) + f"<g text-anchor='middle'>{numbers}</g>")


def split_chart(report: LiftReport) -> str | None:
    """What became of the questions, as one bar; ``None`` for the baseline itself and where nothing was compared."""
    counts = {part: len(getattr(report, part)) for part in _PARTS}
    total = sum(counts.values())
    if report.is_baseline or report.reason is not None or not total:
        return None
    bar, names, at, shown = "", "", 0.0, 0
    for part, (name, colour) in _PARTS.items():
        if not counts[part]:
            continue
        width, x, y = counts[part] / total * 400, shown % 3 * 135, 34 + shown // 3 * 16
        # Its share of the bar, and a square before its name.
        bar += f"<path stroke='{colour}' d='M{at:.0f} 8h{width:.0f}M{x} {y}h10'/>"
        names += f"<text x='{x + 14}' y='{y + 4}'>{counts[part]} {name}</text>"
        at, shown = at + width, shown + 1
    return _svg("width='400' height='56'", "11px", f"<g stroke-width='10'>{bar}</g>{names}")


def leaderboard_chart(leaderboard: pa.Table, generation: str | None = None) -> str | None:
    """Every cell by its retrieval score (across) and its answer score (up), one colour for each generation.

    Strong dots cannot be told from the best cell. The dashed line stands at the baseline row's retrieval score.

    Args:
        leaderboard: schema ``tables.LEADERBOARD``.
        generation: column key of the cells to draw, on the axes of all; by default all are drawn.

    Returns:
        SVG, or ``None`` where nothing is generated or no cell has both scores.
    """
    lines = [
        line
        for line in leaderboard.select(_DRAWN).to_pylist()
        if line["retrieval_score"] is not None and line["answer_score"] is not None
    ]
    if not lines:
        return None
    left, right, across = _axis([line["retrieval_score"] for line in lines])
    low, high, up = _axis([line["answer_score"] for line in lines])

    def at(line: dict[str, Any]) -> tuple[int, int]:
        x = _LEFT + (line["retrieval_score"] - left) / (right - left) * (_RIGHT - _LEFT)
        return round(x), round(_BOTTOM - (line["answer_score"] - low) / (high - low) * (_BOTTOM - _TOP))

    generations = list(dict.fromkeys(line["generation"] for line in lines))
    names = short_names(generations)
    colours = dict(zip(generations, cycle(_COLUMNS), strict=False))
    drawn = generations if generation is None else [generation]
    dots, legend = {True: "", False: ""}, ""
    for position, column in enumerate(drawn):
        for best in dots:
            points = sorted(at(line) for line in lines if line["generation"] == column and line["best"] is best)
            if points:
                dots[best] += f"<path stroke='{colours[column]}' d='{_dots(points)}'/>"
        legend += f"<text x='20' y='{114 + position * 8}' fill='{colours[column]}'>{_label(names[column])}</text>"
    parts = [f"<path stroke='silver' stroke-width='.5' fill='none' d='M{_LEFT} {_TOP}V{_BOTTOM}H{_RIGHT}'/>"]
    if baseline := next((at(line)[0] for line in lines if line["baseline"]), None):
        parts.append(f"<path stroke='gray' stroke-width='.5' stroke-dasharray='2' d='M{baseline} {_TOP}V{_BOTTOM}'/>")
    parts += [f"<text y='7'>{_label(lines[0]['answer_metric'])}</text>"]
    parts += [f"<text y='{y}'>{value:g}</text>" for value, y in ((up[0], _BOTTOM + 2), (up[-1], _TOP + 2))]
    ends = "".join(f"<text x='{x}' y='98'>{value:g}</text>" for value, x in ((across[0], _LEFT), (across[-1], _RIGHT)))
    ends += f"<text x='{(_LEFT + _RIGHT) // 2}' y='104'>{_label(lines[0]['headline'])}</text>"
    parts.append(f"<g text-anchor='middle'>{ends}</g>{legend}")
    parts.append(f"<g stroke-width='4' stroke-linecap='round'><g opacity='.35'>{dots[False]}</g>{dots[True]}</g>")
    height = 110 + 8 * len(drawn)
    return _svg(f"viewBox='0 0 204 {height}' width='380'", "6px", "".join(parts))


_DRAWN = ["generation", "best", "baseline", "headline", "retrieval_score", "answer_metric", "answer_score"]


def as_markdown(svg: str, name: str) -> str:
    """A chart as an image in Markdown, complete in itself."""
    return f"![{name}](<data:image/svg+xml,{quote(svg, safe=_PLAIN)}>)"


# What may stand as it is in a data URL between angle brackets; & would be read as an entity of Markdown.
_PLAIN = " !'()*+,-./:;=?@_~"


def _whisker(side: Difference, x: Any, y: int) -> str:
    colour = {1: _ROSE, -1: _FELL}.get(side.direction, _NOISE)
    dot = f"<circle cx='{x(side.difference)}' cy='{y}' r='5' fill='{colour}'/>"
    if side.low is None or side.high is None:
        return dot
    return f"<path stroke='{colour}' stroke-width='3' d='M{x(side.low)} {y}H{x(side.high)}'/>{dot}"


def _dots(points: Sequence[tuple[int, int]]) -> str:
    """Lines of no length, which round ends make to dots; each relative to the one before, which is shorter."""
    path, before = "", (0, 0)
    for x, y in points:
        step = x - before[0], y - before[1]
        path += f"m{step[0]}{'' if step[1] < 0 else ' '}{step[1]}z"
        before = x, y
    return path


def _axis(values: Sequence[float]) -> tuple[float, float, list[float]]:
    """Ends of an axis around some values and its ticks, all multiples of a round step."""
    span = max(values) - min(values) or abs(values[0]) or 1.0
    size = 10 ** math.floor(math.log10(span / 4))
    step = next((size * factor for factor in _STEPS if span / (size * factor) <= 4), size * 10)
    first, last = math.floor(min(values) / step + 1e-9), math.ceil(max(values) / step - 1e-9)
    if first == last:
        first, last = first - 1, last + 1
    ticks = [round(step * position, 10) for position in range(first, last + 1)]
    return ticks[0], ticks[-1], ticks


def _zero(x: int) -> str:
    return f"<text x='{x}' y='66'>0</text>"


def _label(text: str) -> str:
    line = " ".join(str(text).split())
    return escape(line if len(line) <= _LONGEST_LABEL else line[: _LONGEST_LABEL - 1] + "…")


def _svg(size: str, font: str, content: str) -> str:
    return f"<svg xmlns='http://www.w3.org/2000/svg' {size} style='font:{font} arial' fill='gray'>{content}</svg>"
