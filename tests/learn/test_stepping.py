"""Steps of fit: one a batch, a rate that falls."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.learn import fit, risk
from oracles.fit_cases import data, fresh, sgd, weights

MSE, NLL = lw.loss.MSE(), lw.loss.SurrogateLikelihood()


def test_an_epoch_is_a_step_on_each_batch() -> None:
    """By hand: the same batches, one gradient step each."""
    train, system, twin = data(40), fresh(), fresh()
    history = fit(system, train, MSE, optimizer=sgd(), epochs=2, batch=16, seed=7)
    seen: list[list[int]] = []

    class Watched(lw.loss.MSE):
        def __call__(self, prediction, targets):  # type: ignore[no-untyped-def]
            seen.append(targets.values.tolist())
            return super().__call__(prediction, targets)

    again = fresh()
    fit(again, train, Watched(), optimizer=sgd(), epochs=2, batch=16, seed=7)
    assert torch.equal(weights(again), weights(system))
    assert sorted(map(len, seen[:3])) == [8, 16, 16] and seen[:3] != seen[3:]
    for epoch in (seen[:3], seen[3:]):  # each example once an epoch
        rows = sorted(row for batch in epoch for row in batch)
        assert rows == sorted(np.where(train.outputs.numpy(), train.values, -1).tolist())
    order = lw.learn.data.batching.batch_indices(40, 16, lw.learn.start.generator(7, 0, 0))
    losses = []
    for rows in order:
        loss = risk(twin, train[rows], MSE)
        twin.zero_grad()
        loss.backward()
        with torch.no_grad():
            for param in twin.parameters():
                param.sub_(0.5 * param.grad)  # type: ignore[operator]
        losses.append(float(loss.detach()) * len(rows))
    assert history.losses[0] == pytest.approx(sum(losses) / 40, rel=1e-12)
    once = fresh()
    fit(once, train, MSE, optimizer=sgd(), epochs=1, batch=16, seed=7)
    assert torch.allclose(weights(once), weights(twin), atol=1e-14)


def test_clipping_and_priors() -> None:
    train, system, twin = data(32), fresh(), fresh()
    before = weights(system)
    fit(system, train, MSE, optimizer=sgd(1.0), epochs=1, batch=32, clip=1e-3)
    assert float((weights(system) - before).norm()) == pytest.approx(1e-3, rel=1e-9)
    fit(twin, train, MSE, optimizer=lambda p: lw.optim.SMD(p, gain=1.0), epochs=1, batch=32, clip=1e-3)
    assert torch.allclose(weights(twin), weights(system), atol=1e-12)
    prior = lw.prior.L2(2.0)
    plain, pulled, closed = fresh(), fresh(), fresh()
    fit(plain, train, MSE, optimizer=sgd(0.1), epochs=1, batch=32)
    history = fit(pulled, train, MSE, optimizer=sgd(0.1), epochs=1, batch=32, prior=prior)
    assert torch.allclose(weights(pulled), weights(plain) - 0.1 * 2.0 * before, atol=1e-12)
    start = fresh()
    penalty = float(prior.value(start.parameters()).detach())
    assert history.losses[0] == pytest.approx(float(risk(start, train, MSE).detach()) + penalty, rel=1e-12)
    fit(closed, train, MSE, optimizer=lambda p: lw.optim.AdaGradCOMID(p, 0.1), epochs=1, batch=32, prior=prior)
    assert float(weights(closed).norm()) < float(before.norm())


def test_a_schedule_of_the_rate() -> None:
    history = fit(fresh(), data(16), MSE, optimizer=sgd(0.6), epochs=4, batch=16, schedule=lw.optim.inverse_square_root)
    rates = [epoch.gains[0] for epoch in history if epoch.gains is not None]
    assert rates == pytest.approx([0.6 / np.sqrt(epoch + 2) for epoch in range(4)])  # as they are after each epoch
    with pytest.raises(ValueError, match="SMD has no learning rate"):
        fit(fresh(), data(16), MSE, optimizer=lw.optim.SMD, schedule=lw.optim.inverse_square_root)
