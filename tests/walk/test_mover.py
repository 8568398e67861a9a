"""Movers of mentions leave the right distribution."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise import walk
from loopwise.walk.proposal import Walker
from oracles.balance_cases import found, weights_of
from oracles.walk_cases import cluster_model, mention_document

BELL = (1, 1, 2, 5, 15, 52)  # partitions of n mentions


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
