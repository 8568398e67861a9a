"""Messages of tables in either domain, against sums over all cells."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.inference.messages.stepwise.kernels.sweeps import largest_change, part_changes


def test_change() -> None:
    old, new = np.log([[0.5, 0.5, 0.9, 0.1]]), np.log([[0.2, 0.8, 0.5, 0.5]])
    change = np.zeros(1)
    largest_change(np.arange(1), new, old, change)
    assert change[0] == pytest.approx(np.log(5.0))


def test_the_largest_change_of_each_part_that_is_near() -> None:
    rng = np.random.default_rng(0)
    old, new = rng.uniform(0.05, 1, size=(2, 40))
    part = rng.integers(0, 3, 40)
    near, found = np.array([True, False, True]), np.empty(3)
    part_changes(part, near, np.log(new), np.log(old), found)
    for place in range(3):
        wanted = np.abs(np.log(new / old))[part == place].max() if near[place] else 0.0
        assert abs(found[place] - wanted) < 1e-12


def test_rounding_is_no_change_and_a_value_ruled_out_is_a_large_one() -> None:
    found = np.empty(2)
    old = np.array([-1.0, -2.0])
    part_changes(np.array([0, 1]), np.ones(2, bool), np.array([-1.0 - 2e-16, -np.inf]), old, found)
    assert found[0] == 0 and found[1] == np.inf
