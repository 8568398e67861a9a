"""L-BFGS: known minima, the optimum of a likelihood by another solver, walls, interruptions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loopwise.graph import chain
from loopwise.graph.evidence import Evidence, Role
from loopwise.inference.messages.message_passing import BP
from loopwise.inference.messages.reference import Reference
from loopwise.learn.optim import LBFGS
from loopwise.learn.optim.lbfgs import measured_curvature
from loopwise.loss import TruncatedLikelihood
from loopwise.potentials import TiedTables
from loopwise.potentials.priors import L2


def rosenbrock(x: torch.Tensor) -> torch.Tensor:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


@pytest.mark.parametrize("backward", [False, True])
def test_finds_the_minimum_of_rosenbrock_whoever_calls_backward(backward: bool) -> None:
    x = torch.tensor([-1.2, 1.0, 0.5, -0.3], dtype=torch.float64, requires_grad=True)
    optimizer = LBFGS([x], iterations=300)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = rosenbrock(x)
        if backward:
            loss.backward()
        return loss

    first = optimizer.step(closure)
    assert float(first) == float(rosenbrock(torch.tensor([-1.2, 1.0, 0.5, -0.3], dtype=torch.float64)))
    np.testing.assert_allclose(x.detach().numpy(), 1.0, atol=1e-5)
    report = optimizer.report
    assert report is not None
    assert report.converged
    assert report.loss == float(rosenbrock(x.detach()))
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.autograd.grad(rosenbrock(x), [x])[0])


def test_a_crf_is_trained_to_the_optimum_of_another_solver() -> None:
    graph = chain(4, states=3)
    values = np.random.default_rng(0).integers(0, 3, (20, 4))
    evidence = Evidence.of(values, [Role.INPUT, Role.OUTPUT, Role.OUTPUT, Role.OUTPUT])
    inference = BP(iterations=8, tolerance=0, engine=Reference())

    def made() -> tuple[TiedTables, object]:
        model = TiedTables.random(graph, seed=1)
        return (
            model,
            lambda: TruncatedLikelihood()(inference, graph, model, evidence) + L2(0.01).value(model.parameters()),
        )

    mine, loss = made()
    LBFGS(mine.parameters(), iterations=200, gradient_tolerance=1e-9, loss_tolerance=1e-15).step(loss)
    other, their_loss = made()
    theirs = torch.optim.LBFGS(
        other.parameters(), max_iter=200, tolerance_grad=1e-9, tolerance_change=1e-15, line_search_fn="strong_wolfe"
    )

    def closure() -> torch.Tensor:
        theirs.zero_grad()
        value = their_loss()
        value.backward()
        return value

    theirs.step(closure)
    assert loss().item() == pytest.approx(their_loss().item(), abs=1e-10)
    for one, another in zip(mine.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one, another, atol=1e-5, rtol=0)


@pytest.mark.parametrize("outside", [float("nan"), float("inf")])
def test_turns_back_where_there_is_no_loss(outside: float) -> None:
    """x - log x, which the first step of length 1 overshoots into x < 0."""
    x = torch.tensor([0.05], dtype=torch.float64, requires_grad=True)
    seen = []

    def closure() -> torch.Tensor:
        seen.append(x.item())
        return (30 * x - torch.log(x)).sum() if x.item() > 0 else (x * outside).sum()

    with torch.no_grad():
        x.fill_(2.0)
    optimizer = LBFGS([x])
    optimizer.step(closure)
    assert min(seen) < 0
    assert x.item() == pytest.approx(1 / 30, rel=1e-4)


def test_refuses_a_start_without_a_loss_and_a_missing_closure() -> None:
    x = torch.tensor([1.0], requires_grad=True)
    with pytest.raises(ValueError, match="cannot start where the loss is nan"):
        LBFGS([x]).step(lambda: (x * float("nan")).sum())
    with pytest.raises(ValueError, match="needs a closure"):
        LBFGS([x]).step()
    with pytest.raises(ValueError, match="iterations must be a whole number of at least 1"):
        LBFGS([x], iterations=0)
    with pytest.raises(ValueError, match="give one list"):
        LBFGS([{"params": [x]}, {"params": [torch.zeros(1, requires_grad=True)]}])


def test_a_callback_sees_every_iteration_and_may_stop() -> None:
    x = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
    seen: list[tuple[int, float]] = []

    def callback(iteration: int, loss: float) -> bool:
        seen.append((iteration, loss))
        return iteration == 5

    optimizer = LBFGS([x], callback=callback)
    optimizer.step(lambda: rosenbrock(x))
    assert [iteration for iteration, _ in seen] == [1, 2, 3, 4, 5]
    assert optimizer.report is not None
    assert optimizer.report.iterations == 5
    assert optimizer.report.loss == seen[-1][1] == rosenbrock(x).item()


def test_an_interrupted_run_keeps_the_best_point() -> None:
    x = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
    losses: list[float] = []

    def closure() -> torch.Tensor:
        if len(losses) == 9:
            raise KeyboardInterrupt
        loss = rosenbrock(x)
        losses.append(loss.item())
        return loss

    with pytest.raises(KeyboardInterrupt):
        LBFGS([x]).step(closure)
    assert rosenbrock(x).item() == min(losses)


def test_single_precision_and_unused_parameters() -> None:
    x = torch.tensor([3.0, 4.0], requires_grad=True)
    unused = torch.tensor([7.0], requires_grad=True)
    frozen = torch.tensor([8.0])
    LBFGS([x, unused, frozen]).step(lambda: (x - 1).square().sum())
    torch.testing.assert_close(x.detach(), torch.ones(2))
    assert unused.item() == 7.0


# --- Curvature -------------------------------------------------------------------------------------------------------

TURN = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64))[0]
BENDS = TURN @ torch.diag(torch.tensor([1e3, 80.0, 9.0, 1.0, 0.4, 0.2], dtype=torch.float64)) @ TURN.T


def valley(x: torch.Tensor) -> torch.Tensor:
    """Badly conditioned, and not quite quadratic."""
    return (x - 1) @ BENDS @ (x - 1) / 2 + 0.02 * ((x - 1) ** 4).sum()


def test_curvature_measured_and_exact() -> None:
    x = torch.zeros(6, dtype=torch.float64, requires_grad=True)
    found = measured_curvature([x], lambda: valley(x), step=1e-5)
    exact = torch.autograd.functional.hessian(valley, torch.zeros(6, dtype=torch.float64))
    np.testing.assert_allclose(found, exact.numpy(), rtol=1e-5, atol=1e-4)
    assert x.detach().tolist() == [0.0] * 6


def test_a_known_curvature_makes_steps_few_and_the_minimum_the_same() -> None:
    evaluations = []
    for known in (False, True):
        x = torch.zeros(6, dtype=torch.float64, requires_grad=True)
        curvature = measured_curvature([x], lambda x=x: valley(x)) if known else None
        optimizer = LBFGS([x], 200, curvature=curvature)
        optimizer.step(lambda x=x: valley(x))
        np.testing.assert_allclose(x.detach().numpy(), 1.0, atol=1e-4)
        assert optimizer.report is not None and x.grad is not None
        evaluations.append(optimizer.report.evaluations)
        torch.testing.assert_close(x.grad, torch.autograd.grad(valley(x), [x])[0])
    assert evaluations[1] <= 10 < evaluations[0]


def test_curvature_beside_a_wall() -> None:
    x = torch.ones(1, dtype=torch.float64, requires_grad=True)
    walled = measured_curvature([x], lambda: 3 * (x**2).sum() if x <= 1 else x.sum() * torch.inf)
    np.testing.assert_allclose(walled, [[6.0]])
    with pytest.raises(ValueError, match="on either side"):
        measured_curvature([x], lambda: x.sum() if x == 1 else x.sum() * torch.inf)


def test_curvature_of_the_wrong_sign_still_leads_down() -> None:
    x = torch.zeros(6, dtype=torch.float64, requires_grad=True)
    LBFGS([x], 200, curvature=-BENDS.numpy()).step(lambda: valley(x))
    np.testing.assert_allclose(x.detach().numpy(), 1.0, atol=1e-4)


@pytest.mark.parametrize("curvature", [np.eye(5), np.full((6, 6), np.nan), np.zeros((6, 6))])
def test_curvature_that_is_none(curvature: np.ndarray) -> None:
    x = torch.zeros(6, dtype=torch.float64, requires_grad=True)
    with pytest.raises(ValueError, match="curvature must"):
        LBFGS([x], curvature=curvature).step(lambda: valley(x))


def test_with_a_curvature_the_tolerance_is_still_that_of_the_gradient() -> None:
    """Near the minimum SciPy would see a stretched gradient, which is the square of the true one."""
    x = torch.tensor([5e-4, 5e-4], dtype=torch.float64, requires_grad=True)
    optimizer = LBFGS([x], curvature=np.eye(2))
    optimizer.step(lambda: (x**2).sum() / 2 + 1e-3)
    assert optimizer.report is not None and optimizer.report.converged
    assert x.abs().max() <= 1e-6 and x.grad is not None


def test_measuring_leaves_no_gradient_behind() -> None:
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    measured_curvature([x], lambda: (x**2).sum())
    assert x.grad is None and x.tolist() == [1.0, 1.0]
