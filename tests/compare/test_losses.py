"""Expected losses of labellings, by enumeration."""

from __future__ import annotations

import pytest
import torch

import loopwise as lw
from loopwise.compare.losses import (
    clique_likelihood,
    clique_quadratic,
    random_labelling,
    univariate_likelihood,
    univariate_quadratic,
)
from oracles.enumeration import enumerate_model


def test_labelling_losses_by_enumeration() -> None:
    graph = lw.FactorGraph.from_scopes([2, 3, 2], [(0,), (0, 1), (2, 1), (0, 1, 2)])
    tables = {name: table.detach() for name, table in lw.TablePotentials.random(graph, seed=1)().items()}
    truth, beliefs = enumerate_model(graph, tables), lw.Exact()(graph, tables)
    labels = random_labelling(graph, 0, {1: 2})
    assert labels[1] == 2
    single = torch.tensor([truth.variables[v][labels[v]] for v in range(3)])
    joint = torch.tensor(
        [
            truth.factors[group.name][(row, *labels[scope])]
            for group in graph.groups
            for row, scope in enumerate(group.scopes)
        ]
    )
    assert float(univariate_likelihood(beliefs, labels)) == pytest.approx(-float(single.log().sum()))
    assert float(clique_likelihood(beliefs, labels)) == pytest.approx(-float(joint.log().sum()))
    squares = sum(float((marginal**2).sum()) for marginal in truth.variables)
    assert float(univariate_quadratic(beliefs, labels)) == pytest.approx(squares - 2 * float(single.sum()))
    squares = sum(float((marginal**2).sum()) for marginal in truth.factors.values())
    assert float(clique_quadratic(beliefs, labels)) == pytest.approx(squares - 2 * float(joint.sum()))
