"""Measured times."""

from __future__ import annotations

import numpy as np

import loopwise as lw
from loopwise import budget


def test_measured_times_are_positive() -> None:
    graph = lw.chain(6)
    system = lw.System(lw.TablePotentials.random(graph, seed=0), lw.BP(iterations=3, tolerance=0))
    examples = lw.Examples.of(graph, np.zeros((20, 6), dtype=int), [0, 1, 1, 1, 1, 0])
    assert budget.seconds_each(system, examples, repeats=2) > 0


def test_times_are_of_the_clock_that_is_given() -> None:
    """A clock that goes on by two seconds between looks: each pass takes two."""
    graph, looks = lw.chain(3), iter(range(0, 100, 2))
    system = lw.System(lw.TablePotentials.random(graph, seed=0), lw.BP(iterations=3, tolerance=0))
    examples = lw.Examples.of(graph, np.zeros((4, 3), dtype=int), [0, 1, 1])
    assert budget.seconds_each(system, examples, repeats=3, clock=lambda: float(next(looks))) == 2.0 / 4
