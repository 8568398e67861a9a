"""A model of one's own, plain."""

from __future__ import annotations

import loopwise as lw
from loopwise import walk
from loopwise.testing.walk import check_walk
from oracles.spins import Spins


def test_a_model_of_ones_own_plain() -> None:
    rings = [[0, 1, 1, 1, 0], [1, 1, 0, 0, 0]]
    check_walk(Spins(), walk.UniformChange(), lw.metric.Correct(), rings)
    learner = walk.SampleRank(Spins(), walk.UniformChange(), metric=lw.metric.Correct(), step=walk.MIRA())
    learner.fit(rings, steps=200, epochs=2)
    assert learner.decode(rings[0], steps=200).labels()
