"""What estimators of gradients promise: each example alone, evidence first, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.gradient.base import Gradient
from loopwise.gradient.linear_solve import LinearSolve
from loopwise.gradient.perturbation import CubeRoot, Perturbation
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


@pytest.mark.parametrize("engine", [None, lw.inference.Reference()])
@pytest.mark.parametrize("estimator", [Perturbation(), Perturbation(two_sided=False), LinearSolve()])
def test_each_example_of_a_batch_is_as_if_alone(estimator: Gradient, engine: lw.inference.Reference | None) -> None:
    """Also tables shared by all examples, or by all factors of a group: their gradients add up."""
    graph = mixed_graph()
    # Strengths that take different numbers of sweeps.
    scales = torch.tensor([0.1, 0.5, 1.0, 1.3, 0.7, 0.0], dtype=torch.float64)
    tables = random_tables(graph, seed=2, batch=(2, 3))
    for name, table in tables.items():
        tables[name] = table * scales.reshape(2, 3, *(1,) * (table.ndim - 2))
    tables["p23"] = tables["p23"][0, 0]
    tables["u2"] = tables["u2"][..., :1, :]
    loss = random_loss(graph)
    method = lw.BP(gradient=estimator, engine=engine, **TIGHT)
    together, beliefs = gradient_of(method, graph, tables, loss)
    assert beliefs.states.shape == (2, 3, graph.layout.states)
    assert beliefs.status.sweeps.unique().numel() > 2
    expected = {name: torch.zeros_like(table) for name, table in tables.items()}
    for place in np.ndindex(2, 3):
        one = {name: table if name == "p23" else table[place] for name, table in tables.items()}
        alone, single = gradient_of(method, graph, one, loss)
        assert torch.allclose(single.states, beliefs.states[place], atol=1e-12)
        for name, table in alone.items():
            expected[name][() if name == "p23" else place] += table
    assert gap(together, expected) < 1e-6


@pytest.mark.parametrize("estimator", [Perturbation(step=CubeRoot()), LinearSolve()])
def test_evidence_is_sliced_away_first(estimator: Gradient) -> None:
    graph = mixed_graph()
    tables, loss = random_tables(graph, seed=4), random_loss(graph)
    method = lw.BP(gradient=estimator, **TIGHT)
    truth = difference_gradient(by_inference(method, graph, {1: 2}), tables, loss)
    found, _ = gradient_of(method, graph, tables, loss, {1: 2})
    assert gap(found, truth) < 1e-8
    # Observed in one of two examples: point masses, that is hard zeros.
    mixed = np.array([[-1, 2, -1, -1, -1], [-1, -1, -1, -1, -1]])
    both, _ = gradient_of(method, graph, tables, loss, mixed)
    free, _ = gradient_of(method, graph, tables, loss)
    assert gap(both, {name: found[name] + free[name] for name in found}) < 1e-8


@pytest.mark.parametrize("estimator", [Perturbation(), LinearSolve()])
def test_what_has_no_gradient_is_refused(estimator: Gradient) -> None:
    graph = mixed_graph()
    tables = random_tables(graph, seed=7)
    leaves = {name: table.requires_grad_() for name, table in tables.items()}
    method = lw.BP(gradient=estimator, **TIGHT)
    beliefs = method(graph, leaves)
    with pytest.raises(lw.notices.GradientError, match="NaN or infinite adjoints to the beliefs of group 'p23'"):
        (beliefs.factor("p23") * torch.nan).sum().backward()
    (first,) = torch.autograd.grad(beliefs.states[0], leaves["p23"], create_graph=True)  # once is fine
    with pytest.raises(lw.notices.GradientError, match="differentiates once; use Unroll"):
        first.sum().backward()
    start = torch.zeros(graph.layout.slots, dtype=torch.float64, requires_grad=True)
    with pytest.raises(lw.notices.GradientError, match=r"initial messages.*Unroll"):
        method(graph, tables, initial=start)
    with pytest.raises(lw.notices.GradientError, match="temperature"):
        replace(method, temperature=0.0)(graph, leaves).states.sum().backward()
    with pytest.raises(lw.notices.GradientError, match="trace"):
        replace(method, trace=True)(graph, leaves)
    with torch.no_grad():  # nothing is asked for, so nothing is refused
        replace(method, temperature=0.0)(graph, leaves)
