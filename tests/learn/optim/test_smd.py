"""Stochastic meta-descent: its equations written out in NumPy, its limits, and both engines."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from loopwise.gradient.hvp import gradient_and_hvp
from loopwise.graph import chain, random_mrf
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.message_passing import BP
from loopwise.inference.messages.reference import Reference
from loopwise.learn.optim import SMD
from loopwise.notices import GradientError
from loopwise.potentials import Features, SparsePotentials, TablePotentials


def quadratic(seed: int, size: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """A positive definite Hessian with eigenvalues up to about 4, and a linear term."""
    generator = np.random.default_rng(seed)
    root = generator.normal(size=(size, size)) / np.sqrt(size)
    return root @ root.T + 0.1 * np.eye(size), generator.normal(size=size)


def written_out(
    hessian: np.ndarray, linear: np.ndarray, theta: np.ndarray, steps: int, gain: float, meta: float, memory: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Stoyanov et al. 2011, section 4.3, line by line, with the caps; all states in order."""
    gains, trace, thetas, all_gains = np.full_like(theta, gain), np.zeros_like(theta), [theta], []
    for _ in range(steps):
        g = hessian @ theta + linear
        gains = gains * np.clip(1 - meta * trace * g, 0.5, 5.0)
        gains = np.clip(gains, gain / 1e4, gain * 1e4)
        trace_new = memory * trace - gains * (g + memory * hessian @ trace)
        theta = theta - gains * g
        trace = np.clip(trace_new, -100.0, 100.0)
        thetas.append(theta)
        all_gains.append(gains)
    return np.array(thetas), np.array(all_gains), trace


