"""The generic hypergraph: Eisner's items are the tree factor, a lattice is a chain, a toy grammar its table."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
import torch

from loopwise.graph.builders import chain
from loopwise.graph.structured.hypergraph import Hyperedge, Hypergraph
from loopwise.graph.structured.hypergraph_messages import HypergraphMessages
from loopwise.graph.structured.projective_tree import ProjectiveTree
from loopwise.inference.messages.message_passing import BP
from loopwise.inference.messages.schedules import Sequential
from loopwise.inference.messages.structured import dense_table
from loopwise.notices import GradientError
from loopwise.testing import check_factor


def eisner(tokens: int) -> Hypergraph:
    """Eisner's program written down as a grammar; edge variables are OFF unless an item of theirs is used."""
    names: dict[tuple[str, int, int], int] = {}
    tree = ProjectiveTree(tokens)
    variable = {tuple(edge): number for number, edge in enumerate(tree.edges.tolist())}

    def node(*item: object) -> int:
        return names.setdefault(item, len(names))  # type: ignore[arg-type]

    rules: list[Hyperedge] = []
    for i, j in product(range(tokens + 1), repeat=2):
        if i >= j:
            continue
        for r in range(i, j):
            rules.append((node("split", i, j), (node("right", i, r), node("left", r + 1, j)), ()))
            if i > 0:
                rules.append((node("left", i, j), (node("left", i, r), node("into left", r, j)), ()))
            rules.append((node("right", i, j), (node("into right", i, r + 1), node("right", r + 1, j)), ()))
        rules.append((node("into right", i, j), (node("split", i, j),), ((variable[i, j], 1),)))
        if i > 0:
            rules.append((node("into left", i, j), (node("split", i, j),), ((variable[j, i], 1),)))
    return Hypergraph(tree.cardinalities, tuple(rules), node("right", 0, tokens), (0,) * tree.arity)


def lattice(length: int, states: int) -> Hypergraph:
    """A chain as a grammar: hyperedge (t, a, b) extends a prefix that ends in a by the value b of variable t."""
    start, rules = length * states, []
    for value in range(states):
        rules.append((value, (start,), ((0, value),)))
    for t in range(1, length):
        for a, b in product(range(states), repeat=2):
            rules.append((t * states + b, ((t - 1) * states + a,), ((t, b),)))
    end = start + 1
    rules += [(end, ((length - 1) * states + value,), ()) for value in range(states)]
    return Hypergraph((states,) * length, tuple(rules), end, weighted=True)


def lattice_weights(length: int, states: int, pair: torch.Tensor) -> torch.Tensor:
    """Potentials of the hyperedges of :func:`lattice` from ``pair`` ``[*batch, length - 1, states, states]``."""
    zeros = pair.new_zeros(*pair.shape[:-3], states)
    return torch.cat([zeros, pair.flatten(-3), zeros], -1)


