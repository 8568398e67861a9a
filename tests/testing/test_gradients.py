"""The shipped checks pass what is right, and catch what is deliberately wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

import loopwise as lw
from loopwise.inference.base import Inference, Problem
from loopwise.testing import check_gradient, check_hvp
from loopwise.testing.gradients import random_loss
from oracles.crooked import WrongSlope

REFERENCE = lw.inference.Reference()


@dataclass(frozen=True)
class Spoiled(Inference):
    """BP whose gradient is wrong at one cell of group ``pair``."""

    place: int = 0
    factor: float = 1.001

    def run(self, problem: Problem) -> lw.Beliefs:
        tables = {**problem.tables, "pair": WrongSlope.apply(problem.tables["pair"], self.place, self.factor)}
        return lw.BP(iterations=3, tolerance=0, engine=REFERENCE).run(replace(problem, tables=tables))


def small() -> tuple[lw.FactorGraph, dict[str, Tensor]]:
    """A cycle with a chord, a factor of arity 3, mixed cardinalities, a constant."""
    graph = lw.FactorGraph.from_scopes([2, 3, 2, 2], [(), (0,), (1,), (0, 1), (1, 2), (2, 3), (3, 0), (0, 1, 3)])
    return graph, {name: table.detach() for name, table in lw.TablePotentials.random(graph, seed=3)().items()}


@pytest.mark.parametrize("schedule", [lw.inference.Flooding(), lw.inference.Residual()])
@pytest.mark.parametrize("sweeps", [1, 3])
def test_right_gradients_pass(schedule: Any, sweeps: int) -> None:
    graph, tables = small()
    method = lw.BP(iterations=sweeps, tolerance=0, damping=0.2, schedule=schedule, engine=REFERENCE)
    assert check_gradient(method, graph, tables).error < 1e-9


def test_a_run_that_stops_by_tolerance_keeps_its_sweeps() -> None:
    graph, tables = small()
    batch = {name: torch.stack([0.2 * table, 2 * table]) for name, table in tables.items()}
    method = lw.BP(iterations=50, tolerance=1e-4, engine=REFERENCE)
    sweeps = method(graph, batch).status.sweeps
    assert sweeps[0] != sweeps[1]  # so no one number of sweeps repeats this run
    assert check_gradient(method, graph, batch).error < 1e-8


def test_exact_with_evidence_and_hard_zeros() -> None:
    graph, tables = small()
    tables["2x2"] = tables["2x2"].clone()
    tables["2x2"][0, 0, 1] = -torch.inf
    assert check_gradient(lw.Exact(), graph, tables, evidence={1: 2}).error < 1e-9


@pytest.mark.parametrize("place", [0, 7, 20])
def test_one_wrong_cell_is_found_and_named(place: int) -> None:
    graph = lw.grid(3, 2)
    tables = lw.TablePotentials.random(graph, seed=1)
    factor, cell = divmod(place, 4)
    named = rf"factor {factor} of group 'pair'.*cell \[{cell // 2}, {cell % 2}\]"
    with pytest.raises(AssertionError, match=named):
        check_gradient(Spoiled(place=place), graph, tables)
    assert check_gradient(Spoiled(factor=1.0), graph, tables).error < 1e-9


@pytest.mark.parametrize("factor", [0.0, -1.0, 1e6, 1e200, 1e300])
def test_no_wrong_size_looks_right(factor: float) -> None:
    """Above all not one so large that the norm of the gradient overflows: errors relative to that would be 0."""
    graph = lw.grid(3, 2)
    with pytest.raises(AssertionError, match="off by"):
        check_gradient(Spoiled(place=7, factor=factor), graph, lw.TablePotentials.random(graph, seed=1))


@dataclass(frozen=True)
class Restless(Inference):
    """Exact inference that claims another number of sweeps every time, and a gradient of nothing in particular."""

    calls: list[int]

    def run(self, problem: Problem) -> lw.Beliefs:
        self.calls.append(0)
        right = lw.Exact().run(problem)
        status = replace(right.status, sweeps=torch.full(problem.batch, len(self.calls)))
        states = right.states * 3 - 2 * right.states.detach()
        return lw.Beliefs(problem.graph, states, right.factor, lambda: right.log_partition, status)


def test_nothing_to_compare_with_is_an_error() -> None:
    graph = lw.grid(2, 2)
    with pytest.raises(lw.notices.GradientError, match="another number of sweeps"):
        check_gradient(Restless([]), graph, lw.TablePotentials.random(graph, seed=1))


def test_nan_is_named() -> None:
    graph = lw.grid(3, 2)
    with pytest.raises(AssertionError, match=r"nan at factor 1 of group 'pair' \(variables \[2, 3\]\), cell \[0, 1\]"):
        check_gradient(Spoiled(place=5, factor=float("nan")), graph, lw.TablePotentials.random(graph, seed=1))


def test_a_gradient_of_nothing_is_an_error() -> None:
    graph, tables = small()
    with pytest.raises(lw.notices.GradientError, match="no gradient"):
        check_gradient(lw.Exact(), graph, tables, loss=lambda beliefs: torch.ones(()))


def test_implicit_gradients_are_checked_at_convergence() -> None:
    graph, tables = small()
    method = lw.BP(iterations=2, gradient=lw.Perturbation(), engine=REFERENCE)
    assert check_gradient(method, graph, tables, tolerance=1e-5).error > 0


def test_hessian_vector_products() -> None:
    graph, tables = small()
    assert check_hvp(lw.BP(iterations=3, tolerance=0, engine=REFERENCE), graph, tables) < 1e-8


def test_a_wrong_hessian_is_caught() -> None:
    graph = lw.grid(3, 2)
    with pytest.raises(AssertionError, match="Hessian"):
        check_hvp(Spoiled(factor=2.0), graph, lw.TablePotentials.random(graph, seed=1))


def test_the_random_loss_touches_everything() -> None:
    graph, tables = small()
    beliefs = lw.BP(iterations=2, tolerance=0, engine=REFERENCE)(
        graph, {name: table.requires_grad_() for name, table in tables.items()}
    )
    named = [group.name for group in graph.groups if group.arity]  # the belief of a constant is 1
    parts = [beliefs.states, beliefs.log_partition, *(beliefs.factor(name) for name in named)]
    found = torch.autograd.grad(random_loss(graph, 0)(beliefs), parts, allow_unused=True)
    assert all(part is not None and bool((part != 0).all()) for part in found)
