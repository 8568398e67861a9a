"""The expected loss and its price."""

from __future__ import annotations

import pytest
import torch

import loopwise as lw
from loopwise import budget
from oracles.budget_cases import synthetic

# --- What the objective reduces to -----------------------------------------------------------------------------------


@pytest.mark.parametrize("price", [0.0, 0.25])
def test_one_sweep_is_plain_training_plus_the_price(price: float) -> None:
    _, examples = synthetic()
    potentials = lw.TablePotentials.random(examples.graph, seed=0)
    method = lw.BP(iterations=1, tolerance=0)
    plain = lw.System(potentials, method)
    stopping = lw.System(potentials, budget.Stopping(method, budget.Policy()))
    budgeted = budget.Budgeted(stopping, budget.SweepCost(), budget.Smoothing(decay=0.0))
    wanted = lw.learn.risk(plain, examples, lw.loss.MSE())
    found = lw.learn.risk(budgeted, examples, budget.SpeedAugmented(loss=lw.loss.MSE(), price=price))
    assert float(found.detach()) == pytest.approx(float(wanted.detach()) + price, abs=1e-12)
    slopes = [torch.autograd.grad(each, list(potentials.parameters())) for each in (wanted, found)]
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_the_expected_loss_is_the_weighted_sum() -> None:
    """c_t = loss_t + price * t * R with everything worked out apart."""
    _, examples = synthetic()
    gated = budget.Gated(lw.TablePotentials.random(examples.graph, seed=0, scale=0.5))
    policy = budget.Policy(stops=0.3)
    system = lw.System(gated, budget.Stopping(lw.BP(iterations=4), policy))
    budgeted = budget.Budgeted(system, budget.MessageCost(), budget.Smoothing(decay=0.2))
    with torch.no_grad():
        found = budget.SpeedAugmented(loss=lw.loss.MSE(), price=0.6).per_example(budgeted(examples), examples.targets)
        tables, present = gated.fade()
        run = system.inference.every_sweep(examples.graph, tables, examples.evidence)  # type: ignore[union-attr]
        weights = budget.IndependentThresholds().weights(run.scores, 1.0)
        roles = examples.roles[0]
        free = (roles[examples.graph.group("pair").scopes] != lw.Role.INPUT).all(1)
        share = float(present["pair"][torch.from_numpy(free)].sum() / free.sum())
        wanted = 0.1 * float(policy.weights.square().sum())
        total = torch.full((len(examples),), wanted, dtype=torch.float64)
        for t in range(4):
            loss = lw.loss.MSE().per_example(lw.BP(iterations=t + 1, tolerance=0)(examples.graph, tables,
                                             examples.evidence), examples.targets)  # fmt: skip
            total += weights[t] * (loss + 0.6 * (t + 1) * share / 4)
    torch.testing.assert_close(found, total, rtol=0, atol=1e-12)
