"""Chunkers: how a document is cut into passages. One plugin, one file; sizes are in characters."""

from contextgrid.chunk.base import CHUNKERS, Chunker
from contextgrid.chunk.documents import chunk_documents

__all__ = ["CHUNKERS", "Chunker", "chunk_documents"]
