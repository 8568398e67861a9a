"""Schedules end where they say, and decoders take the number of their step."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import loopwise as lw
from loopwise import decode
from oracles.made_beliefs import random_beliefs


@given(st.floats(0.1, 2), st.floats(0.01, 0.1), st.integers(2, 20))
def test_ends_and_steps(start: float, end: float, steps: int) -> None:
    for kind in (decode.Geometric, decode.Linear):
        schedule = kind(start, end, steps=steps)
        values = [schedule(step) for step in range(steps + 3)]
        assert values[0] == pytest.approx(start)
        assert values[steps - 1 :] == pytest.approx([end] * 4)
        assert all(a >= b for a, b in pairwise(values))
    ratios = [
        decode.Geometric(start, end, steps)(k + 1) / decode.Geometric(start, end, steps)(k) for k in range(steps - 1)
    ]
    assert ratios == pytest.approx([ratios[0]] * len(ratios))


def test_listed() -> None:
    assert [decode.Listed((1.0, 0.3))(step) for step in range(4)] == [1.0, 0.3, 0.3, 0.3]


def test_decoders_take_the_temperature_of_their_step() -> None:
    beliefs = random_beliefs(lw.chain(3), (2,))
    schedule = decode.Geometric(1.0, 0.1, steps=3)
    decoder = decode.SoftArgmax(schedule)
    for step in (0, 1, 2, 7):
        expected = decode.SoftArgmax(schedule(step))(beliefs).states
        assert torch.equal(decoder.at(step)(beliefs).states, expected)
        assert torch.equal(decoder.hard().at(step).soft()(beliefs).states, expected)
    assert torch.equal(decoder(beliefs).states, decoder.at(0)(beliefs).states)
    fixed = decode.SoftArgmax(0.5)
    assert fixed.at(3) is fixed
    trained = decode.SoftArgmax(decode.Trained())
    assert trained.at(3) is trained
    thresholded = decode.ApproximateF(decode.Fixed(0.4), schedule).soft()
    assert thresholded.at(1).threshold is thresholded.threshold
    assert thresholded.at(1).temperature == schedule(1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: decode.Geometric(0.0, 1.0),
        lambda: decode.Linear(1.0, -1.0),
        lambda: decode.Geometric(steps=0),
        lambda: decode.Listed(()),
        lambda: decode.Listed((1.0, 0.0)),
        lambda: decode.Trained(0.0),
    ],
)
def test_bad_schedules(make: object) -> None:
    with pytest.raises(ValueError, match=r"must be|at least"):
        make()
