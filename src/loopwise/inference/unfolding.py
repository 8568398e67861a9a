"""Folded unary potentials as factors again, for methods that know only factors.

In: a problem, perhaps with folded unary potentials. Out: the same problem in tables alone. Stage: inference.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.base import Problem

KEY = "graph with folded unary potentials"  # under which a layout keeps it, so that its junction tree is found once


def unfolded(problem: Problem) -> Problem:
    """The same problem with folded unary potentials as tables of arity 1, a group for each cardinality."""
    if problem.folded is None:
        return problem
    graph, layout = problem.graph, problem.graph.layout
    sizes = [int(size) for size in np.unique(graph.cardinalities)]
    members = {size: np.flatnonzero(graph.cardinalities == size) for size in sizes}
    taken = {group.name for group in graph.groups}
    names = {size: next(name for name in _primed(f"unary|{size}") if name not in taken) for size in sizes}
    if KEY not in layout.storages:
        others = {group.name: group.scopes for group in graph.groups if group.arity != 1}
        unary = {names[size]: members[size][:, None] for size in sizes}
        layout.storages[KEY] = FactorGraph(graph.cardinalities, {**others, **unary})
    tables = {group.name: problem.tables[group.name] for group in graph.groups if group.arity != 1}
    for size in sizes:
        index = layout.state_start[members[size]][:, None] + np.arange(size)
        tables[names[size]] = problem.folded[..., torch.as_tensor(index, device=problem.like.device)]
    return Problem(layout.storages[KEY], tables, problem.batch, problem.like)


def _primed(name: str) -> Iterator[str]:
    while True:
        yield name
        name += "'"
