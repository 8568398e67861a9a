"""Gradients of mean field: against central differences of the same run, its torch twin, and one another."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loopwise.gradient.fixed_point import FixedPoint, OneStep
from loopwise.gradient.linear_solve import LinearSolve
from loopwise.gradient.perturbation import Perturbation
from loopwise.gradient.unroll import Checkpoints, Fitting, Recompute, Store, Unroll
from loopwise.graph.builders import complete, grid
from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.base import Problem
from loopwise.inference.mean_field.method import MeanField
from loopwise.inference.mean_field.reference import replay, sweep
from loopwise.notices import ConvergenceWarning, GradientError, GradientWarning
from loopwise.potentials.checks import checked_tables
from oracles.mean_field_cases import lower_bound
from oracles.strategies import evidence_for, models

STEP = 1e-5  # of central differences: their own error is then about 1e-10


def leaves(tables):
    return {name: torch.as_tensor(table).clone().requires_grad_() for name, table in tables.items()}


def normal(shape, seed, scale=1.0):
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def any_loss(beliefs):
    """A loss that looks at everything: all beliefs and the bound, bent so that its gradient is not constant."""
    total = (normal(beliefs.states.shape, 1) * beliefs.states).sum() + (beliefs.states**2).sum()
    for number, group in enumerate(beliefs.graph.groups):
        factor = beliefs.factor(group.name)
        total = total + (normal(factor.shape, 2 + number) * factor**2).sum()
    return total + (beliefs.log_partition * 0.3).sin().sum()


def slope(loss_of, tables, seed=0):
    """Central difference of a loss along a random direction that leaves hard zeros alone, and that direction."""
    direction = {name: normal(table.shape, seed + number) for number, (name, table) in enumerate(tables.items())}
    ends = []
    with torch.no_grad():
        for sign in (1, -1):
            ends.append(loss_of({name: table + sign * STEP * direction[name] for name, table in tables.items()}))
    return float(ends[0] - ends[1]) / (2 * STEP), direction


def check_slope(method, graph, tables, loss=any_loss, evidence=None):
    """The gradient of ``loss`` is finite, 0 at hard zeros, and has the slope of central differences."""
    given_tables = leaves(tables)
    value = loss(method(graph, given_tables, evidence))
    names = list(given_tables)
    grads = dict(zip(names, torch.autograd.grad(value, list(given_tables.values()), allow_unused=True), strict=True))
    expected, direction = slope(lambda moved: loss(method(graph, moved, evidence)), tables)
    found, size = 0.0, 1e-3
    for name in names:
        if grads[name] is None:
            continue
        assert torch.isfinite(grads[name]).all()
        assert (grads[name][torch.isneginf(tables[name])] == 0).all()
        found += float((grads[name] * direction[name]).sum())
        size += float((grads[name] * direction[name]).abs().sum())
    assert abs(found - expected) <= 1e-7 * size


def truncated(sweeps, **options):
    return MeanField(iterations=sweeps, tolerance=0, **options)


def problem_of(graph, tables):
    tables, batch = checked_tables(graph, tables)
    return Problem(graph, tables, batch, torch.empty(0, dtype=torch.float64))


# --------------------------------------------------------------------------------------------------------- Unroll


@settings(max_examples=60)
@given(models(zeros=True), st.sampled_from([1, 2, 3, 7]), st.integers(0, 5))
def test_unrolled_gradient_is_that_of_the_truncated_run(model, sweeps, seed):
    graph, tables = model
    assume(graph.groups)
    check_slope(truncated(sweeps, seed=seed, temperature=[1.0, 0.7][seed % 2]), graph, tables)


@settings(max_examples=25)
@given(models(zeros=True, variables=(2, 6)), st.data())
def test_unrolled_gradient_given_evidence(model, data):
    graph, tables = model
    assume(graph.groups and not any(torch.isneginf(table).any() for table in tables.values()))
    batch = data.draw(st.sampled_from([(), (3,)]))
    values = data.draw(evidence_for(graph, batch, same_variables=data.draw(st.booleans())))
    check_slope(truncated(3), graph, tables, evidence=values)


@settings(max_examples=30)
@given(models(zeros=True, variables=(2, 5)), st.sampled_from([1, 2, 3, 7]))
def test_unrolled_gradient_equals_autograd_through_the_twin(model, sweeps):
    graph, tables = model
    assume(graph.groups)
    ours = leaves(tables)
    beliefs = truncated(sweeps, seed=3)(graph, ours)
    assume(beliefs.states.requires_grad)
    start = beliefs.states.grad_fn.run.starts
    twins = leaves(tables)
    problem = problem_of(graph, twins)
    states = torch.from_numpy(start).reshape(-1)
    for _ in range(sweeps):
        states = sweep(problem, states)
    torch.testing.assert_close(beliefs.states, states, rtol=0, atol=1e-12)
    weights = normal(states.shape, 7)
    for value, twin in (
        ((weights * beliefs.states).sum(), (weights * states).sum()),
        (beliefs.log_partition, lower_bound(problem, states)),
    ):
        torch.testing.assert_close(value, twin, rtol=1e-12, atol=1e-12)
        found = torch.autograd.grad(value, list(ours.values()), retain_graph=True, allow_unused=True)
        expected = torch.autograd.grad(twin, list(twins.values()), retain_graph=True, allow_unused=True)
        for name, one, other in zip(ours, found, expected, strict=True):
            one, other = (torch.zeros_like(ours[name]) if grad is None else grad for grad in (one, other))
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def batched_model():
    """Own unaries, a table shared by all, one of each column of the batch, one tied over its factors."""
    graph = FactorGraph(
        [2, 3, 2, 3],
        {
            "unary": [[1], [3], [1]],
            "shared": [[0, 1], [2, 3]],
            "column": [[2, 0], [0, 2]],
            "tied": [[0, 1, 2, 3], [2, 3, 0, 1]],
            "constant": np.zeros((2, 0), dtype=np.int64),
        },
    )
    shapes = {
        "unary": (2, 3, 3, 3),
        "shared": (2, 2, 3),
        "column": (3, 2, 2, 2),
        "tied": (2, 1, 1, 2, 3, 2, 3),
        "constant": (2, 1, 2),
    }
    return graph, {name: normal(shape, number) for number, (name, shape) in enumerate(shapes.items())}


@pytest.mark.parametrize("threads", [1, 3])
def test_batches_and_shared_tables(threads):
    graph, tables = batched_model()
    check_slope(truncated(3, threads=threads), graph, tables)
    check_slope(MeanField(iterations=400, tolerance=1e-3, threads=threads), graph, tables)  # each stops when it will
    alone = {**tables, "unary": tables["unary"][:1, :1], "column": tables["column"][:1], "tied": tables["tied"][:1]}
    alone["constant"] = tables["constant"][0, 0]
    check_slope(truncated(2, threads=threads), graph, alone)


def test_gradcheck_and_second_derivatives():
    graph = FactorGraph([2, 3, 2], {"unary": [[1]], "triple": [[0, 1, 2]], "column": [[2, 0]]})
    shapes = {"unary": (2, 1, 3), "triple": (1, 2, 3, 2), "column": (1, 2, 2)}
    small = {name: normal(shape, number) for number, (name, shape) in enumerate(shapes.items())}

    def function(*values):
        beliefs = truncated(3)(graph, dict(zip(small, values, strict=True)))
        return beliefs.states, beliefs.factor("column"), beliefs.log_partition

    inputs = tuple(table.clone().requires_grad_() for table in small.values())
    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)  # a random direction of each


def test_second_derivatives_where_examples_stop_by_themselves_and_tables_depend_on_one_another():
    """Second derivatives of a run of different lengths, of a hard zero, of a pair table computed from the unary one."""
    graph = complete(3)
    zeros = torch.zeros(2, 3, 2, 2, dtype=torch.float64)
    zeros[1, 0, 0, 0] = -torch.inf
    method = MeanField(iterations=60, tolerance=1e-2, seed=1)
    unary = normal((2, 3, 2), 0).requires_grad_()

    def gradient(values):
        pair = (values[:, :, :, None] * values.roll(1, -2)[:, :, None]).sin() + zeros
        beliefs = method(graph, {"unary": values, "pair": pair})
        loss = (beliefs.states**2 * normal(beliefs.states.shape, 3)).sum() + beliefs.log_partition.sum()
        (grad,) = torch.autograd.grad(loss, values, create_graph=True)
        return grad, beliefs.status.sweeps

    grad, sweeps = gradient(unary)
    assert sweeps[0] != sweeps[1]
    vector = normal(unary.shape, 5)
    (product,) = torch.autograd.grad((grad * vector).sum(), unary)
    ends = [gradient((unary + sign * STEP * vector).detach().requires_grad_())[0].detach() for sign in (1, -1)]
    torch.testing.assert_close(product, (ends[0] - ends[1]) / (2 * STEP), rtol=1e-7, atol=1e-8)


def test_tapes_give_identical_gradients():
    graph, tables = batched_model()
    tapes = [Store(), Recompute(), Fitting(), Fitting(limit=1), Checkpoints()]
    tapes += [Checkpoints(every) for every in (1, 2, 3, 6, 7, 100)]
    for sweeps in (1, 6, 7):
        grads = []
        for tape in tapes:
            given_tables = leaves(tables)
            any_loss(truncated(sweeps, gradient=Unroll(tape), threads=2)(graph, given_tables)).backward()
            grads.append([table.grad for table in given_tables.values()])
        for other in grads[1:]:
            assert all(torch.equal(one, two) for one, two in zip(grads[0], other, strict=True))


def test_the_run_that_won_is_differentiated():
    graph = complete(5, states=3)
    rng = np.random.default_rng(0)
    tables = {"unary": torch.tensor(0.2 * rng.normal(size=(4, 5, 3))), "pair": torch.tensor(2 * np.eye(3))[None]}
    method = truncated(4, restarts=6)
    one, best = (truncated(4, restarts=count)(graph, tables).log_partition for count in (1, 6))
    assert (best > one + 1e-3).any()  # so that another start than the first wins somewhere
    check_slope(method, graph, tables)


def test_hard_constraints_give_finite_gradients():
    """Exactly one of four is on, and exclusive or: from a possible configuration, where only free variables move."""
    allowed = np.indices((2, 2, 2, 2)).sum(axis=0) == 1
    parity = np.where(np.indices((2, 2)).sum(axis=0) == 1, 0.0, -np.inf)
    graph, tables = FactorGraph.from_factors(
        [2] * 6,
        [
            ((0, 1, 2, 3), np.where(allowed, 0.0, -np.inf)),
            ((0, 4), parity),
            ((4, 5), np.log([[1.0, 3.0], [2.0, 1.0]])),
            ((5,), np.array([0.3, -0.2])),
        ],
    )
    tables = {name: torch.as_tensor(table) for name, table in tables.items()}
    beliefs = truncated(3)(graph, leaves(tables))
    assert "possible configuration" in str(beliefs.status)
    assert 0 < float(beliefs.marginal(5)[0].detach()) < 1
    for sweeps in (1, 3):
        check_slope(truncated(sweeps), graph, tables)


def test_an_example_without_any_start_has_gradient_zero():
    differ = torch.zeros(2, 3, 2, 2, dtype=torch.float64)
    differ[0] += torch.diag(torch.full((2,), -torch.inf)).nan_to_num(nan=0.0, neginf=-torch.inf)
    graph = FactorGraph([2, 2, 2], {"pair": [[0, 1], [1, 2], [0, 2]], "unary": [[0]]})
    tables = {"pair": differ.requires_grad_(), "unary": normal((1, 2), 0).requires_grad_()}
    with pytest.warns(ConvergenceWarning, match="no start of finite bound"):
        beliefs = truncated(3)(graph, tables)
    assert beliefs.log_partition[0] == -torch.inf and beliefs.log_partition[1] > -torch.inf
    loss = (beliefs.states * normal(beliefs.states.shape, 1)).sum() + beliefs.log_partition[1]
    pair, unary = torch.autograd.grad(loss, list(tables.values()), create_graph=True)
    assert (pair[0] == 0).all() and (pair[1] != 0).any() and torch.isfinite(unary).all()
    (second,) = torch.autograd.grad((pair**2).sum(), tables["unary"])  # the torch twin skips it as well
    assert torch.isfinite(second).all()


def test_extreme_potentials_and_high_degree_give_finite_gradients():
    graph = FactorGraph([2] * 301, {"pair": [[0, leaf] for leaf in range(1, 301)], "unary": [[0]]})
    tables = {"pair": normal((300, 2, 2), 0, 0.05), "unary": normal((1, 2), 1)}
    check_slope(truncated(3), graph, tables)
    wild = leaves({name: 1e4 * table for name, table in tables.items()})
    any_loss(truncated(3)(graph, wild)).backward()
    assert all(torch.isfinite(table.grad).all() for table in wild.values())


def test_float32_gradients_are_those_of_float64_rounded():
    graph, tables = batched_model()
    grads = {}
    for dtype in (torch.float32, torch.float64):
        given_tables = leaves({name: table.float().to(dtype) for name, table in tables.items()})
        beliefs = truncated(3)(graph, given_tables)
        assert beliefs.states.dtype == beliefs.log_partition.dtype == beliefs.factor("tied").dtype == dtype
        fixed = truncated(3)(graph, {name: table.detach() for name, table in given_tables.items()})
        assert torch.equal(fixed.states, beliefs.states)
        torch.testing.assert_close(fixed.log_partition, beliefs.log_partition.detach())
        loss = (beliefs.states * normal(beliefs.states.shape, 1).to(dtype)).sum() + beliefs.log_partition.sum()
        grads[dtype] = torch.autograd.grad(loss, list(given_tables.values()))
    for single, double in zip(grads[torch.float32], grads[torch.float64], strict=True):
        assert single.dtype == torch.float32
        torch.testing.assert_close(single.double(), double, rtol=1e-5, atol=1e-5)


def test_score_adjoints_of_a_variable_sum_to_zero():
    """Adding a constant to all scores of a variable changes no belief."""
    graph, tables = batched_model()
    given_tables = leaves(tables)
    loss = (truncated(3)(graph, given_tables).states ** 2).sum()
    for name, grad in zip(
        given_tables, torch.autograd.grad(loss, given_tables.values(), allow_unused=True), strict=True
    ):
        if name == "unary":
            torch.testing.assert_close(grad.sum(-1), torch.zeros(2, 3, 3, dtype=torch.float64), rtol=0, atol=1e-14)
        elif name != "constant":
            assert abs(float(grad.sum())) < 1e-13 and float(grad.abs().max()) > 1e-3


def test_nothing_to_differentiate():
    graph = grid(1, 2)
    empty = {"unary": torch.zeros(2, 2, requires_grad=True), "pair": torch.zeros(0, 1, 2, 2, requires_grad=True)}
    beliefs = MeanField()(graph, empty)
    (beliefs.states.sum() + beliefs.log_partition.sum()).backward()
    assert (empty["unary"].grad == 0).all() and empty["pair"].grad.shape == (0, 1, 2, 2)
    none = {"unary": torch.zeros(0, 2, 2, requires_grad=True), "pair": torch.zeros(1, 2, 2, requires_grad=True)}
    MeanField()(graph, none).states.sum().backward()
    assert none["unary"].grad.shape == (0, 2, 2) and (none["pair"].grad == 0).all()
    nobody = {"lonely": torch.zeros(0, 2, 2, requires_grad=True)}
    MeanField()(FactorGraph([2, 2], {"lonely": np.zeros((0, 2), dtype=np.int64)}), nobody).states.sum().backward()


# ------------------------------------------------------------------------------------------------- at convergence


def converged(gradient, **options):
    return MeanField(iterations=10_000, tolerance=1e-13, gradient=gradient, **options)


def gradients(method, graph, tables, loss=any_loss, evidence=None):
    given_tables = leaves(tables)
    beliefs = method(graph, given_tables, evidence)
    assert beliefs.status.converged
    grads = torch.autograd.grad(loss(beliefs), list(given_tables.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(given_tables, grads, strict=True)), beliefs


@settings(max_examples=30)
@given(models(variables=(2, 6), zeros=True, scale=0.7), st.sampled_from([1.0, 1.6]))
def test_fixed_point_equals_unroll_at_convergence(model, temperature):
    graph, tables = model
    assume(graph.layout.message_groups)
    unrolled, _ = gradients(converged(Unroll(), temperature=temperature), graph, tables)
    solved, beliefs = gradients(converged(FixedPoint(tolerance=1e-13), temperature=temperature), graph, tables)
    assert beliefs.gradient.estimator == "FixedPoint" and beliefs.gradient.residual <= 1e-13
    for name in tables:
        torch.testing.assert_close(solved[name], unrolled[name], rtol=1e-7, atol=1e-9)


def soft_model(seed=0):
    graph = FactorGraph([2, 3, 2, 3, 2], {"pair": [[0, 1], [2, 3], [4, 3]], "triple": [[0, 2, 4]], "unary": [[0], [2]]})
    shapes = {"pair": (3, 2, 3), "triple": (1, 2, 2, 2), "unary": (4, 2, 2)}
    return graph, {name: normal(shape, seed + number, 0.5) for number, (name, shape) in enumerate(shapes.items())}


@pytest.mark.parametrize("evidence", [None, {3: 1}])
def test_estimators_agree_at_convergence(evidence):
    graph, tables = soft_model()
    unrolled, beliefs = gradients(converged(Unroll()), graph, tables, evidence=evidence)
    assert beliefs.gradient.iterations == int(beliefs.status.sweeps.max())
    for gradient, close in ((FixedPoint(), 1e-7), (Perturbation(), 1e-5)):
        others, beliefs = gradients(converged(gradient), graph, tables, evidence=evidence)
        assert beliefs.gradient.estimator == type(gradient).__name__
        for name in tables:
            torch.testing.assert_close(others[name], unrolled[name], rtol=close, atol=close)


def test_gradient_of_the_bound_is_the_factor_beliefs():
    graph, tables = soft_model(3)
    for gradient in (Unroll(), FixedPoint()):
        found, beliefs = gradients(converged(gradient), graph, tables, lambda beliefs: beliefs.log_partition.sum())
        torch.testing.assert_close(found["unary"], beliefs.factor("unary").detach(), rtol=0, atol=1e-9)
        for name in ("pair", "triple"):
            torch.testing.assert_close(found[name], beliefs.factor(name).detach().sum(0), rtol=0, atol=1e-9)


def test_one_step_differentiates_the_last_sweep_only():
    graph, tables = soft_model(5)
    weights = normal((4, graph.layout.states), 9)
    cut, beliefs = gradients(converged(OneStep()), graph, tables, lambda beliefs: (weights * beliefs.states).sum())
    assert beliefs.gradient.iterations == 1
    twins = leaves(tables)
    (weights * sweep(problem_of(graph, twins), beliefs.states.detach())).sum().backward()
    full, _ = gradients(converged(FixedPoint()), graph, tables, lambda beliefs: (weights * beliefs.states).sum())
    for name in tables:
        torch.testing.assert_close(cut[name], twins[name].grad, rtol=0, atol=1e-11)
        assert (cut[name] - full[name]).abs().max() > 1e-4  # it is biased


def test_small_losses_are_solved_as_well_as_large_ones():
    graph, tables = soft_model(6)
    weights = normal((4, graph.layout.states), 9)
    large, small = (
        gradients(converged(FixedPoint()), graph, tables, lambda beliefs, s=s: s * (weights * beliefs.states).sum())[0]
        for s in (1.0, 1e-9)
    )
    for name in tables:
        torch.testing.assert_close(1e9 * small[name], large[name], rtol=1e-9, atol=1e-12)


# -------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("gradient", [FixedPoint(), OneStep()])
def test_runs_that_did_not_converge_have_no_fixed_point(gradient):
    graph, tables = soft_model()
    beliefs = truncated(2, gradient=gradient)(graph, leaves(tables))
    with pytest.raises(GradientError, match=f"{type(gradient).__name__} is only valid at a fixed point"):
        beliefs.states.square().sum().backward()


def test_fixed_point_gradients_are_not_differentiated_twice():
    graph, tables = soft_model()
    given_tables = leaves(tables)
    loss = converged(FixedPoint())(graph, given_tables).states.square().sum()
    (grad,) = torch.autograd.grad(loss, given_tables["pair"], create_graph=True)
    with pytest.raises(
        GradientError, match=r"FixedPoint gradients of mean field cannot be differentiated again.*Unroll"
    ):
        grad.square().sum().backward()


def test_a_cap_on_adjoint_sweeps_is_told():
    graph, tables = soft_model()
    beliefs = converged(FixedPoint(iterations=2))(graph, leaves(tables))
    with pytest.warns(GradientWarning, match="after 2 sweeps"):
        beliefs.states.square().sum().backward()
    assert beliefs.gradient.iterations == 2 and beliefs.gradient.residual > 1e-8
    accelerated = converged(FixedPoint(anderson=3))(graph, leaves(tables))
    accelerated.states.square().sum().backward()
    assert "without Anderson" in str(accelerated.gradient)


def test_other_estimators_and_broken_losses_are_refused():
    with pytest.raises(GradientError, match="MeanField cannot be differentiated by LinearSolve; valid are: Unroll"):
        MeanField(gradient=LinearSolve())
    with pytest.raises(GradientError, match="MeanField cannot be differentiated by 'unroll'"):
        MeanField(gradient="unroll")
    graph = FactorGraph([2, 2], {"pair": [[0, 1]]})
    pair = torch.tensor([[[0.0, -torch.inf], [-torch.inf, 1.0]]], requires_grad=True)
    beliefs = truncated(2)(graph, {"pair": pair})
    with pytest.raises(GradientError, match="logarithm of a belief that is 0"):
        (beliefs.states * torch.log(beliefs.states)).sum().backward()


def test_without_gradients_nothing_is_recorded():
    graph, tables = soft_model()
    for gradient in (Unroll(), FixedPoint(), Perturbation()):
        plain = MeanField(gradient=gradient)(graph, tables)
        assert not plain.states.requires_grad and plain.gradient is None
    with torch.no_grad():
        assert not MeanField()(graph, leaves(tables)).log_partition.requires_grad


def test_replay_in_torch_is_the_same_run():
    graph, tables = soft_model()
    for sweeps, seed in itertools.product((1, 4), (0, 1)):
        beliefs = truncated(sweeps, seed=seed)(graph, leaves(tables))
        start = torch.from_numpy(beliefs.states.grad_fn.run.starts)
        again = replay(problem_of(graph, tables), start, torch.full((4,), sweeps))
        torch.testing.assert_close(again, beliefs.states.detach(), rtol=0, atol=1e-13)
    assert dataclasses.replace(truncated(1), gradient=OneStep()).gradient == OneStep()
