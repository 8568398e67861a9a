"""The compiled run of one sentence against enumeration, plain torch and differences."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from loopwise.apps.parser.features.parts import list_pairs
from loopwise.apps.parser.objectives import CLL, AnnealedRisk, SquaredDistance
from loopwise.apps.parser.options import TreeInference
from oracles.parser_beliefs import (
    GRANDPARENTS,
    PROJECTIVE,
    SIBLINGS,
    SINGLE_ROOT,
    reference_beliefs,
    reference_loss,
)
from oracles.parser_tasks import Case

PAIRS = GRANDPARENTS | SIBLINGS
HALF = AnnealedRisk(0.5, 0.5, math.inf)
EXACT = TreeInference(1, exact=True)
KINDS = [PROJECTIVE | SINGLE_ROOT, PROJECTIVE, SINGLE_ROOT, 0]


@pytest.mark.parametrize("structure", KINDS)
@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("kind", ["l2", "ar"])
def test_losses_and_gradients_equal_those_of_torch(structure: int, n: int, kind: str) -> None:
    for iterations in (1, 2, 4):
        case = Case(n, structure | PAIRS, seed=10 * n + iterations)
        unary = torch.tensor(case.unary, requires_grad=True)
        scores = torch.tensor(case.scores, requires_grad=True)
        belief, _ = reference_beliefs(case.trees, unary, case.pairs, scores, iterations)
        loss = reference_loss(kind, case.trees, belief, torch.tensor(case.gold, dtype=torch.float64), 0.5)
        ours, of_unary, of_scores = case.step(SquaredDistance() if kind == "l2" else HALF, TreeInference(iterations))
        assert ours == pytest.approx(float(loss.detach()), abs=1e-11)
        if n > 1:  # of a single word everything is certain
            expected = torch.autograd.grad(loss, [unary, scores], allow_unused=True)
            np.testing.assert_allclose(of_unary, expected[0].numpy(), atol=1e-9)
            if len(case.pairs) and expected[1] is not None:
                np.testing.assert_allclose(of_scores, expected[1].numpy(), atol=1e-9)


def test_gradients_of_a_longer_sentence_equal_differences() -> None:
    n, rng = 9, np.random.default_rng(5)
    case = Case(4, PROJECTIVE | SINGLE_ROOT | PAIRS, seed=0)
    case.n = n
    case.arcs = [(h, m) for m in range(1, n + 1) for h in range(n + 1) if h != m and (h == m - 1 or rng.random() < 0.4)]
    case.heads, case.mods = (np.array(column, np.int32) for column in zip(*case.arcs, strict=True))
    case.first, case.second, _ = list_pairs(n, case.heads, case.mods, case.structure)
    case.unary, case.scores = rng.normal(size=len(case.arcs)), rng.normal(size=len(case.first))
    case.gold = (case.heads == case.mods - 1).astype(np.int64)
    for objective in (SquaredDistance(), HALF):
        _, of_unary, of_scores = case.step(objective, TreeInference(3))
        ahead, along = rng.normal(size=len(case.unary)), rng.normal(size=len(case.scores))
        up, down = (
            case.step(objective, TreeInference(3), unary=case.unary + step * ahead, scores=case.scores + step * along)[
                0
            ]
            for step in (1e-5, -1e-5)
        )
        assert (up - down) / 2e-5 == pytest.approx(of_unary @ ahead + of_scores @ along, rel=1e-6)


@pytest.mark.parametrize("structure", KINDS)
def test_without_pairs_one_iteration_is_exact(structure: int) -> None:
    case = Case(4, structure, seed=4)
    exact = torch.softmax(case.trees @ torch.tensor(case.unary), 0) @ case.trees
    np.testing.assert_allclose(case.beliefs(TreeInference(1)), exact.numpy(), atol=1e-12)
    np.testing.assert_allclose(case.beliefs(TreeInference(3)), exact.numpy(), atol=1e-12)
    second = Case(4, structure | PAIRS, seed=4)
    second.unary, second.scores = case.unary, np.zeros_like(second.scores)
    np.testing.assert_allclose(second.beliefs(TreeInference(2)), exact.numpy(), atol=1e-12)


@pytest.mark.parametrize("structure", KINDS)
def test_likelihood_is_exact_without_pairs_and_belief_weighted_with_them(structure: int) -> None:
    case = Case(4, structure, seed=6)
    unary = torch.tensor(case.unary, requires_grad=True)
    nll = torch.logsumexp(case.trees @ unary, 0) - (unary * torch.tensor(case.gold)).sum()
    loss, of_unary, _ = case.step(CLL(), TreeInference(1))
    assert loss == pytest.approx(float(nll.detach()), abs=1e-11)
    np.testing.assert_allclose(of_unary, torch.autograd.grad(nll, unary)[0].numpy(), atol=1e-11)
    loopy = Case(4, structure | PAIRS, seed=6)
    belief, joint = reference_beliefs(
        loopy.trees, torch.tensor(loopy.unary), loopy.pairs, torch.tensor(loopy.scores), 3
    )
    _, of_unary, of_scores = loopy.step(CLL(), TreeInference(3))
    gold = loopy.gold
    np.testing.assert_allclose(of_unary, belief.numpy() - gold, atol=1e-11)
    np.testing.assert_allclose(of_scores, joint.numpy() - gold[loopy.first] * gold[loopy.second], atol=1e-11)


def test_bethe_value_is_close_to_the_truth_and_approximate() -> None:
    case = Case(4, PROJECTIVE | SINGLE_ROOT | PAIRS, seed=8, scale=0.5)
    trees = case.trees
    both = trees[:, case.first] * trees[:, case.second]
    truth = torch.logsumexp(trees @ torch.tensor(case.unary) + both @ torch.tensor(case.scores), 0)
    gold = case.gold
    score = gold @ case.unary + (gold[case.first] * gold[case.second]) @ case.scores
    ours = case.step(CLL(), TreeInference(50))[0] + score
    assert 1e-6 < abs(ours - float(truth)) < 0.1 * abs(float(truth))


@pytest.mark.parametrize("structure", [PROJECTIVE | SINGLE_ROOT, PROJECTIVE])
def test_exact_grandparents_equal_enumeration(structure: int) -> None:
    for seed in range(4):
        case = Case(4, structure | GRANDPARENTS, seed=seed)
        trees = case.trees
        unary = torch.tensor(case.unary, requires_grad=True)
        scores = torch.tensor(case.scores, requires_grad=True)
        both = trees[:, case.first] * trees[:, case.second]
        weight = trees @ unary + both @ scores
        share = torch.softmax(weight, 0)
        found = case.models.exact(np.append(0.0, case.unary), case.scores)
        assert found.log_partition[1] == pytest.approx(float(torch.logsumexp(weight, 0).detach()), abs=1e-11)
        np.testing.assert_allclose(case.beliefs(EXACT), (share @ trees).detach().numpy(), atol=1e-11)
        gold = torch.tensor(case.gold, dtype=torch.float64)
        for objective, loss in (
            (SquaredDistance(), reference_loss("l2", trees, share @ trees, gold, 0.5)),
            (HALF, reference_loss("ar", trees, share @ trees, gold, 0.5)),
            (CLL(), torch.logsumexp(weight, 0) - gold @ unary - (gold[case.first] * gold[case.second]) @ scores),
        ):
            ours, of_unary, of_scores = case.step(objective, EXACT)
            expected = torch.autograd.grad(loss, [unary, scores], retain_graph=True)
            assert ours == pytest.approx(float(loss.detach()), abs=1e-10)
            np.testing.assert_allclose(of_unary, expected[0].numpy(), atol=1e-9)
            np.testing.assert_allclose(of_scores, expected[1].numpy(), atol=1e-9)


def test_perturbation_agrees_where_it_is_valid_and_refuses_elsewhere() -> None:
    case = Case(4, PROJECTIVE | SINGLE_ROOT, seed=2)
    unrolled, perturbed = (
        case.step(SquaredDistance(), TreeInference(1)),
        case.step(SquaredDistance(), TreeInference(1, perturbed=True)),
    )
    assert perturbed[0] == pytest.approx(unrolled[0])
    np.testing.assert_allclose(perturbed[1], unrolled[1], atol=1e-7)
    loopy = Case(4, PROJECTIVE | SINGLE_ROOT | PAIRS, seed=2, scale=0.3)
    assert all(np.isinf(loopy.step(SquaredDistance(), TreeInference(count, perturbed=True))[0]) for count in (1, 2))
    settled = loopy.step(SquaredDistance(), TreeInference(200, perturbed=True))
    np.testing.assert_allclose(settled[1], loopy.step(SquaredDistance(), TreeInference(200))[1], atol=1e-5)
    np.testing.assert_allclose(settled[2], loopy.step(SquaredDistance(), TreeInference(200))[2], atol=1e-5)


def test_risk_becomes_the_errors_of_the_decoded_tree() -> None:
    case = Case(4, PROJECTIVE | SINGLE_ROOT | PAIRS, seed=12)
    belief = torch.tensor(case.beliefs(TreeInference(2)))
    best = case.trees[int(torch.argmax(case.trees @ belief))]
    errors = case.n - int((best * torch.tensor(case.gold)).sum())
    assert case.step(AnnealedRisk(1e-4, 1e-4), TreeInference(2))[0] == pytest.approx(errors, abs=1e-6)
    uniform = case.trees.mean(0) @ torch.tensor(case.gold, dtype=torch.float64)
    assert case.step(AnnealedRisk(1e8, 1e8), TreeInference(2))[0] == pytest.approx(case.n - float(uniform), abs=1e-6)


def test_early_stop_is_where_beliefs_settle() -> None:
    case = Case(4, PROJECTIVE | SINGLE_ROOT | PAIRS, seed=9, scale=0.5)
    found = case.propagate(100, 1e-6)
    used = int(found.used[1])
    assert 2 < used < 100 and found.used[0] == 2 and found.used[2] == 0  # a single word shows it in its second sweep
    runs = [case.propagate(count).beliefs for count in range(1, used + 1)]
    moves = [np.abs(after - before).max() for before, after in itertools.pairwise(runs)]
    assert moves[-1] <= 1e-6 and all(move > 1e-6 for move in moves[:-1])
    np.testing.assert_array_equal(found.beliefs, runs[-1])
    assert found.moved[1] == moves[-1]
