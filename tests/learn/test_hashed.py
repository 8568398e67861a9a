"""Hashed linear models: what the trainer runs, whatever the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from loopwise.learn.hashed import HashedModel, HashedObjective, OnlineSettings
from loopwise.learn.ledger import Ledger
from loopwise.learn.optim.hashed import HashedTable
from loopwise.learn.trainer import Limits, train


class Regression(HashedModel):
    """An example is one part of three features, whose score is to be its target."""

    def __init__(self, count: int = 40) -> None:
        rng = np.random.default_rng(0)
        self.features = rng.integers(0, 50, (count, 3)).astype(np.int32)
        self.target = rng.normal(size=50)[self.features].sum(1)

    def costs(self) -> NDArray[np.float64]:
        return np.ones(len(self.target))

    def build(self, chosen: NDArray[np.int64], size: int) -> tuple[Any, ...]:
        return np.arange(0, 3 * len(chosen) + 1, 3), self.features[chosen].reshape(-1)

    def step(
        self, chosen: Any, parts: tuple[Any, ...], position: Any, weights: Any, scale: float, share: float
    ) -> tuple[Any, Any]:
        apart = weights[position].reshape(-1, 3).sum(1) - self.target[chosen]
        return scale * apart, apart**2 / 2


def objective(**options: Any) -> HashedObjective:
    settings = {"epochs": 6, "batch": 7, "rate": 0.3, **options}
    return HashedObjective(Regression, 50, OnlineSettings(**settings))


def test_training_learns_the_same_with_any_number_of_threads() -> None:
    one, three = objective(), objective(threads=3)
    losses = train(one, Limits.rounds(6)).losses
    assert losses[-1] < 0.2 * losses[0] and train(three, Limits.rounds(6)).losses == losses
    np.testing.assert_array_equal(one.result, three.result)
    assert one.loss() < losses[-1]


def test_an_update_is_that_of_the_shared_optimiser() -> None:
    """One step of AdaGrad with composite mirror descent on the gradient of a batch, summed over its parts."""
    import torch

    from loopwise.learn.optim import AdaGradCOMID
    from loopwise.potentials.priors import L2

    model, mine = Regression(7), objective(epochs=1, l2=3.5)
    mine._make = lambda: model
    train(mine, Limits.rounds(1))
    weights = torch.zeros(50, 1, dtype=torch.float64, requires_grad=True)
    optimizer = AdaGradCOMID([weights], rate=0.3, prior=L2(0.5))
    apart = weights[torch.from_numpy(model.features).long(), 0].sum(1) - torch.from_numpy(model.target)
    (apart.square().mean() / 2).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    np.testing.assert_allclose(mine.result, weights.detach()[:, 0].numpy(), atol=1e-6)


def test_a_stopped_run_goes_on_as_if_it_never_had(tmp_path: Path) -> None:
    whole, path = objective(l2=0.1), tmp_path / "run"
    train(whole, Limits.rounds(6))

    def stop(epoch: Any) -> None:
        if epoch.number == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(objective(l2=0.1), Limits.rounds(6), ledger=Ledger.open(path, {}), callbacks=[stop])
    resumed = objective(l2=0.1)
    history = train(resumed, Limits.rounds(6), ledger=Ledger.open(path, {}))
    assert len(history) == 6
    np.testing.assert_array_equal(resumed.result, whole.result)


def test_the_best_weights_on_development_data_are_kept() -> None:
    seen: list[NDArray[np.float32]] = []

    def evaluate(weights: NDArray[np.float32]) -> float:
        seen.append(weights)
        return -abs(len(seen) - 3.0)

    mine = HashedObjective(Regression, 50, OnlineSettings(epochs=5, rate=0.3), evaluate=evaluate)
    assert train(mine, Limits.rounds(5)).best == 3
    np.testing.assert_array_equal(mine.result, seen[2])


def test_a_loss_that_is_not_finite_is_told() -> None:
    model = Regression()
    model.target[4] = np.nan
    with pytest.raises(ValueError, match="loss of training example 5 is nan; try a lower rate"):
        train(HashedObjective(lambda: model, 50, OnlineSettings()), Limits.rounds(1))


def test_looking_for_a_rate_spares_the_weights_training_starts_from() -> None:
    """Each trial begins with a fresh optimiser, at the same weights."""
    table, weights = HashedTable(5), np.array([0, 1, -2, 0, 3], np.float32)
    table.start_from(weights, regularised=True)
    table.squares[:] = 7.0
    table.forget()
    assert table.squares[:, 0].tolist() == [0, 1, 1, 0, 1]
    np.testing.assert_array_equal(table.copy_weights(), weights)


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="batch must be at least 1, not 0"):
        OnlineSettings(batch=0)
    with pytest.raises(ValueError, match="rate must be positive, not nan"):
        OnlineSettings(rate=float("nan"))
