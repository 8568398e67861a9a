"""Hashed linear models: what the trainer runs, whatever the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from loopwise.learn.files.ledger import Ledger
from loopwise.learn.hashed import HashedObjective, OnlineSettings
from loopwise.learn.optim.hashed import HashedTable
from loopwise.learn.trainer import Limits, train
from oracles.hashed_cases import Regression, objective


def test_training_learns_the_same_with_any_number_of_threads() -> None:
    one, three = objective(), objective(threads=3)
    losses = train(one, Limits.rounds(6)).losses
    assert losses[-1] < 0.2 * losses[0] and train(three, Limits.rounds(6)).losses == losses
    np.testing.assert_array_equal(one.result, three.result)
    assert one.loss() < losses[-1]


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
