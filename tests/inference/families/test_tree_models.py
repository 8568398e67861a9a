"""Models of trees at the speed of arrays, against `lw.BP` on the same graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import loopwise as lw
from loopwise.inference.families import tree_models
from loopwise.inference.families.kernels.tree_models import AnyScores, Projective
from loopwise.inference.families.tree_models import TreeModels
from loopwise.inference.messages.reference import Reference

SWEEPS = [1, 2, 3, 5]


def drawn(seed: int, lengths: list[int], projective: bool, single_root: bool) -> tuple[TreeModels, NDArray, NDArray]:
    """Sentences with most of their edges (the chain of tokens among them), any pairs, scores."""
    rng = np.random.default_rng(seed)
    edges, pairs = [], []
    for n in lengths:
        mine = [e for e in lw.ProjectiveTree(n).edges.tolist() if e[0] == e[1] - 1 or rng.random() < 0.8]
        edges.append(np.array(mine).reshape(-1, 2))
        both = [(a, b) for a in range(len(mine)) for b in range(a) if rng.random() < 0.3]
        pairs.append(np.array(both, np.int64).reshape(-1, 2))
    edge_start = np.concatenate([[0], np.cumsum([len(each) for each in edges])])
    pair_start = np.concatenate([[0], np.cumsum([len(each) for each in pairs])])
    models = TreeModels.of(
        np.array(lengths), edge_start, *np.concatenate(edges).T.copy(), pair_start, *np.concatenate(pairs).T.copy(),
        projective=projective, single_root=single_root,
    )  # fmt: skip
    return models, rng.normal(size=edge_start[-1]), rng.normal(size=pair_start[-1])


def through_bp(
    models: TreeModels, unary: NDArray, scores: NDArray, seeds: NDArray, sweeps: int, engine: object
) -> tuple[NDArray, NDArray, NDArray]:
    """Beliefs, and adjoints of both kinds of scores."""
    edge, pair = torch.zeros(len(unary), 2, dtype=torch.float64), torch.zeros(len(scores), 2, 2, dtype=torch.float64)
    edge[:, 1], pair[:, 1, 1] = torch.from_numpy(unary), torch.from_numpy(scores)
    given = {"edge": edge.requires_grad_(), "pair": pair.requires_grad_()}
    method = lw.BP(sweeps, 0, schedule=lw.Groups(("pair", "tree"), uniform_start=True), engine=engine)  # type: ignore[arg-type]
    beliefs = method(models.graph(), given).variables[:, 1]
    (beliefs * torch.from_numpy(seeds)).sum().backward()  # type: ignore[no-untyped-call]
    assert edge.grad is not None and pair.grad is not None
    return beliefs.detach().numpy(), edge.grad[:, 1].numpy(), pair.grad[:, 1, 1].numpy()


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize(("projective", "single_root"), [(True, True), (True, False), (False, True), (False, False)])
def test_beliefs_and_gradients_are_those_of_bp(
    projective: bool, single_root: bool, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every number of sweeps, both engines; also where charts are not kept but filled again."""
    if not kept:
        monkeypatch.setattr(tree_models, "KEPT", 0)
    models, unary, scores = drawn(1, [4, 1, 3, 2], projective, single_root)
    seeds = np.random.default_rng(2).normal(size=len(unary))
    for sweeps in SWEEPS:
        run = models.propagate(unary, scores, sweeps, taped=True)
        found = run.beliefs, *run.pull_back(seeds)
        for engine in (None, Reference()):
            expected = through_bp(models, unary, scores, seeds, sweeps, engine)
            for mine, theirs in zip(found, expected, strict=True):
                np.testing.assert_allclose(mine, theirs, atol=1e-10)
        np.testing.assert_allclose(models.propagate(unary, scores, sweeps).beliefs, run.beliefs, atol=1e-14)


@pytest.mark.parametrize("taped", [True, False])
def test_scores_beyond_float64_are_worked_out_in_logs(taped: bool) -> None:
    """Of the sentences that need it: two heads of a token far above all else, among ordinary sentences."""
    models, unary, scores = drawn(7, [3, 4, 2], True, False)
    begin, end = models.arrays.edge_start[1:3]
    token = models.arrays.mods[begin:end] == 2
    unary[begin:end][token] += np.where(np.arange(token.sum()) < 2, 2000.0, -2000.0)
    seeds = np.random.default_rng(3).normal(size=len(unary))
    for sweeps in (1, 3):
        run = models.propagate(unary, scores, sweeps, taped=taped)
        beliefs, *adjoints = through_bp(models, unary, scores, seeds, sweeps, Reference())
        np.testing.assert_allclose(run.beliefs, beliefs, atol=1e-10)
        assert isinstance(run.arrays.kind, AnyScores)
        assert run.tape.in_log.any(0).tolist() == [False, True, False]  # some of their edges are in no tree
        if taped:
            for mine, theirs in zip(run.pull_back(seeds), adjoints, strict=True):
                np.testing.assert_allclose(mine, theirs, atol=1e-9)
    assert isinstance(models.propagate(np.zeros_like(unary), scores).arrays.kind, Projective)


def test_the_value_is_that_of_bethe() -> None:
    models, unary, scores = drawn(3, [3], True, True)
    edge, pair = torch.zeros(len(unary), 2, dtype=torch.float64), torch.zeros(len(scores), 2, 2, dtype=torch.float64)
    edge[:, 1], pair[:, 1, 1] = torch.from_numpy(unary), torch.from_numpy(0.3 * scores)
    order = lw.Groups(("pair", "tree"), uniform_start=True)
    found = lw.BP(200, 1e-12, schedule=order)(models.graph(), {"edge": edge, "pair": pair})
    run = models.propagate(unary, 0.3 * scores, 200, 1e-13)
    values, joint = run.partition()
    assert values[0] == pytest.approx(float(found.log_partition), abs=1e-8)
    np.testing.assert_allclose(joint, found.factor("pair")[:, 1, 1].numpy(), atol=1e-8)


def test_best_trees_are_those_of_the_factor() -> None:
    for projective in (True, False):
        models, unary, _ = drawn(5, [4, 2, 5], projective, True)
        heads, possible = models.best(unary)
        assert possible.all()
        graph = models.graph()
        expected = []
        for factor, scope in zip(graph.structured[0].factors, graph.structured[0].scopes, strict=True):
            incoming = torch.zeros(2 * len(scope), dtype=torch.float64)
            incoming[1::2] = torch.from_numpy(unary[scope])
            expected += factor.heads(factor.argmax(incoming)).tolist()  # type: ignore[attr-defined]
        assert heads.tolist() == expected


def test_a_sentence_without_a_tree_does_not_disturb_others() -> None:
    """Beliefs of its edges are 0, and nothing flows back to them."""
    heads, mods = np.array([2, 1, 0, 2, 0, 1]), np.array([1, 2, 1, 1, 2, 2])  # a cycle; all edges of two tokens
    models = TreeModels.of(np.array([2, 2]), np.array([0, 2, 6]), heads, mods)
    unary = np.arange(6.0)
    run = models.propagate(unary, np.zeros(0), taped=True)
    assert run.possible.tolist() == [False, True] and models.best(unary)[1].tolist() == [False, True]
    alone = TreeModels.of(np.array([2]), np.array([0, 4]), heads[2:], mods[2:]).propagate(unary[2:], np.zeros(0))
    np.testing.assert_array_equal(run.beliefs, np.append([0, 0], alone.beliefs))
    assert run.pull_back(np.ones(6))[0][:2].tolist() == [0, 0]
