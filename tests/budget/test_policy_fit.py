"""A policy for a model as it is."""

from __future__ import annotations

import pytest
import torch

import loopwise as lw
from loopwise import budget
from loopwise.inference.loss_of_beliefs import ignored_convergence
from oracles.budget_cases import Channel, grids


def test_a_policy_for_a_model_as_it_is() -> None:
    """Fitted on runs that are there: no worse than any fixed number of sweeps or threshold of the largest change."""
    train = grids(120, 1)
    system = lw.System(Channel(train.graph), budget.Stopping(lw.BP(iterations=8), budget.Policy()))
    before = system.potentials.pair.detach().clone()
    found = budget.fit_policy(system, train, lw.loss.MSE(), 0.1, cost=budget.SweepCost())
    assert torch.equal(before, system.potentials.pair)
    goal = budget.SpeedAugmented(loss=lw.loss.MSE(), price=0.1)
    assert lw.evaluate(budget.Budgeted(system, budget.SweepCost()), train, goal) == pytest.approx(found, abs=1e-9)
    rivals = [lw.BP(iterations=count, tolerance=0) for count in range(1, 9)]
    rivals += [lw.BP(iterations=8, tolerance=level) for level in (0.3, 0.1, 0.03, 0.01)]
    with ignored_convergence():
        for method in rivals:
            other = lw.System(system.potentials, method)
            share = budget.spend(other, train, budget.SweepCost()).sweeps / 8
            assert found <= lw.evaluate(other, train, lw.loss.MSE()) + 0.1 * share + 1e-3, method
    again = budget.fit_policy(system, train, lw.loss.MSE(), 0.1, cost=budget.SweepCost(), fresh=False)
    assert again <= found + 1e-12
    with pytest.raises(ValueError, match="has no policy"):
        budget.fit_policy(other, train, lw.loss.MSE(), 0.1)