@given(st.integers(0, 1000), st.floats(0.01, 0.4), st.floats(0, 2), st.floats(0, 1))
def test_follows_its_equations_on_a_quadratic(seed: int, gain: float, meta: float, memory: float) -> None:
    hessian, linear = quadratic(seed)
    start = np.random.default_rng(seed + 1).normal(size=6)
    thetas, gains, trace = written_out(hessian, linear, start, 12, gain, meta, memory)
    theta = torch.tensor(start, requires_grad=True)
    optimizer = SMD([theta], gain, meta, memory)
    h, b = torch.tensor(hessian), torch.tensor(linear)
    for step in range(12):
        loss = optimizer.step(lambda: 0.5 * theta @ h @ theta + b @ theta)
        at = thetas[step]
        assert float(loss) == pytest.approx(0.5 * at @ hessian @ at + linear @ at, rel=1e-9, abs=1e-9)
        np.testing.assert_allclose(theta.detach().numpy(), thetas[step + 1], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(optimizer.gains(theta).numpy(), gains[step], rtol=1e-9)
    if meta:
        np.testing.assert_allclose(optimizer.state[theta]["trace"].numpy(), trace, rtol=1e-8, atol=1e-9)


def test_gains_grow_while_gradients_agree_and_shrink_when_they_alternate() -> None:
    gains = {}
    for curvature in (0.01, 15.0):  # steps far too short; steps that jump across the minimum
        theta = torch.tensor([1.0], dtype=torch.float64, requires_grad=True)
        optimizer = SMD([theta], gain=0.1)
        for _ in range(8):
            optimizer.step(lambda c=curvature, t=theta: 0.5 * c * t.square().sum())
        gains[curvature] = float(optimizer.gains(theta))
    assert gains[0.01] > 0.1 > gains[15.0]


@pytest.mark.parametrize("memory", [0.0, 0.5, 1.0])
def test_without_meta_step_it_is_gradient_descent(memory: float) -> None:
    hessian, linear = (torch.tensor(part) for part in quadratic(3))
    first = torch.ones(6, dtype=torch.float64, requires_grad=True)
    second = first.detach().clone().requires_grad_()
    smd, sgd = SMD([first], 0.1, meta=0.0, memory=memory), torch.optim.SGD([second], lr=0.1)
    for _ in range(10):
        smd.step(lambda: 0.5 * first @ hessian @ first + linear @ first)
        sgd.zero_grad()
        (0.5 * second @ hessian @ second + linear @ second).backward()
        sgd.step()
        torch.testing.assert_close(first, second, rtol=1e-13, atol=1e-15)
        torch.testing.assert_close(first.grad, second.grad, rtol=1e-13, atol=1e-14)


def test_caps_hold() -> None:
    theta = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    slope = torch.tensor([1e3, -1e3, 1e-3], dtype=torch.float64)
    optimizer = SMD([theta], gain=0.1, memory=1.0, gain_range=20.0, largest_trace=50.0)
    before = optimizer.gains(theta).clone()
    for _ in range(10):
        optimizer.step(lambda: (slope * theta).sum())
        ratio = optimizer.gains(theta) / before
        assert bool((ratio <= 5).all()) and bool((ratio >= 0.5).all())
        before = optimizer.gains(theta).clone()
    assert float(before[0]) == pytest.approx(2.0)
    assert bool((optimizer.state[theta]["trace"].abs() <= 50).all())
    free = SMD([theta], gain=0.1, memory=1.0, largest_multiplier=None)
    for _ in range(2):
        free.step(lambda: (slope * theta).sum())
    assert float(free.gains(theta)[0]) == pytest.approx(0.1 * 1e4)


def test_clipping_scales_gradient_and_curvature_alike() -> None:
    hessian, linear = (torch.tensor(part) for part in quadratic(5))
    runs = []
    for scale, clip in ((1.0, 0.3), (None, None)):
        theta = torch.ones(6, dtype=torch.float64, requires_grad=True)
        optimizer = SMD([theta], 0.1, clip=clip)

        def loss(t: torch.Tensor = theta, plain: bool = scale is not None) -> torch.Tensor:
            value = 0.5 * t @ hessian @ t + linear @ t
            with torch.no_grad():
                norm = (hessian @ t + linear).norm()
            return value if plain else value * min(1.0, 0.3 / float(norm))

        for _ in range(5):
            optimizer.step(loss)
            assert theta.grad is not None
            assert float(theta.grad.norm()) <= 0.3 + 1e-12
        runs.append(theta.detach())
    torch.testing.assert_close(*runs)


@pytest.mark.parametrize("engine", [Reference(), Compiled()])
def test_both_engines_go_the_same_way(engine: object) -> None:
    graph = random_mrf(6, 8, seed=0)
    targets = torch.tensor([1, 0, 0, 1, 0, 1] * 2, dtype=torch.float64)

    def train(which: object) -> list[torch.Tensor]:
        model = TablePotentials.random(graph, seed=1)
        inference = BP(iterations=3, tolerance=0, engine=which)  # type: ignore[arg-type]
        optimizer = SMD(model.parameters(), gain=0.5)
        path = []
        for _ in range(6):
            optimizer.step(lambda: (inference(graph, model).states - targets).square().mean())
            path.append(model.tables[0].detach().clone())
        return path

    path = train(engine)
    for mine, reference in zip(path, train(Reference()), strict=True):
        torch.testing.assert_close(mine, reference, rtol=0, atol=1e-9)
    assert not torch.allclose(path[0], path[-1], atol=1e-3)


def test_the_hessian_it_uses_is_symmetric() -> None:
    graph = random_mrf(5, 6, seed=2)
    model = TablePotentials.random(graph, seed=3)
    inference = BP(iterations=4, tolerance=0, engine=Reference())
    u, v = (torch.randn(6, 2, 2, generator=torch.Generator().manual_seed(s), dtype=torch.float64) for s in (4, 5))
    loss = lambda: inference(graph, model).states.square().sum()  # noqa: E731
    (hu,), (hv,) = (gradient_and_hvp(loss, list(model.parameters()), [x])[2] for x in (u, v))
    assert float((u * hv).sum()) == pytest.approx(float((v * hu).sum()), rel=1e-9)


def test_state_survives_a_round_trip_and_gains_can_be_reset() -> None:
    hessian, linear = (torch.tensor(part) for part in quadratic(7))

    def made(values: torch.Tensor) -> tuple[torch.Tensor, SMD]:
        theta = values.clone().requires_grad_()
        return theta, SMD([theta], 0.05)

    def advance(theta: torch.Tensor, optimizer: SMD) -> None:
        for _ in range(4):
            optimizer.step(lambda: 0.5 * theta @ hessian @ theta + linear @ theta)

    theta, optimizer = made(torch.ones(6, dtype=torch.float64))
    advance(theta, optimizer)
    again, resumed = made(theta.detach())
    resumed.load_state_dict(optimizer.state_dict())
    fresh, restarted = made(theta.detach())
    advance(again, resumed)
    advance(fresh, restarted)
    middle = theta.detach().clone()
    advance(theta, optimizer)
    assert torch.equal(theta, again)
    assert not torch.equal(theta, fresh)
    with torch.no_grad():
        theta.copy_(middle)
    optimizer.reset_gains()
    assert bool((optimizer.gains(theta) == 0.05).all())
    advance(theta, optimizer)
    assert torch.equal(theta, fresh)


def test_sparse_potentials_are_trained_as_dense_ones() -> None:
    graph = chain(3, states=2)
    features = {"unary": Features.of_rows([[0, 1], [1, 2], [4]]), "pair": Features.of_rows([[0], [0]])}
    runs = []
    for sparse in (True, False):
        model = SparsePotentials.of(graph, {"unary": 5, "pair": 1}, sparse_gradient=sparse)
        with torch.no_grad():
            for weight in model.weights:
                weight.copy_(torch.linspace(-1, 1, weight.numel(), dtype=torch.float64).reshape(weight.shape))
        optimizer = SMD(model.parameters())
        inference = BP(iterations=2, tolerance=0, engine=Reference())
        for _ in range(4):
            optimizer.step(lambda m=model, i=inference: i(graph, m(features)).states.square().sum())
        runs.append([weight.detach() for weight in model.weights])
    for one, other in zip(*runs, strict=True):
        torch.testing.assert_close(one, other)


def test_what_it_does_where_numbers_end() -> None:
    theta = torch.tensor([1.0], requires_grad=True)
    optimizer = SMD([theta])
    assert torch.isnan(optimizer.step(lambda: (theta * float("nan")).sum()))
    assert theta.item() == 1.0
    with pytest.raises(GradientError, match="gradient of parameter 0 is not finite"):
        optimizer.step(lambda: (theta - 1.0).abs().sqrt().sum())
    assert theta.item() == 1.0


def test_refuses_what_it_cannot_use() -> None:
    theta = torch.tensor([1.0], requires_grad=True)
    with pytest.raises(ValueError, match="needs a closure"):
        SMD([theta]).step()

    def closure() -> torch.Tensor:
        loss = theta.square().sum()
        loss.backward()
        return loss

    with pytest.raises(GradientError, match="without calling backward"):
        SMD([theta]).step(closure)
    for options, message in [
        ({"gain": 0.0}, "gain must be positive, not 0.0"),
        ({"meta": -1.0}, "meta must be at least 0"),
        ({"memory": 1.5}, "memory must be from 0 to 1, not 1.5"),
        ({"largest_multiplier": 0.9}, "largest_multiplier must be at least 1"),
        ({"gain_range": 0.5}, "gain_range must be at least 1"),
        ({"clip": 0.0}, "clip must be a positive norm"),
    ]:
        with pytest.raises(ValueError, match=message):
            SMD([theta], **options)
    with pytest.raises(ValueError, match="does not own"):
        SMD([theta]).gains(torch.zeros(1))