def test_eisner_as_a_grammar_is_the_tree_factor() -> None:
    grammar, tree = eisner(4), ProjectiveTree(4)
    incoming = torch.randn(3, tree.slots, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for name in ("log_partition", "messages", "marginals"):
        mine, theirs = incoming.clone().requires_grad_(), incoming.clone().requires_grad_()
        values, expected = getattr(grammar, name)(mine), getattr(tree, name)(theirs)
        assert values.detach().numpy() == pytest.approx(expected.detach().numpy(), abs=1e-11)
        weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        (values * weights).sum().backward()
        (expected * weights).sum().backward()
        assert mine.grad is not None and theirs.grad is not None
        assert mine.grad.numpy() == pytest.approx(theirs.grad.numpy(), abs=1e-10)
    assert torch.equal(grammar.argmax(incoming), tree.argmax(incoming))


def test_eisner_as_a_grammar_keeps_the_contract() -> None:
    check_factor(eisner(3))


def test_a_lattice_is_a_chain() -> None:
    length, states = 5, 3
    graph, grammar = chain(length, states), lattice(length, states)
    generator = torch.Generator().manual_seed(2)
    unary = torch.randn(length, states, generator=generator, dtype=torch.float64, requires_grad=True)
    pair = torch.randn(length - 1, states, states, generator=generator, dtype=torch.float64, requires_grad=True)
    exact = BP(schedule=Sequential(), iterations=1, tolerance=0)(graph, {"unary": unary, "pair": pair})
    own = lattice_weights(length, states, pair)
    total = grammar.log_partition(unary.flatten(), own)
    marginals = grammar.marginals(unary.flatten(), own)
    assert float(total.detach()) == pytest.approx(float(exact.log_partition.detach()), abs=1e-12)
    assert marginals.detach().numpy() == pytest.approx(exact.states.detach().numpy(), abs=1e-12)
    weights = torch.randn(length * states, generator=generator, dtype=torch.float64)
    mine = torch.autograd.grad((marginals * weights).sum() + total, [unary, pair])
    theirs = torch.autograd.grad((exact.states * weights).sum() + exact.log_partition, [unary, pair])
    for found, expected in zip(mine, theirs, strict=True):
        assert found.numpy() == pytest.approx(expected.numpy(), abs=1e-11)


def test_a_weighted_lattice_keeps_the_contract() -> None:
    pair = torch.randn(2, 2, 2, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    grammar = lattice(3, 2)
    table = torch.zeros(2, 2, 2, dtype=torch.float64)
    for place, (first, second) in enumerate(pairwise(range(3))):
        shape = [2 if axis in (first, second) else 1 for axis in range(3)]
        table = table + pair[place].reshape(shape)
    check_factor(grammar, potentials=lattice_weights(3, 2, pair), table=table)


def test_gradients_of_own_potentials() -> None:
    grammar = lattice(3, 2)
    generator = torch.Generator().manual_seed(3)
    own = torch.randn(2, len(grammar.hyperedges), generator=generator, dtype=torch.float64, requires_grad=True)
    incoming = torch.randn(2, grammar.slots, generator=generator, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(grammar.log_partition, (incoming, own))
    assert torch.autograd.gradcheck(grammar.messages, (incoming, own))
    (once,) = torch.autograd.grad(grammar.log_partition(incoming, own).sum(), own, create_graph=True)
    with pytest.raises(GradientError, match="differentiated once"):
        once.sum().backward()


@pytest.mark.parametrize(
    ("hyperedges", "root", "message"),
    [
        ([(0, (1,), ()), (1, (0,), ())], 0, "cycle"),
        ([(0, (), ())], 1, "no hyperedge leads into the root"),
        ([(0, (), ((0, 2),))], 0, "fires value 2 of variable 0, which is not there"),
        ([(0, (), ((0, 0),))], 0, "its default"),
        ([(0, (-1,), ())], 0, "names node -1"),
    ],
)
def test_bad_hypergraphs(hyperedges: list[Hyperedge], root: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Hypergraph((2,), tuple(hyperedges), root, (0,))


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_defaults_that_are_ruled_out_cost_no_digits(scale: float) -> None:
    """Tilings in which some cells must begin a piece of length 2, or must not; both ways against the table."""
    rules: list[Hyperedge] = [(cell + 1, (cell,), ()) for cell in range(4)]
    rules += [(cell + 2, (cell,), ((cell, 1),)) for cell in range(3)]
    tiling = Hypergraph((2,) * 3, tuple(rules), root=4, defaults=(0,) * 3, weighted=True)
    generator = torch.Generator().manual_seed(0)
    for known in ({0: 0}, {1: 1}, {0: 1, 2: 1}, {0: 1, 1: 0, 2: 1}):
        own = scale * torch.randn(7, generator=generator, dtype=torch.float64)
        incoming = scale * torch.randn(6, generator=generator, dtype=torch.float64)
        for variable, value in known.items():
            incoming[2 * variable + 1 - value] = -torch.inf
        table = dense_table(tiling, own).reshape(2, 2, 2)
        parts = [incoming[2 * v : 2 * v + 2].reshape([2 if axis == v else 1 for axis in range(3)]) for v in range(3)]
        wanted = []
        for variable in range(3):
            total = table + sum(part for other, part in enumerate(parts) if other != variable)
            wanted.append(total.logsumexp([axis for axis in range(3) if axis != variable]).log_softmax(0))
        made = HypergraphMessages([tiling], np.array([0]), np.array([0]))
        sent, possible = np.zeros((1, 6)), np.ones((1, 1), dtype=np.bool_)
        made.send(np.array([0]), incoming[None].numpy(), own[None].numpy(), sent, possible)
        for found in (tiling.messages(incoming, own), torch.from_numpy(sent[0])):
            torch.testing.assert_close(found, torch.cat(wanted), atol=1e-13 * 10 * scale, rtol=0)
        whole = (table + sum(parts)).logsumexp([0, 1, 2])
        torch.testing.assert_close(tiling.log_partition(incoming, own), whole, atol=1e-13 * 10 * scale, rtol=1e-14)
