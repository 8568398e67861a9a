"""Pruned systems: the same beliefs on a smaller graph, and exactly the messages that were promised."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import loopwise as lw
from loopwise import budget
from loopwise.budget.strength import Strength
from loopwise.notices import LoopwiseWarning

STRENGTHS: list[Strength] = [budget.Raw(), budget.Centred(), budget.Interaction()]


def gated_system(strength: Strength, mixed: bool = False, scale: float = 0.6) -> lw.System:
    if mixed:
        scopes = [[0, 1], [1, 2], [2, 3], [0, 1, 3], [0, 2, 4], [3], [4, 1], [0], [1], [2], [4], [0]]
        graph = lw.FactorGraph.from_scopes([2, 3, 2, 4, 3], scopes)
    else:
        graph = lw.graph.complete(6)
    potentials = lw.TablePotentials.random(graph, seed=1, scale=scale)
    gated = budget.Gated(potentials, budget.Gate(strength=strength))
    return lw.System(gated, lw.BP(iterations=4, tolerance=0))


@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("mixed", [False, True])
def test_a_pruned_system_equals_the_gated_one(strength: Strength, mixed: bool) -> None:
    system = gated_system(strength, mixed, 0.35 if mixed else 0.6)
    if mixed:
        system.potentials.sharpen(2.0)  # type: ignore[operator]
    evidence = {0: 1} if not mixed else {0: 1, 4: 2}
    smaller = budget.prune(system)
    pairs = sum(group.count for group in system.graph.groups if group.arity >= 2)
    left = sum(group.count for group in smaller.graph.groups if group.arity >= 2)
    assert 0 < left < pairs
    system.eval()
    with torch.no_grad():
        wanted, found = system.beliefs(evidence), smaller.beliefs(evidence)
    torch.testing.assert_close(found.states, wanted.states, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.log_partition, wanted.log_partition, rtol=0, atol=1e-10)
    assert isinstance(smaller.potentials, lw.TablePotentials)


def test_fading_to_nothing_is_deleting() -> None:
    graph = lw.graph.complete(4)
    tables = {"unary": torch.randn(4, 2).double(), "pair": torch.randn(6, 2, 2).double()}
    tables["pair"][[1, 4]] *= 1e-3
    gated = lw.System(budget.Gated(lw.TablePotentials(graph, tables), budget.Gate(budget.Raw())), lw.BP(iterations=3))
    kept = np.array([True, False, True, True, False, True])
    plain = lw.System(lw.TablePotentials(graph, tables), lw.BP(iterations=3, tolerance=0))
    smaller = budget.keep(plain, {"pair": kept}, budget.Gate(budget.Raw()))
    with torch.no_grad():
        faded = gated.potentials()
        assert not bool(faded["pair"][[1, 4]].any())  # soft, and still exactly nothing
        scale = faded["pair"][0, 0, 0] / tables["pair"][0, 0, 0]
        assert 0 < float(scale) < 1
        faded["pair"] = torch.where(torch.from_numpy(kept)[:, None, None], tables["pair"], faded["pair"])
        dense = lw.BP(iterations=3, tolerance=0)(graph, faded)
        torch.testing.assert_close(smaller.beliefs().states, dense.states, rtol=0, atol=1e-12)


def test_exactly_the_predicted_messages_are_sent() -> None:
    system = gated_system(budget.Interaction())
    smaller = budget.prune(system)
    kept = budget.kept_factors(system.potentials)["pair"]  # type: ignore[arg-type]
    values = np.random.default_rng(0).integers(0, 2, (10, 6))
    examples = lw.Examples.of(smaller.graph, values, [0, 0, 1, 1, 2, 2])
    with torch.no_grad():
        free = smaller.beliefs({})
        status = smaller.beliefs(examples).status
    assert free.status.messages == 4 * 2 * kept.sum()
    scopes = system.graph.group("pair").scopes[kept]
    sent = int(2 * (scopes >= 2).all(1).sum())
    assert status.messages == 10 * 4 * sent
    observed = np.array([True, True, False, False, False, False])
    assert float(budget.MessageCost().sweep(smaller.graph, observed=observed)) == sent
    assert float(budget.MessageCost(sliced=False).sweep(smaller.graph, observed=observed)) == 2 * kept.sum()
    assert budget.spend(smaller, examples).cost == 4 * sent


def test_pruning_everything_keeps_the_unaries_and_says_so() -> None:
    for strength in (budget.Raw(), budget.Interaction()):
        system = gated_system(strength, scale=0.01)
        with pytest.warns(LoopwiseWarning, match="only unary factors are left"):
            smaller = budget.prune(system)
        assert all(group.arity == 1 for group in smaller.graph.groups)
        assert smaller.graph.group("unary").count == 6
        beliefs = smaller.beliefs()
        assert beliefs.status.exact and beliefs.status.messages == 0
        system.eval()
        torch.testing.assert_close(beliefs.states, system.beliefs().states, rtol=0, atol=1e-12)
    alone = lw.System(lw.TablePotentials(lw.random_mrf(4, 4, seed=0)), lw.BP(iterations=2, tolerance=0))
    with pytest.warns(LoopwiseWarning, match="pruned away"):
        nothing = budget.keep(alone, {"pair": np.zeros(4, dtype=bool)}, budget.Gate(budget.Raw()))
    assert nothing.beliefs().states.tolist() == [0.5] * 8


class Channel(torch.nn.Module):
    """Unary tables from an input, pairs that are parameters."""

    def __init__(self, graph: lw.FactorGraph) -> None:
        super().__init__()
        self.graph = graph
        self.pair = torch.nn.Parameter(torch.randn(graph.group("pair").count, 2, 2).double())

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"unary": torch.stack([torch.zeros_like(x), x], -1), "pair": self.pair}


def test_tables_that_depend_on_inputs() -> None:
    torch.manual_seed(0)
    graph = lw.graph.complete(5)
    system = lw.System(budget.Gated(Channel(graph)), lw.BP(iterations=3, tolerance=0))
    x = torch.randn(6, 5).double()
    examples = lw.Examples.of(graph, np.zeros((6, 5), dtype=int), [1] * 5, x=x)
    with pytest.raises(ValueError, match="depend on inputs"):
        budget.prune(system)
    smaller = budget.prune(system, examples)
    assert 0 < smaller.graph.group("pair").count < 10
    system.eval()
    smaller.eval()
    wanted = system.beliefs(examples).states
    torch.testing.assert_close(smaller.beliefs(budget.on_graph(examples, smaller.graph)).states, wanted)
    slope = torch.autograd.grad(smaller.beliefs(budget.on_graph(examples, smaller.graph)).states[0, 0],
                                list(smaller.parameters()))  # fmt: skip
    assert bool(slope[0].any())


def test_systems_keep_what_belongs_to_them(tmp_path: object) -> None:
    graph = lw.graph.complete(4)
    gated = budget.Gated(lw.TablePotentials.random(graph, seed=0, scale=2.0))
    system = lw.System(gated, lw.BP(iterations=2, tolerance=0), lw.decode.Max(), roles=[0, 1, 1, 2])
    smaller = budget.prune(system)
    assert smaller.decoder is system.decoder and smaller.roles is not None and smaller.roles.tolist() == [0, 1, 1, 2]
    smaller.save(f"{tmp_path}/small.loopwise")
    again = lw.System.load(f"{tmp_path}/small.loopwise")
    assert torch.equal(again.predict({0: 1}), smaller.predict({0: 1}))


def test_examples_move_with_their_targets() -> None:
    graph = lw.graph.complete(3)
    examples = lw.Examples.of(graph, [[0, 1, 1], [1, 0, 0]], [0, 1, 1], targets=[[-1, 1, 1], [-1, 0, 0]])
    other = lw.chain(3)
    moved = budget.on_graph(examples, other)
    assert moved.targets.graph is other and torch.equal(moved.targets.allowed, examples.targets.allowed)
    with pytest.raises(ValueError, match="other variables"):
        budget.on_graph(examples, lw.chain(4))


def test_mistakes() -> None:
    system = lw.System(lw.TablePotentials(lw.chain(3)), lw.BP())
    with pytest.raises(ValueError, match="no gates to prune by"):
        budget.prune(system)
    with pytest.raises(ValueError, match="True or False for each of 2"):
        budget.keep(system, {"pair": np.array([True])})
    with pytest.raises(ValueError, match="no factor group 'pairs'"):
        budget.keep(system, {"pairs": np.array([True])})
