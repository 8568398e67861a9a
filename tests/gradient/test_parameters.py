"""Inference parameters can be trained: damping, temperature, counting numbers, initial messages."""

from __future__ import annotations

import pytest
import torch

import loopwise as lw
from loopwise.gradient.differences import derivative
from loopwise.gradient.unroll import Fitting
from oracles.gradient_cases import ENGINES, SCHEDULES, everything, gap, normal, pair_graph, tables_of

TAPES = [lw.gradient.Store(), lw.gradient.Recompute(), lw.gradient.Checkpoints(2), Fitting()]


def number(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


# Each entry: a method as a function of a parameter, and where the parameter is.
PARAMETERS = {
    "damping": (lambda value, **options: lw.BP(damping=value, **options), number(0.3)),
    "damping at 0": (lambda value, **options: lw.BP(damping=value, **options), number(0.0)),
    "temperature": (lambda value, **options: lw.BP(temperature=value, damping=0.1, **options), number(1.3)),
    "rho": (lambda value, **options: lw.TRW(rho=value, damping=0.1, **options), number(0.6)),
    "rho of a group": (lambda value, **options: lw.TRW(rho={"pair": value}, **options), number(0.5)),
    "rho of each factor": (
        lambda value, **options: lw.TRW(rho={"pair": value}, **options),
        0.4 + 0.3 * torch.rand(16, generator=torch.Generator().manual_seed(0), dtype=torch.float64),
    ),
    "c of factors": (
        lambda value, **options: lw.BP(counting=lw.inference.ExplicitCounting({"pair": value}, 0.3), **options),
        0.5 + torch.rand(16, generator=torch.Generator().manual_seed(1), dtype=torch.float64),
    ),
    "c of variables": (
        lambda value, **options: lw.BP(counting=lw.inference.ExplicitCounting({"pair": 0.7}, value), **options),
        torch.linspace(-0.2, 0.5, 9, dtype=torch.float64),
    ),
}


def parameter_gradient(make, value, graph, tables, loss=everything, **options):
    leaf = value.clone().requires_grad_()
    leaves = {name: table.clone().requires_grad_() for name, table in tables.items()}
    total = loss(make(leaf, **options)(graph, leaves))
    found = torch.autograd.grad(total, [leaf, *leaves.values()])
    return dict(zip(["parameter", *leaves], found, strict=True))


def slope(make, value, direction, graph, tables, loss=everything, **options):
    """By differences of whole runs."""
    with torch.no_grad():
        return derivative(lambda step: float(loss(make(value + step * direction, **options)(graph, tables))), 1e-2)[0]


@pytest.mark.parametrize("name", [name for name in PARAMETERS if name != "damping at 0"])
def test_the_gradient_is_that_of_differences(engine, schedule, name) -> None:
    make, value = PARAMETERS[name]
    graph = pair_graph()
    # By residuals, differences must be taken where the order of updates does not jump.
    tables = tables_of(graph, scale=0.5 if isinstance(schedule, lw.inference.Residual) else 1.0)
    options = {
        "iterations": 1 if isinstance(schedule, lw.inference.Residual) else 3,
        "tolerance": 0,
        "schedule": schedule,
    }
    found = parameter_gradient(make, value, graph, tables, engine=engine, **options)["parameter"]
    direction = normal(value.shape, 4)
    expected = slope(make, value, direction, graph, tables, engine=engine, **options)
    assert abs(expected) > 1e-4
    assert float((found * direction).sum()) == pytest.approx(expected, rel=1e-7)


def test_damping_has_a_gradient_at_zero(engine, schedule) -> None:
    """Where there is none, the run is the undamped one; below 0 there is no run, so differences are one-sided."""
    graph = pair_graph()
    tables = tables_of(graph)
    make, value = PARAMETERS["damping at 0"]
    options = {
        "iterations": 1 if isinstance(schedule, lw.inference.Residual) else 3,
        "tolerance": 0,
        "schedule": schedule,
    }
    found = float(parameter_gradient(make, value, graph, tables, engine=engine, **options)["parameter"])
    with torch.no_grad():
        runs = [float(everything(make(k * 1e-4, engine=engine, **options)(graph, tables))) for k in range(5)]
    weights = (-25 / 12, 4.0, -3.0, 4 / 3, -1 / 4)
    expected = sum(weight * run for weight, run in zip(weights, runs, strict=True)) / 1e-4
    assert abs(expected) > 1e-4
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["damping", "temperature", "rho", "c of variables"])
@pytest.mark.parametrize("kind", ["flooding", "sequential"])
def test_engines_agree_on_batches_that_stop_early(kind, name) -> None:
    make, value = PARAMETERS[name]
    graph = pair_graph()
    tables = tables_of(graph, 40, scale=0.6, shared=("pair",))
    options = {"iterations": 60, "tolerance": 1e-3, "schedule": SCHEDULES[kind]}
    assert len(set(make(value, **options)(graph, tables).status.sweeps.tolist())) > 1
    plain, fast = (parameter_gradient(make, value, graph, tables, engine=each, **options) for each in ENGINES.values())
    assert gap(fast, plain) < 1e-10


