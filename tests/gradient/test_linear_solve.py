"""The implicit linear system: its constraint matrix, its two forms, its two solvers, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings

import loopwise as lw
from loopwise.gradient.constraints import Constraints
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


def test_solvers_report_their_work() -> None:
    graph = lw.grid(6, 6, 3)
    tables, loss = random_tables(graph, seed=2, scale=0.5), random_loss(graph)
    truth, direct = gradient_of(lw.BP(gradient=LinearSolve(), **TIGHT), graph, tables, loss)
    assert direct.gradient.iterations == 1
    assert direct.gradient.residual < 1e-12
    for form in (Saddle(), Schur()):
        solver = Minres(tolerance=1e-9)
        found, beliefs = gradient_of(lw.BP(gradient=LinearSolve(form, solver), **TIGHT), graph, tables, loss)
        assert gap(found, truth) < 1e-7
        assert beliefs.gradient.iterations > 10
        assert 0 < beliefs.gradient.residual <= 1e-9
    few = LinearSolve(solver=Minres(iterations=3))
    with pytest.warns(lw.notices.GradientWarning, match="relative residual"):
        gradient_of(lw.BP(gradient=few, **TIGHT), graph, tables, loss)


@pytest.mark.parametrize("solver", [Direct(), Minres(tolerance=1e-12)])
def test_nearly_deterministic_marginals(solver: Direct | Minres) -> None:
    """Marginals over 12 orders of magnitude: against the covariances of exact inference on a tree."""
    graph = lw.FactorGraph([3, 3, 3, 2], {"pair": [[0, 1], [1, 2]], "last": [[2, 3]], "unary": [[0], [1], [2]]})
    tables, loss = random_tables(graph, seed=3, scale=12.0), random_loss(graph, log_partition=0.0)
    truth, beliefs = gradient_of(lw.Exact(), graph, tables, loss)
    assert float(beliefs.states.detach().min()) < 1e-12
    method = lw.BP(gradient=LinearSolve(solver=solver), schedule=lw.Sequential(), **TIGHT)
    found, _ = gradient_of(method, graph, tables, loss)
    assert gap(found, truth) < 1e-8


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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearSolve(form="saddle"), "form must be"),  # type: ignore[arg-type]
        (lambda: LinearSolve(solver="direct"), "solver must be"),  # type: ignore[arg-type]
        (lambda: Minres(tolerance=0.0), "tolerance must be positive, got 0.0"),
        (lambda: Minres(iterations=0), "iterations must be at least 1, got 0"),
    ],
)
def test_options_are_checked(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
