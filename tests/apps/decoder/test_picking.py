"""Legs picked from a pool: the set that fails least, by trying all sets; fewer failures on other shots."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from loopwise.apps.decoder import Decoder, Flips, Leg, SumProduct, leg_pool, pick_legs
from oracles.codes import toric

CODE = toric(p=0.1)


def decoder(legs: list[Leg]) -> Decoder:
    return Decoder(CODE, rule=SumProduct(), layered=True, legs=legs, solutions=len(legs))


def with_sweeps(leg: Leg, sweeps: int) -> Leg:
    found = Leg(CODE, sweeps, memory=leg.memory.numpy(), resumes=False, order=leg.order)
    if leg.sweep is not None:
        found.open(sweeps=True, priors=True)
        found.requires_grad_(False)
        found.sweep.copy_(leg.sweep[:sweeps])
        found.prior.copy_(leg.prior)
    return found


def test_one_leg_after_another_is_the_best_there_is() -> None:
    """The first place by trying every leg, the pair by trying every pair: picking exchanges until nothing helps."""
    shots = Flips(CODE).draw(400, np.random.default_rng(4))
    pool = leg_pool(CODE, 12, 8, seed=1)
    alone = [decoder([with_sweeps(leg, 6)]).evaluate(shots).errors for leg in pool]
    first = pick_legs(decoder(pool[:1]), shots, [6], pool=pool, progress=False)
    assert first.evaluate(shots).errors == min(alone)
    pairs = {
        (a, b): decoder([with_sweeps(pool[a], 6), with_sweeps(pool[b], 4)]).evaluate(shots).errors
        for a, b in product(range(12), repeat=2)
    }
    found = pick_legs(decoder(pool[:1]), shots, [6, 4], pool=pool, progress=False)
    errors = found.evaluate(shots).errors
    assert [leg.sweeps for leg in found.legs] == [6, 4] and found.solutions == 2
    picked = tuple(next(k for k, leg in enumerate(pool) if torch.equal(leg.memory, one.memory)) for one in found.legs)
    assert pairs[picked] == errors  # what was counted is what the decoder does
    assert all(errors <= pairs[picked[0], b] for b in range(12))  # no exchange of one leg helps
    assert all(errors <= pairs[a, picked[1]] for a in range(12))
    assert errors < min(alone)


def test_picked_legs_fail_less_on_other_shots() -> None:
    held = Flips(CODE).draw(3000, np.random.default_rng(9))
    plain = decoder([Leg(CODE, 5), Leg(CODE, 5)])
    found = pick_legs(plain, Flips(CODE), [5, 5], pool=20, shots=2000, progress=False)
    assert found.evaluate(held).errors < 0.9 * plain.evaluate(held).errors
    assert found.evaluate(held).sweeps <= 10 * len(held)
    assert [leg.memory for leg in plain.legs] == [None, None]  # the decoder given stays as it was


def test_picking_is_repeated_by_its_seed_and_saved(tmp_path) -> None:  # type: ignore[no-untyped-def]
    first, second = (pick_legs(decoder([Leg(CODE, 3)]), Flips(CODE), [4, 3], pool=9, shots=300, seed=5,
                               progress=False) for _ in range(2))  # fmt: skip
    for one, other in zip(first.legs, second.legs, strict=True):
        assert torch.equal(one.memory, other.memory) and one.resumes is other.resumes is False
    first.save(tmp_path / "legs.loopwise")
    held = Flips(CODE).draw(200, np.random.default_rng(2))
    again = Decoder.load(tmp_path / "legs.loopwise", CODE)
    assert np.array_equal(again.decode_batch(held.syndromes), first.decode_batch(held.syndromes))


@pytest.mark.parametrize(
    ("sweeps", "pool", "said"), [([], 3, "a number for each leg"), ([3, 0], 3, "at least 1"), ([3], 0, "pool is empty")]
)
def test_nothing_to_pick_is_refused(sweeps: list[int], pool: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        pick_legs(decoder([Leg(CODE, 3)]), Flips(CODE), sweeps, pool=pool, shots=10, progress=False)
