"""Products and sums of long vectors against NumPy, whole and in parts."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.compiled.vectors import STRETCH
from loopwise.learn.optim.lbfgs_run import Algebra


@pytest.mark.parametrize("size", [0, 1, 7, STRETCH, 2 * STRETCH + 3])
@pytest.mark.parametrize("threads", [1, 3])
def test_as_numpy_has_it(size: int, threads: int) -> None:
    random, algebra = np.random.default_rng(size), Algebra(threads)
    vectors, vector, weights = random.normal(size=(4, size)), random.normal(size=size), random.normal(size=4)
    np.testing.assert_allclose(algebra.products(vectors, vector), vectors @ vector, rtol=1e-12, atol=1e-12)
    assert algebra.dot(vector, vector) == pytest.approx(float(vector @ vector), rel=1e-12)
    out = vector.copy()
    algebra.add(weights, vectors, out)
    np.testing.assert_allclose(out, vector + weights @ vectors, rtol=1e-12, atol=1e-12)
