"""Curves: one colour a name."""

from __future__ import annotations

import pytest

from loopwise import plot
from loopwise.plot.curves import LEAST
from loopwise.plot.style import COLOURS


def test_a_name_has_one_colour_in_all_panels() -> None:
    first = plot.Panel("first", "x", "y", [plot.Curve("a", [1, 2], [1, 2]), plot.Curve("b", [1, 2], [0.0, None])])
    second = plot.Panel("second", "x", "y", [plot.Curve("b", [1, 2], [2, 1], [0.1, 0.2])], log_y=True, ticks=True)
    zero = plot.Panel("zero", "x", "y", [plot.Curve("b", [1], [0.0])], log_x=0, log_y=True)
    grid = plot.panels([first, second, zero], columns=2, one_legend=True)
    assert grid.shape == (2, 2) and not grid[1, 1].get_visible()
    lines = [container.lines[0] for axes in grid.flat for container in axes.containers]
    assert [line.get_color() for line in lines] == [COLOURS[0], COLOURS[1], COLOURS[1], COLOURS[1]]
    (legend,) = grid[0, 0].figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]
    assert list(lines[1].get_xdata()) == [1]  # where there is no number there is no point
    assert list(lines[3].get_ydata()) == [LEAST]
    assert grid[0, 0].get_xscale() == "log" and grid[1, 0].get_xscale() == "linear"
    with pytest.raises(ValueError, match="no panel"):
        plot.panels([])


def test_numbers_of_a_short_logarithmic_axis_stand_apart() -> None:
    short = plot.Panel("short", "x", "y", [plot.Curve("a", [0.003, 0.03], [1, 2])])
    long = plot.Panel("long", "x", "y", [plot.Curve("a", [1, 1e4], [1, 2])])
    (axes, other) = plot.panels([short, long]).flat
    axes.figure.canvas.draw()
    low, high = axes.get_xlim()
    labels = [text.get_text() for text in axes.get_xticklabels() if low <= text.get_position()[0] <= high]
    assert labels == ["0.005", "0.01", "0.02"]
    assert not any(text.get_text() for text in axes.get_xticklabels(minor=True))
    assert "10^" in other.get_xticklabels()[0].get_text()  # powers of ten, where there are enough of them
