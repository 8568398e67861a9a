"""One step of any optimiser: finite, clipped, scheduled."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loopwise.learn.optim import (
    LBFGS,
    SMD,
    AdaGradCOMID,
    clip_gradients,
    finish,
    inverse_square_root,
    take_step,
)
from loopwise.learn.optim.steps import gradient_norm
from loopwise.potentials import Features, SparseGroup, SparsePotentials


@pytest.mark.parametrize(
    "make",
    [
        lambda params: torch.optim.SGD(params, lr=0.1),
        lambda params: torch.optim.LBFGS(params, line_search_fn="strong_wolfe"),
        lambda params: SMD(params),
        lambda params: LBFGS(params),
        lambda params: AdaGradCOMID(params),
    ],
)
def test_a_step_is_the_same_call_for_every_optimiser(make: object) -> None:
    theta = torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True)
    optimizer = make([theta])  # type: ignore[operator]
    assert take_step(optimizer, lambda: theta.square().sum()).item() == 5.0
    assert theta.detach().square().sum().item() < 5.0
    finish(optimizer)


def test_a_loss_or_gradient_that_is_not_finite_changes_nothing() -> None:
    theta = torch.tensor([1.0], requires_grad=True)
    optimizer = torch.optim.SGD([theta], lr=0.1)
    assert torch.isnan(take_step(optimizer, lambda: (theta * float("nan")).sum(), clip=1.0))
    assert take_step(optimizer, lambda: (theta - 1.0).abs().sqrt().sum()).item() == 0.0
    assert theta.item() == 1.0


def test_clipping_counts_sparse_and_dense_gradients_together() -> None:
    model = SparsePotentials({"g": SparseGroup((2,), 7)})
    other = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    unused = torch.zeros(3, requires_grad=True)
    params = [*model.parameters(), other, unused]
    features = {"g": Features.of_rows([[1, 2, 2], [5]])}
    for _ in range(2):  # two backward passes: the sparse gradient lists its rows twice
        (model(features)["g"].sum() + (torch.arange(3.0) * other).sum()).backward()
    dense = [param.grad.to_dense().clone() for param in params[:2]]  # type: ignore[union-attr]
    norm = torch.cat([piece.flatten() for piece in dense]).norm().item()
    assert gradient_norm(params) == pytest.approx(norm)
    assert clip_gradients(params, 2 * norm) == pytest.approx(norm)
    assert gradient_norm(params) == pytest.approx(norm)
    assert clip_gradients(params, 0.5) == pytest.approx(norm)
    for param, before in zip(params, dense, strict=False):
        torch.testing.assert_close(param.grad.to_dense(), before * 0.5 / norm)  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="positive norm"):
        clip_gradients(params, 0.0)


def test_the_inverse_square_root_schedule() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.6)
    schedule, rates = inverse_square_root(optimizer), []
    for _ in range(5):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    np.testing.assert_allclose(rates, 0.6 / np.sqrt(np.arange(1, 6)))
