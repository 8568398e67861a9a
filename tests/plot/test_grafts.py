"""Curves of grafting."""

from __future__ import annotations

import pytest

from loopwise import plot
from loopwise.budget.graft import GraftStep


def test_what_was_kept_is_a_line_and_what_was_taken_back_crosses() -> None:
    steps = [
        GraftStep(((0, 1), (1, 2)), 2, 8.0, 0.5, 1.0, True),
        GraftStep(((0, 2), (1, 3)), 2, 8.0, 0.6, 2.0, False),
        GraftStep(((0, 2),), 3, 12.0, 0.4, 3.0, True),
    ]
    factors, seconds = plot.grafting(steps, loss=0.7).flat
    line, crosses = factors.get_lines()
    assert list(line.get_xdata()) == [0, 2, 3] and list(line.get_ydata()) == [0.7, 0.5, 0.4]
    assert list(crosses.get_xdata()) == [4] and list(crosses.get_ydata()) == [0.6]
    assert list(seconds.get_lines()[0].get_xdata()) == [0, 1.0, 3.0] and seconds.get_xlabel() == "seconds"
    with pytest.raises(ValueError, match="nothing was tried"):
        plot.grafting([])
