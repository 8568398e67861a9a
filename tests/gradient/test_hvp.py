"""Hessian-vector products through inference: engine against engine, differences of gradients, symmetry, torch's own
checks, and input that is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import loopwise as lw
from loopwise.decode import SoftArgmax
from loopwise.gradient.hvp import gradient_and_hvp
from loopwise.loss import MSE
from loopwise.testing import check_hvp
from oracles.gradient_cases import SCHEDULES, everything, gap, mixed_graph, normal, tables_of
from oracles.hvp_cases import product, truncated

SHARED = ("binary", "triple", "oblong")


def engines_gap(method, graph, tables, **options):
    plain = product(replace(method, engine=lw.inference.Reference()), graph, tables, **options)
    fast = product(replace(method, engine=lw.inference.Compiled(threads=1)), graph, tables, **options)
    return gap(fast, plain)


# ------------------------------------------------------------------------------------------------- engines agree


@pytest.mark.parametrize("sweeps", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("kind", ["flooding", "sequential"])
def test_engines_agree(kind, sweeps) -> None:
    graph = mixed_graph()
    tables = tables_of(graph, zeros=True, seed=2)
    method = truncated(sweeps, schedule=SCHEDULES[kind], damping=0.2, trace=True)
    assert engines_gap(method, graph, tables) < 1e-10


def test_engines_agree_on_batches_that_stop_early_counting_numbers_and_initial_messages() -> None:
    graph = mixed_graph()
    tables = tables_of(graph, 40, scale=0.7, shared=SHARED)
    method = lw.TRW(rho=0.6, iterations=60, tolerance=1e-2, trace=True)
    initial = normal((40, graph.layout.slots), 5)
    assert len(set(method(graph, tables, initial=initial).status.sweeps.tolist())) > 1
    assert engines_gap(method, graph, tables, initial=initial) < 1e-10


def test_engines_agree_in_the_log_domain() -> None:
    graph = mixed_graph()
    method = truncated(3, temperature=0.003)
    assert method(graph, tables_of(graph)).status.domain == "log"
    assert engines_gap(method, graph, tables_of(graph)) < 1e-9


# ------------------------------------------------------------------------------------------- against definitions


@pytest.mark.parametrize("kind", ["flooding", "sequential"])
def test_symmetric_and_equal_to_differences_of_gradients(engine, kind) -> None:
    graph = mixed_graph()
    method = truncated(3, schedule=SCHEDULES[kind], engine=engine, damping=0.1)
    assert check_hvp(method, graph, tables_of(graph), everything) < 1e-7


def test_the_whole_hessian(engine) -> None:
    """Column by column against torch's own Hessian of the reference engine, which knows nothing of products."""
    graph = mixed_graph()
    tables = tables_of(graph)

    def loss(odd, using):
        return truncated(2, engine=using)(graph, {**tables, "odd": odd}).states.square().sum()

    table = tables["odd"]
    expected = torch.autograd.functional.hessian(lambda odd: loss(odd, lw.inference.Reference()), table).reshape(12, 12)
    leaf = table.clone().requires_grad_()
    columns = [
        lw.hvp(lambda: loss(leaf, engine), [leaf], [unit.reshape(leaf.shape)])[0].reshape(12)
        for unit in torch.eye(12, dtype=torch.float64)
    ]
    assert float(expected.abs().max()) > 1e-3
    torch.testing.assert_close(torch.stack(columns), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", ["flooding", "sequential"])
def test_torch_is_satisfied(kind) -> None:
    graph = mixed_graph()
    names, start = zip(*tables_of(graph).items(), strict=True)

    def run(*tables):
        beliefs = truncated(2, schedule=SCHEDULES[kind], damping=0.1)(
            graph, dict(zip(names, tables[:-1], strict=True)), initial=tables[-1]
        )
        return beliefs.states, beliefs.factor("quad"), beliefs.log_partition

    inputs = [table.clone().requires_grad_() for table in (*start, normal((graph.layout.slots,), 8))]
    assert torch.autograd.gradcheck(run, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(run, inputs, fast_mode=True)


def test_through_decoder_and_loss(engine) -> None:
    """Parameters of a network that makes the potentials; the result is that of differences of gradients."""
    graph = mixed_graph()
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4)).double()
    tables = tables_of(graph)
    binary = tables["binary"].requires_grad_()
    params = [*network.parameters(), binary]
    inputs, truth = normal((4, 3), 2), torch.arange(32).reshape(4, 8) % 2
    evidence = lw.Evidence.of(truth.numpy(), [lw.Role.OUTPUT] * 8)

    def loss():
        unary = network(inputs).reshape(4, 2, 2)
        beliefs = truncated(3, engine=engine)(graph, {**tables, "unary": unary})
        return MSE()(SoftArgmax(0.5)(beliefs), evidence)

    vector = [normal(param.shape, number) for number, param in enumerate(params)]
    value, gradient, found = gradient_and_hvp(loss, params, vector)
    torch.testing.assert_close(value, loss())
    differences, step = [], 1e-5
    for sign in (1, -1):
        with torch.no_grad():
            for param, piece in zip(params, vector, strict=True):
                param += sign * step * piece
        differences.append(torch.autograd.grad(loss(), params))
        with torch.no_grad():
            for param, piece in zip(params, vector, strict=True):
                param -= sign * step * piece
    for ahead, behind, part in zip(*differences, found, strict=True):
        torch.testing.assert_close(part, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-9)
    for one, other in zip(gradient, torch.autograd.grad(loss(), params), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-14)


