"""Learners against what they should minimise: enumeration, finite differences, explicit averages."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.apps.chain import (
    ERM,
    SVM,
    EntityF1,
    Hamming,
    Learner,
    Likelihood,
    Perceptron,
    SampleRank,
    Tagger,
    TokenF1,
    Viterbi,
)
from loopwise.apps.chain.features.text import Text
from loopwise.formats.iob import TagSet, find_spans
from loopwise.learn.chain.condensing import Condensed
from loopwise.learn.chain.likelihood import NegativeLogLikelihood
from loopwise.learn.chain.problem import ChainProblem, ChainWeights
from loopwise.learn.chain.risk import ExactRisk, RiskUnder
from loopwise.learn.history import History
from loopwise.learn.trainer import train
from loopwise.loss.chains import Gold, SoftLoss, expected_entities, span_probabilities
from loopwise.walk.chains import chain_documents
from loopwise.walk.graph_model import GraphModel
from tagger_text import names

TEMPLATES = "w[0] is_title[0] lower[-1]|lower[0] bias"


def make_problem(count: int = 4, steps: str = "", seed: int = 0, threads: int = 1) -> ChainProblem:
    words, tags = names(count, seed)
    """Without rules: these are tested by themselves (test_partial.py)."""
    return Tagger(TEMPLATES, steps, threads=threads, decoder=Viterbi(valid=False)).problem(Text.of(words), tags)


def learnt(learner: Learner, problem: ChainProblem, seed: int = 0) -> tuple[ChainWeights, History]:
    """What a learner finds from zero."""
    start = problem.start()
    objective = learner.objective(problem, start, seed)
    history = train(objective, learner.limits)
    return start.like(objective.answer), history


def random_weights(problem: ChainProblem, seed: int = 1, scale: float = 0.5) -> ChainWeights:
    start = problem.start()
    return start.like(np.random.default_rng(seed).normal(0, scale, start.vector.shape))


def path_score(problem: ChainProblem, weights: ChainWeights, sentence: int, path: tuple[int, ...]) -> float:
    """The score of one labelling, feature by feature."""
    begin, total = problem.chains.start[sentence], 0.0
    unary, steps = problem.unary.flat, problem.step_features()
    for place, tag in enumerate(path):
        token = begin + place
        total += weights.unary[unary.index[unary.start[token] : unary.start[token + 1]], tag].sum()
        if place:
            cell = path[place - 1] * problem.states + tag
            total += weights.pair[steps.index[steps.start[token] : steps.start[token + 1]], cell].sum()
    return float(total)


def all_paths(problem: ChainProblem, sentence: int) -> list[tuple[int, ...]]:
    length = int(np.diff(problem.chains.start)[sentence])
    return list(product(range(problem.states), repeat=length))


def gold_path(problem: ChainProblem, sentence: int) -> tuple[int, ...]:
    return tuple(problem.gold[problem.chains.start[sentence] : problem.chains.start[sentence + 1]].tolist())


@pytest.mark.parametrize("steps", ["", "w[0] is_title[-1]"])
@pytest.mark.parametrize("threads", [1, 2])
def test_likelihood_and_its_gradient(steps: str, threads: int) -> None:
    problem = make_problem(3, steps, threads=threads)
    weights = random_weights(problem)
    value, gradient = NegativeLogLikelihood(problem)(weights)
    by_hand = 0.0
    for sentence in range(problem.sentences):
        scores = np.array([path_score(problem, weights, sentence, path) for path in all_paths(problem, sentence)])
        own = path_score(problem, weights, sentence, gold_path(problem, sentence))
        by_hand += float(np.logaddexp.reduce(scores)) - own
    assert value == pytest.approx(by_hand, rel=1e-10)
    check_gradient(NegativeLogLikelihood(problem), weights, gradient)


def check_gradient(objective, weights: ChainWeights, gradient: np.ndarray, tolerance: float = 1e-5) -> None:
    rng = np.random.default_rng(2)
    places = set(rng.choice(len(gradient), 12, replace=False)) | set(np.argsort(-np.abs(gradient))[:12])
    for place in places:
        values = []
        for sign in (1, -1):
            moved = weights.vector.copy()
            moved[place] += sign * 1e-5
            values.append(objective(weights.like(moved))[0])
        assert gradient[place] == pytest.approx((values[0] - values[1]) / 2e-5, rel=tolerance, abs=1e-6)


def test_likelihood_training_reaches_the_minimum() -> None:
    """At the minimum the gradient vanishes, and no direction leads down."""
    problem = make_problem(30)
    learner = Likelihood(l2=0.5, iterations=500, tolerance=1e-14)
    found, history = learnt(learner, problem)
    value, gradient = NegativeLogLikelihood(problem)(found)
    assert np.abs(gradient + 0.5 * found.vector).max() < 1e-3
    total = value + 0.25 * float(found.vector @ found.vector)
    assert history.losses[-1] == pytest.approx(total, rel=1e-9)
    assert all(late <= early + 1e-9 for early, late in zip(history.losses, history.losses[1:], strict=False))


@pytest.mark.parametrize("steps", ["", "w[0] suffix2[0]"])
def test_condensing_keeps_scores_and_the_minimum(steps: str) -> None:
    problem = make_problem(25, steps)
    small = Condensed.of(problem)
    assert small.problem.unary.features < problem.unary.features
    weights = random_weights(small.problem)
    whole = small.widen(weights)
    for mine, theirs in zip(small.problem.scores(weights), problem.scores(whole), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)
    assert float(weights.vector @ weights.vector) == pytest.approx(float(whole.vector @ whole.vector))
    np.testing.assert_allclose(small.narrow(whole).vector, weights.vector, atol=1e-12)
    # At the minimum found in the small problem, the gradient of the whole one vanishes.
    found = learnt(Likelihood(l2=0.5, iterations=500, tolerance=1e-15), problem, 0)[0]
    _, gradient = NegativeLogLikelihood(problem)(found)
    assert np.abs(gradient + 0.5 * found.vector).max() < 1e-3


def test_condensing_joins_just_the_features_of_the_same_tokens() -> None:
    problem = make_problem(25)
    dense = np.zeros((problem.tokens, problem.unary.features), dtype=np.int64)
    flat = problem.unary.flat
    np.add.at(dense, (np.repeat(np.arange(problem.tokens), np.diff(flat.start)), flat.index), 1)
    groups = Condensed.of(problem).unary
    _, expected = np.unique(dense, axis=1, return_inverse=True)
    pairs = set(zip(groups.of.tolist(), expected.reshape(-1).tolist(), strict=True))
    assert len(pairs) == len(groups.size) == expected.max() + 1  # the same partition


def test_weights_only_for_what_is_seen() -> None:
    problem = make_problem(25)
    found = learnt(Likelihood(l2=0.5, iterations=500, tolerance=1e-15, seen_only=True), problem, 0)[0]
    flat, seen = problem.unary.flat, np.zeros(problem.start().unary.shape, dtype=np.bool_)
    for token, tag in enumerate(problem.gold):
        seen[flat.index[flat.start[token] : flat.start[token + 1]], tag] = True
    assert not seen.all() and np.array_equal(found.unary != 0, seen)
    _, gradient = NegativeLogLikelihood(problem)(found)
    slopes = (gradient + 0.5 * found.vector)[: seen.size].reshape(seen.shape)
    assert np.abs(slopes[seen]).max() < 1e-3 < np.abs(slopes[~seen]).max()


@pytest.mark.parametrize("loss", [Hamming(), TokenF1(), EntityF1()])
@pytest.mark.parametrize("steps", ["", "is_title[0]"])
def test_risks_and_their_gradients(loss: SoftLoss, steps: str) -> None:
    problem = make_problem(4, steps)
    weights = random_weights(problem)
    risk = ExactRisk(problem, loss)
    value, gradient = risk(weights)
    assert 0.0 < value < problem.tokens
    check_gradient(risk, weights, gradient)


@pytest.mark.parametrize("loss", [TokenF1(), EntityF1()])
@pytest.mark.parametrize("steps", ["", "is_title[0]"])
def test_enough_sweeps_of_bp_are_exact(loss: SoftLoss, steps: str) -> None:
    problem = make_problem(4, steps)
    weights = random_weights(problem)
    longest = int(np.diff(problem.chains.start).max())
    exact = ExactRisk(problem, loss)(weights)
    bp = RiskUnder(problem, loss, lw.BP(iterations=longest + 1, tolerance=0, engine=lw.inference.Reference()))(weights)
    assert bp[0] == pytest.approx(exact[0], rel=1e-9)
    np.testing.assert_allclose(bp[1], exact[1], rtol=1e-6, atol=1e-9)
    short = RiskUnder(problem, loss, lw.BP(iterations=1, tolerance=0, engine=lw.inference.Reference()))(weights)
    assert abs(short[0] - exact[0]) > 1e-6  # one sweep is something else


def test_expected_entities_and_spans_by_enumeration() -> None:
    problem = make_problem(3, seed=5)
    weights = random_weights(problem, scale=1.0)
    known = problem.chains.marginals(*problem.scores(weights), each=True)
    gold = Gold(problem.gold, problem.chains.start, problem.labels)
    single, double = torch.from_numpy(known.single), torch.from_numpy(known.double)
    tags = TagSet.of(problem.labels)
    expected, right = 0.0, np.zeros(len(gold.spans))
    truths = gold.spans.named()
    for sentence in range(problem.sentences):
        paths = all_paths(problem, sentence)
        scores = np.array([path_score(problem, weights, sentence, path) for path in paths])
        shares = np.exp(scores - np.logaddexp.reduce(scores))
        offset = int(problem.chains.start[sentence])
        for path, share in zip(paths, shares, strict=True):
            spans = find_spans(np.array(path), tags, np.array([0, len(path)])).named()
            expected += share * len(spans)
            for begin, end, name in spans:
                if (begin + offset, end + offset, name) in truths:
                    right[truths.index((begin + offset, end + offset, name))] += share
    assert len(truths) > 1
    assert float(expected_entities(single, double, gold)) == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(span_probabilities(single, double, gold).numpy(), right, rtol=1e-9)


def test_risk_training_lowers_the_risk() -> None:
    problem = make_problem(40)
    begin = Likelihood(l2=5.0)
    start, _ = learnt(begin, problem)
    found, history = learnt(ERM(EntityF1(), l2=0.05, iterations=20, begin=begin), problem)
    assert {epoch.stage for epoch in history} == {0, 1}
    risk = ExactRisk(problem, EntityF1())
    assert risk(found)[0] < 0.7 * risk(start)[0]


def perceptron_by_hand(problem: ChainProblem, epochs: int, seed: int) -> np.ndarray:
    """The mean of all weights ever had, remembered one by one; best paths by enumeration."""
    rng, weights, history = np.random.default_rng(seed), problem.start(), []
    unary, steps = problem.unary.flat, problem.step_features()
    for _ in range(epochs):
        for sentence in rng.permutation(problem.sentences):
            if np.diff(problem.chains.start)[sentence]:
                paths = all_paths(problem, sentence)
                best = max(paths, key=lambda path: path_score(problem, weights, sentence, path))
                for path, sign in ((gold_path(problem, sentence), 1.0), (best, -1.0)):
                    for place, tag in enumerate(path):
                        token = problem.chains.start[sentence] + place
                        own = unary.index[unary.start[token] : unary.start[token + 1]]
                        np.add.at(weights.unary, (own, tag), sign)
                        if place:
                            cell = path[place - 1] * problem.states + tag
                            np.add.at(
                                weights.pair, (steps.index[steps.start[token] : steps.start[token + 1]], cell), sign
                            )
            history.append(weights.vector.copy())
    return np.mean(history, axis=0)


@pytest.mark.parametrize("steps", ["", "is_title[0]"])
def test_perceptron_is_the_mean_of_its_steps(steps: str) -> None:
    problem = make_problem(6, steps)
    found = learnt(Perceptron(epochs=3), problem, 4)[0]
    np.testing.assert_allclose(found.vector, perceptron_by_hand(problem, 3, 4), atol=1e-12)


def svm_objective(problem: ChainProblem, weights: ChainWeights, c: float) -> float:
    total = 0.5 * float(weights.vector @ weights.vector)
    for sentence in range(problem.sentences):
        gold = gold_path(problem, sentence)
        own = path_score(problem, weights, sentence, gold)
        values = [
            sum(a != b for a, b in zip(path, gold, strict=True)) + path_score(problem, weights, sentence, path) - own
            for path in all_paths(problem, sentence)
        ]
        total += c * max(values)
    return total


def test_svm_approaches_its_minimum() -> None:
    """The objective, by enumeration, is near the best value that many more steps find, and far from that of zero."""
    problem, c = make_problem(8, seed=3), 0.05
    some = svm_objective(problem, learnt(SVM(c, epochs=50), problem, 0)[0], c)
    many = svm_objective(problem, learnt(SVM(c, epochs=3000), problem, 0)[0], c)
    assert many <= some * 1.001 and some < 1.1 * many < 0.9 * svm_objective(problem, problem.start(), c)


def test_the_first_step_of_the_svm_by_hand() -> None:
    """From zero the best path with costs is the first wrong one everywhere; the step is C n times the difference."""
    problem = make_problem(1, seed=3)
    found = learnt(SVM(c=0.5, epochs=1), problem, 0)[0]
    gold = gold_path(problem, 0)
    worst = max(
        all_paths(problem, 0),
        key=lambda path: (sum(a != b for a, b in zip(path, gold, strict=True)), [-x for x in path]),
    )
    by_hand = problem.start()
    unary, steps = problem.unary.flat, problem.step_features()
    for path, sign in ((gold, 0.5), (worst, -0.5)):
        for place, tag in enumerate(path):
            np.add.at(by_hand.unary, (unary.index[unary.start[place] : unary.start[place + 1]], tag), sign)
            if place:
                cell = path[place - 1] * problem.states + tag
                np.add.at(by_hand.pair, (steps.index[steps.start[place] : steps.start[place + 1]], cell), sign)
    np.testing.assert_allclose(found.unary.sum(axis=0), by_hand.unary.sum(axis=0), atol=1e-12)


@pytest.mark.parametrize("steps", ["", "is_title[0]"])
def test_sample_rank_walks_on_the_same_scores(steps: str) -> None:
    """The documents of the walk have, under any weights, the scores of the problem; training meets its margins."""
    problem = make_problem(12, steps)
    weights = random_weights(problem)
    unary, pair = problem.scores(weights)
    groups = {
        "unary": lw.potentials.SparseGroup((problem.states,), len(weights.unary)),
        "pair": lw.potentials.SparseGroup((problem.states,) * 2, len(weights.pair)),
    }
    model = GraphModel(lw.SparsePotentials(groups))
    model.write(weights.vector)
    begin = 0
    for document in chain_documents(problem):
        tables, end = model.tables(document), begin + document.graph.variables
        np.testing.assert_allclose(tables["unary"].numpy(), unary[begin:end], atol=1e-12)
        mine = pair[begin + 1 : end] if steps else np.broadcast_to(pair, (end - begin - 1, *pair.shape[1:]))
        np.testing.assert_allclose(tables["pair"].numpy(), mine, atol=1e-12)
        begin = end
    assert begin == problem.tokens
    _, history = learnt(SampleRank(epochs=30), problem)
    assert history.losses[-1] < 0.2 * history.losses[0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Likelihood(l2=-1), "l2"),
        (lambda: Likelihood(iterations=0), "iterations"),
        (lambda: Perceptron(epochs=0), "epochs"),
        (lambda: SampleRank(sweeps=0), "sweeps"),
        (lambda: SVM(c=0), "c must be"),
        (lambda: SVM(cost=float("nan")), "cost"),
        (lambda: ERM(l2=float("inf")), "l2"),
    ],
)
def test_bad_options(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
