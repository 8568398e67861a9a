"""The solvers under the implicit gradient."""

from __future__ import annotations

import pytest

import loopwise as lw
from loopwise.gradient.linear_solve import LinearSolve, Saddle, Schur
from loopwise.gradient.solvers import Direct, Minres
from oracles.implicit import (
    gap,
    gradient_of,
    random_loss,
    random_tables,
)

TIGHT = {"tolerance": 1e-13, "iterations": 2000}


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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearSolve(form="saddle"), "form must be"),  # type: ignore[arg-type]
        (lambda: LinearSolve(solver="direct"), "solver must be"),  # type: ignore[arg-type]
        (lambda: Minres(tolerance=0.0), "tolerance must be positive, got 0.0"),
        (lambda: Minres(iterations=0), "iterations must be a whole number of at least 1, not 0"),
    ],
)
def test_options_are_checked(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
