"""The implicit linear system: its constraint matrix, its two forms, its two solvers, and what they refuse."""

from __future__ import annotations

import pytest
import torch

import loopwise as lw
from loopwise.gradient.linear_solve import LinearSolve, Saddle, Schur
from loopwise.gradient.solvers import Direct, Minres
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


def test_a_counting_number_of_0() -> None:
    """On a grid with rho = 1/2 the corners have c_i = 0: the saddle system matches differences, equation 13 raises."""
    graph = lw.grid(3, 3, 2)
    method = lw.TRW(rho=0.5, **TIGHT)
    counts = method.counting_numbers(graph).variable(graph.layout)
    assert (counts == 0).any()
    tables, loss = random_tables(graph, seed=1), random_loss(graph)
    truth = difference_gradient(by_inference(method, graph), tables, loss)
    for solver in (Direct(), Minres()):
        found, _ = gradient_of(lw.TRW(rho=0.5, gradient=LinearSolve(Saddle(), solver), **TIGHT), graph, tables, loss)
        assert gap(found, truth) < 1e-8
    with pytest.raises(lw.notices.GradientError, match=r"counting number of variable 0 is 0.*Saddle"):
        gradient_of(lw.TRW(rho=0.5, gradient=LinearSolve(Schur()), **TIGHT), graph, tables, loss)


def test_hard_zeros_that_make_constraints_redundant() -> None:
    """Equalities around a cycle repeat each other; the junction tree's covariances are the derivative all the same
    where BP is exact: a cycle of equalities is one variable."""
    graph = lw.FactorGraph([3, 3, 3], {"equal": [[0, 1], [1, 2]], "unary": [[0], [1], [2]]})
    tables, loss = random_tables(graph, seed=4), random_loss(graph)
    tables["equal"] = torch.where(torch.eye(3, dtype=torch.bool), tables["equal"], -torch.inf)
    truth, _ = gradient_of(lw.Exact(), graph, tables, loss)
    for solver in (Direct(), Minres()):
        method = lw.BP(gradient=LinearSolve(solver=solver), **TIGHT)
        found, _ = gradient_of(method, graph, tables, loss)
        assert gap(found, truth) < 1e-8
    # TRW keeps the cycle apart from one variable, so differences are the oracle.
    ring = lw.FactorGraph([3, 3, 3], {"equal": [[0, 1], [1, 2], [2, 0]], "unary": [[0], [1], [2]]})
    tables, loss = random_tables(ring, seed=5), random_loss(ring)
    tables["equal"] = torch.where(torch.eye(3, dtype=torch.bool), tables["equal"], -torch.inf)
    truth = difference_gradient(by_inference(lw.TRW(damping=0.3, **TIGHT), ring), tables, loss)
    for solver in (Direct(), Minres()):
        found, _ = gradient_of(lw.TRW(damping=0.3, gradient=LinearSolve(solver=solver), **TIGHT), ring, tables, loss)
        assert gap(found, truth) < 1e-7


def test_no_fixed_point_no_gradient() -> None:
    graph = mixed_graph()
    tables, loss = random_tables(graph, seed=6), random_loss(graph)
    with pytest.raises(lw.notices.GradientError, match=r"not converged after 2 sweeps.*Unroll"):
        gradient_of(lw.BP(iterations=2, tolerance=0, gradient=LinearSolve()), graph, tables, loss)


def test_single_precision() -> None:
    """The system is solved in double precision at beliefs of single precision."""
    graph = mixed_graph()
    tables, loss = random_tables(graph, seed=7), random_loss(graph)
    truth, _ = gradient_of(lw.BP(gradient=LinearSolve(), **TIGHT), graph, tables, loss)
    single = {name: table.float() for name, table in tables.items()}
    found, _ = gradient_of(lw.BP(gradient=LinearSolve(), tolerance=1e-5), graph, single, loss)
    assert all(table.dtype == torch.float32 for table in found.values())
    assert gap({name: table.double() for name, table in found.items()}, truth) < 1e-3
