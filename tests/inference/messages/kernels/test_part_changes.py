"""Changes of messages, part by part: against plain numpy."""

from __future__ import annotations

import numpy as np

from loopwise.inference.messages.kernels.part_changes import part_changes


def test_logarithms_and_probabilities_give_the_largest_change_of_each_part() -> None:
    rng = np.random.default_rng(0)
    old, new = rng.uniform(0.05, 1, size=(2, 40))
    part = rng.integers(-1, 3, 40)
    near = np.array([True, False, True])
    for log in (True, False):
        found = np.empty(3)
        part_changes(part, near, np.log(new) if log else new, np.log(old) if log else old, log, found)
        for place in range(3):
            wanted = np.abs(np.log(new / old))[part == place].max() if near[place] else 0.0
            assert abs(found[place] - wanted) < 1e-12


def test_rounding_is_no_change_and_a_value_ruled_out_is_a_large_one() -> None:
    found = np.empty(2)
    old = np.array([-1.0, -2.0])
    part_changes(np.array([0, 1]), np.ones(2, bool), np.array([-1.0 - 2e-16, -np.inf]), old, True, found)
    assert found[0] == 0 and found[1] == np.inf
