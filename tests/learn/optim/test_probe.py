"""The learning-rate probe on a quadratic whose best rate is known, and one step of any optimiser."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loopwise.learn.optim import (
    SMD,
    AdaGradCOMID,
    probe,
)
from loopwise.potentials.priors import L2


def sgd(params: list[torch.Tensor], rate: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(params, lr=rate)


@pytest.mark.parametrize("curvature", [0.01, 1.0, 300.0])
@pytest.mark.parametrize("start", [0.1, 5.0, 0.001])
def test_picks_the_rate_of_the_ladder_that_is_best_by_arithmetic(curvature: float, start: float) -> None:
    """After three steps of rate r the error is (1 - r c)^3 of what it was."""
    theta = torch.tensor([1.0], dtype=torch.float64, requires_grad=True)
    found = probe([theta], sgd, [lambda: 0.5 * curvature * theta.square().sum()] * 3, start=start, trials=12)
    after = {rate: 0.5 * curvature * (1 - rate * curvature) ** 6 for rate, _ in found.tried}
    for rate, loss in found.tried:
        assert loss == pytest.approx(after[rate], rel=1e-9)
    assert found.rate == min(after, key=lambda rate: after[rate])
    assert len(found.tried) == 12
    assert found.before == pytest.approx(0.5 * curvature)
    assert theta.item() == 1.0
    assert theta.grad is None


def test_goes_up_until_worse_than_nothing_and_then_down() -> None:
    theta = torch.tensor([1.0], dtype=torch.float64, requires_grad=True)
    found = probe([theta], sgd, [lambda: 0.5 * theta.square().sum()], start=0.5, trials=6, factor=3.0, safety=0.5)
    # 0.5 and 1.5 improve, 4.5 does not: |1 - 4.5| > 1.
    assert [rate for rate, _ in found.tried] == pytest.approx([0.5, 1.5, 4.5, 0.5 / 3, 0.5 / 9, 0.5 / 27])
    assert found.rate == pytest.approx(0.25)
    assert found.improved


def test_divergence_counts_as_the_worst_and_parameters_come_back() -> None:
    theta = torch.tensor([1.0], requires_grad=True)
    found = probe([theta], sgd, [lambda: theta.pow(4).sum()] * 8, start=1.0, trials=8)
    assert found.tried[0][1] == float("inf")
    assert np.isfinite(dict(found.tried)[found.rate])
    assert theta.item() == 1.0
    with pytest.raises(ValueError, match=r"diverged at every rate from 1 down to 0\.5"):
        probe([theta], sgd, [lambda: 1e6 * theta.pow(4).sum()] * 20, start=1.0, trials=2)
    assert theta.item() == 1.0

    def failing() -> torch.Tensor:
        if theta.item() != 1.0:
            raise RuntimeError("inference failed")
        return theta.square().sum()

    with pytest.raises(RuntimeError, match="inference failed"):
        probe([theta], sgd, [failing] * 2)
    assert theta.item() == 1.0


@pytest.mark.parametrize(
    "make",
    [
        lambda params, rate: SMD(params, gain=rate),
        lambda params, rate: AdaGradCOMID(params, rate, L2(0.01)),
        lambda params, rate: torch.optim.Adam(params, lr=rate),
    ],
)
def test_works_with_every_optimiser(make: object) -> None:
    theta = torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True)
    judged = []

    def evaluate() -> float:
        judged.append(theta.detach().clone())
        return theta.detach().square().sum().item()

    found = probe([theta], make, [lambda: theta.square().sum()] * 4, evaluate=evaluate, trials=5, passes=2)  # type: ignore[arg-type]
    assert found.improved
    assert len(judged) == 6
    assert found.tried[0][1] < found.before


def test_refuses_what_it_cannot_use() -> None:
    theta = torch.tensor([1.0], requires_grad=True)
    with pytest.raises(ValueError, match="at least one batch"):
        probe([theta], sgd, [])
    for options, message in [
        ({"start": 0.0}, "start must be positive"),
        ({"factor": 1.0}, "factor must be above 1"),
        ({"trials": 0}, "trials must be at least 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            probe([theta], sgd, [lambda: theta.sum()], **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the loss is nan before any step"):
        probe([theta], sgd, [lambda: theta.sum() * float("nan")])


def test_rates_that_lead_out_of_bounds_are_passed_over() -> None:
    """A loss that refuses some points, as inference refuses a damping of 1; what is always refused is said."""
    theta = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)

    def bounded() -> torch.Tensor:
        if abs(theta.item()) > 0.6:
            raise ValueError("damping must be below 1")
        return (theta - 10.0).square().sum()

    found = probe([theta], lambda params, rate: torch.optim.SGD(params, lr=rate), [bounded], trials=10)
    assert found.improved and found.tried[0][1] == float("inf") and theta.item() == 0.5
    with pytest.raises(ValueError, match="damping must be below 1"):
        probe([theta], lambda params, rate: torch.optim.SGD(params, lr=rate), [bounded], trials=2)
