"""Legs found by trying: fewer failures on other shots, the same number of sweeps, the decoder given left as it was."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loopwise.apps.decoder import Code, Decoder, Flips, MinSum, relay, search_legs
from oracles.codes import toric


def begun(code: Code) -> Decoder:
    legs = relay(code, 1, 5, first_memory=0.0, interval=(-0.9, -0.5))  # memory that does harm
    return Decoder(code, rule=MinSum(0.8), layered=True, legs=legs)


def test_legs_that_are_found_fail_less_on_other_shots() -> None:
    code = toric(p=0.08)
    held = Flips(code).draw(3000, np.random.default_rng(9))
    given = begun(code)
    before = given.evaluate(held)
    found = search_legs(given, Flips(code), tries=40, shots=1500, progress=False)
    assert found.evaluate(held).errors < 0.9 * before.errors
    assert sum(leg.sweeps for leg in found.legs) == 10
    assert all(leg.sweep is not None and len(leg.sweep) == leg.sweeps for leg in found.legs)
    assert given.evaluate(held).errors == before.errors and given.legs[0].sweep is None


def test_a_search_is_repeated_by_its_seed() -> None:
    code = toric(p=0.08)
    shots = Flips(code).draw(500, np.random.default_rng(9))
    first, second = (search_legs(begun(code), shots, tries=10, seed=3, progress=False) for _ in range(2))
    for one, other in zip(first.legs, second.legs, strict=True):
        assert torch.equal(one.memory, other.memory) and torch.equal(one.sweep, other.sweep)


def test_no_tries_are_refused() -> None:
    code = toric(p=0.08)
    with pytest.raises(ValueError, match="tries must be a whole number of at least 1, not 0"):
        search_legs(begun(code), Flips(code), tries=0)
