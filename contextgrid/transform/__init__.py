"""Transforms: how questions become search queries. One plugin, one file."""

from contextgrid.transform.base import TRANSFORMS, NoTransform, Transform, get_transform

__all__ = ["TRANSFORMS", "NoTransform", "Transform", "get_transform"]
