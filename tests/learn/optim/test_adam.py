"""Adam with a rate that is found."""

from __future__ import annotations

import numpy as np
import pytest
from torch.optim.lr_scheduler import LambdaLR

import loopwise as lw
from loopwise.learn import fit, staged
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
