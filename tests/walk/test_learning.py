"""What learners promise: MIRA's equality, exact averages, rankings, likelihood gradients, structured SVMs."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import loopwise as lw
from loopwise import walk
from loopwise.walk.model import Sparse, dot
from loopwise.walk.rules import Rule
from loopwise.walk.updates import PlainLearning, Weights
from walk_cases import chain_documents, chain_model, cluster_model, mention_document


def learning(size: int, **options: Any) -> PlainLearning:
    rule = Rule(**options)
    return PlainLearning.of(rule, Weights.zeros(size, rule))


def random_pairs(count: int, size: int, seed: int = 0) -> list[walk.Pair]:
    generator = np.random.default_rng(seed)
    pairs = []
    for _ in range(count):
        keys = generator.choice(size, 4, replace=False)
        pairs.append(
            walk.Pair(
                dict(zip(keys.tolist(), generator.normal(size=4).tolist(), strict=True)), float(generator.normal())
            )
        )
    return pairs


@pytest.mark.parametrize("cap", [np.inf, 0.05])
def test_mira_meets_the_margin_with_equality_or_is_capped(cap: float) -> None:
    state = learning(10, step=walk.MIRA(cap))
    capped = 0
    for pair in random_pairs(200, 10):
        state.time += 1
        sign, before = np.sign(pair.gain), list(state.weights)
        score = sign * dot(pair.difference, before)
        _, after = state.rank(pair.difference, pair.gain)
        assert after == pytest.approx(dot(pair.difference, state.weights), abs=1e-12)
        if score >= abs(pair.gain):
            assert state.weights == before
            continue
        norm = sum(value**2 for value in pair.difference.values())
        wanted = (abs(pair.gain) - score) / norm
        moved = sum((new - old) ** 2 for new, old in zip(state.weights, before, strict=True)) ** 0.5
        assert moved == pytest.approx(min(cap, wanted) * norm**0.5)
        capped += wanted > cap
        if wanted <= cap:
            assert sign * dot(pair.difference, state.weights) == pytest.approx(abs(pair.gain))
    assert capped > 0 or cap == np.inf


def test_an_empty_difference_changes_nothing() -> None:
    state = learning(3, step=walk.MIRA())
    state.time = 1
    assert state.rank({}, 1.0) == (0.0, 0.0)
    assert state.rank({0: 0.0}, 1.0) == (0.0, 0.0)
    assert state.weights == [0.0] * 3


@pytest.mark.parametrize("burn_in", [0, 7, 1000])
@pytest.mark.parametrize("step", [walk.Unit(), walk.Decaying(), walk.AdaGrad(), walk.MIRA()])
def test_the_average_is_that_of_all_iterates(step: walk.Step, burn_in: int) -> None:
    learner = walk.SampleRank(
        walk.ClusterModel(10), walk.MentionMover(), metric=None, step=step, averaging=walk.Averaging(burn_in)
    )
    iterates = []
    for pair in random_pairs(60, 10):
        learner.fit_pairs([pair])
        iterates.append(learner.raw.copy())
    kept = iterates[burn_in:] or iterates[-1:]
    assert np.allclose(learner.weights, np.mean(kept, axis=0), atol=1e-12)


def test_the_average_of_a_compiled_walk_is_that_of_its_iterates() -> None:
    """Walks of T = 1, 2, ... steps are prefixes of one another: their last weights are the iterates."""
    documents, steps = [mention_document(6)], 40

    def run(count: int) -> walk.Learner:
        learner = walk.SampleRank(cluster_model(), walk.MentionMover(), metric=lw.metric.PairwiseF1(), step=walk.MIRA())
        return learner.fit(documents, steps=count)

    iterates = [run(count).raw for count in range(1, steps + 1)]
    assert len({weights.tobytes() for weights in iterates}) > 5
    assert np.allclose(run(steps).weights, np.mean(iterates, axis=0), atol=1e-12)


def test_the_average_of_the_last_epoch() -> None:
    documents = chain_documents()
    learner = walk.SampleRank(
        chain_model(), walk.Gibbs(), metric=lw.metric.Accuracy(), averaging=walk.Averaging(last_epoch=True)
    )
    learner.fit(documents, steps=30, epochs=2)
    second = walk.SampleRank(chain_model(), walk.Gibbs(), metric=lw.metric.Accuracy())
    second.fit(documents, steps=30)
    first_sum = second.weights * 90
    second.fit(documents, steps=30)
    assert np.allclose(learner.weights, (second.weights * 180 - first_sum) / 90)


class Ring(walk.Model):
    """A ring of binary variables, a weight for each value and for each pair of neighbours' values."""

    def __init__(self, length: int) -> None:
        self.length, self.size = length, 2 * length + 4 * length

    def world(self, document: Any, start: walk.Start, random: walk.Stream) -> walk.Labelling:
        return walk.Labelling(document, [2] * self.length)

    def world_of(self, document: Any, labels: Any) -> walk.Labelling:
        return walk.Labelling(labels, [2] * self.length)

    def factors(self, world: walk.World) -> Any:
        values = world.labels()
        for place, value in enumerate(values):
            after = values[(place + 1) % self.length]
            yield ("one", place), [(2 * place + value, 1.0)]
            yield ("two", place), [(2 * self.length + 4 * place + 2 * value + after, 1.0)]


