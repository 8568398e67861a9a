"""The Jacobian of exact marginals is a covariance, by enumeration."""

from __future__ import annotations

import numpy as np
import torch

import loopwise as lw
from loopwise.gradient.covariance import Covariance
from oracles.enumeration import enumerate_model


def test_the_jacobian_is_the_covariance_of_indicators() -> None:
    graph = lw.FactorGraph([2, 3, 2], {"unary": [[0], [2]], "pair": [[0, 1]], "back": [[1, 2]]})
    rng = np.random.default_rng(0)
    tables = {group.name: torch.tensor(rng.normal(size=(group.count, *group.shape))) for group in graph.groups}
    table = tables["pair"].clone().requires_grad_()
    states = lw.Exact(gradient=Covariance())(graph, {**tables, "pair": table}).states
    truth = enumerate_model(graph, tables)
    cells = truth.configurations[:, 0] * 3 + truth.configurations[:, 1]
    pairs = np.eye(6)[cells]
    values = np.concatenate([np.eye(size)[truth.configurations[:, v]] for v, size in enumerate((2, 3, 2))], axis=1)
    weights = truth.probabilities
    covariance = (values * weights[:, None]).T @ pairs - np.outer(weights @ values, weights @ pairs)
    for place in range(7):
        (slope,) = torch.autograd.grad(states[place], table, retain_graph=True)
        np.testing.assert_allclose(slope.numpy().reshape(-1), covariance[place], atol=1e-12)
