"""Passes over the sentences in random order, with a step at each: what perceptron and structured SVM share.

In: a problem, the cost of a wrong token, the strength of the penalty. Out: averaged weights. Stage: use; the steps are
in :mod:`loopwise.kernels.chain_online`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from loopwise.apps.tagger.learners.base import Watch
from loopwise.apps.tagger.problem import Problem, Weights

_STEPS, _SCALE, _SUMMED, _AVERAGED = 0, 1, 2, 3  # of the kernel's state


def run_epochs(
    problem: Problem,
    start: Weights,
    watch: Watch,
    seed: int,
    *,
    epochs: int,
    cost: float,
    strength: float,
    skip: int,
    loss: Callable[[int, float, Weights], float],
) -> Weights:
    """Averaged weights, the steps of the first ``skip`` epochs left out of the average.

    ``loss(wrong tokens, hinge, weights)`` is what the history shows of an epoch.
    """
    from loopwise.kernels.chain_online import online_epoch

    generator = np.random.default_rng(seed)
    table, sums = start.like(start.vector.copy()), start.like(np.zeros_like(start.vector))
    state = np.array([0.0, 1.0, 0.0, 0.0])
    unary, steps = problem.unary.flat, problem.step_features()

    def average() -> Weights:
        return start.like((state[_SUMMED] * table.vector - sums.vector) / state[_AVERAGED])

    for epoch in range(epochs):
        if epoch == skip:
            sums.vector[:] = 0.0
            state[_SUMMED] = state[_AVERAGED] = 0.0
        wrong, hinge = online_epoch(
            generator.permutation(problem.sentences),
            problem.chains.start,
            problem.gold,
            (unary.start, unary.index),
            (steps.start, steps.index),
            table.unary,
            table.pair,
            sums.unary,
            sums.pair,
            state,
            cost,
            strength,
        )
        if watch.round(loss(int(wrong), float(hinge), start.like(table.vector * state[_SCALE])), average):
            break
    return average()
