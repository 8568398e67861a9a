"""Legs run one after another until one explains."""

from __future__ import annotations

import numpy as np

from loopwise.apps import Decoder
from loopwise.apps.decoder import (
    Flips,
    relay,
)
from oracles.codes import toric


def test_legs_run_until_one_explains() -> None:
    code = toric(p=0.08)
    shots = Flips(code).draw(600, np.random.default_rng(1))
    first = Decoder(code, sweeps=8)
    both = Decoder(code, legs=relay(code, 3, 8, first_memory=0.0, seed=1))
    one, more = first.run(shots.syndromes), both.run(shots.syndromes)
    assert more.explained.sum() > one.explained.sum()
    done = more.leg == 0
    np.testing.assert_array_equal(done, one.explained)
    np.testing.assert_array_equal(more.corrections[done], one.corrections[done])
    assert (more.sweeps[~more.explained] == 32).all() and set(more.leg.tolist()) > {-1, 0, 1}
    several = Decoder(code, legs=both.legs, solutions=3).run(shots.syndromes)
    np.testing.assert_array_equal(several.explained, more.explained)
    cost = lambda answer: answer.corrections.sum(1)[more.explained]  # noqa: E731
    assert (cost(several) <= cost(more)).all() and (several.sweeps >= more.sweeps).all()
