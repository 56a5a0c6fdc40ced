"""What many lift reports say together, in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from contextgrid.core.axes import values_of
from contextgrid.core.markup import counted
from contextgrid.generate.lift import ALPHA, LiftReport
from contextgrid.score.statistics import holm

_SHOWN = 0.0005  # a smaller gain reads as 0.000
_NAMED = 3  # cells that a sentence names


def findings(lifts: Mapping[str, LiftReport]) -> list[str]:
    """The lift reports in sentences: how many came out how, then each column's best row."""
    compared = [report for report in lifts.values() if not report.is_baseline]
    if not compared:
        return []
    whose = "its" if len(compared) == 1 else "their"
    sentences = [f"{counted(len(compared), 'cell')} compared with {whose} baseline, each by itself:"]
    conclusions = Counter(report.conclusion for report in compared)
    sentences += [f"{count} of {len(compared)}: {conclusion}." for conclusion, count in conclusions.most_common()]
    rows = short_names([report.cell.partition("|")[2] for report in lifts.values()])
    columns = short_names([report.cell.partition("|")[0] for report in lifts.values()])
    shown = [report for report in compared if report.answer.direction]
    if shown:
        cells = [tuple(report.cell.partition("|")[::2]) for report in sorted(shown, key=_p)]
        named = ", ".join(f"{columns[column]} on {rows[row]}" for column, row in cells[:_NAMED])
        more = f", and {len(cells) - _NAMED} more" if len(cells) > _NAMED else ""
        kept = sum(adjusted <= ALPHA for adjusted in holm([_p(report) for report in compared]))
        sentences.append(
            f"Answer changes beyond noise: {len(shown)} ({named}{more}), of which {kept} when corrected for"
            f" {len(compared)} comparisons"
            f" (Holm){'' if kept else ': take them for candidates and test them on more questions'}."
        )
    by_column: dict[str, list[LiftReport]] = {}
    for report in compared:
        by_column.setdefault(report.cell.partition("|")[0], []).append(report)
    for column in sorted(by_column):
        best = max(by_column[column], key=_gain)
        row = rows[best.cell.partition("|")[2]]
        gained = _gain(best) >= _SHOWN
        said = (
            f"the answers gain most from {row}. {best.verdict}"
            if gained
            else "no row's answers gain on the baseline's."
        )
        sentences.append(f"{columns[column]}: {said}")
    return sentences


def _gain(report: LiftReport) -> float:
    return float("-inf") if report.answer.difference is None else report.answer.difference


def _p(report: LiftReport) -> float:
    # What could not be compared is no evidence of a change.
    return 1.0 if report.answer.p is None else report.answer.p


def short_names(keys: Sequence[str | None]) -> dict[str, str]:
    """Partition keys as a reader needs them: without the axis values that all longer ones share."""
    parts = {key: values_of(key) for key in keys if key is not None}
    longer = [set(found) for found in parts.values() if len(found) > 1]
    shared = set.intersection(*longer) if len(longer) > 1 else set()
    return {key: " ".join(part for part in found if part not in shared) or key for key, found in parts.items()}
