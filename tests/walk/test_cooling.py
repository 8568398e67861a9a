"""Search by cooling finds the best."""

from __future__ import annotations

from itertools import product

import pytest

import loopwise as lw
from loopwise import walk
from loopwise.walk.models.model import dot
from oracles.walk_cases import cluster_model, learner_of, mention_document, mixed_graph


@pytest.mark.parametrize("proposal", [walk.GibbsChange(), walk.UniformChange(), walk.ForcedFlip()])
def test_cooling_finds_the_best_labelling(proposal: walk.Proposal) -> None:
    graph = mixed_graph()
    model = walk.GraphModel(lw.TablePotentials(graph))
    document = walk.GraphDocument(graph, [0, 0, 0, 0])
    learner = learner_of(model, proposal, lw.metric.Accuracy())
    weights = learner.weights.tolist()
    sizes = graph.cardinalities.tolist()
    scores = {
        values: dot(model.features(model.world_of(document, values)), weights)
        for values in product(*(range(size) for size in sizes))
    }
    (found,) = learner.search([document], steps=3000, restarts=3)
    assert tuple(found.labels) == max(scores, key=scores.__getitem__)
    assert found.score == pytest.approx(max(scores.values()), abs=1e-9)
    assert learner.decode(document, steps=3000, restarts=3).tolist() == found.labels
    exact = learner.decode(document, decoder=walk.ExactDecoder())
    assert exact.tolist() == found.labels


def test_cooling_finds_the_best_clustering() -> None:
    model, document = cluster_model(setwise=True, two_sided=True), mention_document(5, setwise=True)
    learner = learner_of(model, walk.MentionMover(), lw.metric.BCubed())
    best = max(
        dot(model.features(model.world_of(document, labels)), learner.weights.tolist())
        for labels in product(range(5), repeat=5)
    )
    (found,) = learner.search([document], steps=8000)
    assert found.score == pytest.approx(best, abs=1e-9)
