"""Tree factors against every tree of short sentences, and against themselves where those are too many."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
import torch

from loopwise.graph.structured.base import from_log_odds, log_odds
from loopwise.graph.structured.edges import EdgeFactor, all_edges
from loopwise.graph.structured.projective_tree import ProjectiveTree
from loopwise.graph.structured.tree import Tree
from loopwise.notices import GradientError, ImpossibleError
from loopwise.testing import check_factor
from tree_oracle import edge_indicators, every_tree, is_projective, log_sum, tree_scores

KINDS = [(kind, single) for kind in (ProjectiveTree, Tree) for single in (False, True)]
by_kind = pytest.mark.parametrize(("kind", "single_root"), KINDS)


def trees_of(factor: EdgeFactor) -> np.ndarray:
    return every_tree(factor.tokens, isinstance(factor, ProjectiveTree), factor.single_root)


def random_scores(tokens: int, scale: float = 1.0, seed: int = 0) -> np.ndarray:
    scores = np.full((tokens + 1, tokens + 1), -np.inf)
    edges = all_edges(tokens)
    scores[edges[:, 0], edges[:, 1]] = scale * np.random.default_rng(seed).standard_normal(len(edges))
    return scores


def odds_of(factor: EdgeFactor, scores: np.ndarray) -> torch.Tensor:
    return torch.tensor(scores[factor.edges[:, 0], factor.edges[:, 1]])


def incoming_of(factor: EdgeFactor, scores: np.ndarray) -> torch.Tensor:
    """Messages (0, score): their log-partition is that of the scores."""
    odds = odds_of(factor, scores)
    return torch.stack([torch.zeros_like(odds), odds], -1).flatten()


def by_enumeration(factor: EdgeFactor, scores: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """log Z, marginals and log-odds messages of each edge."""
    trees = trees_of(factor)
    total = tree_scores(trees, scores)
    there = edge_indicators(trees)[:, factor.edges[:, 0], factor.edges[:, 1]] > 0  # [trees, edges]
    own = odds_of(factor, scores).numpy()
    log_z = log_sum(total)
    on = np.array([log_sum(total[column]) for column in there.T])
    messages = []
    for edge, column in enumerate(there.T):
        with_others = np.array(scores)
        with_others[tuple(factor.edges[edge])] = 0.0  # its own score left out
        others = tree_scores(trees, with_others)
        messages.append(log_sum(others[column]) - log_sum(others[~column]))
    assert own.shape == on.shape
    return log_z, np.exp(on - log_z), np.array(messages)


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


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize(("n", "scale"), [(15, 2.0), (80, 6.0)])
def test_both_domains_agree(single_root: bool, n: int, scale: float) -> None:
    """On sentences too long to enumerate: values and pull-backs from probabilities (the longer one takes the second
    trial) and from logarithms."""
    from loopwise.kernels import eisner, eisner_log
    from loopwise.kernels.arithmetic import LOG_SUM
    from loopwise.kernels.tree_columns import EdgeAdjoints, read_columns

    size = (n + 1) ** 2
    scores = random_scores(n, scale, seed=1).reshape(-1)
    charts, gradient = np.empty(eisner.charts_size(n)), np.empty(size)
    log_z, in_log = eisner.inside_outside(scores, n, single_root, charts, gradient)
    logs, log_gradient = np.empty(eisner.charts_size(n)), np.empty(size)
    shift = eisner.load_weights(scores, n, logs)
    assert shift + eisner_log.inside_log(logs, n, single_root, LOG_SUM) == pytest.approx(log_z, rel=1e-14, abs=1e-11)
    assert not in_log
    eisner_log.outside_log(logs, n, single_root)
    log_gradient[:] = logs[-size:]
    results = []
    for domain, own, slope in ((False, charts, gradient), (True, logs, log_gradient)):
        log_on, log_off, messages, adjoint = np.empty((4, size))
        read_columns(scores, slope, n, log_on, log_off, messages)
        draws = np.random.default_rng(2).standard_normal((2, size))
        given = EdgeAdjoints(log_on, log_off, draws[0], draws[1])
        eisner.pull_back(scores, n, single_root, own, domain, given, np.empty(len(own)), adjoint)
        results.append((np.exp(log_on), np.exp(log_off), messages, adjoint))
    for mine, theirs in zip(*results, strict=True):
        assert mine == pytest.approx(theirs, abs=1e-10)


@pytest.mark.parametrize("least", [-600.0, -700.0, -744.0, -750.0])
def test_scores_that_leave_the_range_of_probabilities(least: float) -> None:
    """Weights that would be subnormal or 0 beside the best of their column still count where those are out."""
    spread = {(2, 1): 0, (0, 1): -345, (4, 1): -300, (1, 2): 0, (0, 2): -345, (4, 3): 0, (0, 3): -345, (3, 4): 0}
    spread |= {(2, 4): -345, (0, 4): least, (5, 4): -425, (4, 5): 0, (0, 5): -425}
    factor = ProjectiveTree(5, edges=list(spread))
    scores = np.full((6, 6), -np.inf)
    for edge, value in spread.items():
        scores[edge] = value
    expected = by_enumeration(factor, scores)[2]
    assert log_odds(factor.messages(incoming_of(factor, scores)))[0].numpy() == pytest.approx(expected, abs=1e-10)
    trees = trees_of(factor)
    there = torch.tensor(edge_indicators(trees)[:, factor.edges[:, 0], factor.edges[:, 1]] > 0)
    possible = torch.tensor(np.isfinite(tree_scores(trees, scores)))
    for edge in range(factor.arity):
        odds = odds_of(factor, scores).requires_grad_()
        if abs(expected[edge] + odds[edge].item()) > 480:
            continue  # adjoints of log-odds beyond 500 are 0
        total = (there[possible] * odds).sum(1)
        on, off = (torch.logsumexp(total[there[possible, edge] == side], 0) for side in (True, False))
        (right,) = torch.autograd.grad(on - off, odds)
        sent = factor.messages(torch.stack([torch.zeros_like(odds), odds], -1).flatten()).reshape(-1, 2)
        (found,) = torch.autograd.grad(sent[edge, 1] - sent[edge, 0] + odds[edge], odds)
        assert found.numpy() == pytest.approx(right.numpy(), abs=1e-9)


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


@pytest.mark.parametrize("single_root", [False, True])
def test_eisner_is_edmonds_where_that_is_projective(single_root: bool) -> None:
    agreed = 0
    for seed in range(60):
        tokens = 4 + seed % 5
        scores = random_scores(tokens, seed=seed) - 0.5 * np.abs(np.subtract.outer(*[np.arange(tokens + 1)] * 2))
        projective, free = ProjectiveTree(tokens, single_root), Tree(tokens, single_root)
        best = free.heads(free.argmax(incoming_of(free, scores)))
        mine = projective.heads(projective.argmax(incoming_of(projective, scores)))
        if is_projective(tuple(best.tolist())):
            assert mine.tolist() == best.tolist()
            agreed += 1
        else:
            totals = [tree_scores(tree[None].numpy(), scores)[0] for tree in (mine, best)]
            assert totals[0] < totals[1]
    assert 10 < agreed < 60


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


def test_messages_of_log_odds_round_trip() -> None:
    odds = torch.tensor([-torch.inf, -800.0, -1.0, 0.0, 3.0, 900.0, torch.inf], dtype=torch.float64)
    messages = from_log_odds(odds)
    assert torch.equal(log_odds(messages)[0], odds)
    assert messages.reshape(-1, 2).exp().sum(-1).numpy() == pytest.approx(np.ones(7))


@pytest.mark.parametrize(
    ("tokens", "edges", "message"),
    [
        (0, None, "at least one token"),
        (2, [[0, 3]], "edge 0 to 3 does not fit 2 tokens"),
        (2, [[1, 1]], "edge 1 to 1"),
        (2, [[0, 1], [0, 1]], r"edge \[0, 1\] is listed twice"),
        (2, [0, 1], "integer array"),
    ],
)
def test_bad_edges(tokens: int, edges: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Tree(tokens, edges=edges)


def test_factors_of_equal_structure_are_equal() -> None:
    assert Tree(3) == Tree(3) != Tree(3, single_root=True)
    assert Tree(2, edges=[[0, 1], [1, 2]]) != Tree(2, edges=[[0, 1], [0, 2]])
    assert hash(Tree(3)) == hash(Tree(3)) and ProjectiveTree(3) != Tree(3)
