"""Pairs of worlds, ranked."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np

import loopwise as lw
from loopwise import walk
from loopwise.walk.models.model import Sparse, dot
from oracles.walk_cases import cluster_model, mention_document


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
    learner = walk.SampleRank(model, walk.GibbsChange(), metric=None, step=walk.MIRA(np.inf))
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
