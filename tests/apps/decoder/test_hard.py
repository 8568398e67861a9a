"""Shots near failure, by drawing the same ones again."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps import Decoder
from loopwise.apps.decoder import Flips, Leg, SumProduct, hard_shots
from oracles.codes import toric


def test_shots_that_few_sweeps_do_not_decode() -> None:
    code = toric(p=0.05)
    decoder = Decoder(code, rule=SumProduct(), sweeps=12)
    found = hard_shots(decoder, Flips(code), 10_000, sweeps=2, most=8192, seed=4)
    drawn = Flips(code).draw(8192, np.random.default_rng([4, 11]))
    early = Decoder(code, rule=SumProduct(), legs=[Leg(code, 2)]).evaluate(drawn)
    assert len(found) == early.errors < 8192 / 3
    rest = decoder.evaluate(drawn).errors - decoder.evaluate(found).errors
    assert rest <= 0.05 * decoder.evaluate(drawn).errors  # shots that are right after two sweeps stay so, nearly all
    assert len(hard_shots(decoder, Flips(code), 7, sweeps=2)) == 7
    with pytest.raises(ValueError, match="count must be a whole number of at least 1, not 0"):
        hard_shots(decoder, Flips(code), 0, sweeps=2)
