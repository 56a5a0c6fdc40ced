"""Which partitions a person means: ``answers``, ``answers:*concise*``, ``+answers``, ``answers+``."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from contextgrid.core.errors import ConfigError
from contextgrid.core.registry import nearest
from contextgrid_dagster.graph import GridGraph, Node

SYNTAX = (
    "An asset (answers), some of its partitions (answers:*concise*), with everything above it (+answers) or below"
    " it (answers+). Asset and partition may be patterns with * and ?."
)


def select(graph: GridGraph, selections: Sequence[str]) -> frozenset[Node]:
    """The partitions that any of the selections names; all of them if there is no selection.

    Raises:
        ConfigError: if a selection names nothing, with the nearest name that exists.
    """
    if not selections:
        return frozenset(graph.nodes)
    return frozenset(node for selection in selections for node in _one(graph, selection.strip()))


def _one(graph: GridGraph, selection: str) -> set[Node]:
    above, below = selection.startswith("+"), selection.endswith("+")
    name, colon, pattern = selection.strip("+").partition(":")
    assets = [asset for asset in graph.names if fnmatchcase(asset, name)]
    if not assets:
        raise ConfigError(f"selection {selection!r}: no asset is called {name!r}{nearest(name, graph.names)}")
    nodes = {
        node
        for node in graph.nodes
        if node.asset in assets and (not colon or fnmatchcase(node.partition or "", pattern))
    }
    if not nodes:
        keys = [key for asset in assets for key in graph.partitions(asset) if key]
        example = next(iter(get_close_matches(pattern, keys, n=1, cutoff=0)), None)
        hint = f"its keys look like {example}" if example else "it has no partitions"
        asset = "any asset" if assets[1:] else assets[0]
        raise ConfigError(f"selection {selection!r}: no partition of {asset} matches {pattern!r}; {hint}")
    return nodes | (graph.ancestors(nodes) if above else set()) | (graph.descendants(nodes) if below else set())
