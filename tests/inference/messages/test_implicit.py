"""Methods as maps from potentials to marginals, which implicit gradients differentiate."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import pytest
import torch

import loopwise as lw
from loopwise.gradient.base import Gradient
from loopwise.gradient.linear_solve import LinearSolve
from loopwise.gradient.perturbation import CubeRoot, Perturbation
from loopwise.inference.beliefs import Beliefs
from loopwise.inference.messages.implicit import implicit_beliefs, marginal_map
from oracles.implicit import (
    by_inference,
    difference_gradient,
    gap,
    gradient_of,
    mixed_graph,
    random_loss,
    random_tables,
)

TIGHT = {"tolerance": 1e-13, "iterations": 2000}


@dataclass(frozen=True)
class Own(lw.inference.Inference):
    """A method of a user's: mean field, told from outside when to stop."""

    iterations: int = 2000
    tolerance: float = 1e-13
    gradient: Gradient = field(default_factory=lambda: Perturbation(step=CubeRoot()))

    def run(self, problem: lw.inference.Problem) -> Beliefs:
        if problem.differentiable:
            return implicit_beliefs(self, problem, None)
        return lw.MeanField(iterations=max(1, self.iterations), tolerance=self.tolerance).run(problem)


def test_a_method_of_ones_own() -> None:
    """Mean field has no counting numbers, its factor beliefs are products, and its Jacobian is symmetric."""
    graph = mixed_graph()
    tables, loss = random_tables(graph, seed=8, scale=0.7), random_loss(graph)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.notices.ConvergenceWarning)  # of rounding
        truth = difference_gradient(by_inference(Own(), graph), tables, loss)
        found, _ = gradient_of(Own(), graph, tables, loss)
        assert gap(found, truth) < 1e-8
        with pytest.raises(lw.notices.GradientError, match="counting numbers"):
            gradient_of(Own(gradient=LinearSolve()), graph, tables, loss)


def test_marginal_map_gives_the_methods_own_beliefs() -> None:
    graph = mixed_graph()
    tables = random_tables(graph, seed=13, batch=(2,))
    inference, theta = marginal_map(lw.BP(**TIGHT), graph, tables)
    beliefs = lw.BP(**TIGHT)(graph, tables)
    outcome = inference(theta)
    assert torch.allclose(outcome.marginals.unary, beliefs.states, atol=1e-14)
    assert torch.allclose(outcome.marginals.tables[0], beliefs.factor("p23"), atol=1e-14)
    assert outcome.converged
    three = inference(theta, sweeps=3)
    assert torch.allclose(three.marginals.unary, lw.BP(iterations=3, tolerance=0)(graph, tables).states, atol=1e-14)
    assert three.sweeps.tolist() == [3, 3]
