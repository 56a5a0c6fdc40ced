"""Which checks a stage has, and their verdicts on one of its partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from contextgrid.checks import shares
from contextgrid.checks.answer_metric import FLOOR, REGRESSION, Change, floor_verdict, scored_by
from contextgrid.checks.settings import Check, CheckSettings, IndexNotEmpty, JudgeCoverage
from contextgrid.checks.verdict import Finding, Outcome, Verdict, absent, all_of, share_verdict
from contextgrid.settings import RunSettings


@dataclass(frozen=True)
class Built:
    """What the checks of a partition look at.

    Attributes:
        tables: its own table and those it was built from, by stage: all that ``READS`` names.
        passages: how many passages an index holds.
        change: the answer metric against the last materialisation's, for the stage that has it.
    """

    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    passages: int = 0
    change: Change | None = None


# The stages that have checks, and the tables that those look at.
READS: Mapping[str, tuple[str, ...]] = {
    "index": (),
    "retrieval_scores": ("retrieval_scores",),
    "answers": ("answers",),
    "lexical_scores": ("answers", "retrieval_scores", "lexical_scores"),
    "judge_scores": ("answers", "judge_scores"),
}


def checks_of(stage: str, settings: CheckSettings, run: RunSettings) -> dict[str, Check]:
    """The checks of a stage that are switched on, by name, with their settings."""
    names = [name for name, (owner, _) in _CHECKS.items() if (owner or scored_by(run)) == stage]
    found = {name: getattr(settings, name) for name in names}
    return {name: check for name, check in found.items() if check is not None}


def verdicts(stage: str, built: Built, settings: CheckSettings, run: RunSettings) -> list[Verdict]:
    """The verdict of every check of :func:`checks_of` on a partition of a stage."""
    return [_CHECKS[name][1](built, check, run) for name, check in checks_of(stage, settings, run).items()]


def _index_not_empty(built: Built, check: IndexNotEmpty, run: RunSettings) -> Verdict:
    measured = {"passages": float(built.passages), "min_passages": float(check.min_passages)}
    stated = f"the index holds {built.passages} passages"
    if built.passages >= check.min_passages:
        return Verdict("index_not_empty", Outcome.PASSED, check.severity, (Finding(stated),), measured)
    found = Finding(f"{stated}, at least {check.min_passages} wanted")
    return Verdict("index_not_empty", Outcome.FAILED, check.severity, (found,), measured)


def _share(name: str, *tables: str) -> Callable[[Built, Any, RunSettings], Verdict]:
    """A check that counts rows of some tables."""
    count = getattr(shares, name)
    return lambda built, check, run: share_verdict(name, count(*(built.tables[table] for table in tables)), check)


def _judge_coverage(built: Built, check: JudgeCoverage, run: RunSettings) -> Verdict:
    found = shares.judge_coverage(built.tables["judge_scores"], built.tables["answers"])
    by_metric = {metric: share_verdict("judge_coverage", share, check) for metric, share in found}
    if not by_metric:
        return absent("judge_coverage", check, "nothing was judged: this column has no judge, or DeepEval is missing")
    return all_of(by_metric)


def _regression(built: Built, check: Any, run: RunSettings) -> Verdict:
    change = built.change or Change(run.answer_metric, reason="nothing to compare with")
    return change.verdict(check)


def _floor(built: Built, check: Any, run: RunSettings) -> Verdict:
    return floor_verdict(built.tables[scored_by(run)], run, check)


# Each check with the stage it belongs to; without one, that is the stage that measures ``run.answer_metric``.
_CHECKS: dict[str, tuple[str | None, Callable[[Built, Any, RunSettings], Verdict]]] = {
    "index_not_empty": ("index", _index_not_empty),
    "anchors_resolved": ("retrieval_scores", _share("anchors_resolved", "retrieval_scores")),
    "questions_answered": ("answers", _share("questions_answered", "answers")),
    "unanswerable_declined": (
        "lexical_scores",
        _share("unanswerable_declined", "lexical_scores", "retrieval_scores"),
    ),
    "citations_valid": ("lexical_scores", _share("citations_valid", "answers")),
    "judge_coverage": ("judge_scores", _judge_coverage),
    REGRESSION: (None, _regression),
    FLOOR: (None, _floor),
}
