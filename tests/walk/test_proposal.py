"""Proposals draw what they list."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise import walk
from loopwise.testing.walk import outcomes
from loopwise.walk.proposal import Walker
from loopwise.walk.randomness import Stream
from oracles.balance_cases import weights_of
from oracles.walk_cases import cluster_model, mention_document


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
