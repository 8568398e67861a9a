"""Marginals that walks estimate."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

import loopwise as lw
from loopwise import walk
from loopwise.walk.models.model import dot
from oracles.balance_cases import weights_of
from oracles.walk_cases import chain_documents, chain_model, cluster_model, mention_document


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


@pytest.mark.parametrize(
    "proposal", [walk.GibbsChange(), walk.UniformChange(), walk.ForcedFlip(), walk.GibbsChange(scan=True)]
)
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
        for engine in (walk.Plain(), walk.CompiledWalks()):
            learner = walk.SampleRank(model, walk.GibbsChange(), metric=lw.metric.Accuracy(), engine=engine)
            learner.set_weights(weights_of(model))
            found.append(learner.marginals(document, samples=50, burn_in=10))
        assert np.array_equal(found[0].probabilities, found[1].probabilities)
        assert found[0].r_hat == found[1].r_hat