def test_a_parameter_that_the_loss_ignores_has_a_product_of_zero(engine) -> None:
    graph = mixed_graph()
    leaves = {name: table.requires_grad_() for name, table in tables_of(graph).items()}
    other = torch.ones(2, dtype=torch.float64, requires_grad=True)
    params = [*leaves.values(), other]
    ones = [torch.ones_like(param) for param in params]
    found = lw.hvp(lambda: truncated(2, engine=engine)(graph, leaves).states.square().sum(), params, ones)
    assert (found[-1] == 0).all()
    linear = lw.hvp(lambda: other.sum(), params, ones)
    assert all((part == 0).all() for part in linear)


# ------------------------------------------------------------------------------------------------------- refusals


def test_input_is_checked() -> None:
    graph = mixed_graph()
    leaves = {name: table.requires_grad_() for name, table in tables_of(graph).items()}
    pair, unary = leaves["binary"], leaves["unary"]

    def states():
        return truncated(1)(graph, leaves).states

    with pytest.raises(ValueError, match="2 parameters but 1 pieces"):
        lw.hvp(lambda: states().sum(), [pair, unary], [pair])
    with pytest.raises(ValueError, match="piece 1 of the vector has shape"):
        lw.hvp(lambda: states().sum(), [pair, unary], [pair, pair])
    with pytest.raises(lw.notices.GradientError, match=r"must be a scalar, but has shape \(20,\)"):
        lw.hvp(states, [pair], [pair])
    with pytest.raises(lw.notices.GradientError, match="not float"):
        lw.hvp(lambda: 1.0, [pair], [pair])
    with pytest.raises(lw.notices.GradientError, match=r"torch\.int64"):
        lw.hvp(lambda: states().argmax(), [pair], [pair])
    frozen = pair.detach()
    with pytest.raises(lw.notices.GradientError, match="requires_grad"):
        lw.hvp(lambda: states().sum(), [frozen], [frozen])


@pytest.mark.parametrize(
    "gradient",
    [lw.FixedPoint(), lw.gradient.OneStep(), lw.Perturbation(), lw.gradient.LinearSolve()],
    ids=lambda g: type(g).__name__,
)
def test_estimators_that_differentiate_once_say_so(engine, gradient) -> None:
    graph = mixed_graph()
    method = lw.BP(iterations=500, tolerance=1e-12, gradient=gradient, engine=engine)
    with pytest.raises(lw.notices.GradientError, match="once"):
        product(method, graph, tables_of(graph, scale=0.3), lambda beliefs: beliefs.states.square().sum())


def test_the_compiled_residual_schedule_says_that_it_has_none() -> None:
    with pytest.raises(lw.notices.GradientError, match=r"residual schedule.*Reference"):
        product(truncated(1, schedule=lw.inference.Residual()), mixed_graph(), tables_of(mixed_graph()))


def test_compiled_inference_parameters_say_that_they_have_none() -> None:
    graph = mixed_graph()
    damping = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
    leaves = {name: table.requires_grad_() for name, table in tables_of(graph).items()}

    def loss(using):
        return truncated(2, damping=damping, engine=using)(graph, leaves).states.square().sum()

    one = [torch.ones_like(damping)]
    with pytest.raises(lw.notices.GradientError, match=r"damping or counting numbers.*Reference"):
        lw.hvp(lambda: loss(lw.inference.Compiled()), [damping], one)
    assert torch.isfinite(lw.hvp(lambda: loss(lw.inference.Reference()), [damping], one)[0])
