"""Tree factors against every tree of short sentences, and against themselves where those are too many."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
import torch

from loopwise.graph.structured.base import log_odds
from loopwise.graph.structured.edges import EdgeFactor, all_edges
from loopwise.graph.structured.projective_tree import ProjectiveTree
from loopwise.graph.structured.tree import Tree
from loopwise.notices import GradientError, ImpossibleError
from loopwise.testing import check_factor
from oracles.tree_cases import by_enumeration, incoming_of, odds_of, random_scores, trees_of
from oracles.trees import edge_indicators, log_sum, tree_scores

KINDS = [(kind, single) for kind in (ProjectiveTree, Tree) for single in (False, True)]
by_kind = pytest.mark.parametrize(("kind", "single_root"), KINDS)


@by_kind
@pytest.mark.parametrize("tokens", [1, 2, 3, 4, 7, 30])
def test_unit_weights_count_trees(kind: type[EdgeFactor], single_root: bool, tokens: int) -> None:
    n = tokens
    counts = {
        (ProjectiveTree, False): comb(3 * n, n) // (2 * n + 1),
        (ProjectiveTree, True): comb(3 * n - 2, n - 1) // n,
        (Tree, False): (n + 1) ** (n - 1),
        (Tree, True): n ** (n - 1),
    }
    factor = kind(n, single_root)
    found = factor.log_partition(torch.zeros(factor.slots, dtype=torch.float64))
    assert float(found) == pytest.approx(float(np.log(float(counts[kind, single_root]))), abs=1e-10)


@by_kind
@pytest.mark.parametrize("tokens", [1, 2, 3, 5])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_against_enumeration(kind: type[EdgeFactor], single_root: bool, tokens: int, scale: float) -> None:
    factor, scores = kind(tokens, single_root), random_scores(tokens, scale, seed=tokens)
    log_z, marginals, messages = by_enumeration(factor, scores)
    incoming = incoming_of(factor, scores)
    tolerance = 1e-12 * tokens * max(scale, 100.0)
    assert float(factor.log_partition(incoming)) == pytest.approx(log_z, abs=tolerance)
    on = factor.marginals(incoming).reshape(-1, 2)[:, 1].numpy()
    assert on == pytest.approx(marginals, abs=tolerance)
    sent = log_odds(factor.messages(incoming))[0].numpy()
    forced = np.isinf(messages)
    assert (sent[forced] == messages[forced]).all()
    assert sent[~forced] == pytest.approx(messages[~forced], abs=tolerance)


@by_kind
def test_every_token_has_one_head(kind: type[EdgeFactor], single_root: bool) -> None:
    factor = kind(12, single_root)
    on = factor.marginals(incoming_of(factor, random_scores(12, 3.0))).reshape(-1, 2)[:, 1].numpy()
    assert np.bincount(factor.edges[:, 1], weights=on)[1:] == pytest.approx(np.ones(12), abs=1e-12)
    if single_root:
        assert on[factor.edges[:, 0] == 0].sum() == pytest.approx(1.0, abs=1e-12)


@by_kind
def test_the_shipped_contract(kind: type[EdgeFactor], single_root: bool) -> None:
    factor = kind(3, single_root)
    trees = {tuple(row) for row in trees_of(factor).tolist()}
    cells = np.indices(factor.cardinalities).reshape(factor.arity, -1).T
    per_token = np.stack([cells[:, factor.edges[:, 1] == token].sum(1) for token in (1, 2, 3)], 1)
    heads = factor.heads(torch.tensor(cells.copy())).numpy()
    right = [(count == 1).all() and tuple(row) in trees for count, row in zip(per_token, heads.tolist(), strict=True)]
    check_factor(factor, table=torch.tensor(np.where(right, 0.0, -np.inf)))


@by_kind
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_gradients_by_central_differences(kind: type[EdgeFactor], single_root: bool, scale: float) -> None:
    """In both domains: at the larger scale, charts leave the range that the probability domain is trusted in."""
    factor = kind(4, single_root)
    generator = torch.Generator().manual_seed(3)
    incoming = scale * torch.randn(2, factor.slots, generator=generator, dtype=torch.float64)
    incoming.requires_grad_()
    assert torch.autograd.gradcheck(factor.log_partition, incoming)
    assert torch.autograd.gradcheck(factor.messages, incoming, atol=1e-6)
    assert torch.autograd.gradcheck(factor.marginals, incoming, atol=1e-6)


@by_kind
def test_the_log_partition_is_differentiable_twice(kind: type[EdgeFactor], single_root: bool) -> None:
    factor = kind(3, single_root)
    incoming = torch.randn(factor.slots, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    incoming.requires_grad_()
    assert torch.autograd.gradgradcheck(factor.log_partition, incoming)
    (once,) = torch.autograd.grad(factor.messages(incoming).sum(), incoming, create_graph=True)
    with pytest.raises(GradientError, match="differentiated once"):
        once.sum().backward()


@by_kind
def test_covariances(kind: type[EdgeFactor], single_root: bool) -> None:
    """The Hessian of log Z is the covariance of edges: as enumerated, symmetric, positive, 0 summed over heads."""
    factor, scores = kind(4, single_root), random_scores(4, 2.0, seed=5)
    found = torch.autograd.functional.hessian(lambda odds: factor._run(odds)[0], odds_of(factor, scores)).numpy()
    trees = trees_of(factor)
    there = edge_indicators(trees)[:, factor.edges[:, 0], factor.edges[:, 1]]
    weights = np.exp(tree_scores(trees, scores) - log_sum(tree_scores(trees, scores)))
    centred = there - weights @ there
    assert found == pytest.approx(centred.T @ (weights[:, None] * centred), abs=1e-12)
    assert found == pytest.approx(found.T, abs=1e-13)
    assert np.linalg.eigvalsh(found).min() > -1e-12
    for token in range(1, 5):
        assert found[factor.edges[:, 1] == token].sum(0) == pytest.approx(np.zeros(factor.arity), abs=1e-13)


@by_kind
def test_stable_off(kind: type[EdgeFactor], single_root: bool) -> None:
    """Messages know how unlikely a near-certain edge is not, far below what 1 - p could tell."""
    factor = kind(3, single_root)
    chain = {(0, 1), (1, 2), (2, 3)}
    scores = np.full((4, 4), -np.inf)
    for head, modifier in factor.edges.tolist():
        scores[head, modifier] = 100.0 if (head, modifier) in chain else 0.0
    _, marginals, messages = by_enumeration(factor, scores)
    assert (1 - marginals).min() < 1e-16
    sent = log_odds(factor.messages(incoming_of(factor, scores)))[0].numpy()
    assert sent == pytest.approx(messages, abs=1e-11)


@by_kind
@pytest.mark.parametrize("tokens", [1, 2, 4, 5])
def test_best_trees(kind: type[EdgeFactor], single_root: bool, tokens: int) -> None:
    factor = kind(tokens, single_root)
    for seed in range(20):
        scores = random_scores(tokens, seed=seed)
        found = factor.heads(factor.argmax(incoming_of(factor, scores))).numpy()
        trees = trees_of(factor)
        assert found.tolist() == trees[tree_scores(trees, scores).argmax()].tolist()


@by_kind
def test_samples_have_the_edge_marginals(kind: type[EdgeFactor], single_root: bool) -> None:
    factor, count = kind(6, single_root), 3000
    incoming = incoming_of(factor, random_scores(6, 1.5, seed=8))
    drawn = factor.sample(incoming.expand(2, -1), count=count, generator=np.random.default_rng(0))
    assert drawn.shape == (count, 2, factor.arity)
    expected = factor.marginals(incoming).reshape(-1, 2)[:, 1]
    error = 5 * (expected * (1 - expected) / (2 * count)).sqrt() + 1e-9
    assert bool(((drawn.double().mean((0, 1)) - expected).abs() <= error).all())
    again = factor.sample(incoming.expand(2, -1), count=3, generator=np.random.default_rng(0))
    assert again.shape == (3, 2, factor.arity)


@by_kind
def test_pruned_edges_are_those_of_minus_infinity(kind: type[EdgeFactor], single_root: bool) -> None:
    """A scope of some edges equals the scope of all with the others ruled out."""
    edges = all_edges(5)
    kept = edges[np.random.default_rng(4).random(len(edges)) < 0.6]
    kept = np.unique(np.concatenate([kept, [[token - 1, token] for token in range(1, 6)]]), axis=0)
    small, full = kind(5, single_root, kept), kind(5, single_root)
    scores = random_scores(5, seed=9)
    pruned = np.full_like(scores, -np.inf)
    pruned[kept[:, 0], kept[:, 1]] = scores[kept[:, 0], kept[:, 1]]
    mine, theirs = incoming_of(small, scores), incoming_of(full, pruned)
    assert float(small.log_partition(mine)) == pytest.approx(float(full.log_partition(theirs)), abs=1e-12)
    place = [edges.tolist().index(edge) for edge in kept.tolist()]
    expected = full.messages(theirs).reshape(-1, 2)[place]
    found = small.messages(mine).reshape(-1, 2)
    assert torch.equal(torch.isinf(found), torch.isinf(expected))
    assert found[torch.isfinite(found)].numpy() == pytest.approx(expected[torch.isfinite(found)].numpy(), abs=1e-11)


@by_kind
def test_no_tree_is_impossible(kind: type[EdgeFactor], single_root: bool) -> None:
    cycle = kind(2, single_root, [[1, 2], [2, 1]])
    assert float(cycle.log_partition(torch.zeros(4, dtype=torch.float64))) == -np.inf
    for call in (cycle.messages, cycle.argmax):
        with pytest.raises(ImpossibleError, match="of 2 tokens: its edges leave no tree"):
            call(torch.zeros(4, dtype=torch.float64))
    if single_root:
        flat = kind(2, True, [[0, 1], [0, 2]])
        with pytest.raises(ImpossibleError):
            flat.messages(torch.zeros(4, dtype=torch.float64))
        with pytest.raises(ImpossibleError):
            flat.argmax(torch.zeros(4, dtype=torch.float64))


@by_kind
def test_a_long_sentence(kind: type[EdgeFactor], single_root: bool) -> None:
    """Flat scores over 150 tokens, where Z is far outside of float64, and their marginals by symmetry of the counts."""
    n = 150
    factor = kind(n, single_root)
    incoming = torch.zeros(factor.slots, dtype=torch.float64, requires_grad=True)
    total = factor.log_partition(incoming)
    exact = {
        (ProjectiveTree, False): np.log(float(comb(3 * n, n))) - np.log(2 * n + 1),
        (ProjectiveTree, True): np.log(float(comb(3 * n - 2, n - 1))) - np.log(n),
        (Tree, False): (n - 1) * np.log(n + 1),
        (Tree, True): (n - 1) * np.log(n),
    }
    assert float(total.detach()) == pytest.approx(exact[kind, single_root], rel=1e-12)
    (gradient,) = torch.autograd.grad(total, incoming)
    on = gradient.reshape(-1, 2)[:, 1].numpy()
    assert np.bincount(factor.edges[:, 1], weights=on)[1:] == pytest.approx(np.ones(n), abs=1e-10)
    if kind is Tree and not single_root:
        assert on[factor.edges[:, 0] == 0] == pytest.approx(np.full(n, 2 / (n + 1)), abs=1e-10)
