"""Legs are found by trying."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps import Decoder
from loopwise.apps.decoder import Flips, Leg, MinSum, search_legs
from oracles.codes import toric


def test_legs_are_found_by_trying() -> None:
    code = toric(p=0.08)
    held = Flips(code).draw(3000, np.random.default_rng(9))
    options = {"rule": MinSum(0.8), "layered": True}
    legs = search_legs(code, Flips(code), [5, 5], candidates=6, shots=1500, progress=False, rule=MinSum(0.8))
    plain = Decoder(code, legs=[Leg(code, 5), Leg(code, 5)], **options).evaluate(held)
    assert Decoder(code, legs=legs, **options).evaluate(held).errors < 0.9 * plain.errors
    with pytest.raises(ValueError, match="at least one candidate and the sweeps of at least one leg"):
        search_legs(code, Flips(code), [])
    with pytest.raises(ValueError, match="must rise and end below 1"):
        search_legs(code, Flips(code), [3], interval=(0.5, 1.5))
