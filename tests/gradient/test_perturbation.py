"""Perturbation: locked sweeps, its steps, its self-check, and other people's inference."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import loopwise as lw
from loopwise.gradient.marginals import Natural
from loopwise.gradient.perturbation import CubeRoot, EqualSweeps, Perturbation, SquareRoot, ToTolerance, symmetry_gap
from loopwise.inference.messages.implicit import marginal_map
from oracles.implicit import gap, gradient_of, mixed_graph, random_loss, random_tables

TIGHT = {"tolerance": 1e-13, "iterations": 2000}


def test_the_published_step() -> None:
    """r = sqrt(eps) (1 + max |theta|) / max |g|, example by example; impossible cells do not count."""
    theta = (torch.tensor([[1.0, -3.0], [0.0, -torch.inf]], dtype=torch.float64),)
    adjoint = (torch.tensor([[2.0, -8.0], [0.5, 0.0]], dtype=torch.float64),)
    root = np.sqrt(np.finfo(np.float64).eps)
    assert Perturbation().size(theta, adjoint).tolist() == pytest.approx([root * 4 / 8, root * 1 / 0.5])
    larger = Perturbation(multiplier=3.0, step=CubeRoot()).size(theta, adjoint)
    assert larger.tolist() == pytest.approx([3 * np.finfo(np.float64).eps ** (1 / 3) * ratio for ratio in (0.5, 2.0)])
    single = Perturbation().size(tuple(part.float() for part in theta), tuple(part.float() for part in adjoint))
    assert float(single[0]) == pytest.approx(np.sqrt(np.finfo(np.float32).eps) / 2)


def test_errors_fall_with_the_tolerance_although_steps_are_far_smaller() -> None:
    """The beliefs are only good to 1e-4, the step is 1e-8: locked sweep counts make that work."""
    graph = mixed_graph()
    tables, loss = random_tables(graph, seed=1), random_loss(graph)
    truth, _ = gradient_of(lw.BP(gradient=lw.gradient.LinearSolve(), **TIGHT), graph, tables, loss)
    errors = []
    for tolerance in (1e-2, 1e-4, 1e-6, 1e-8):
        method = lw.BP(gradient=Perturbation(check=False), tolerance=tolerance)
        errors.append(gap(gradient_of(method, graph, tables, loss)[0], truth))
    assert errors[0] > errors[1] > errors[2]
    assert all(error < 20 * tolerance for error, tolerance in zip(errors, (1e-2, 1e-4, 1e-6), strict=False))
    assert errors[3] < 1e-6  # where rounding begins


@pytest.mark.parametrize("two_sided", [True, False])
def test_examples_that_stop_at_different_sweeps_are_still_compared_alike(two_sided: bool) -> None:
    """All run for the longest count; beliefs of the original run, good to 1e-4, must not enter the quotient."""
    graph = mixed_graph()
    tables, loss = random_tables(graph, seed=1, batch=(3,)), random_loss(graph)
    scales = torch.tensor([0.05, 0.5, 1.0], dtype=torch.float64)
    tables = {name: table * scales.reshape(3, *(1,) * (table.ndim - 1)) for name, table in tables.items()}
    truth, _ = gradient_of(lw.BP(gradient=lw.gradient.LinearSolve(), **TIGHT), graph, tables, loss)
    found, beliefs = gradient_of(lw.BP(gradient=Perturbation(two_sided), tolerance=1e-4), graph, tables, loss)
    assert beliefs.status.sweeps.unique().numel() == 3
    assert gap(found, truth) < 1e-2


def test_unlocked_sweep_counts_leave_tolerance_over_step() -> None:
    graph = mixed_graph()
    inference, theta = marginal_map(lw.BP(**TIGHT), graph, random_tables(graph, seed=1))
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn(part.shape, generator=generator, dtype=torch.float64) for part in theta.parts]
    step, sweeps = 1e-8, 12

    def at(sign: float, count: int) -> Natural:
        moved = tuple(part + sign * step * way for part, way in zip(theta.parts, parts, strict=True))
        return inference(Natural.of(moved), sweeps=count).marginals

    truth = (at(1, 500).unary - at(-1, 500).unary) / (2 * step)
    locked = (at(1, sweeps).unary - at(-1, sweeps).unary) / (2 * step)
    unlocked = (at(1, sweeps).unary - at(-1, sweeps + 1).unary) / (2 * step)
    last_change = float((at(0, sweeps).unary - at(0, sweeps + 1).unary).abs().max())
    assert 1e-9 < last_change < 1e-2
    assert float((locked - truth).abs().max()) < 100 * last_change + 1e-6
    assert float((unlocked - truth).abs().max()) == pytest.approx(last_change / (2 * step), rel=0.1)


def test_a_run_that_starts_at_its_fixed_point_is_perturbed_for_longer() -> None:
    """One sweep from converged messages would carry a change no further than to the neighbours."""
    graph = lw.chain(6, 2)
    tables, loss = random_tables(graph, seed=2), random_loss(graph)
    truth, _ = gradient_of(lw.Exact(), graph, tables, loss)
    start = lw.BP(**TIGHT)(graph, tables).messages
    leaves = {name: table.clone().requires_grad_() for name, table in tables.items()}
    beliefs = lw.BP(gradient=Perturbation(), **TIGHT)(graph, leaves, initial=start)
    assert int(beliefs.status.sweeps) <= 2
    loss(beliefs).backward()
    assert gap({name: leaf.grad for name, leaf in leaves.items()}, truth) < 1e-6
    assert beliefs.gradient is not None
    assert beliefs.gradient.iterations > 2


@pytest.mark.parametrize("schedule", [lw.inference.Flooding(), lw.Sequential()])
def test_a_longer_run_goes_on_where_the_shorter_one_ended(schedule: Any) -> None:
    """What a map does in two calls, the second from the messages of the first, is what it does in one."""
    graph = mixed_graph()
    method = lw.BP(gradient=Perturbation(), schedule=schedule, damping=0.2, **TIGHT)
    inference, theta = marginal_map(method, graph, random_tables(graph, seed=1))
    whole, first = inference(theta, sweeps=5), inference(theta, sweeps=2)
    assert first.messages is not None
    second = inference(theta, sweeps=3, messages=first.messages())
    for one, other in zip(whole.marginals.parts, second.marginals.parts, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-13)


def test_runs_that_are_more_than_their_messages_begin_anew() -> None:
    graph = mixed_graph()
    for method in (lw.BP(schedule=lw.inference.Residual()), lw.MeanField()):
        inference, theta = marginal_map(method, graph, random_tables(graph, seed=1))
        assert inference(theta, sweeps=2).messages is None


def test_symmetry_holds_at_convergence_and_not_after_two_sweeps() -> None:
    graph = mixed_graph()
    tables = random_tables(graph, seed=3, batch=(4,))
    for method in (lw.BP(**TIGHT), lw.TRW(rho=0.4, **TIGHT), lw.BP(schedule=lw.Sequential(), **TIGHT), lw.Exact()):
        inference, theta = marginal_map(method, graph, tables)
        for seed in range(3):
            assert float(symmetry_gap(inference, theta, seed).max()) < 1e-5
    inference, theta = marginal_map(lw.BP(**TIGHT), graph, tables)
    assert float(symmetry_gap(inference, theta, sweeps=2).min()) > 1e-3


def warned(method: lw.inference.Inference, graph: lw.FactorGraph, tables: dict[str, Tensor]) -> str:
    """The one warning of a backward."""
    loss = random_loss(graph, log_partition=0.0)
    with pytest.warns(lw.notices.GradientWarning) as caught:
        _, beliefs = gradient_of(method, graph, tables, loss)
    assert len(caught) == 1
    assert caught[0].filename.endswith("oracles/implicit.py")  # where backward was called
    assert beliefs.gradient.notes[1:]
    return str(caught[0].message)


def test_warns_of_truncated_runs() -> None:
    graph = mixed_graph()
    tables = random_tables(graph, seed=4)
    message = warned(lw.BP(iterations=2, tolerance=0, gradient=Perturbation()), graph, tables)
    assert "had not converged after 2 sweeps" in message
    assert "Unroll()" in message
    probed = Perturbation(check=False, probe=True)
    assert "not symmetric" in warned(lw.BP(iterations=2, tolerance=0, gradient=probed), graph, tables)
    silent = lw.BP(iterations=2, tolerance=0, gradient=Perturbation(check=False))
    gradient_of(silent, graph, tables, random_loss(graph))  # warnings are errors here


def test_warns_of_a_tolerance_that_leaves_marginals_inconsistent() -> None:
    graph = mixed_graph()
    tables = random_tables(graph, seed=4, scale=2.0)
    message = warned(lw.BP(iterations=3, tolerance=0.9, gradient=Perturbation()), graph, tables)
    assert "contradict each other" in message


def test_warns_of_jumps_between_optima() -> None:
    """An attractive model without a field sits between two optima; the two sides fall into one each."""
    graph = lw.FactorGraph([2] * 4, {"pair": list(itertools.combinations(range(4), 2))})
    tables = {"pair": 2.0 * torch.eye(2, dtype=torch.float64).expand(6, 2, 2)}
    method = lw.BP(gradient=Perturbation(stopping=ToTolerance(1e-9)), **TIGHT)
    leaf = tables["pair"].clone().requires_grad_()
    beliefs = method(graph, {"pair": leaf})
    assert torch.allclose(beliefs.states, torch.tensor(0.5, dtype=torch.float64))
    with pytest.warns(lw.notices.GradientWarning, match=r"jumped between optima: use a concave entropy \(TRW\)"):
        beliefs.states[0].backward()


def test_warns_of_saturated_marginals() -> None:
    graph = lw.chain(3, 2)
    tables = {name: 40 * table.sign() for name, table in random_tables(graph, seed=5, batch=(2,)).items()}
    unary = next(group.name for group in graph.groups if group.arity == 1)
    tables[unary] = torch.tensor([[[40.0, -40.0]] * 3, [[0.1, 0.2]] * 3], dtype=torch.float64)
    pair = next(group.name for group in graph.groups if group.arity == 2)
    tables[pair] = torch.zeros_like(tables[pair])
    message = warned(lw.BP(gradient=Perturbation(), **TIGHT), graph, tables)
    assert "hardly move in 1 of 2 examples" in message


def test_convergence_to_a_stated_tolerance_has_to_be_reached() -> None:
    graph = mixed_graph()
    tables = random_tables(graph, seed=6)
    leaves = {name: table.requires_grad_() for name, table in tables.items()}
    estimator = Perturbation(stopping=ToTolerance(1e-13, iterations=3))
    beliefs = lw.BP(gradient=estimator, **TIGHT)(graph, leaves)
    with (
        pytest.warns(lw.notices.ConvergenceWarning),
        pytest.warns(lw.notices.GradientWarning, match="had not converged"),
    ):
        beliefs.states[0].backward()


@pytest.mark.parametrize(("precision", "digits"), [(torch.float64, 1e-4), (None, 0.05)])
def test_single_precision(precision: torch.dtype | None, digits: float) -> None:
    """Perturbed runs in double precision keep the digits that single precision would lose."""
    graph = mixed_graph()
    tables, loss = random_tables(graph, seed=7), random_loss(graph)
    truth, _ = gradient_of(lw.BP(gradient=lw.gradient.LinearSolve(), **TIGHT), graph, tables, loss)
    single = {name: table.float() for name, table in tables.items()}
    for two_sided in (True, False):
        estimator = Perturbation(two_sided, precision=precision, check=False)
        found, _ = gradient_of(lw.BP(gradient=estimator, tolerance=1e-6, iterations=300), graph, single, loss)
        assert all(table.dtype == torch.float32 for table in found.values())
        assert gap({name: table.double() for name, table in found.items()}, truth) < digits


def small_ising(theta: Tensor, coupling: Tensor) -> tuple[Tensor, Tensor]:
    """Marginals of three binary variables on a ring, by enumeration: somebody's own inference."""
    values = torch.tensor(list(itertools.product([0.0, 1.0], repeat=3)), dtype=theta.dtype)
    pairs = values * values.roll(-1, 1)
    scores = theta @ values.T + coupling @ pairs.T
    weights = torch.softmax(scores, -1)
    return weights @ values, weights @ pairs


