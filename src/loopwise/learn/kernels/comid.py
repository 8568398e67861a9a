"""Compiled steps of AdaGrad with composite mirror descent on the rows that a batch touched.

In: weights ``[rows, width]``, sums of squared gradients, the step of each row's last update. Out: all three, changed in
place. Stage: below learning. A row that was not touched pays its regularisation when it is touched next: its
denominator did not change meanwhile, so the skipped steps are one closed form.
"""

from __future__ import annotations

import math

import numpy as np

from loopwise.compiled.decorators import callee, kernel
from loopwise.compiled.prefetch import AHEAD, prefetch


@callee
def shrunk(weight, scale, times, l1, l2):
    """``times`` proximal steps of size ``scale`` on one weight; one of ``l1`` and ``l2`` is 0."""
    if l2 > 0.0:
        return weight * math.exp(-times * math.log1p(l2 * scale))
    if l1 > 0.0:
        return math.copysign(max(abs(weight) - times * l1 * scale, 0.0), weight)
    return weight


@kernel
def step_rows(weights, squares, last, rows, gradients, step, rate, delta, l1, l2):
    """Update number ``step`` of the distinct ``rows`` with their ``gradients`` ``[len(rows), width]``."""
    for place in range(len(rows)):
        if place + AHEAD < len(rows):
            prefetch(last, rows[place + AHEAD])
        row = rows[place]
        skipped = step - 1 - last[row]
        for column in range(weights.shape[1]):
            weight = np.float64(weights[row, column])
            if skipped > 0:
                old = delta + math.sqrt(squares[row, column])
                weight = shrunk(weight, rate / old, skipped, l1, l2)
            gradient = np.float64(gradients[place, column])
            squares[row, column] += gradient * gradient
            scale = rate / (delta + math.sqrt(squares[row, column]))
            weights[row, column] = shrunk(weight - scale * gradient, scale, 1, l1, l2)
        last[row] = step


@callee
def pay(weights, squares, last, row, step, rate, delta, l1, l2):
    """Pays what ``row`` owes up to and including ``step``."""
    skipped = step - last[row]
    if skipped > 0:
        for column in range(weights.shape[1]):
            if weights[row, column] != 0.0:
                scale = rate / (delta + math.sqrt(squares[row, column]))
                weights[row, column] = shrunk(np.float64(weights[row, column]), scale, skipped, l1, l2)
        last[row] = step


@kernel
def catch_up_rows(weights, squares, last, rows, step, rate, delta, l1, l2):
    """The same for all of ``rows``, which may be listed more than once."""
    for place in range(len(rows)):
        pay(weights, squares, last, rows[place], step, rate, delta, l1, l2)


@kernel
def catch_up(weights, squares, last, step, rate, delta, l1, l2):
    """The same for every row."""
    for row in range(len(last)):
        pay(weights, squares, last, row, step, rate, delta, l1, l2)
