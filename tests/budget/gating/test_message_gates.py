"""Gates on messages: gradients of loss and price by differences, open and shut gates, what is left of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise import budget
from loopwise.budget.gating.message_gates import message_gates
from oracles.budget_cases import check_by_differences, random_table


def gated_system(sweeps: int = 3, policy: bool = False) -> tuple[lw.System, lw.Examples, budget.MessageGates]:
    graph = lw.graph.complete(5)
    gates = budget.MessageGates(graph, sweeps)
    method: lw.inference.Inference = lw.BP(iterations=sweeps, tolerance=0, weights=gates)
    if policy:
        method = budget.Stopping(method, budget.Policy((budget.Bias(), budget.SweepShare()), stops=0.3))  # type: ignore[arg-type]
    system = lw.System(lw.TablePotentials.random(graph, seed=0, scale=0.8), method)
    with torch.no_grad():
        gates.logits.copy_(2 * random_table(3, sweeps, graph.layout.edges))
    values = np.random.default_rng(0).integers(0, 2, (4, 5))
    return system, lw.Examples.of(graph, values, [0, 1, 2, 1, 1]), gates


@pytest.mark.parametrize("policy", [False, True])
def test_gradients_of_loss_and_price_by_differences(policy: bool) -> None:
    system, examples, _ = gated_system(policy=policy)
    budgeted = budget.Budgeted(system, budget.MessageCost())
    loss = budget.SpeedAugmented(loss=lw.loss.MSE(), price=0.7)
    params = [param for name, param in budgeted.named_parameters()]
    assert any(param.shape == (3, 20) for param in params)
    check_by_differences(lambda: loss(budgeted(examples, step=0), examples.targets), params)


def test_cost_is_the_share_of_gates_that_are_open() -> None:
    system, examples, gates = gated_system()
    budgeted = budget.Budgeted(system, budget.MessageCost(sliced=False))
    found = budgeted(examples).cost.detach()
    torch.testing.assert_close(found, gates.open().detach().mean().expand(4), rtol=0, atol=1e-12)
    hard = budgeted.decide(examples).cost
    torch.testing.assert_close(hard, torch.tensor(gates.sent.mean()).expand(4), rtol=0, atol=1e-12)
    sliced = budget.Budgeted(system)(examples).cost.detach()
    layout = system.graph.layout
    seen = {int(layout.edge_factor[e]) for e in np.flatnonzero(layout.edge_variable == 0)}
    free = torch.tensor([int(layout.edge_factor[e]) not in seen for e in range(layout.edges)])
    torch.testing.assert_close(sliced, gates.open().detach()[:, free].mean().expand(4), rtol=0, atol=1e-12)


def test_open_gates_are_bp_and_shut_ones_nothing() -> None:
    system, examples, gates = gated_system()
    plain = lw.System(system.potentials, lw.BP(iterations=3, tolerance=0))
    with torch.no_grad():
        gates.logits.fill_(50.0)
    torch.testing.assert_close(system.beliefs(examples).states, plain.beliefs(examples).states, rtol=0, atol=1e-12)
    with torch.no_grad():
        gates.logits.fill_(-50.0)
    alone = lw.System(system.potentials, lw.BP(iterations=0, tolerance=0))
    for mode in (True, False):
        torch.testing.assert_close(
            system.train(mode).beliefs(examples).states.detach(), alone.beliefs(examples).states.detach(),
            rtol=0, atol=1e-5,
        )  # fmt: skip
    assert budget.spend(budget.send_only(system), examples).cost == 0


@pytest.mark.parametrize("policy", [False, True])
def test_what_is_sent_gives_the_beliefs_of_hard_gates(policy: bool) -> None:
    system, examples, _ = gated_system(policy=policy)
    small = budget.send_only(system)
    with torch.no_grad():
        found, wanted = small.beliefs(examples), system.eval().beliefs(examples)
    assert found.status.engine == "compiled"
    torch.testing.assert_close(found.states, wanted.states, rtol=0, atol=1e-5)
    assert torch.equal(found.status.sweeps, wanted.status.sweeps)
    budgeted = budget.Budgeted(system)
    share = budgeted.decide(examples).cost * budget.MessageCost().run(
        system.graph, 3.0, None, np.array([True, False, False, False, False])
    )
    torch.testing.assert_close(budget.spend(small, examples).costs, share, rtol=0, atol=1e-9)


def test_training_shuts_gates_that_do_not_pay() -> None:
    """The right half of a chain hears nothing of the left half: its messages cost and bring nothing."""
    graph = lw.chain(6)
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2, (300, 6))
    values[:, 1] = values[:, 0] ^ (rng.random(300) < 0.1)
    roles = [lw.Role.INPUT, *[lw.Role.OUTPUT] * 5]
    examples = lw.Examples.of(graph, values, roles)
    gates = budget.MessageGates(graph, 2)
    system = lw.System(lw.TablePotentials(graph), lw.BP(iterations=2, tolerance=0, weights=gates))
    budget.fit(system, examples, lw.loss.MSE(), price=0.1, epochs=15, progress=False)
    small = budget.send_only(system)
    assert budget.spend(small, examples).cost == 0  # what the first pair says is a unary factor: the input is observed
    assert lw.evaluate(small, examples, lw.loss.MSE()) < 0.235


def test_a_chain_needs_messages_only_away_from_its_evidence() -> None:
    """Copies of the first variable: messages to the right are worth their price, those to the left never are."""
    graph = lw.chain(4)
    values = np.repeat(np.random.default_rng(0).integers(0, 2, (200, 1)), 4, axis=1)
    examples = lw.Examples.of(graph, values, [lw.Role.INPUT, *[lw.Role.OUTPUT] * 3])
    gates = budget.MessageGates(graph, 2)
    agree = lw.TablePotentials(
        graph, {"unary": torch.zeros(4, 2).double(), "pair": 3 * torch.eye(2).double().repeat(3, 1, 1)}
    )
    system = lw.System(agree, lw.BP(iterations=2, tolerance=0, weights=gates))
    budget.fit(system, examples, lw.loss.MSE(), price=0.02, epochs=20, progress=False)
    small = budget.send_only(system)
    assert lw.evaluate(small, examples, lw.loss.MSE()) < 0.03
    spent = budget.spend(small, examples)
    assert (
        0
        < spent.cost
        <= 3
        < budget.spend(lw.System(system.potentials, lw.BP(iterations=2, tolerance=0)), examples).cost
    )


def test_what_has_no_gates_is_refused() -> None:
    plain = lw.System(lw.TablePotentials(lw.chain(3)), lw.BP())
    assert message_gates(plain.inference) is None
    with pytest.raises(ValueError, match="no gates on messages"):
        budget.send_only(plain)
    with pytest.raises(ValueError, match="at least 1 sweep"):
        budget.MessageGates(lw.chain(3), 0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        budget.MessageGates(lw.chain(3), 1, open=1.0)
    with pytest.raises(ValueError, match="width"):
        budget.MessageGates(lw.chain(3), 1).narrow(0.0)
