"""Scores by piecewise linear scales."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.dedupe.kernels.piecewise import piecewise_scores
from loopwise.apps.dedupe.pair_model import (
    EQUAL,
    KNOTS,
    PER_COMPARISON,
    scales,
)


def test_the_scale_is_piecewise_linear() -> None:
    found = np.array([[0.4, np.nan, 1.0], [0.0, 0.97, 0.3]], dtype=np.float32)
    weights = np.random.default_rng(0).normal(size=(3, PER_COMPARISON))
    compiled = np.zeros(2)
    piecewise_scores(found, KNOTS, EQUAL, weights, compiled)
    np.testing.assert_allclose(compiled, scales(found) @ weights.reshape(-1), atol=1e-5)
    row = scales(found[:1]).reshape(3, -1)
    assert row[0].tolist() == pytest.approx([1.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], abs=1e-6)
    assert row[1].tolist() == [0.0] * 7 + [1.0]
    assert row[2].tolist() == [1.0] * 7 + [0.0]
