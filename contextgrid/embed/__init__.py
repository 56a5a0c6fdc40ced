"""Embedders: how texts become vectors. One plugin, one file."""

from contextgrid.embed.base import EMBEDDERS, Embedder, FittedEmbedder

__all__ = ["EMBEDDERS", "Embedder", "FittedEmbedder"]
