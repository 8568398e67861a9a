"""The matrix of local constraints: its redundant rows, and beliefs that satisfy it."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

import loopwise as lw
from loopwise.gradient.constraints import Constraints
from oracles.implicit import (
    mixed_graph,
    random_tables,
)
from oracles.strategies import graphs

TIGHT = {"tolerance": 1e-13, "iterations": 2000}


@settings(max_examples=40)
@given(graphs(variables=(1, 6), largest_cardinality=3))
def test_redundant_rows_of_the_constraint_matrix(graph: lw.FactorGraph) -> None:
    """The full matrix lacks one rank for each factor and variable of it but the first; the reduced one has full rank
    and the same row space."""
    constraints = Constraints.of(graph.layout)
    full = np.hstack([constraints.states.toarray(), constraints.cells.toarray()])
    redundant = sum(member.group.count * (member.group.arity - 1) for member in graph.layout.message_groups)
    assert np.linalg.matrix_rank(full) == len(full) - redundant
    keep = constraints.independent(np.random.default_rng(0).random(graph.layout.states))
    assert keep.sum() == len(full) - redundant
    assert np.linalg.matrix_rank(full[keep]) == keep.sum()


def test_beliefs_satisfy_the_constraints() -> None:
    graph = mixed_graph()
    tables = random_tables(graph, seed=0)
    beliefs = lw.BP(**TIGHT)(graph, tables)
    constraints = Constraints.of(graph.layout)
    cells = np.concatenate([beliefs.factor(m.group.name).numpy().reshape(-1) for m in graph.layout.message_groups])
    values = constraints.states @ beliefs.states.numpy() + constraints.cells @ cells
    expected = np.concatenate([np.ones(graph.variables), np.zeros(graph.layout.slots)])
    assert np.abs(values - expected).max() < 1e-10
