"""Detailed balance by enumeration, and long chains against enumerated marginals."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

import loopwise as lw
from loopwise import walk
from loopwise.testing.walk import Transitions, outcomes, transitions
from loopwise.walk.model import dot
from loopwise.walk.proposal import Walker
from loopwise.walk.randomness import Stream
from walk_cases import chain_documents, chain_model, cluster_model, mention_document, mixed_graph

BELL = (1, 1, 2, 5, 15, 52)  # partitions of n mentions


def weights_of(model: walk.Model, scale: float = 1.0) -> np.ndarray:
    return scale * np.random.default_rng(4).normal(size=model.size)


def found(*arguments: object, **options: object) -> Transitions:
    chain = transitions(*arguments, **options)  # type: ignore[arg-type]
    assert chain is not None
    return chain


@pytest.mark.parametrize("temperature", [1.0, 0.3, 2.0])
@pytest.mark.parametrize("proposal", [walk.Gibbs(), walk.AllValues(), walk.UniformChange(), walk.ForcedFlip()])
def test_labels(proposal: walk.Proposal, temperature: float) -> None:
    graph = mixed_graph()
    model = walk.GraphModel(lw.TablePotentials(graph))
    chain = found(model, proposal, walk.GraphDocument(graph, [0, 0, 0, 0]), weights_of(model), temperature=temperature)
    assert len(chain.keys) == 24
    chain.check(1e-12)
    assert np.allclose(chain.probabilities @ chain.matrix, chain.probabilities, atol=1e-12)


@pytest.mark.parametrize("proposal", [walk.Gibbs(), walk.UniformChange(), walk.ForcedFlip()])
def test_six_binary_labels(proposal: walk.Proposal) -> None:
    graph = lw.graph.complete(6)
    model = walk.GraphModel(lw.TablePotentials(graph))
    chain = found(model, proposal, walk.GraphDocument(graph, [0] * 6), weights_of(model, 0.5))
    assert len(chain.keys) == 64
    chain.check(1e-12)


@pytest.mark.parametrize("temperature", [1.0, 0.4])
@pytest.mark.parametrize("mentions", [1, 2, 3, 4, 5])
def test_all_partitions(mentions: int, temperature: float) -> None:
    model = cluster_model(setwise=True, two_sided=True, links=True)
    document = mention_document(mentions, setwise=True, links=True)
    mixture = walk.Mixture((walk.MentionMover(), walk.SplitMerge()), (3.0, 1.0))
    for proposal in (walk.MentionMover(), walk.SplitMerge(), walk.BalancedMover(), mixture):
        chain = found(model, proposal, document, weights_of(model, 0.3), temperature=temperature)
        assert len(chain.keys) == BELL[mentions]
        chain.check(1e-12)
        assert np.allclose(chain.probabilities @ chain.matrix, chain.probabilities, atol=1e-12)


def test_a_mover_without_its_ratio_is_caught() -> None:
    class Careless(walk.MentionMover):
        def propose(self, walker: Walker) -> walk.Proposed:
            return walk.Proposed(super().propose(walker).move, 0.0)

    model = cluster_model()
    with pytest.raises(AssertionError, match="log ratio"):
        found(model, Careless(), mention_document(4), weights_of(model)).check(1e-12)


def test_draws_follow_the_listed_outcomes() -> None:
    """What is enumerated is what is drawn: frequencies against probabilities, within five standard errors."""
    model, document = cluster_model(), mention_document(4)
    world = model.world_of(document, [0, 0, 1, 2])
    walker = Walker(model, world, weights_of(model).tolist(), 1.0, Stream(0))
    expected: dict[object, float] = {}
    for probability, proposed in outcomes(walk.MentionMover(), walker):
        key = None if proposed.move is None else tuple(proposed.move.changes)
        expected[key] = expected.get(key, 0.0) + probability
    assert sum(expected.values()) == pytest.approx(1.0)
    count, random, seen = 20_000, Stream(3), dict.fromkeys(expected, 0)
    walker.random = random
    for _ in range(count):
        move = walk.MentionMover().propose(walker).move
        seen[None if move is None else tuple(move.changes)] += 1
    for key, probability in expected.items():
        error = np.sqrt(probability * (1 - probability) / count)
        assert abs(seen[key] / count - probability) < 5 * error + 1e-12


def partitions(mentions: int) -> Iterator[tuple[int, ...]]:
    """Labels of every partition, numbered by first appearance."""
    for labels in product(range(mentions), repeat=mentions):
        if all(label <= max(labels[:place], default=-1) + 1 for place, label in enumerate(labels)):
            yield labels


def test_marginals_of_clusterings() -> None:
    model, document = cluster_model(setwise=True), mention_document(4, setwise=True)
    learner = walk.SampleRank(model, walk.MentionMover(), metric=lw.metric.BCubed(), seed=1)
    learner.set_weights(weights_of(model, 0.3))
    states = list(partitions(4))
    scores = np.array(
        [dot(model.features(model.world_of(document, state)), learner.weights.tolist()) for state in states]
    )
    shares = np.exp(scores - scores.max())
    shares /= shares.sum()
    exact = sum(share * (np.array(state)[:, None] == state) for share, state in zip(shares, states, strict=True))
    estimate = learner.marginals(document, samples=20_000, thinning=4)
    assert np.abs(estimate.probabilities - exact).max() < 0.01
    assert estimate.mixed and estimate.r_hat < 1.01


@pytest.mark.parametrize("proposal", [walk.Gibbs(), walk.UniformChange(), walk.ForcedFlip(), walk.Gibbs(scan=True)])
def test_marginals_of_labels(proposal: walk.Proposal) -> None:
    model, document = chain_model(), chain_documents((4,))[0]
    learner = walk.SampleRank(model, proposal, metric=lw.metric.Accuracy())
    learner.set_weights(weights_of(model, 0.5))
    model.write(learner.weights)
    exact = lw.Exact()(document.graph, model.tables(document)).states.reshape(4, 3).numpy()
    estimate = learner.marginals(document, samples=20_000)
    assert np.abs(estimate.probabilities - exact).max() < 0.015
    half = learner.marginals(document, samples=20_000, temperature=2.0)
    cooler = {name: table / 2.0 for name, table in model.tables(document).items()}
    exact = lw.Exact()(document.graph, cooler).states.reshape(4, 3).numpy()
    assert np.abs(half.probabilities - exact).max() < 0.015


def test_plain_marginals_are_the_compiled_ones() -> None:
    documents = {chain_model(): chain_documents((3,))[0]}
    for model, document in documents.items():
        found = []
        for engine in (walk.Plain(), walk.Compiled()):
            learner = walk.SampleRank(model, walk.Gibbs(), metric=lw.metric.Accuracy(), engine=engine)
            learner.set_weights(weights_of(model))
            found.append(learner.marginals(document, samples=50, burn_in=10))
        assert np.array_equal(found[0].probabilities, found[1].probabilities)
        assert found[0].r_hat == found[1].r_hat
