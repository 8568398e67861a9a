"""AdaGrad with composite mirror descent: rows that pay later have what rows that pay at every step have."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.learn.kernels.comid import catch_up, catch_up_rows, step_rows

RATE, DELTA = 0.3, 0.1


def dense_step(weights: np.ndarray, squares: np.ndarray, gradient: np.ndarray, l1: float, l2: float) -> None:
    """Every weight at every step, by the definition of the proximal step."""
    squares += gradient**2
    scale = RATE / (DELTA + np.sqrt(squares))
    moved = weights - scale * gradient
    weights[:] = np.sign(moved) * np.maximum(np.abs(moved) - l1 * scale, 0.0) / (1.0 + l2 * scale)


@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.0), (0.05, 0.0), (0.0, 0.05)])
def test_late_payments_are_dense_steps(l1: float, l2: float) -> None:
    rng = np.random.default_rng(6)
    lazy, lazy_squares, last = rng.normal(size=(6, 2)), np.zeros((6, 2)), np.zeros(6, np.int64)
    dense, squares = lazy.copy(), np.zeros((6, 2))
    for step in range(1, 8):
        rows = rng.permutation(6)[:2]
        gradients, whole = rng.normal(size=(2, 2)), np.zeros((6, 2))
        whole[rows] = gradients
        step_rows(lazy, lazy_squares, last, rows, gradients, step, RATE, DELTA, l1, l2)
        dense_step(dense, squares, whole, l1, l2)
        assert lazy[rows] == pytest.approx(dense[rows], abs=1e-12)
    catch_up_rows(lazy, lazy_squares, last, np.array([0, 3, 0]), 7, RATE, DELTA, l1, l2)
    assert lazy[[0, 3]] == pytest.approx(dense[[0, 3]], abs=1e-12)
    catch_up(lazy, lazy_squares, last, 7, RATE, DELTA, l1, l2)
    assert lazy == pytest.approx(dense, abs=1e-12) and (last == 7).all()
