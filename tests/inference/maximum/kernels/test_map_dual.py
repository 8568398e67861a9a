"""Rounding of the dual: every variable at what it sees."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.inference.gibbs.method import factor_arrays
from loopwise.inference.maximum.kernels.map_dual import round_in_order
from loopwise.inference.maximum.method import Dual
from oracles.map_cases import plain_score, random_problem, sizes_of

SEEDS = range(12)


@pytest.mark.parametrize("seed", SEEDS)
def test_rounding_fixes_every_variable_at_what_it_sees(seed: int) -> None:
    """Given all others, a variable takes its best value: messages of fixed variables no longer count."""
    problem = random_problem(seed)
    arrays = factor_arrays(problem, 1.0)
    dual = Dual(problem, arrays, 0)
    dual.descend(3)
    values = np.empty(7, dtype=np.int64)
    round_in_order(arrays, 0, dual.sharing.order, dual.messages, dual.sharing.slot_start, values)
    last = int(dual.sharing.order[-1])
    options = []
    for value in range(sizes_of(arrays)[last]):
        trial = values.copy()
        trial[last] = value
        options.append(plain_score(arrays, trial))
    assert plain_score(arrays, values) == pytest.approx(max(options))
