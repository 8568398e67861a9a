"""Entities that split and merge in compiled walks: the steps of plain ones, and the right distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loopwise import walk
from loopwise.loss.clustering import BCubed, PairwiseAccuracy, PairwiseF1
from oracles.balance_cases import found, weights_of
from oracles.walk_cases import cluster_model, mention_document
from oracles.walk_engines import Tracing

MIXTURE = walk.Mixture((walk.MentionMover(), walk.SplitMerge()), (3.0, 1.0))
WHOLE = {"setwise": True, "two_sided": True, "links": True}


def documents(options: dict[str, bool]) -> list[walk.MentionDocument]:
    kept = {name: value for name, value in options.items() if name != "two_sided"}
    return [mention_document(mentions, seed, **kept) for seed, mentions in enumerate((1, 2, 5, 9))]


@pytest.mark.parametrize("proposal", [MIXTURE, walk.SplitMerge()], ids=["mixture", "alone"])
@pytest.mark.parametrize(
    ("options", "metric"),
    [({}, PairwiseAccuracy()), (WHOLE, BCubed()), ({"links": True}, PairwiseF1())],
    ids=["pairs", "whole", "links"],
)
def test_the_steps_of_plain_walks(proposal: walk.Proposal, options: dict[str, bool], metric: Any) -> None:
    """The same moves, accepted alike; weights agree but for the order in which features of a block are added."""
    model, made = cluster_model(**options), documents(options)
    results = []
    for engine in (walk.Plain(), walk.CompiledWalks()):
        tracing = Tracing(engine)
        learner = walk.SampleRank(model, proposal, metric=metric, engine=tracing, start=walk.Start.RANDOM, seed=5)
        learner.fit(made, steps=80, epochs=2)
        results.append((learner, tracing.trace))
    (plain, slow), (compiled, fast) = results
    assert slow == fast and any(accepted for *_, accepted in fast)
    np.testing.assert_allclose(compiled.raw, plain.raw, atol=1e-9)
    assert np.any(plain.raw)
    mine, theirs = (learner.search(made, steps=60) for learner, _ in results)
    assert [best.labels for best in mine] == [best.labels for best in theirs]
    np.testing.assert_allclose([best.score for best in mine], [best.score for best in theirs], atol=1e-9)


@pytest.mark.parametrize("proposal", [MIXTURE, walk.SplitMerge()], ids=["mixture", "alone"])
def test_marginals_are_those_of_enumeration(proposal: walk.Proposal) -> None:
    model = cluster_model(**WHOLE)
    document = mention_document(4, setwise=True, links=True)
    weights = weights_of(model, 0.3)
    learner = walk.SampleRank(model, proposal, metric=BCubed(), engine=walk.CompiledWalks(), seed=1)
    learner.set_weights(np.array(weights))
    table = learner.marginals(document, samples=40_000, chains=2, burn_in=500).probabilities
    chain = found(model, proposal, document, weights)
    exact = np.zeros((4, 4))
    for key, probability in zip(chain.keys, chain.probabilities, strict=True):
        labels = np.array(key)
        exact += probability * (labels[:, None] == labels[None, :])
    np.testing.assert_allclose(table, exact, atol=0.02)


def test_walks_that_go_back_step_by_step_are_refused() -> None:
    model, made = cluster_model(), documents({})
    learner = walk.SampleRankSVM1(model, MIXTURE, metric=BCubed(), engine=walk.CompiledWalks())
    with pytest.raises(ValueError, match="go back to the truth step by step"):
        learner.fit(made, steps=5)


def test_other_mixtures_are_left_to_plain_walks() -> None:
    model, made = cluster_model(), documents({})
    for other in (
        walk.Mixture((walk.SplitMerge(), walk.MentionMover())),
        walk.Mixture((walk.MentionMover(), walk.SplitMerge()), (1.0, 0.0)),
        walk.Mixture((walk.MentionMover(), walk.BalancedMover())),
    ):
        assert model.compiled(made, other, BCubed()) is None
