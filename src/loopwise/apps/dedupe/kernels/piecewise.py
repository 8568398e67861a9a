"""Compiled scores of similarities on a piecewise linear scale, without writing the scale out.

In: similarities (NaN: missing), knots, weights. Out: a score a row. Below the stages.
"""

from __future__ import annotations

from loopwise.compiled.decorators import fused_kernel as kernel


@kernel
def piecewise_scores(found, knots, equal, weights, out):
    """Adds to ``out`` for each similarity: how far each stretch between two knots is gone times its weight, a weight
    where it is at least ``equal``, another where it is missing. ``weights`` ``[similarities, stretches + 2]``."""
    stretches = len(knots) - 1
    for row in range(found.shape[0]):
        total = 0.0
        for column in range(found.shape[1]):
            value = found[row, column]
            if value != value:
                total += weights[column, stretches + 1]
                continue
            place = 0
            while place < stretches and value >= knots[place + 1]:
                total += weights[column, place]
                place += 1
            if place < stretches:
                total += weights[column, place] * (value - knots[place]) / (knots[place + 1] - knots[place])
            if value >= equal:
                total += weights[column, stretches]
        out[row] += total
