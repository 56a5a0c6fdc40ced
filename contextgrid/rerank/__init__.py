"""Rerankers: how candidates are put into their final order. One plugin, one file."""

from contextgrid.rerank.base import RERANKERS, NoReranker, Reranker, get_reranker

__all__ = ["RERANKERS", "NoReranker", "Reranker", "get_reranker"]
