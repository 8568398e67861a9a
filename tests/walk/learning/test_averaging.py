"""Averages of iterates."""

from __future__ import annotations

import numpy as np
import pytest

import loopwise as lw
from loopwise import walk
from oracles.walk_cases import chain_documents, chain_model, cluster_model, mention_document, random_pairs


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
        chain_model(), walk.GibbsChange(), metric=lw.metric.Accuracy(), averaging=walk.Averaging(last_epoch=True)
    )
    learner.fit(documents, steps=30, epochs=2)
    second = walk.SampleRank(chain_model(), walk.GibbsChange(), metric=lw.metric.Accuracy())
    second.fit(documents, steps=30)
    first_sum = second.weights * 90
    second.fit(documents, steps=30)
    assert np.allclose(learner.weights, (second.weights * 180 - first_sum) / 90)
