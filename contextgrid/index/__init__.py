"""Indexes: how passages are ranked for queries. One plugin, one file."""

from contextgrid.index.base import INDEXES, Index, Searcher
from contextgrid.index.passage_index import PassageIndex, build_index

__all__ = ["INDEXES", "Index", "PassageIndex", "Searcher", "build_index"]
