"""Reports as HTML pages that are complete in themselves: a lift report, and the leaderboard.

Everything that comes from questions, documents and names is escaped by the templates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from contextgrid.report.charts import leaderboard_chart, lift_chart, split_chart
from contextgrid.report.findings import short_names

if TYPE_CHECKING:
    import pyarrow as pa
    from jinja2 import Environment

    from contextgrid.generate.lift import LiftReport


def lift_page(report: LiftReport) -> str:
    """A lift report with its charts, both differences and the ids of all questions by what became of them."""
    return _render(
        "lift.html.jinja",
        title=f"Lift of {report.cell}",
        report=report,
        differences=_drawing(lift_chart(report)),
        split=_drawing(split_chart(report)),
        scores=report.score_rows(),
        parts=[{"name": part.replace("_", " "), "ids": ids} for part, ids in report.parts().items()],
    )


def leaderboard_page(
    leaderboard: pa.Table,
    sentences: Sequence[str],
    title: str,
    *,
    links: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
) -> str:
    """The leaderboard with what it says and a chart.

    Args:
        leaderboard: schema ``tables.LEADERBOARD``.
        sentences: the findings.
        links: relative addresses of lift reports by cell key (``generation|retrieval``).
        notes: what a reader has to know besides.
    """
    lines = leaderboard.drop_columns(["metrics"]).to_pylist()
    rows, columns = (short_names([line[side] for line in lines]) for side in ("retrieval", "generation"))
    first = lines[0] if lines else {"headline": "retrieval", "answer_metric": None}
    return _render(
        "leaderboard.html.jinja",
        title=title,
        sentences=sentences,
        chart=_drawing(leaderboard_chart(leaderboard)),
        headline=first["headline"],
        answers=first["answer_metric"],
        rows=[_row(line, rows, columns, links or {}) for line in lines],
        notes=notes,
    )


def _row(
    line: Mapping[str, Any], rows: Mapping[str, str], columns: Mapping[str, str], links: Mapping[str, str]
) -> dict[str, Any]:
    low, high = line["answer_low"], line["answer_high"]
    return {
        "rank": line["rank"],
        "best": line["best"],
        "baseline": line["baseline"],
        "retrieval": rows[line["retrieval"]],
        "generation": columns.get(line["generation"], ""),
        "link": links.get(f"{line['generation']}|{line['retrieval']}"),
        "retrieval_score": _score(line["retrieval_score"], line["retrieval_n"], line["questions"]),
        "answer_score": _score(line["answer_score"], line["answer_n"], line["questions"]),
        "gain": "-" if line["answer_gain"] is None else f"{line['answer_gain']:+.3f}",
        "interval": "-" if low is None or high is None else f"[{low:+.3f}, {high:+.3f}]",
        "p": "-" if line["p_value"] is None else f"{line['p_value']:.3f}",
    }


def _score(value: float | None, n: int | None, total: int | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if n == total else f"{value:.3f} (n={n} of {total})"


def _drawing(svg: str | None) -> object:
    from markupsafe import Markup

    return Markup(svg) if svg else None


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(loader=PackageLoader("contextgrid.report"), autoescape=True, undefined=StrictUndefined)


def _render(template: str, **values: Any) -> str:
    return _templates().get_template(template).render(**values)