@pytest.mark.parametrize("estimator", [Perturbation(probe=True), Perturbation(two_sided=False)])
def test_black_box_of_several_tensors_and_a_batch(estimator: Perturbation) -> None:
    generator = torch.Generator().manual_seed(0)
    theta, coupling = (
        torch.randn(2, 5, 3, generator=generator, dtype=torch.float64, requires_grad=True) for _ in range(2)
    )
    weights = torch.randn(2, 5, 3, generator=generator, dtype=torch.float64) * torch.logspace(-3, 3, 5)[:, None]

    def loss(marginals: tuple[Tensor, Tensor]) -> Tensor:
        return (weights * marginals[0] ** 2).sum() + (weights * marginals[1]).sum()

    black_box = estimator.around(small_ising, batch_dimensions=2)
    found = torch.autograd.grad(loss(black_box(theta, coupling)), (theta, coupling))
    truth = torch.autograd.grad(loss(small_ising(theta, coupling)), (theta, coupling))
    for ours, theirs in zip(found, truth, strict=True):
        assert torch.allclose(ours / weights, theirs / weights, rtol=1e-5, atol=1e-5)


def test_black_boxes_are_checked() -> None:
    theta = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    with pytest.raises(ValueError, match=r"returned marginals of shapes \[\(2,\)\]"):
        Perturbation().around(lambda theta: theta[:2])(theta)
    jump = Perturbation().around(lambda theta: (theta > 0).to(theta))(theta)
    with pytest.warns(lw.notices.GradientWarning, match="jumped"):
        jump.sum().backward()
    kink = Perturbation().around(lambda theta: theta.abs())(theta)
    with pytest.warns(lw.notices.GradientWarning, match="not smooth"):
        (kink * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    lopsided = torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0], [-1.0, 0.5, 1.0]], dtype=torch.float64)
    not_symmetric = Perturbation(probe=True).around(lambda theta: lopsided @ theta)(theta)
    with pytest.warns(lw.notices.GradientWarning, match="not symmetric"):
        not_symmetric[0].backward()
    fine = Perturbation().around(lambda theta: torch.softmax(theta, 0))(theta)
    with pytest.raises(lw.notices.GradientError, match="NaN"):
        (fine * torch.nan).sum().backward()
    (first,) = torch.autograd.grad(fine[0], theta, create_graph=True)
    with pytest.raises(lw.notices.GradientError, match="differentiates once"):
        first.sum().backward()
    (nothing,) = torch.autograd.grad(0.0 * fine.sum(), theta)
    assert bool((nothing == 0).all())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Perturbation(multiplier=0.0), "multiplier must be positive, got 0.0"),
        (lambda: Perturbation(step=1e-4), "step must be SquareRoot"),  # type: ignore[arg-type]
        (lambda: Perturbation(stopping=3), "stopping must be EqualSweeps"),  # type: ignore[arg-type]
        (lambda: Perturbation(precision=torch.int64), "precision must be a floating point type"),
        (lambda: Perturbation(step=SquareRoot()).around(lambda theta: theta, -1), "batch_dimensions"),
        (lambda: ToTolerance(tolerance=0.0), "tolerance must be positive, got 0.0"),
        (lambda: ToTolerance(iterations=0), "iterations must be a whole number of at least 1, not 0"),
    ],
)
def test_options_are_checked(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("kind", [lw.BP, lw.TRW])
def test_warm_starts_give_the_same_gradient(kind: Any) -> None:
    """From the messages of the original run, with half of its sweeps or more where changes have not settled."""
    graph = lw.grid(4, 4)
    potentials = lw.TablePotentials.random(graph, seed=3, scale=0.4)
    slopes = []
    for gradient in (
        lw.Perturbation(),
        lw.Perturbation(stopping=EqualSweeps(warm=True)),
        lw.FixedPoint(tolerance=1e-12),
    ):
        method = kind(iterations=2000, tolerance=1e-10, gradient=gradient)
        loss = method(graph, potentials).states.square().sum()
        slopes.append(
            torch.cat([part.reshape(-1) for part in torch.autograd.grad(loss, list(potentials.parameters()))])
        )
    for found in slopes[:2]:
        torch.testing.assert_close(found, slopes[2], rtol=0, atol=2e-6)
