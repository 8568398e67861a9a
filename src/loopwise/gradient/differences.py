r"""Derivatives by differences: slow, independent of every estimator, and so what estimators are measured against.

In: a function of one number. Out: its derivative at 0 and an estimate of that derivative's own error. Stage: gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable

STEP = 0.02  # first step: log-potentials change by at most this
SHRINK = 2.0  # each step is so many times smaller than the last
LEVELS = 10  # to 4e-5: far enough for runs whose order of messages changes within larger steps
GOOD_ENOUGH = 1e-11  # relative: beyond this, rounding would only be polished


def derivative(function: Callable[[float], float], step: float = STEP) -> tuple[float, float]:
    r""":math:`f'(0)` by central differences, extrapolated to step 0 (Ridders 1982), and an estimate of its error.

    The differences :math:`(f(h) - f(-h)) / 2h` at steps h, h/2, h/4, ... have errors in even powers of h, which a
    Neville table removes one by one; the entry whose neighbours differ least wins, before rounding takes over. A step
    at which the function is NaN begins the table anew. Cost: 6 to 20 evaluations.
    """
    best, error = math.nan, math.inf
    row: list[float] = []
    for level in range(LEVELS):
        h = step / SHRINK**level
        quotient = (function(h) - function(-h)) / (2 * h)
        if math.isnan(quotient):
            row = []
            continue
        row, previous = [quotient], row
        for order, coarser in enumerate(previous):
            power = SHRINK ** (2 * (order + 1))
            row.append((power * row[-1] - coarser) / (power - 1))
            gap = max(abs(row[-1] - row[-2]), abs(row[-1] - coarser))
            if gap <= error:
                best, error = row[-1], gap
        if error <= GOOD_ENOUGH * abs(best):
            break
    return best, error
