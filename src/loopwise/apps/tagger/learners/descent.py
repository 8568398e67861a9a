"""Smooth objectives over all weights with an L2 penalty: what likelihood and risk share.

In: a function of weights that gives value and gradient, compiled. Out: the weights that minimise it with the penalty.
Stage: use.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from loopwise.apps.tagger.chains import Floats
from loopwise.apps.tagger.learners.base import Watch
from loopwise.apps.tagger.learners.lbfgs import Algebra, minimise_lbfgs
from loopwise.apps.tagger.problem import Weights
from loopwise.apps.tagger.text import Integers

Objective = Callable[[Weights], tuple[float, Floats]]


def minimise(
    objective: Objective,
    start: Weights,
    watch: Watch,
    *,
    l2: float,
    iterations: int,
    tolerance: float,
    memory: int,
    threads: int = 1,
    free: Integers | None = None,
) -> Weights:
    r"""Minimises ``objective`` + :math:`\frac{\lambda}{2}|w|^2`.

    Stops after ``iterations``, or when the value changes by less than ``tolerance`` of itself. ``free``: the places of
    the vector that may change, if not all; the others are zero.
    """
    part = watch.begin()
    if part.over:
        return start
    algebra = Algebra(threads)
    whole = np.zeros(len(start.vector) if free is not None else 0)

    def weights(vector: Floats) -> Weights:
        if free is None:
            return start.like(vector)
        whole[free] = vector
        return start.like(whole)

    def penalised(vector: Floats) -> tuple[float, Floats]:
        value, gradient = objective(weights(vector))
        own = gradient if free is None else gradient[free]
        own += l2 * vector
        return value + 0.5 * l2 * algebra.dot(vector, vector), own

    found = minimise_lbfgs(
        penalised,
        start.vector if free is None else start.vector[free],
        iterations=iterations,
        tolerance=tolerance,
        memory=memory,
        told=lambda iteration, value: watch.round(value),
        keep=watch.keep,
        state=part.state,
        threads=threads,
    )
    watch.history.ended = found.reason
    return start.like(weights(found.point).vector.copy())
