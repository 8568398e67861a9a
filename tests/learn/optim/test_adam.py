"""Adam with a rate that is found."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.optim.lr_scheduler import LambdaLR

import loopwise as lw
from loopwise.learn import fit, staged
from loopwise.learn.optim.adam import VectorAdam
from oracles.fit_cases import data, fresh

MSE, NLL = lw.loss.MSE(), lw.loss.SurrogateLikelihood()


def test_without_an_optimiser_the_rate_is_found_and_falls_to_zero() -> None:
    history = fit(fresh(), data(), MSE, epochs=4, batch=16, progress=False)
    rates = [epoch.gains[0] for epoch in history if epoch.gains is not None]
    assert np.array(rates) / rates[0] == pytest.approx([0.5 * (1 + np.cos(np.pi * epoch / 4)) for epoch in range(4)])
    assert np.log(2 * rates[0] / 0.1) / np.log(3) == pytest.approx(round(np.log(2 * rates[0] / 0.1) / np.log(3)))
    assert history.losses[-1] < history.losses[0]
    steady = fit(
        fresh(), data(), MSE, epochs=2, batch=16, schedule=lambda optimizer: LambdaLR(optimizer, lambda _: 1.0)
    )
    assert [epoch.gains[0] for epoch in steady if epoch.gains is not None] == [rates[0]] * 2
    stages = fit(fresh(), data(), staged(MSE, epochs=2), epochs=4, batch=16)
    starts = [epoch.gains[0] for epoch in stages if epoch.gains is not None]
    assert starts[1] == starts[0] / 2 and starts[3] == starts[2] / 2  # a cosine for each stage


def test_adam_of_vectors_is_torchs_and_goes_on_from_its_state() -> None:
    rng = np.random.default_rng(0)
    gradients, rates = rng.normal(size=(12, 5)), rng.uniform(0.01, 0.1, 12)
    theirs = torch.zeros(5, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([theirs], betas=(0.9, 0.99), eps=1e-8)
    mine, adam = np.zeros(5), VectorAdam(5)
    for number, (gradient, rate) in enumerate(zip(gradients, rates, strict=True)):
        optimizer.param_groups[0]["lr"] = rate
        theirs.grad = torch.from_numpy(gradient.copy())
        optimizer.step()
        if number == 6:
            state, adam = adam.state(), VectorAdam(5)
            adam.load_state(state)
        mine = adam.step(mine, gradient, rate)
        np.testing.assert_allclose(mine, theirs.detach().numpy(), rtol=0, atol=1e-12)
