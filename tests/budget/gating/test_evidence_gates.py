"""Gates that look at evidence: by differences, against factors deleted by hand, and learnt where patterns differ."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise import budget
from loopwise.budget.gating.evidence_gates import edges_left
from oracles.budget_cases import check_by_differences, random_table


def patterned(count: int = 6) -> tuple[lw.FactorGraph, lw.Examples]:
    """Three patterns of evidence on a 2 x 3 grid."""
    graph = lw.grid(2, 3)
    values = np.random.default_rng(0).integers(0, 2, (count, 6))
    roles = np.full((count, 6), lw.Role.OUTPUT)
    roles[0::3, 0], roles[1::3, [2, 5]] = lw.Role.INPUT, lw.Role.INPUT
    return graph, lw.Examples.of(graph, values, roles)


def seen_in(examples: lw.Examples) -> np.ndarray:
    """Which variables are inputs, ``[examples, variables]``."""
    return np.asarray(examples.roles == lw.Role.INPUT)


def drawn(graph: lw.FactorGraph, scale: float = 2.0) -> budget.EvidenceGate:
    gate = budget.EvidenceGate(graph)
    with torch.no_grad():
        gate.bias[0].copy_(scale * random_table(1, *gate.bias[0].shape))
        gate.weight[0].copy_(scale * random_table(2, *gate.weight[0].shape))
    return gate


def test_the_logit_adds_up_what_is_observed_near_a_factor() -> None:
    graph = lw.chain(4)
    gate = drawn(graph)
    observed = np.array([[True, False, False, True], [False, False, False, False]])
    near = {0: (0, 1, 2), 1: (0, 1, 2, 3), 2: (1, 2, 3)}
    assert {(int(f), int(v)) for f, v in gate.near["pair"]} == {(f, v) for f, vs in near.items() for v in vs}
    weight = {
        tuple(pair): float(w) for pair, w in zip(gate.near["pair"].tolist(), gate.weight[0].detach(), strict=True)
    }
    found = gate.logits(observed)["pair"].detach()
    for factor, variables in near.items():
        wanted = float(gate.bias[0][factor]) + sum(weight[factor, v] for v in variables if v in (0, 3))
        assert float(found[0, factor]) == pytest.approx(wanted) and float(found[1, factor]) == pytest.approx(
            float(gate.bias[0][factor])
        )


def test_gradients_of_loss_and_price_by_differences() -> None:
    graph, examples = patterned()
    method = budget.ByEvidence(lw.BP(iterations=3, tolerance=0), drawn(graph))
    system = lw.System(lw.TablePotentials.random(graph, seed=0), method)
    budgeted = budget.Budgeted(system, budget.MessageCost(sliced=False))
    loss = budget.SpeedAugmented(loss=lw.loss.MSE(), price=0.7)
    params = list(budgeted.parameters())
    assert len(params) == 4
    check_by_differences(lambda: loss(budgeted(examples, step=0), examples.targets), params)


def test_hard_gates_are_factors_deleted_pattern_by_pattern() -> None:
    graph, examples = patterned()
    gate = drawn(graph).eval()
    potentials = lw.TablePotentials.random(graph, seed=0)
    system = lw.System(potentials, budget.ByEvidence(lw.BP(iterations=4, tolerance=0), gate)).eval()
    found, spent = system.beliefs(examples), budget.spend(system, examples)
    kept_counts = set()
    for row in range(len(examples)):
        one = examples[row : row + 1]
        kept = {"pair": (gate.logits(seen_in(one)[0])["pair"] > 0).numpy()}
        kept_counts.add(tuple(kept["pair"]))
        small = budget.keep(
            lw.System(potentials, lw.BP(iterations=4, tolerance=0)), kept, budget.Gate(strength=budget.Raw())
        )
        moved = budget.on_graph(one, small.graph)
        torch.testing.assert_close(found.states[row], small.beliefs(moved).states[0], rtol=0, atol=1e-12)
        assert float(spent.costs[row]) == budget.spend(small, moved).cost
    assert len(kept_counts) > 1 and found.status.messages == int(spent.costs.sum())


def test_in_training_factors_fade() -> None:
    graph, examples = patterned()
    gate, potentials = drawn(graph, 0.5), lw.TablePotentials.random(graph, seed=0)
    system = lw.System(potentials, budget.ByEvidence(lw.BP(iterations=4, tolerance=0), gate))
    for row in range(3):
        one = examples[row::3]  # of one pattern: what is observed in some examples only would not be sliced away
        found = system.beliefs(one).states.detach()
        share = torch.sigmoid(gate.logits(seen_in(one)[0])["pair"]).detach()
        tables = {name: table.detach() for name, table in potentials().items()}
        tables["pair"] = share[:, None, None] * tables["pair"]
        wanted = lw.BP(iterations=4, tolerance=0)(graph, tables, one.evidence)
        torch.testing.assert_close(found, wanted.states, rtol=0, atol=1e-12)


def test_all_four_together_are_what_they_were_trained_as() -> None:
    """Sparsity, message gates, evidence gates and a policy: the deployed system decides as the hard one, and costs what
    that one counts."""
    graph, examples = patterned(9)
    gates = budget.MessageGates(graph, 4)
    with torch.no_grad():
        gates.logits.copy_(random_table(5, 4, graph.layout.edges) + 0.5)
    policy = budget.Policy((budget.Bias(), budget.LargestChange()))
    with torch.no_grad():
        policy.weights.copy_(torch.tensor([-1.3, -1.0], dtype=torch.float64))
    stopping = budget.Stopping(lw.BP(iterations=4, tolerance=0, weights=gates), policy)
    gated = budget.Gated(lw.TablePotentials.random(graph, seed=2, scale=0.9), budget.Gate(strength=budget.Raw()))
    system = lw.System(gated, budget.ByEvidence(stopping, drawn(graph)))
    small = budget.deploy(system)
    assert 0 < small.graph.group("pair").count < graph.group("pair").count
    moved = budget.on_graph(examples, small.graph)
    decided = [budget.Budgeted(system).decide(examples[r : r + 1]) for r in range(9)]
    found, spent = small.beliefs(moved), budget.spend(small, moved)
    for row, one in enumerate(decided):
        torch.testing.assert_close(found.states[row], one.beliefs.states[0], rtol=0, atol=1e-5)
        observed = seen_in(examples)[row]
        whole = budget.MessageCost().run(graph, 4.0, None, observed)
        assert float(spent.costs[row]) == pytest.approx(float(one.cost * whole), abs=1e-9)
    assert found.status.messages == int(spent.costs.sum()) > 0
    assert len(set(found.status.sweeps.tolist())) > 1


def test_training_keeps_a_factor_where_evidence_makes_it_useful() -> None:
    """The middle pair carries news only if exactly one end is known: with both known it costs nothing and brings
    nothing, with none it brings nothing."""
    graph = lw.chain(4)
    rng = np.random.default_rng(0)
    values = np.repeat(rng.integers(0, 2, (400, 1)), 4, axis=1)
    roles = np.full((400, 4), lw.Role.OUTPUT)
    roles[::2, 0] = lw.Role.INPUT  # the others see nothing
    examples = lw.Examples.of(graph, values, roles)
    agree = lw.TablePotentials(
        graph, {"unary": torch.zeros(4, 2).double(), "pair": 2 * torch.eye(2).double().repeat(3, 1, 1)}
    )
    system = lw.System(agree, budget.ByEvidence(lw.BP(iterations=3, tolerance=0), budget.EvidenceGate(graph)))
    budget.fit(system, examples, lw.loss.MSE(), price=0.1, epochs=25, progress=False)
    small = budget.deploy(system)
    spent = budget.spend(small, budget.on_graph(examples, small.graph)).costs
    assert float(spent[1::2].max()) == 0 < float(spent[::2].min())
    assert lw.evaluate(small, examples, lw.loss.MSE()) < 0.2  # half of the examples see nothing: 1/4


def test_edges_left_are_those_of_the_smaller_graph() -> None:
    graph = lw.grid(2, 3)
    kept = {"pair": np.arange(7) % 2 == 0}
    selection = lw.FactorGraph(
        graph.cardinalities, {"unary": graph.group("unary").scopes, "pair": graph.group("pair").scopes[::2]}
    )
    edges = edges_left(graph, kept)
    assert np.array_equal(graph.layout.edge_variable[edges], selection.layout.edge_variable)


def test_what_does_not_fit_is_refused() -> None:
    graph = lw.chain(3)
    method = budget.ByEvidence(lw.BP(), budget.EvidenceGate(graph))
    with pytest.raises(ValueError, match="do not fit"):
        method(lw.chain(4), lw.TablePotentials(lw.chain(4)))
    with pytest.raises(ValueError, match="message passing"):
        budget.ByEvidence(lw.Exact(), budget.EvidenceGate(graph))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="nothing to choose"):
        budget.EvidenceGate(lw.FactorGraph([2, 2], {"unary": np.array([[0], [1]])}))
