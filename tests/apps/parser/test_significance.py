"""The paired bootstrap against all draws of a few sentences."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from loopwise.apps.parser.significance import bootstrap_p, paired_bootstrap, resampled_gaps

OURS, THEIRS, SCORED = np.array([9, 4, 7, 2]), np.array([7, 5, 4, 2]), np.array([10, 5, 8, 3])


def all_gaps() -> np.ndarray:
    chosen = np.array(list(product(range(4), repeat=4)))
    return (OURS - THEIRS)[chosen].sum(1) / SCORED[chosen].sum(1)


def test_against_all_draws() -> None:
    exact = all_gaps()
    found = paired_bootstrap(OURS, THEIRS, SCORED, draws=40_000)
    assert found.gap == pytest.approx(4 / 26) and found.sentences == 4
    assert found.error == pytest.approx(exact.std(), rel=0.02)
    p = np.mean(np.abs(exact - found.gap) >= found.gap - 1e-12)
    assert found.p == pytest.approx(p, abs=0.01)
    drawn = resampled_gaps(OURS, THEIRS, SCORED, draws=500)
    assert np.isin(drawn.round(12), exact.round(12)).all()


def test_it_is_paired_and_two_sided() -> None:
    one, other = (paired_bootstrap(*pair, SCORED, seed=3) for pair in ((OURS, THEIRS), (THEIRS, OURS)))
    assert one.gap == -other.gap and one.error == other.error and one.p == other.p
    rng = np.random.default_rng(0)
    counts = np.full(300, 20)
    base = rng.integers(0, 19, 300)
    ahead = paired_bootstrap(base + (np.arange(300) % 10 == 0), base, counts)  # noise of sentences cancels
    assert ahead.p < 0.01 and ahead.gap == pytest.approx(30 / 6000)
    noise = paired_bootstrap(rng.integers(0, 19, 300), rng.integers(0, 19, 300), counts)
    assert noise.error > 3 * ahead.error


def test_the_test_keeps_its_level() -> None:
    rng = np.random.default_rng(1)
    counts = np.full(120, 10)
    low = [
        paired_bootstrap(rng.binomial(10, 0.8, 120), rng.binomial(10, 0.8, 120), counts, draws=300, seed=k).p < 0.1
        for k in range(300)
    ]
    assert 0.05 < np.mean(low) < 0.17


def test_wrong_input_is_refused() -> None:
    with pytest.raises(ValueError, match="one number a sentence"):
        paired_bootstrap([1, 2], [1], [2, 2])
    with pytest.raises(ValueError, match="one number a sentence"):
        paired_bootstrap([], [], [])
    assert bootstrap_p(0.0, np.zeros(9)) == 1.0
