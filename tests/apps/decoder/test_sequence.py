"""Shots on their way through legs: budgets leg by leg by hand, and solutions that are sure."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from loopwise.apps import Decoder
from loopwise.apps.decoder import Flips, Leg, SumProduct, leg_pool, pick_legs
from loopwise.apps.decoder.evaluation import failed
from loopwise.apps.decoder.sequence import sure_costs
from oracles.codes import toric

CODE = toric(p=0.1)
SHOTS = Flips(CODE).draw(400, np.random.default_rng(3))


def decoder(legs: list[Leg], **options: int) -> Decoder:
    return Decoder(CODE, rule=SumProduct(), layered=True, legs=legs, solutions=len(legs), **options)


def test_a_leg_that_explains_soon_leaves_sweeps_to_those_after_it() -> None:
    """By hand, shot by shot, from what each leg does alone."""
    legs = leg_pool(CODE, 12, 6, seed=2)[4:]
    alone = [decoder([leg]).run(SHOTS.syndromes) for leg in legs]
    found = decoder(legs, budget=15).run(SHOTS.syndromes)
    for shot in range(len(SHOTS)):
        left, best, solution = 15, np.inf, None
        for leg, answer in zip(legs, alone, strict=True):
            most = min(leg.sweeps, left)
            weight = answer.corrections[shot].sum()
            if answer.explained[shot] and answer.sweeps[shot] <= most and weight < best:
                best, solution = weight, answer.corrections[shot]
            left -= min(most, int(answer.sweeps[shot]))
        assert found.sweeps[shot] == 15 - left and found.explained[shot] == (solution is not None)
        if solution is not None:
            np.testing.assert_array_equal(found.corrections[shot], solution)
    assert found.sweeps.max() == 15 and found.sweeps.min() < 15  # all eight legs on some shots, three on others


def test_legs_are_picked_for_a_budget() -> None:
    """What was counted is what the decoder does, and no exchange of one leg helps."""
    pool = leg_pool(CODE, 8, 5, seed=1)
    begun = decoder(pool[:1], budget=9)
    found = pick_legs(begun, SHOTS, [5, 4, 4], pool=pool, progress=False)
    errors = found.evaluate(SHOTS).errors
    picked = [next(k for k, leg in enumerate(pool) if leg.memory.equal(one.memory)) for one in found.legs]
    assert found.budget == 9 and found.run(SHOTS.syndromes).sweeps.max() <= 9
    for place, other in itertools.product(range(3), range(8)):
        chosen = [*picked[:place], other, *picked[place + 1 :]]
        legs = [Leg(CODE, sweeps, memory=pool[one].memory.numpy(), resumes=False, order=pool[one].order)
                for one, sweeps in zip(chosen, (5, 4, 4), strict=True) if one < 7]  # fmt: skip
        if len(legs) == 3:  # the last of the pool has other numbers besides
            assert errors <= decoder(legs, budget=9).evaluate(SHOTS).errors


def test_a_sure_solution_ends_the_search_and_changes_no_outcome() -> None:
    legs = leg_pool(CODE, 7, 8, seed=1)
    whole, quick = decoder(legs), decoder(legs, distance=4)
    answers = whole.run(SHOTS.syndromes), quick.run(SHOTS.syndromes)
    wrong = [failed(whole, SHOTS, answer) for answer in answers]
    np.testing.assert_array_equal(*wrong)
    assert (answers[1].sweeps <= answers[0].sweeps).all() and answers[1].sweeps.sum() < answers[0].sweeps.sum()
    sure = (answers[1].corrections.sum(1) < 2) & answers[1].explained & (answers[1].leg == 0)
    alone = decoder(legs[:1]).run(SHOTS.syndromes)
    np.testing.assert_array_equal(answers[1].sweeps[sure], alone.sweeps[sure])


def test_sure_costs_by_enumeration() -> None:
    """Of two solutions that differ in a loop around the torus, one below the limit is the likelier."""
    random = np.random.default_rng(0)
    odds = random.uniform(0.5, 4.0, (30, CODE.bits))
    loop = np.zeros(CODE.bits, np.uint8)
    loop[[0, 4, 8, 12]] = 1
    sure = sure_costs(odds, 4)
    errors = (random.random((30, CODE.bits)) < 0.05).astype(np.uint8)
    mine, other = (odds * errors).sum(1), (odds * (errors ^ loop)).sum(1)
    assert (mine < sure).any() and (mine < other)[mine < sure].all()
    assert sure_costs(-odds, 4).tolist() == [-np.inf] * 30 and sure_costs(odds, None).tolist() == [-np.inf]


@pytest.mark.parametrize(("name", "value"), [("budget", 0), ("distance", 1.5), ("budget", True)])
def test_bad_settings_get_one_sentence(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a whole number of at least 1, not {value}"):
        decoder([Leg(CODE, 3)], **{name: value})  # type: ignore[arg-type]
