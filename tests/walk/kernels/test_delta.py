"""Sparse vectors of feature differences, as a dict has them: the same sums in the same order."""

from __future__ import annotations

import numpy as np

from loopwise.compiled.decorators import kernel
from loopwise.walk.kernels.delta import KEYS, Delta, accumulate, add, append, clear, dot, empty_delta, squared_norm


@kernel
def collect(delta, keys, values, weights):
    clear(delta)
    for place in range(len(keys)):
        add(delta, keys[place], values[place])
    return dot(delta, weights), squared_norm(delta)


@kernel
def put(delta, key, value):
    append(delta, key, value)


@kernel
def join(delta, other, sign):
    accumulate(delta, other, sign)


def entries(delta: Delta) -> dict[int, float]:
    count = delta.keys[0]
    return dict(zip(delta.keys[KEYS : KEYS + count].tolist(), delta.values[:count].tolist(), strict=True))


def test_it_is_a_dict() -> None:
    rng, delta = np.random.default_rng(15), empty_delta(9)
    weights = rng.normal(size=9)
    for _ in range(3):  # what was there before is forgotten
        keys, values = rng.integers(0, 9, 12), rng.normal(size=12)
        expected: dict[int, float] = {}
        for key, value in zip(keys.tolist(), values.tolist(), strict=True):
            expected[key] = expected.get(key, 0.0) + value
        product, norm = collect(delta, keys, values, weights)
        assert list(entries(delta).items()) == list(expected.items())
        assert product == sum(weights[key] * value for key, value in expected.items())
        assert norm == sum(value * value for value in expected.values())
    other = empty_delta(9)
    collect(other, np.array([1, 8]), np.array([0.5, 2.0]), weights)
    join(delta, other, -1.0)
    for key, value in ((1, 0.5), (8, 2.0)):
        expected[key] = expected.get(key, 0.0) - value
    assert entries(delta) == expected


def test_appended_entries_are_taken_as_they_come() -> None:
    delta = empty_delta(4)
    put(delta, 3, 1.5)
    put(delta, 0, -1.0)
    assert entries(delta) == {3: 1.5, 0: -1.0}
