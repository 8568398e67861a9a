"""Frontiers: best points, areas, losses at a cost."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwise import budget
from oracles.budget_cases import points

PAIRS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=8)


@given(PAIRS)
def test_best_points_by_comparing_all_with_all(pairs: list[tuple[int, int]]) -> None:
    best = {(point.cost, point.loss) for point in budget.best_points(points(pairs))}
    wanted = {
        (c, l) for c, l in pairs if not any((a <= c and b <= l) and (a, b) != (c, l) for a, b in pairs)
    }  # fmt: skip
    assert best == wanted
    hull = {(point.cost, point.loss) for point in budget.lower_hull(points(pairs))}
    assert hull <= best


@given(PAIRS)
def test_the_area_by_counting_squares(pairs: list[tuple[int, int]]) -> None:
    squares = sum(any(c <= x and l <= y for c, l in pairs) for x in range(1, 10) for y in range(1, 10))
    assert budget.hypervolume([(float(c), float(l)) for c, l in pairs], (10.0, 10.0)) == squares


def test_a_loss_that_is_no_number_is_no_corner() -> None:
    good = [budget.Point("a", 0, 1.0, 0.1), budget.Point("a", 1, 10.0, 0.3)]
    lost = budget.Point("b", 0, 5.0, math.nan)
    for order in ((lost, *good), (*good, lost)):
        assert budget.Frontier(order).hypervolume("a") == pytest.approx(0.2)
