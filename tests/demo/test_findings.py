"""What the demo measures, against plain recomputation; and that it says what was found, whatever that is."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.demo.findings import merged
from loopwise.loss.calibration import reliability


def test_reliabilities_add_up() -> None:
    rng = np.random.default_rng(0)
    said = [rng.random(50), 0.5 * rng.random(7), rng.random(1)]
    was = [rng.random(len(each)) < each for each in said]
    found = merged([reliability(p, y) for p, y in zip(said, was, strict=True)])
    expected = reliability(np.concatenate(said), np.concatenate(was))
    np.testing.assert_array_equal(found.count, expected.count)
    np.testing.assert_allclose(found.confidence, expected.confidence)
    np.testing.assert_allclose(found.frequency, expected.frequency)
    assert (found.brier, found.error) == pytest.approx((expected.brier, expected.error))
