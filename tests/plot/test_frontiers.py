"""Frontiers of cost and loss."""

from __future__ import annotations

from loopwise import budget, plot
from loopwise.plot.style import COLOURS


def test_pareto_draws_the_best_points_of_each_method() -> None:
    points = [budget.Point("a", 0, 1.0, 3.0), budget.Point("a", 0, 2.0, 4.0), budget.Point("b", 0, 2.0, 1.0)]
    axes = plot.pareto(budget.Frontier(tuple(points), "messages"))
    best = {str(line.get_label()).split(" (")[0]: line for line in axes.get_lines()}
    assert list(best["a"].get_xdata()) == [1.0] and list(best["b"].get_ydata()) == [1.0]
    assert best["a"].get_color() == COLOURS[0] and best["b"].get_color() == COLOURS[1]
    assert "messages" in axes.get_xlabel()
