"""Reliability diagrams."""

from __future__ import annotations

import numpy as np

import loopwise as lw
from loopwise import plot


def test_reliability_draws_the_bins() -> None:
    found = lw.metric.reliability([0.1, 0.2, 0.8, 0.9], [0, 1, 1, 1], bins=2)
    axes = plot.reliability({"mine": found})
    _, line = axes.get_lines()
    np.testing.assert_allclose(line.get_xdata(), found.confidence)
    np.testing.assert_allclose(line.get_ydata(), found.frequency)
    assert line.get_label() == f"mine (error {found.error:.3f})"
    assert plot.reliability(found, colours=["#123456"], axes=axes) is axes
    assert axes.get_lines()[-1].get_color() == "#123456"
