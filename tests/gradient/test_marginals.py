"""All estimators that see inference as a map to marginals: against differences in every coordinate, enumeration,
unrolled inference at convergence, and each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import loopwise as lw
from loopwise.gradient.linear_solve import LinearSolve, Saddle, Schur
from loopwise.gradient.perturbation import CubeRoot, Perturbation, ToTolerance
from loopwise.gradient.solvers import Direct, Minres
from loopwise.inference.beliefs import Beliefs
from oracles.implicit import (
    by_enumeration,
    by_inference,
    difference_gradient,
    gap,
    gradient_of,
    mixed_graph,
    random_loss,
    random_tables,
)
from oracles.strategies import models

TIGHT = {"tolerance": 1e-13, "iterations": 2000}
ESTIMATORS = {
    "two-sided": Perturbation(),
    "one-sided": Perturbation(two_sided=False),
    "cube root": Perturbation(step=CubeRoot(), probe=True),
    "to tolerance": Perturbation(step=CubeRoot(), stopping=ToTolerance()),
    "saddle, direct": LinearSolve(Saddle(), Direct()),
    "saddle, minres": LinearSolve(Saddle(), Minres()),
    "eq. 13, direct": LinearSolve(Schur(), Direct()),
    "eq. 13, minres": LinearSolve(Schur(), Minres()),
}
# Rounding of 1e-16 over steps of 1e-8, with adjoints of a few units.
PRECISION = {name: 1e-9 if name not in ("two-sided", "one-sided") else 3e-7 for name in ESTIMATORS}


def fractional(graph: lw.FactorGraph, seed: int) -> lw.inference.ExplicitCounting:
    """Random counting numbers that satisfy condition P: none is 1, some c_i are negative."""
    rng = np.random.default_rng(seed)
    factor = {member.group.name: rng.uniform(0.5, 1.2, member.group.count) for member in graph.layout.message_groups}
    inside = np.zeros(graph.variables)
    for member in graph.layout.message_groups:
        np.add.at(inside, member.group.scopes, factor[member.group.name][:, None])
    return lw.inference.ExplicitCounting(factor, rng.uniform(0.8, 1.3, graph.variables) - inside)


def methods(graph: lw.FactorGraph) -> dict[str, lw.BP | lw.TRW]:
    return {
        "Bethe": lw.BP(**TIGHT),
        "Bethe, sequential": lw.BP(schedule=lw.Sequential(), **TIGHT),
        "TRW": lw.TRW(rho=0.4, damping=0.2, **TIGHT),
        "fractional": lw.BP(counting=fractional(graph, 0), damping=0.3, **TIGHT),
        "warm": lw.BP(temperature=1.7, **TIGHT),
    }


@pytest.mark.parametrize("kind", list(methods(mixed_graph())))
def test_all_estimators_are_the_derivative_of_converged_inference(kind: str) -> None:
    graph, method = mixed_graph(), methods(mixed_graph())[kind]
    tables, loss = random_tables(graph, seed=1), random_loss(graph)
    truth = difference_gradient(by_inference(method, graph), tables, loss)
    unrolled, _ = gradient_of(
        replace(method, engine=lw.inference.Reference(), gradient=lw.Unroll()), graph, tables, loss
    )
    assert gap(unrolled, truth) < 1e-8
    for name, estimator in ESTIMATORS.items():
        found, beliefs = gradient_of(replace(method, gradient=estimator), graph, tables, loss)
        assert gap(found, truth) < max(PRECISION[name], 1e-8), name
        assert gap(found, unrolled) < PRECISION[name], name
        assert beliefs.gradient.iterations > 0
        assert beliefs.gradient.residual < 1e-9


@settings(max_examples=15)
@given(models(variables=(1, 5), most_factors=5, largest_arity=3, largest_cardinality=3, trees=True), st.integers(0, 99))
def test_trees_against_enumeration(model: tuple[lw.FactorGraph, dict[str, torch.Tensor]], seed: int) -> None:
    graph, tables = model
    if not tables:
        return
    loss = random_loss(graph, seed)
    truth = difference_gradient(by_enumeration(graph), tables, loss)
    for estimator in (Perturbation(step=CubeRoot(), check=False), LinearSolve()):
        found, _ = gradient_of(lw.BP(gradient=estimator, schedule=lw.Sequential(), **TIGHT), graph, tables, loss)
        for name, table in truth.items():
            assert torch.allclose(found[name], table, rtol=1e-7, atol=1e-8)


@settings(max_examples=15)
@given(models(variables=(2, 5), most_factors=5, largest_arity=3, trees=True, zeros=True), st.integers(0, 99))
def test_impossible_cells_have_derivative_0(model: tuple[lw.FactorGraph, dict[str, torch.Tensor]], seed: int) -> None:
    graph, tables = model
    if not tables:
        return
    loss = random_loss(graph, seed)
    truth, _ = gradient_of(lw.Exact(), graph, tables, loss)
    for estimator in (Perturbation(step=CubeRoot(), check=False), LinearSolve(), LinearSolve(solver=Minres())):
        found, _ = gradient_of(lw.BP(gradient=estimator, schedule=lw.Sequential(), **TIGHT), graph, tables, loss)
        for name, table in truth.items():
            assert torch.allclose(found[name], table, rtol=1e-7, atol=1e-8)
            forbidden = torch.isneginf(tables[name])
            if graph.group(name).arity:
                assert bool((found[name][forbidden] == 0).all())


def test_an_example_without_adjoint_gets_gradient_0() -> None:
    graph = mixed_graph()
    tables, loss = random_tables(graph, seed=3, batch=(3,)), random_loss(graph, log_partition=0.0)

    def weighted(beliefs: Beliefs) -> torch.Tensor:
        return torch.tensor([1.0, 0.0, 2.0], dtype=torch.float64) * loss(beliefs)

    for estimator in (Perturbation(), LinearSolve()):
        found, _ = gradient_of(lw.BP(gradient=estimator, **TIGHT), graph, tables, weighted)
        assert all(bool((table[1] == 0).all()) for table in found.values())
        assert all(bool((found[name][2] != 0).any()) for name in ("u2", "p23", "triple"))


def test_initial_messages_start_every_run() -> None:
    """The two sides start where the original run started; here that decides which optimum is reached."""
    graph = lw.graph.complete(4, 2)
    coupling = 1.5 * torch.eye(2, dtype=torch.float64)
    unary = torch.zeros(4, 2, dtype=torch.float64)
    names = {group.arity: group.name for group in graph.groups}
    pair = coupling.expand(graph.group(names[2]).count, 2, 2)
    tables = {names[1]: unary, names[2]: pair} if 1 in names else {names[2]: pair}
    plain = lw.BP(**TIGHT)
    slots = graph.layout.slots
    start = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(slots // 2)
    states = plain(graph, tables, initial=start).states
    assert float(states[0]) > 0.8  # far from the uniform fixed point
    leaf = pair.clone().requires_grad_()
    for estimator in (Perturbation(), LinearSolve()):
        method = lw.BP(gradient=estimator, **TIGHT)
        beliefs = method(graph, {**tables, names[2]: leaf}, initial=start)
        (found,) = torch.autograd.grad(beliefs.states[0], leaf)
        unrolled = lw.BP(engine=lw.inference.Reference(), **TIGHT)(graph, {**tables, names[2]: leaf}, initial=start)
        (truth,) = torch.autograd.grad(unrolled.states[0], leaf)
        assert torch.allclose(found, truth, atol=1e-6)
        assert torch.equal(beliefs.messages, plain(graph, tables, initial=start).messages)


def test_the_log_partition_function_needs_no_further_run() -> None:
    """Its gradient is the marginals (also those of arity 1 and 0), by the differences as well."""
    graph = mixed_graph()
    tables = random_tables(graph, seed=5)
    for estimator in (Perturbation(), LinearSolve()):
        method = lw.TRW(rho=0.4, gradient=estimator, **TIGHT)
        found, beliefs = gradient_of(method, graph, tables, lambda beliefs: beliefs.log_partition)
        assert beliefs.gradient.iterations == 0
        assert gap(found, {group.name: beliefs.factor(group.name).detach() for group in graph.groups}) < 1e-14
        truth = difference_gradient(by_inference(method, graph), tables, lambda beliefs: beliefs.log_partition)
        assert gap(found, truth) < 1e-8


def test_one_pull_back_serves_all_beliefs() -> None:
    graph = mixed_graph()
    tables, loss = random_tables(graph, seed=6), random_loss(graph)
    _, beliefs = gradient_of(lw.BP(gradient=Perturbation(), **TIGHT), graph, tables, loss)
    assert beliefs.gradient.iterations == 2
    assert "step r" in str(beliefs.gradient)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_exact_by_perturbation_by_covariance_and_by_enumeration(temperature: float) -> None:
    graph = mixed_graph()
    tables, loss = random_tables(graph, seed=9), random_loss(graph)
    truth = difference_gradient(by_enumeration(graph, temperature), tables, loss)
    covariance, _ = gradient_of(lw.Exact(temperature=temperature), graph, tables, loss)
    method = lw.Exact(temperature=temperature, gradient=Perturbation(step=CubeRoot()))
    perturbed, beliefs = gradient_of(method, graph, tables, loss)
    assert gap(covariance, truth) < 1e-10
    assert gap(perturbed, truth) < 1e-9
    plain = lw.Exact(temperature=temperature)(graph, tables)
    assert torch.equal(beliefs.sample(5, seed=0), plain.sample(5, seed=0))
    found, _ = gradient_of(method, graph, tables, lambda beliefs: beliefs.entropy())
    expected, _ = gradient_of(lw.Exact(temperature=temperature), graph, tables, lambda beliefs: beliefs.entropy())
    assert gap(found, expected) < 1e-8
    evidence, batch = {0: 1}, random_tables(graph, seed=10, batch=(3,))
    found, beliefs = gradient_of(method, graph, batch, loss, evidence)
    expected, _ = gradient_of(lw.Exact(temperature=temperature), graph, batch, loss, evidence)
    assert gap(found, expected) < 1e-8
    assert beliefs.gradient.estimator == "Perturbation"


def test_exact_respects_folded_unary_potentials() -> None:
    graph = mixed_graph()
    tables = random_tables(graph, seed=11)
    folded = lw.inference.Problem(graph, tables, torch.Size(), tables["p23"].new_empty(0)).unary()
    problem = lw.inference.Problem(
        graph, {**tables, "u2": torch.full_like(tables["u2"], 7.0)}, torch.Size(), folded.new_empty(0), folded=folded
    )
    found, expected = lw.Exact().run(problem), lw.Exact()(graph, tables)
    for group in graph.groups:
        assert torch.allclose(found.factor(group.name), expected.factor(group.name), atol=1e-14)
    assert torch.allclose(found.log_partition, expected.log_partition)


def test_exact_log_likelihood_is_twice_differentiable() -> None:
    graph = mixed_graph()
    tables = random_tables(graph, seed=12)
    names = list(tables)

    def log_partition(*values: torch.Tensor) -> torch.Tensor:
        return lw.Exact()(graph, dict(zip(names, values, strict=True))).log_partition

    leaves = [table.requires_grad_() for table in tables.values()]
    assert torch.autograd.gradgradcheck(log_partition, leaves)
    states = lw.Exact()(graph, tables).states
    (first,) = torch.autograd.grad(states[0], leaves[2], create_graph=True)
    with pytest.raises(lw.notices.GradientError, match="marginals once"):
        first.sum().backward()


def test_exact_knows_its_estimators() -> None:
    with pytest.raises(
        lw.notices.GradientError, match="Exact cannot be differentiated by LinearSolve; valid are: Covariance"
    ):
        lw.Exact(gradient=LinearSolve())
