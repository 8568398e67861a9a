"""Strengths, presences and the fractional model, against formulas, differences and deleted factors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import loopwise as lw
from loopwise import budget
from loopwise.budget.presence import PresenceStep
from loopwise.budget.strength import Strength
from oracles.budget_cases import model, random_table

STRENGTHS: list[Strength] = [budget.Raw(), budget.Centred(), budget.Interaction()]
STEPS: list[PresenceStep] = [budget.Published(), budget.Tanh()]


def test_strong_factors_are_as_without_gates() -> None:
    graph = lw.graph.complete(4)
    tables = {"unary": random_table(0, 4, 2), "pair": 200.0 + 100 * random_table(1, 6, 2, 2)}
    plain = lw.TablePotentials(graph, tables)
    gated = budget.Gated(lw.TablePotentials(graph, tables), budget.Gate(strength=budget.Raw()))
    examples = lw.Examples.of(graph, np.zeros((2, 4), dtype=int), [0, 1, 1, 2])
    for potentials in (plain, gated):
        system = lw.System(potentials, lw.BP(iterations=3, tolerance=0))
        if potentials is plain:
            wanted = lw.learn.risk(system, examples, lw.loss.MSE())
            slope = torch.autograd.grad(wanted, list(system.parameters()))
    system = budget.Budgeted(lw.System(gated, lw.BP(iterations=3, tolerance=0)))
    found = budget.SpeedAugmented(loss=lw.loss.MSE(), price=0.0)(system(examples), examples.targets)
    mine = torch.autograd.grad(found, list(gated.parameters()))
    assert float(found.detach()) == pytest.approx(float(wanted.detach()), abs=1e-6)
    for one, other in zip(mine, slope, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_hard_zeros_are_always_there() -> None:
    graph = lw.chain(3)
    table = torch.tensor([[[0.0, -torch.inf], [0.0, 0.0]], [[0.1, 0.0], [0.0, 0.1]]], dtype=torch.float64)
    gated = budget.Gated(lw.TablePotentials(graph, {"unary": torch.zeros(3, 2).double(), "pair": table}))
    for mode in (True, False):
        gated.train(mode)
        faded = gated.fade()
        present = faded.present["pair"].detach()
        assert float(present[0]) == 1.0 and float(present[1]) < 0.5
        assert torch.equal(faded.tables["pair"][0], table[0])
        assert not bool(torch.isnan(faded.tables["pair"]).any())
    gated.train()
    slope = torch.autograd.grad(gated.fade().present["pair"].sum(), list(gated.parameters()), allow_unused=True)
    assert all(each is None or bool(torch.isfinite(each).all()) for each in slope)


@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("tied", [False, True])
def test_gradients_of_loss_and_price_by_differences(strength: Strength, tied: bool) -> None:
    graph = lw.graph.complete(5)
    classes = {"pair": np.arange(10) % 3}
    potentials: torch.nn.Module = (
        lw.potentials.TiedTables.random(graph, classes, seed=0)
        if tied
        else lw.TablePotentials.random(graph, seed=0, scale=0.7)
    )
    gated = budget.Gated(potentials, budget.Gate(strength=strength))
    system = budget.Budgeted(lw.System(gated, lw.BP(iterations=3, tolerance=0)), budget.CellCost(sliced=False))
    roles, values = [0, 1, 2, 1, 1], np.random.default_rng(0).integers(0, 2, (4, 5))
    examples = lw.Examples.of(graph, values, roles)
    loss = budget.SpeedAugmented(loss=lw.loss.MSE(), price=0.7)

    def value() -> Tensor:
        return loss(system(examples), examples.targets)

    params = list(system.parameters())
    slopes = torch.autograd.grad(value(), params)
    for seed, (param, slope) in enumerate(zip(params, slopes, strict=True)):
        direction = random_table(seed, *param.shape)
        with torch.no_grad():
            kept, step = param.clone(), 1e-6
            param.copy_(kept + step * direction)
            above = float(value())
            param.copy_(kept - step * direction)
            below = float(value())
            param.copy_(kept)
        assert float((slope * direction).sum()) == pytest.approx((above - below) / (2 * step), rel=1e-5, abs=1e-8)


def test_the_gradient_is_that_of_the_spec() -> None:
    """tau-bar and eta-bar of section 3.2, from the adjoint of the faded tables, for the raw strength."""
    _, gated = model(strength=budget.Raw())
    pair = gated.potentials.tables[1]  # type: ignore[union-attr, index]
    weight, price = random_table(9, 10, 2, 2), 0.4
    faded = gated.fade()
    (found,) = torch.autograd.grad((faded.tables["pair"] * weight).sum() + price * faded.present["pair"].sum(), pair)
    eta = pair.detach()
    strength = eta.square().sum((1, 2))
    u = 1 / strength
    tau, slope = 2 * torch.sigmoid(-u), 2 * torch.sigmoid(u) * torch.sigmoid(-u) * u / strength
    tau_bar = price + (weight * eta).sum((1, 2))
    wanted = tau[:, None, None] * weight + 2 * eta * (slope * tau_bar)[:, None, None]
    torch.testing.assert_close(found, wanted)


def test_evaluation_prunes() -> None:
    _, gated = model()
    soft = gated.fade().present["pair"]
    gated.eval()
    hard = gated.fade()
    assert torch.equal(hard.present["pair"], (soft >= 0.5).double())
    assert 0 < int(hard.present["pair"].sum()) < 10
    weak = hard.present["pair"] == 0
    assert not bool(hard.tables["pair"][weak].any())


def test_units_of_strength() -> None:
    graph, gated = model()
    tables = {name: table.detach() for name, table in gated.potentials().items()}
    for step in STEPS:
        scaled = budget.Gate(step=step).scaled_to(graph, tables, median=3.0)
        present = scaled.fade(graph, tables, 1.0).present["pair"]
        torch.testing.assert_close(present.median(), step(torch.tensor(3.0).double(), 1.0))
    wide = budget.Gate(unit=4.0).fade(graph, {**tables, "pair": 2 * tables["pair"]}, 1.0)
    torch.testing.assert_close(wide.present["pair"], budget.Gate().fade(graph, tables, 1.0).present["pair"])
    nothing = {name: torch.zeros_like(table) for name, table in tables.items()}
    assert budget.Gate().scaled_to(graph, nothing) == budget.Gate()
    with pytest.raises(ValueError, match="unit of strength must be"):
        budget.Gate(unit=0.0)
    with pytest.raises(ValueError, match="strength of the median factor"):
        budget.Gate().scaled_to(graph, tables, median=0.0)


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="nothing to prune"):
        budget.Gated(lw.TablePotentials(lw.FactorGraph([2], {"unary": [[0]]})))
    with pytest.raises(ValueError, match="only factors of 2 or more"):
        budget.Gated(lw.TablePotentials(lw.chain(3)), budget.Gate(groups=("unary",)))
    with pytest.raises(ValueError, match="variable 0 has no unary factor"):
        budget.Gated(lw.TablePotentials(lw.random_mrf(3, 3, seed=0)))
    with pytest.raises(ValueError, match="sharpness must be a positive number"):
        budget.Gated(lw.TablePotentials(lw.chain(3)), sharpness=0.0)


@pytest.mark.parametrize("strength", [budget.Raw(), budget.Interaction()])
def test_boosted_factors_are_what_they_were_before_they_faded(strength: budget.Strength) -> None:
    graph = lw.graph.complete(5)
    potentials = lw.TablePotentials.random(graph, seed=0, scale=1.0)
    with torch.no_grad():
        next(param for param in potentials.parameters() if param.ndim == 3)[0] *= 1e-3  # no boost will do here
    gate = budget.Gate(strength=strength).scaled_to(graph, potentials(), 1.5)
    boosts = gate.boosts(graph, potentials())
    strengths = gate.strengths(graph, potentials())["pair"].detach() / gate.unit
    sizes = boosts["pair"]
    assert float(sizes[0]) == 1.0 and bool((sizes[1:] > 1).all())
    torch.testing.assert_close((sizes * gate.step(sizes.square() * strengths, 1.0))[1:], torch.ones(9).double())
    gated = budget.Gated(potentials, gate, boosts=boosts).train()
    dense, faded = lw.Exact()(graph, potentials()), lw.Exact()(graph, gated())
    torch.testing.assert_close(faded.states, dense.states, rtol=0, atol=1e-2)  # all but for the factor that is nothing
    plain = lw.Exact()(graph, budget.Gated(potentials, gate).train()())
    assert float((plain.states - dense.states).detach().abs().max()) > float(
        (faded.states - dense.states).detach().abs().max()
    )
    system = budget.prune(lw.System(gated, lw.BP()))
    kept = system.graph.group("pair").count
    assert kept == int((gate.step(sizes.square() * strengths, 1.0) >= 0.5).sum())
