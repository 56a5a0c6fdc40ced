"""Errors a user can mend: each message says what is wrong, where, and what to do about it."""

from __future__ import annotations


class ContextGridError(Exception):
    """Base of every error this package raises on purpose."""


class ConfigError(ContextGridError):
    """A configuration, spec or experiment file cannot be used as written."""


class CorpusError(ContextGridError):
    """Documents cannot be read, or none are left to work with."""


class EvalSetError(ContextGridError):
    """A question file or an eval set is malformed."""


class StageError(ContextGridError):
    """A stage could not produce any result, for example because every model call of a cell failed."""
