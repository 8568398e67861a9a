"""Passes over the sentences in random order, with a step at each: what perceptron and structured SVM share.

In: a problem, the cost of a wrong token, the strength of the penalty. Out: averaged weights. Stage: use; the steps are
in :mod:`loopwise.kernels.chain_online`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from loopwise.apps.tagger.learners.base import Watch
from loopwise.apps.tagger.problem import Problem, Weights

_STEPS, _SCALE, _SUMMED, _AVERAGED = 0, 1, 2, 3  # of the kernel's state
_ARRAYS = ("table", "sums", "state")  # what a checkpoint calls them


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

    part = watch.begin()
    if part.over:
        return start
    generator = np.random.default_rng(seed)
    table, sums = start.like(start.vector.copy()), start.like(np.zeros_like(start.vector))
    state, first = np.array([0.0, 1.0, 0.0, 0.0]), 0
    if part.state is not None:
        first, generator.bit_generator.state = part.state["epochs"], part.state["generator"]
        table.vector[:], sums.vector[:], state[:] = (part.state[name].numpy() for name in _ARRAYS)
    unary, steps = problem.unary.flat, problem.step_features()

    def average() -> Weights:
        return start.like((state[_SUMMED] * table.vector - sums.vector) / state[_AVERAGED])

    def kept(epochs_done: int) -> dict[str, Any]:
        arrays = {
            name: torch.from_numpy(array)
            for name, array in zip(_ARRAYS, (table.vector, sums.vector, state), strict=True)
        }
        return {"epochs": epochs_done, "generator": generator.bit_generator.state, **arrays}

    for epoch in range(first, epochs):
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
        watch.keep(partial(kept, epoch + 1))
    return average()
