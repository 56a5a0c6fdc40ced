"""What a check found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from contextgrid.checks.settings import Check, Severity, ShareCheck

_IDS_SHOWN = 5


class Outcome(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    ABSENT = "nothing to measure"  # counts as passed, with the reason


@dataclass(frozen=True)
class Finding:
    """A sentence about what was measured, without a full stop, and the questions it is about.

    ``more`` is whether it is worth saying that there are more of these questions than are named.
    """

    sentence: str
    question_ids: Sequence[str] = ()
    more: bool = True

    def describe(self, show: Callable[[str], str] = str) -> str:
        """The sentence with the first few question ids, which are passed through ``show``."""
        if not self.question_ids:
            return self.sentence
        named = ", ".join(show(id_) for id_ in self.question_ids[:_IDS_SHOWN])
        return f"{self.sentence}: {named}" + (" ..." if self.more and len(self.question_ids) > _IDS_SHOWN else "")


@dataclass(frozen=True)
class Verdict:
    """The outcome of one check of one partition.

    Attributes:
        check: name of the check.
        severity: how bad a failure is.
        found: what was measured, against which threshold.
        measured: the numbers behind it, by name.
    """

    check: str
    outcome: Outcome
    severity: Severity
    found: tuple[Finding, ...]
    measured: Mapping[str, float] = field(default_factory=dict)

    @property
    def description(self) -> str:
        """All findings with the first few question ids; no texts."""
        return self.describe(str)

    def describe(self, show: Callable[[str], str]) -> str:
        """The description with question ids passed through ``show``, for where markup would be rendered."""
        return "; ".join(finding.describe(show) for finding in self.found)

    @property
    def passed(self) -> bool:
        """Whether there is nothing to object to."""
        return self.outcome is not Outcome.FAILED


@dataclass(frozen=True)
class Share:
    """How many of the things that count are as they should be.

    Attributes:
        what: the things and how they should be, for words: ``questions are answered``.
        good, of: how many are, of how many.
        others: ids of the questions of those that are not.
        absent: why there is nothing to count, where ``of`` is 0.
        note: what else a reader should know.
    """

    what: str
    good: int
    of: int
    others: Sequence[str] = ()
    absent: str = ""
    note: str = ""

    @property
    def value(self) -> float | None:
        """The share, 0 to 1; ``None`` if there is nothing to count."""
        return self.good / self.of if self.of else None

    def __str__(self) -> str:
        if not self.of:
            return self.absent
        stated = f"{self.good} of {self.of} {self.what}"
        return f"{stated} ({self.note})" if self.note else stated


def share_verdict(check: str, share: Share, settings: ShareCheck) -> Verdict:
    """Whether a share is large enough."""
    value = share.value
    if value is None:
        return absent(check, settings, share.absent)
    measured = {"share": value, "counted": float(share.of), "min_share": settings.min_share}
    if value >= settings.min_share:
        return Verdict(check, Outcome.PASSED, settings.severity, (Finding(str(share)),), measured)
    sentence = f"{share}, a share of {value:.3g}; at least {settings.min_share:g} wanted"
    return Verdict(check, Outcome.FAILED, settings.severity, (Finding(sentence, share.others),), measured)


def all_of(verdicts: Mapping[str, Verdict]) -> Verdict:
    """One verdict for several of the same check, by what each is about: failed if any failed.

    Its numbers carry that name; it tells of the failures alone where there are any.
    """
    first = next(iter(verdicts.values()))
    outcomes = {verdict.outcome for verdict in verdicts.values()}
    outcome = next(outcome for outcome in (Outcome.FAILED, Outcome.PASSED, Outcome.ABSENT) if outcome in outcomes)
    told = [verdict for verdict in verdicts.values() if outcome in (verdict.outcome, Outcome.PASSED)]
    found = tuple(finding for verdict in told for finding in verdict.found)
    measured = {f"{name}_{part}": n for name, verdict in verdicts.items() for part, n in verdict.measured.items()}
    return Verdict(first.check, outcome, first.severity, found, measured)


def absent(check: str, settings: Check, reason: str) -> Verdict:
    """The verdict of a check that has nothing to measure."""
    return Verdict(check, Outcome.ABSENT, settings.severity, (Finding(reason),))
