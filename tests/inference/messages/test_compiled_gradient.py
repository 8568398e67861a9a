"""Corners of differentiable message passing: modes, empty inputs, refusals, what trained options see."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import loopwise as lw

ENGINES = [lw.inference.Reference(), lw.inference.Compiled()]


def a_model() -> tuple[lw.FactorGraph, dict[str, Tensor]]:
    graph, generator = lw.grid(2, 2), torch.Generator().manual_seed(0)
    tables = {
        group.name: torch.randn(group.count, *group.shape, generator=generator, dtype=torch.float64)
        for group in graph.groups
    }
    return graph, {name: table.requires_grad_() for name, table in tables.items()}


def slope(loss: Callable[[Tensor], Tensor], at: Tensor) -> float:
    with torch.no_grad():
        return float((loss(at + 1e-6) - loss(at - 1e-6)) / 2e-6)


@pytest.mark.parametrize("engine", ENGINES, ids=["reference", "compiled"])
def test_counting_numbers_at_a_fixed_point(engine: object) -> None:
    graph, tables = a_model()
    rho = torch.tensor(0.6, dtype=torch.float64, requires_grad=True)

    def loss(value: Tensor, gradient: lw.FixedPoint | lw.Unroll) -> Tensor:
        method = lw.TRW(rho=value, iterations=2000, tolerance=1e-13, gradient=gradient, engine=engine)
        return method(graph, tables).states.square().sum()

    (found,) = torch.autograd.grad(loss(rho, lw.FixedPoint(tolerance=1e-12)), rho)
    assert float(found) == pytest.approx(slope(lambda at: loss(at, lw.Unroll()), rho.detach()), rel=1e-6)


@pytest.mark.parametrize("engine", ENGINES, ids=["reference", "compiled"])
def test_trained_temperature_and_counting_beside_hard_zeros(engine: object) -> None:
    graph, tables = a_model()
    tables = {name: table.detach().clone() for name, table in tables.items()}
    tables["pair"][0, 0, 0] = -torch.inf
    options: dict[str, Callable[[Tensor], lw.inference.Inference]] = {
        "temperature": lambda at: lw.BP(iterations=3, tolerance=0, temperature=at, engine=engine),
        "rho": lambda at: lw.TRW(iterations=3, tolerance=0, rho=at, engine=engine),
    }
    for method in options.values():
        at = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)

        def loss(value: Tensor, method: Callable[[Tensor], lw.inference.Inference] = method) -> Tensor:
            return method(value)(graph, tables).states.square().sum()

        (found,) = torch.autograd.grad(loss(at), at)
        assert float(found) == pytest.approx(slope(loss, at.detach()), rel=1e-6)


@pytest.mark.parametrize("engine", ENGINES, ids=["reference", "compiled"])
def test_fixed_points_refuse_what_they_do_not_know(engine: object) -> None:
    graph, tables = a_model()
    options = {"iterations": 1000, "tolerance": 1e-12, "engine": engine}
    for gradient in (lw.FixedPoint(), lw.gradient.OneStep()):
        with pytest.raises(lw.notices.GradientError, match="trace=True"):
            lw.BP(**options, gradient=gradient, trace=True)(graph, tables)
        with pytest.raises(lw.notices.GradientError, match="differentiates once"):
            pair = tables["pair"]
            lw.hvp(
                lambda gradient=gradient: lw.BP(**options, gradient=gradient)(graph, tables).states.square().sum(),
                [pair],
                [torch.ones_like(pair)],
            )


@pytest.mark.parametrize("engine", ENGINES, ids=["reference", "compiled"])
def test_max_product_decodes_a_trained_model_and_refuses_its_gradient(engine: object) -> None:
    graph, tables = a_model()
    beliefs = lw.BP(temperature=0.0, engine=engine)(graph, tables)
    assert beliefs.assignment.shape == (4,)
    with pytest.raises(lw.notices.GradientError, match="max-product"):
        beliefs.states.sum().backward()


def test_what_is_read_late_keeps_the_mode_of_the_call() -> None:
    graph, tables = a_model()
    with torch.no_grad():
        quiet = lw.BP()(graph, tables)
    assert not quiet.log_partition.requires_grad and not quiet.factor("pair").requires_grad
    loud = lw.BP()(graph, tables)
    with torch.no_grad():
        assert loud.log_partition.requires_grad and loud.factor("pair").requires_grad and loud.messages.requires_grad
    with torch.inference_mode():
        inferred = lw.BP()(graph, tables)
    assert torch.isfinite(inferred.log_partition)


def test_nothing_to_do() -> None:
    graph, tables = a_model()
    empty = {
        name: torch.zeros(0, *table.shape, dtype=table.dtype, requires_grad=True) for name, table in tables.items()
    }
    beliefs = lw.BP(iterations=3, tolerance=0, trace=True)(graph, empty)
    assert beliefs.states.shape == (0, 8) and beliefs.trace is not None and beliefs.trace.shape[1:] == (0, 8)
    beliefs.states.sum().backward()
    observed = lw.BP(iterations=3, tolerance=0, trace=True)(graph, tables, dict.fromkeys(range(4), 0))
    assert observed.trace is not None and torch.equal(observed.trace[-1], observed.states)
    alone = lw.FactorGraph([2], {"unary": [[0]]})
    theta = torch.randn(1, 2, dtype=torch.float64, requires_grad=True)
    lw.BP(iterations=0, tolerance=0, gradient=lw.FixedPoint())(alone, {"unary": theta}).states[0].backward()
    assert theta.grad is not None and torch.isfinite(theta.grad).all()


def test_trained_options_must_be_scalars_in_range() -> None:
    with pytest.raises(ValueError, match=r"damping must be a number or a tensor of shape \(\)"):
        lw.BP(damping=torch.tensor([0.3]))
    damping = torch.tensor(0.5)
    method, (graph, tables) = lw.BP(damping=damping), a_model()
    damping += 1  # as a careless step would
    with pytest.raises(ValueError, match=r"damping must be .* below 1, got 1.5; train it through a sigmoid"):
        method(graph, tables)


def test_estimators_that_differentiate_potentials_only_say_so() -> None:
    graph, tables = a_model()
    rho = torch.tensor(0.6, dtype=torch.float64, requires_grad=True)
    fixed = {name: table.detach() for name, table in tables.items()}
    with pytest.raises(lw.notices.GradientError, match="rho"):
        lw.TRW(rho=rho, gradient=lw.Perturbation())(graph, fixed).states.sum().backward()


def test_derivatives_end_at_the_second() -> None:
    graph, tables = a_model()
    pair = tables["pair"]
    loss = lw.BP(iterations=3, tolerance=0)(graph, tables).states.square().sum()
    (first,) = torch.autograd.grad(loss, pair, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), pair, create_graph=True)
    with pytest.raises(lw.notices.GradientError, match="third derivatives"):
        torch.autograd.grad(second.square().sum(), pair)


def test_saturated_beliefs_have_second_derivatives() -> None:
    graph = lw.FactorGraph([2, 2], {"pair": [[0, 1]]})
    theta = torch.tensor([[[712.0, 0.0], [0.0, 0.0]]], dtype=torch.float64, requires_grad=True)
    method = lw.BP(iterations=2, tolerance=0)
    (product,) = lw.hvp(lambda: method(graph, {"pair": theta}).log_partition, [theta], [torch.ones_like(theta)])
    assert float(product.abs().max()) < 1e-12


def test_the_report_is_of_the_last_backward_and_knows_single_precision() -> None:
    graph, tables = a_model()
    small = {name: (0.5 * table.detach()).float().requires_grad_() for name, table in tables.items()}
    beliefs = lw.BP(iterations=2000, tolerance=1e-5, gradient=lw.FixedPoint())(graph, small)
    loss = beliefs.states.square().sum()
    loss.backward(retain_graph=True)
    assert beliefs.gradient is not None and 0 < beliefs.gradient.iterations < 100
    (0 * loss).backward()
    assert beliefs.gradient.iterations == 0


def test_threads_agree_on_traced_second_derivatives() -> None:
    graph, generator = lw.grid(34, 34), torch.Generator().manual_seed(1)
    tables = [
        torch.randn(group.count, *group.shape, generator=generator, dtype=torch.float64).requires_grad_()
        for group in graph.groups
    ]
    direction = [torch.randn(table.shape, generator=generator, dtype=table.dtype) for table in tables]
    names = [group.name for group in graph.groups]

    def product(threads: int) -> list[Tensor]:
        method = lw.BP(iterations=4, tolerance=0, trace=True, engine=lw.inference.Compiled(threads))

        def loss() -> Tensor:
            trace = method(graph, dict(zip(names, tables, strict=True))).trace
            assert trace is not None
            return trace.square().sum()

        return lw.hvp(loss, tables, direction)

    alone = product(1)
    for _ in range(5):
        for a, b in zip(alone, product(2), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def test_inputs_of_hvp() -> None:
    theta = torch.zeros(2, requires_grad=True)
    with pytest.raises(ValueError, match="as lists"):
        lw.hvp(lambda: theta.sum(), theta, theta)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no parameters"):
        lw.hvp(lambda: theta.sum(), [], [])
    with pytest.raises(lw.notices.GradientError, match="does not depend"):
        lw.hvp(lambda: torch.tensor(1.0), [theta], [theta.detach()])


def test_tapes_are_checked() -> None:
    with pytest.raises(ValueError, match="tape must be"):
        lw.Unroll(tape="store")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="limit must be"):
        lw.gradient.Fitting(limit=0)