@pytest.mark.parametrize("name", ["damping", "rho"])
def test_all_tapes_agree(name) -> None:
    make, value = PARAMETERS[name]
    graph = pair_graph()
    for batch in ((), (40,)):
        tables = tables_of(graph, *batch)
        first, *others = [
            parameter_gradient(make, value, graph, tables, iterations=5, tolerance=0, gradient=lw.Unroll(tape))
            for tape in TAPES
        ]
        assert all(torch.equal(other[part], first[part]) for other in others for part in tables)
        # The parameter's own is summed stretch by stretch.
        assert max(gap(other, first) for other in others) < 1e-14


def test_initial_messages_have_the_gradient_of_differences(engine, schedule) -> None:
    graph = pair_graph()
    tables = tables_of(graph)
    method = lw.BP(
        iterations=1 if isinstance(schedule, lw.inference.Residual) else 3,
        tolerance=0,
        schedule=schedule,
        engine=engine,
    )
    initial = normal((graph.layout.slots,), 6)
    leaf, direction = initial.clone().requires_grad_(), normal(initial.shape, 7)

    def loss(start):
        return everything(method(graph, tables, initial=start))

    (found,) = torch.autograd.grad(loss(leaf), leaf)
    with torch.no_grad():
        expected = derivative(lambda step: float(loss(initial + step * direction)), 1e-2)[0]
    assert abs(expected) > 1e-4
    assert float((found * direction).sum()) == pytest.approx(expected, rel=1e-7)


def test_a_warm_start_carries_its_gradient_on(engine) -> None:
    """Two short runs, the second from the messages of the first, are one long run."""
    graph = pair_graph()
    tables = tables_of(graph)
    results = []
    for split in (False, True):
        leaves = {name: table.clone().requires_grad_() for name, table in tables.items()}
        whole = lw.BP(iterations=2 if split else 4, tolerance=0, engine=engine)
        beliefs = whole(graph, leaves)
        if split:
            beliefs = whole(graph, leaves, initial=beliefs.messages)
        found = torch.autograd.grad(everything(beliefs), list(leaves.values()))
        results.append(dict(zip(leaves, found, strict=True)))
    assert gap(results[1], results[0]) < 1e-12


@pytest.mark.parametrize("gradient", [lw.FixedPoint(tolerance=1e-13), lw.Unroll()], ids=["fixed point", "unroll"])
@pytest.mark.parametrize("name", ["rho", "temperature", "c of factors"])
def test_parameters_that_move_the_fixed_point(engine, name, gradient) -> None:
    """The implicit gradient sees them too; damping, which does not move it, gets none."""
    make, value = PARAMETERS[name]
    graph = pair_graph()
    tables = tables_of(graph, scale=0.3)
    options = {"engine": engine, "iterations": 3000, "tolerance": 1e-14}
    found = parameter_gradient(make, value, graph, tables, gradient=gradient, **options)["parameter"]
    direction = normal(value.shape, 4)
    expected = slope(make, value, direction, graph, tables, **options)
    assert float((found * direction).sum()) == pytest.approx(expected, rel=1e-7)


def test_the_fixed_point_does_not_depend_on_damping(engine) -> None:
    make, value = PARAMETERS["damping"]
    graph = pair_graph()
    options = {"engine": engine, "iterations": 3000, "tolerance": 1e-14, "gradient": lw.FixedPoint(tolerance=1e-13)}
    found = parameter_gradient(make, value, graph, tables_of(graph, scale=0.3), **options)
    assert abs(float(found["parameter"])) < 1e-9


@pytest.mark.parametrize(
    "gradient", [lw.Perturbation(), lw.gradient.LinearSolve()], ids=["perturbation", "linear solve"]
)
@pytest.mark.parametrize("name", ["damping", "temperature", "rho"])
@pytest.mark.parametrize("alone", [False, True], ids=["beside potentials", "alone"])
def test_estimators_that_only_see_marginals_refuse(engine, name, gradient, alone) -> None:
    make, value = PARAMETERS[name]
    graph = pair_graph()
    tables = tables_of(graph, scale=0.3)
    leaves = {group: table.requires_grad_(not alone) for group, table in tables.items()}
    with pytest.raises(lw.notices.GradientError, match=r"Unroll"):
        make(value.clone().requires_grad_(), engine=engine, gradient=gradient)(graph, leaves)


def test_parameters_alone_can_be_trained(engine) -> None:
    """Potentials that want no gradient; damping and temperature go down a loss together."""
    graph = pair_graph()
    tables = tables_of(graph)
    with torch.no_grad():
        target = lw.BP(iterations=200, tolerance=1e-9, damping=0.5, temperature=1.2)(graph, tables).states
    damping, temperature = number(0.1).requires_grad_(), number(1.0).requires_grad_()
    optimizer = torch.optim.Adam([damping, temperature], lr=0.02)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        method = lw.BP(iterations=3, tolerance=0, damping=damping, temperature=temperature, engine=engine)
        loss = (method(graph, tables).states - target).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


def test_values_are_checked() -> None:
    with pytest.raises(ValueError, match="damping must be at least 0 and below 1"):
        lw.BP(damping=number(1.0))
    with pytest.raises(ValueError, match="temperature must be 0 or a number"):
        lw.BP(temperature=number(-1.0))
    with pytest.raises(ValueError, match="rho must be positive"):
        lw.TRW(rho=number(-0.5).requires_grad_())(pair_graph(), tables_of(pair_graph()))