def test_all_pairs_are_ranked_as_the_signal_does() -> None:
    """The signal is itself log-linear: pairs from no walk at all, then every two states are in the right order."""
    model = Ring(4)
    hidden = np.random.default_rng(3).normal(size=model.size)
    worlds = [model.world(list(values), walk.Start.TRUTH, walk.Stream(0)) for values in product((0, 1), repeat=4)]
    features = [model.features(world) for world in worlds]
    omega = np.array([dot(vector, hidden.tolist()) for vector in features])

    def difference(one: int, other: int) -> Sparse:
        delta = dict(features[one])
        for key, value in features[other].items():
            delta[key] = delta.get(key, 0.0) - value
        return delta

    pairs = [walk.Pair(difference(i, j), float(omega[i] - omega[j])) for i, j in combinations(range(16), 2)]
    learner = walk.SampleRank(model, walk.Gibbs(), metric=None, step=walk.MIRA(np.inf))
    for _ in range(300):
        learner.fit_pairs(pairs)
    scores = np.array([dot(vector, learner.raw.tolist()) for vector in features])
    assert np.array_equal(np.argsort(scores), np.argsort(omega))


def test_a_pair_of_worlds() -> None:
    model, document = cluster_model(), mention_document(4)
    truth = model.world(document, walk.Start.TRUTH, walk.Stream(0))
    other = model.world(document, walk.Start.SINGLETONS, walk.Stream(0))
    pair = walk.Pair.of(model, lw.metric.BCubed(), truth, truth, other)
    assert pair.gain > 0
    expected = model.features(truth)
    for key, value in model.features(other).items():
        expected[key] = expected.get(key, 0.0) - value
    assert pair.difference == {key: value for key, value in expected.items() if value}


