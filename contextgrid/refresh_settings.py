"""When answers are asked for afresh. The ``run.refresh`` section of an experiment file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any
from zoneinfo import ZoneInfo, available_timezones

from pydantic import BaseModel, ConfigDict, Field, field_validator

from contextgrid.core.errors import ConfigError
from contextgrid.core.registry import nearest

_EVERY = ("*",)


class RefreshSettings(BaseModel):
    """The ``run.refresh`` section: a schedule on which models answer and judge once more.

    It changes no result, and so is part of no version. Whether ``cron`` is a schedule is checked where it is used.

    Attributes:
        cron: when, as five fields of cron: minute, hour, day of the month, month, day of the week.
        timezone: the IANA time zone of those hours.
        columns: ``all``, or keys of generation configurations; they may hold ``*`` and ``?``.
        repetitions: how often everything is asked. Several tell a model that changed from one that never
            answers twice alike.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    cron: str
    timezone: str = "UTC"
    columns: tuple[str, ...] = _EVERY
    repetitions: Annotated[int, Field(strict=True, ge=1, le=100)] = 1

    @field_validator("cron")
    @classmethod
    def _five_fields(cls, cron: str) -> str:
        if len(cron.split()) != 5 and not cron.startswith("@"):
            raise ValueError(
                f"{cron!r} is no schedule; write five fields as cron has them: 0 4 * * 1 is Mondays at 4:00"
            )
        return cron

    @field_validator("timezone")
    @classmethod
    def _known_timezone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            close = nearest(name, available_timezones()) if name.strip() else ""
            mend = close if "did you mean" in close else "; write an IANA name, as Europe/Berlin"
            raise ValueError(f"no time zone {name!r}{mend}") from None
        return name

    @field_validator("columns", mode="before")
    @classmethod
    def _all_or_some(cls, columns: Any) -> Any:
        if columns == "all":
            return _EVERY
        some = [columns] if isinstance(columns, str) else columns
        if not isinstance(some, list | tuple) or not some or not all(isinstance(name, str) for name in some):
            raise ValueError("write all, or a list of column keys, which may hold * and ?")
        return tuple(some)


def matching(patterns: Iterable[str], columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that any of the patterns names, in their order.

    Raises:
        ConfigError: if a pattern names no column, with the nearest one, or if there is no column.
    """
    if not columns:
        raise ConfigError("no model answers or judges in this grid, so there is nothing to refresh")
    found: set[str] = set()
    for pattern in patterns:
        named = {column for column in columns if fnmatchcase(column, pattern)}
        if not named:
            mend = nearest(pattern, columns)
            raise ConfigError(f"no column that a model answers or judges is called {pattern!r}{mend}")
        found |= named
    return tuple(column for column in columns if column in found)
