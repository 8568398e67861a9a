"""Structure: factor graphs as integers only."""

from loopwise.graph.builders import chain, complete, grid, random_mrf
from loopwise.graph.evidence import FREE, Evidence, Role
from loopwise.graph.factor_graph import FactorGraph, Group
from loopwise.graph.union import Union, union

__all__ = [
    "FREE",
    "Evidence",
    "FactorGraph",
    "Group",
    "Role",
    "Union",
    "chain",
    "complete",
    "grid",
    "random_mrf",
    "union",
]