def separable() -> tuple[walk.GraphModel, list[walk.GraphDocument]]:
    """Tags that a linear model of the features gives, with some room."""
    documents = []
    generator = np.random.default_rng(0)
    for _ in range(6):
        words = generator.integers(0, 9, 5)
        unary = lw.Features.of_table(words[:, None])
        documents.append(walk.GraphDocument.of_chain(3, words // 3, unary))
    return chain_model(pair_features=1), documents


@pytest.mark.parametrize("step", [walk.Unit(), walk.MIRA(np.inf)])
def test_separable_data_ends_without_violations(step: walk.Step) -> None:
    model, documents = separable()
    learner = walk.SampleRank(model, walk.UniformChange(), metric=lw.metric.Correct(), step=step)
    learner.fit(documents, steps=2000, epochs=10)
    before = learner.tally
    learner.fit(documents, steps=2000)
    assert learner.tally.violated == before.violated
    assert learner.tally.ranked > before.ranked
    assert learner.evaluate(documents, raw=True, steps=500) == 5.0  # all tokens of all documents
    _check_telescoping(model, documents[0], learner.raw)


def _check_telescoping(model: walk.GraphModel, document: walk.GraphDocument, weights: np.ndarray) -> None:
    """Margins of single right corrections add up to that of the whole way to the truth (section 1 of the paper)."""
    truth = document.truth.tolist()
    best = dot(model.features(model.world_of(document, truth)), weights.tolist())
    for labels in product(range(3), repeat=5):
        wrong = sum(label != gold for label, gold in zip(labels, truth, strict=True))
        score = dot(model.features(model.world_of(document, labels)), weights.tolist())
        assert best - score >= wrong - 1e-9


def test_contrastive_divergence_with_a_perfect_sampler_has_the_gradient_of_the_likelihood() -> None:
    """One variable: a Gibbs draw forgets the past, so updates average to the truth's features less the expected."""
    graph = lw.FactorGraph([4], {"unary": [[0]]})
    model = walk.GraphModel(lw.TablePotentials(graph))
    document = walk.GraphDocument(graph, [2])
    weights = np.array([0.3, -0.5, 0.9, 0.1])
    exact = np.eye(4)[2] - np.exp(weights) / np.exp(weights).sum()
    total, count = np.zeros(4), 4000
    for seed in range(count):
        learner = walk.CD(model, walk.Gibbs(), metric=lw.metric.Accuracy(), step=walk.Unit(), seed=seed)
        learner.set_weights(weights)
        state, _ = learner.engine.open(model, [document], learner.proposal, learner.metric).learn(
            learner.rule, learner.state, [_visit()], seed
        )
        total += state.values - weights
    error = 5 * np.sqrt(0.25 / count)
    assert np.abs(total / count - exact).max() < error


def _visit() -> Any:
    from loopwise.walk.sessions import Visiting

    return Visiting(0, 1, walk.Start.TRUTH, 0)


def test_an_svm_with_all_rivals_reaches_the_exact_objective() -> None:
    """Separable: the exact hard-margin constraints (found feasible by a linear program) all hold at the end."""
    model, documents = separable()
    document = documents[0]
    truth = model.features(model.world_of(document, document.truth.tolist()))
    rows, margins = [], []
    for labels in product(range(3), repeat=5):
        vector = np.zeros(model.size)
        for key, value in truth.items():
            vector[key] += value
        for key, value in model.features(model.world_of(document, labels)).items():
            vector[key] -= value
        wrong = float(sum(label != gold for label, gold in zip(labels, document.truth, strict=True)))
        if wrong:
            rows.append(vector)
            margins.append(wrong)
    assert linprog(np.zeros(model.size), -np.array(rows), -np.array(margins), bounds=(None, None)).status == 0
    learner = walk.SampleRankSVM(
        model, walk.UniformChange(), metric=lw.metric.Correct(), step=walk.MIRA(np.inf), temperature=50.0
    )  # so hot that every labelling is proposed again and again
    learner.fit([document], steps=60_000, epochs=2)
    slack = np.maximum(0.0, np.array(margins) - np.array(rows) @ learner.raw)
    assert slack.max() == pytest.approx(0.0, abs=1e-9)
    learner.fit([document], steps=20_000)
    assert learner.tally.violated < 2000


def test_learners_learn() -> None:
    """Every learner decodes what it was trained on far better than the start does."""
    model, documents = separable()
    exact = walk.ExactDecoder()
    learners = [
        walk.SampleRank(model, walk.Gibbs(), metric=lw.metric.Accuracy(), step=walk.MIRA()),
        walk.SampleRank(model, walk.AllValues(), metric=lw.metric.Accuracy(), step=walk.AdaGrad()),
        walk.SampleRankSVM(model, walk.Gibbs(), metric=lw.metric.Accuracy()),
        walk.SampleRankSVM1(model, walk.Gibbs(), metric=lw.metric.Accuracy()),
        walk.CD(model, walk.Gibbs(), metric=lw.metric.Accuracy(), steps_away=5),
        walk.PCD(model, walk.Gibbs(), metric=lw.metric.Accuracy(), start=walk.Start.PREVIOUS),
        walk.Hybrid(model, walk.ForcedFlip(), metric=lw.metric.Accuracy()),
    ]
    for learner in learners:
        learner.fit(documents, steps=walk.Sweeps(40), epochs=5)
        assert learner.evaluate(documents, lw.metric.Accuracy(), decoder=exact) > 0.95, type(learner).__name__


def test_the_averaged_perceptron() -> None:
    model, documents = separable()
    last = walk.Averaging(last_epoch=True)  # without mistakes in it, and so of one vector
    learner = walk.AveragedPerceptron(model, walk.ExactDecoder(), averaging=last).fit(documents, epochs=15)
    assert learner.mistakes[0] > 0 and learner.mistakes[-1] == 0
    for document in documents:
        assert learner.decode(document).tolist() == document.truth.tolist()
    annealed = walk.AnnealedDecoder(walk.Gibbs())
    assert learner.decode(documents[0], annealed).tolist() == documents[0].truth.tolist()


def test_trained_weights_go_into_the_potentials() -> None:
    model, documents = separable()
    learner = walk.SampleRank(model, walk.Gibbs(), metric=lw.metric.Accuracy(), step=walk.MIRA())
    learner.fit(documents, steps=500)
    model.write(learner.weights)
    assert np.array_equal(model.read(), learner.weights)
    document = documents[0]
    score = lw.Exact(temperature=0)(document.graph, model.tables(document)).log_partition
    best = walk.ExactDecoder()(model, document, learner.weights)
    assert float(score) == pytest.approx(dot(model.features(model.world_of(document, best)), learner.weights.tolist()))
