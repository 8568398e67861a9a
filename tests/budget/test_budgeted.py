"""Budgeted systems: what decisions cost."""

from __future__ import annotations

import pytest
import torch

import loopwise as lw
from loopwise import budget
from loopwise.budget.smoothing import first_stop
from oracles.budget_cases import Channel, grids, synthetic


def test_hard_decisions_cost_what_they_took() -> None:
    examples = grids(20, 0)
    policy = budget.Policy((budget.Bias(), budget.LargestChange()))
    with torch.no_grad():
        policy.weights.copy_(torch.tensor([-2.0, -1.0]))
    system = lw.System(Channel(examples.graph), budget.Stopping(lw.BP(iterations=10), policy))
    budgeted = budget.Budgeted(system, budget.SweepCost())
    decision = budgeted.decide(examples)
    with torch.no_grad():
        scores = system.inference.every_sweep(examples.graph, system.tables(examples), examples.evidence).scores  # type: ignore[union-attr]
    torch.testing.assert_close(decision.cost, (first_stop(scores) + 1).double() / 10)
    measured = lw.evaluate(budgeted, examples, budget.SpeedAugmented(loss=lw.loss.MSE(), price=2.0))
    assert measured == pytest.approx(lw.evaluate(system, examples, lw.loss.MSE()) + 2.0 * float(decision.cost.mean()))
    assert budget.spend(system, examples, budget.SweepCost()).sweeps == pytest.approx(10 * float(decision.cost.mean()))


def test_dearer_runs_have_fewer_factors() -> None:
    dense, examples = synthetic()
    kept = []
    for price in (0.0, 0.1, 3.0):
        potentials = lw.TablePotentials(dense.graph, {k: v.detach() for k, v in dense.potentials().items()})
        gate = budget.Gate().scaled_to(dense.graph, potentials())
        system = lw.System(budget.Gated(potentials, gate), dense.inference)
        history = budget.fit(system, examples, lw.loss.MSE(), price, epochs=6, progress=False)
        assert len(history) == 6
        kept.append(int(budget.kept_factors(system.potentials)["pair"].sum()))  # type: ignore[arg-type]
    assert kept[0] > kept[1] > kept[2]
