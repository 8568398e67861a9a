"""The best few configurations and samples: exactly those that listing all of them gives."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

import loopwise as lw
from loopwise.decode import draw, k_best
from loopwise.formats import Vocabulary
from loopwise.graph.structured.base import StructuredFactor

TREE = lw.ProjectiveTree(4)


def listed(factor: StructuredFactor, incoming: Tensor, potentials: Tensor | None) -> tuple[Tensor, Tensor]:
    """Every assignment that is possible, best first."""
    values = torch.tensor(list(itertools.product(*map(range, factor.cardinalities))))
    places = values + torch.tensor(factor.slot_start[:-1])
    scores = incoming[places].sum(-1) + factor.score(values, potentials)
    order = scores.argsort(descending=True)
    kept = order[~torch.isneginf(scores[order])]
    return values[kept], scores[kept]


FACTORS = {
    "chain": (lw.Chain(5, 3), (4, 3, 3)),
    "short chain": (lw.Chain(1, 3), (0, 3, 3)),
    "tree": (lw.ProjectiveTree(3), None),
    "single root": (lw.ProjectiveTree(3, single_root=True), None),
    "any tree": (lw.Tree(3), None),
    "one of": (lw.ExactlyOne(5), None),
}


@pytest.mark.parametrize("name", FACTORS)
def test_every_assignment_comes_in_order(name: str) -> None:
    factor, shape = FACTORS[name]
    source = torch.Generator().manual_seed(0)
    incoming = torch.randn(2, factor.slots, generator=source, dtype=torch.float64)
    potentials = None if shape is None else torch.randn(2, *shape, generator=source, dtype=torch.float64)
    everything = [listed(factor, incoming[k], None if potentials is None else potentials[k]) for k in range(2)]
    for count in (1, 4, len(everything[0][0]) + 3 if len(everything[0][0]) < 50 else 20):
        values, scores = factor.k_best(incoming, potentials, count=count)
        assert values.shape == (count, 2, factor.arity)
        for k, (right, worth) in enumerate(everything):
            found = min(count, len(right))
            assert torch.equal(values[:found, k], right[:found])
            torch.testing.assert_close(scores[:found, k], worth[:found])
            assert (values[found:, k] == -1).all() and torch.isneginf(scores[found:, k]).all()


def test_what_is_ruled_out_stays_out() -> None:
    incoming = torch.zeros(6, dtype=torch.float64)
    incoming[0] = -torch.inf
    steps = torch.tensor([[0.0, -torch.inf], [1.0, 0.0]], dtype=torch.float64).expand(2, 2, 2)
    values, scores = lw.Chain(3, 2).k_best(incoming, steps, count=5)
    assert values.tolist()[:3] == [[1, 0, 0], [1, 1, 0], [1, 1, 1]] or sorted(scores.tolist()[:2]) == [1.0, 1.0]
    assert torch.isneginf(scores[3:]).all()
    with pytest.raises(lw.notices.ImpossibleError):
        lw.Chain(3, 2).k_best(torch.full((6,), -torch.inf, dtype=torch.float64), steps, count=2)


def brute(graph: lw.FactorGraph, tables: lw.TablePotentials, given: dict[int, int]) -> tuple[Tensor, Tensor]:
    """Every configuration that fits the evidence, best first, and its probability."""
    values = torch.tensor(
        [
            row
            for row in itertools.product(*(range(size) for size in graph.cardinalities.tolist()))
            if all(row[variable] == value for variable, value in given.items())
        ]
    )
    exact = lw.Exact()(graph, tables, given).log_partition
    each = torch.stack([lw.Exact()(graph, tables, row.numpy()).log_partition for row in values])
    order = each.argsort(descending=True)
    return values[order], torch.exp(each[order] - exact).detach()


@pytest.mark.parametrize("given", [{}, {1: 0, 3: 1}])
def test_tables_with_cycles(given: dict[int, int]) -> None:
    graph = lw.random_mrf(5, 7, seed=1, unary=True)
    tables = lw.TablePotentials.random(graph, seed=2)
    values, shares = brute(graph, tables, given)
    found = k_best(graph, tables, 6, given)
    assert torch.equal(found.values, values[:6])
    torch.testing.assert_close(found.probabilities, shares[:6])
    assert len(k_best(graph, tables, 100, given)) == len(values)
    assert k_best(graph, tables, 100, given).probabilities.sum().item() == pytest.approx(1)


def test_trees_and_chains_of_a_graph() -> None:
    """Arcs with scores, some of them known; and a chain of tags with names."""
    arcs = len(TREE.edges)
    graph = lw.FactorGraph([2] * arcs, {"arc": np.arange(arcs)[:, None]}, {"tree": (TREE, np.arange(arcs))})
    tables = {"arc": torch.randn(arcs, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)}
    found = k_best(graph, tables, 60)
    assert len(found) == 55 and found.probabilities.sum().item() == pytest.approx(1)
    assert (found.scores.diff() <= 1e-12).all() and len({tuple(row) for row in found.values.tolist()}) == 55
    marginals = (found.values * found.probabilities[:, None]).sum(0)
    torch.testing.assert_close(marginals, lw.BP()(graph, tables).variables[:, 1])
    first = int(np.flatnonzero(found.values[0].numpy())[0])
    without = k_best(graph, tables, 55, {first: 0})
    assert (without.values[:, first] == 0).all() and without.probabilities.sum().item() == pytest.approx(1)

    names = Vocabulary(("w1", "w2"), (("N", "V"), ("N", "V")))
    chain = lw.FactorGraph([2, 2], {"tag": [[0], [1]]}, {"steps": (lw.Chain(2, 2), [0, 1])}, vocabulary=names)
    numbers = {"tag": torch.tensor([[1.0, 0.0], [0.0, 0.5]]), "steps": torch.tensor([[[0.0, 1.0], [0.0, 0.0]]])}
    assert k_best(chain, numbers, 2).named() == [{"w1": "N", "w2": "V"}, {"w1": "N", "w2": "N"}]
    assert k_best(chain, numbers, 2, {"w2": "N"}).named()[0] == {"w1": "N", "w2": "N"}


def test_samples_have_their_probabilities() -> None:
    graph = lw.random_mrf(4, 5, seed=1, unary=True)
    tables = lw.TablePotentials.random(graph, seed=2)
    arcs = len(TREE.edges)
    trees = lw.FactorGraph([2] * arcs, {"arc": np.arange(arcs)[:, None]}, {"tree": (TREE, np.arange(arcs))})
    scores = {"arc": torch.randn(arcs, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)}
    for given, potentials in ((graph, tables), (trees, scores)):
        drawn = draw(given, potentials, 4000, seed=3)
        best = k_best(given, potentials, 3)
        for row, share in zip(best.values, best.probabilities.tolist(), strict=True):
            same = (drawn.values == row).all(-1)
            assert float(same.double().mean()) == pytest.approx(share, abs=0.04)
            assert drawn.probabilities[same].tolist() == pytest.approx([share] * int(same.sum()))
        assert torch.equal(draw(given, potentials, 50, seed=3).values, draw(given, potentials, 50, seed=3).values)


def test_what_cannot_be_listed() -> None:
    graph = lw.chain(3)
    tables = lw.TablePotentials.random(graph, seed=0)
    for count in (0, 2.5, True):
        with pytest.raises(ValueError, match="whole number of at least 1"):
            k_best(graph, tables, count)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="of one example at a time"):
        k_best(graph, tables, 2, [[0, -1, -1], [1, -1, -1]])
    both = lw.FactorGraph([2, 2], {"pair": [[0, 1]]}, {"one": (lw.ExactlyOne(2), [0, 1])})
    with pytest.raises(ValueError, match=r"one structured factor over all variables.*this graph has others"):
        k_best(both, {"pair": torch.zeros(2, 2)}, 2)
    with pytest.raises(ValueError, match="give it a vocabulary"):
        k_best(graph, tables, 1).named()
