"""Reliability against hand-worked bins, and what it must say of beliefs that are right by construction."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.loss.calibration import reliability


def test_bins_by_hand() -> None:
    found = reliability([[0.05, 0.15], [0.95, 1.0]], [[0, 1], [1, 0]], bins=10)
    assert found.count.tolist() == [1, 1, 0, 0, 0, 0, 0, 0, 0, 2]
    assert found.confidence[9] == pytest.approx(0.975) and found.frequency[9] == 0.5
    assert np.isnan(found.confidence[2])
    assert found.error == pytest.approx((0.05 + 0.85 + 2 * 0.475) / 4)
    assert found.brier == pytest.approx((0.05**2 + 0.85**2 + 0.05**2 + 1) / 4)


def test_honest_probabilities_are_calibrated_and_extreme_ones_are_not() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(50_000)
    happened = rng.random(50_000) < p
    honest = reliability(p, happened)
    bold = reliability(p**3 / (p**3 + (1 - p) ** 3), happened)
    assert honest.error < 0.01 < 0.1 < bold.error
    assert honest.brier < bold.brier


@pytest.mark.parametrize(
    ("said", "was", "bins", "words"),
    [
        ([0.5], [1, 0], 10, r"shape \(1,\) do not fit"),
        ([], [], 10, "no events"),
        ([0.2, 1.5], [1, 0], 10, "probability 1.5 of event 1"),
        ([0.2, float("nan")], [1, 0], 10, "event 1"),
        ([0.2], [1], 0, "bins must be a whole number of at least 1"),
    ],
)
def test_bad_input(said: list[float], was: list[int], bins: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        reliability(said, was, bins)
