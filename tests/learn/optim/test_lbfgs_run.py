"""L-BFGS over one vector: quadratics, valleys and walls."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwise.learn.optim.lbfgs_run import LBFGSRun


@given(st.integers(2, 30), st.integers(1, 5), st.integers(0, 1000))
def test_lbfgs_solves_quadratics(size: int, memory: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(size, size))
    matrix, target = root @ root.T + np.eye(size), rng.normal(size=size)

    def function(point: np.ndarray) -> tuple[float, np.ndarray]:
        return float(0.5 * point @ matrix @ point - target @ point), matrix @ point - target

    found = LBFGSRun(function, np.zeros(size), memory=memory)
    while found.iteration < 3000 and not found.ended:
        found.step()
    np.testing.assert_allclose(found.point, np.linalg.solve(matrix, target), atol=1e-5)


def test_lbfgs_turns_back_from_walls_and_valleys() -> None:
    """Rosenbrock's valley, with a wall that has no value; and a start without one."""

    def function(point: np.ndarray) -> tuple[float, np.ndarray]:
        x, y = point
        if x > 1.5:
            return float("nan"), np.zeros(2)
        slope = np.array([-2 * (1 - x) - 400 * x * (y - x * x), 200 * (y - x * x)])
        return float((1 - x) ** 2 + 100 * (y - x * x) ** 2), slope

    values: list[float] = []
    found = LBFGSRun(function, np.array([-1.2, 1.0]), tolerance=1e-16, memory=5)
    while not found.ended and (value := found.step()) is not None:
        values.append(value)
    np.testing.assert_allclose(found.point, [1.0, 1.0], atol=1e-5)
    assert all(late <= early for early, late in pairwise(values))
    with pytest.raises(ValueError, match="cannot start"):
        LBFGSRun(function, np.array([2.0, 1.0]))


def test_a_state_goes_on_bit_for_bit() -> None:
    matrix = np.diag(np.arange(1.0, 9.0))
    function = lambda point: (float(0.5 * point @ matrix @ point - point.sum()), matrix @ point - 1.0)  # noqa: E731
    whole, first = LBFGSRun(function, np.zeros(8), memory=3), LBFGSRun(function, np.zeros(8), memory=3)
    for _ in range(6):
        whole.step()
    for _ in range(4):
        first.step()
    state = {name: value.clone() if hasattr(value, "clone") else value for name, value in first.state().items()}
    again = LBFGSRun(function, np.zeros(8), memory=3, state=state)
    for _ in range(2):
        again.step()
    assert np.array_equal(again.point, whole.point) and again.iteration == 6
