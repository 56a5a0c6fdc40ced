"""Eval sets: reading questions and finding their evidence in a parse."""

from contextgrid.evalset.reading import evalset_from_table, evalset_to_table, load_evalset
from contextgrid.evalset.resolve import ResolvedEvalSet, UnresolvedAnchor, resolve_evalset, resolve_gold

__all__ = [
    "ResolvedEvalSet",
    "UnresolvedAnchor",
    "evalset_from_table",
    "evalset_to_table",
    "load_evalset",
    "resolve_evalset",
    "resolve_gold",
]
