r"""Learning a chain sentence by sentence, each from its own best path: perceptron and structured SVM.

In: a problem with gold tags, the cost of a wrong token, the strength of the penalty. Out: :class:`OnlineChain`, whose
rounds are passes over the sentences in random order. Stage: learning; the steps are in
:mod:`loopwise.learn.kernels.chain_online`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from loopwise.learn.chain.problem import ChainProblem, ChainWeights
from loopwise.learn.progress import Tell
from loopwise.learn.vector import VectorObjective
from loopwise.potentials.linear import Floats

_SCALE, _SUMMED, _AVERAGED = 1, 2, 3  # of the kernel's state
_ARRAYS = ("table", "sums", "state")  # what a checkpoint calls them


class OnlineChain(VectorObjective):
    r"""Averaged weights of steps along :math:`\phi(y)-\phi(\hat y)`, :math:`\hat y` the best path.

    ``cost`` is added for each wrong token of :math:`\hat y`. ``strength`` 0: steps of 1 (the perceptron of Collins
    2002), and the loss is the share of wrong tokens; otherwise those of Pegasos for ``strength / 2 |w|^2`` plus the
    mean hinge (Shalev-Shwartz et al. 2011), which is the loss. The steps of the first ``skip`` epochs are left out of
    the average. Where tags are known in part, the right ones are the best path that agrees with what is known.
    """

    def __init__(
        self,
        problem: ChainProblem,
        start: ChainWeights,
        seed: int,
        *,
        cost: float = 0.0,
        strength: float = 0.0,
        skip: int = 0,
    ) -> None:
        self.problem, self.cost, self.strength, self.skip = problem, cost, strength, skip
        self._generator = np.random.default_rng(seed)
        self._table, self._sums = start.like(start.vector.copy()), start.like(np.zeros_like(start.vector))
        self._state, self._epochs = np.array([0.0, 1.0, 0.0, 0.0]), 0
        self._unary, self._steps = problem.unary.flat, problem.step_features()
        if self._unary.value is not None:
            raise ValueError(
                "this learner takes features that are there or not, and some have values; choose Likelihood or ERM, or "
                "make features of intervals"
            )
        everything = np.ones((0, problem.states), dtype=np.bool_)
        self._allowed = everything if problem.allowed is None else problem.allowed
        self._rules = _penalties(problem)

    def round(self, tell: Tell) -> float:
        from loopwise.learn.kernels.chain_online import GoldChains, online_epoch

        if self._epochs == self.skip:
            self._sums.vector[:] = 0.0
            self._state[_SUMMED] = self._state[_AVERAGED] = 0.0
        problem = self.problem
        wrong, hinge = online_epoch(
            self._generator.permutation(problem.sentences),
            GoldChains(
                problem.chains.start,
                problem.gold,
                self._allowed,
                (self._unary.start, self._unary.index),
                (self._steps.start, self._steps.index),
            ),
            (self._table.unary, self._table.pair),
            (self._sums.unary, self._sums.pair),
            self._state,
            self.cost,
            self.strength,
            self._rules,
        )
        self._epochs += 1
        if self.strength == 0.0:
            return int(wrong) / max(problem.tokens, 1)
        weights = self._table.vector * self._state[_SCALE]
        return 0.5 * self.strength * float(weights @ weights) + float(hinge) / max(problem.sentences, 1)

    def now(self) -> Floats:
        if not self._state[_AVERAGED]:
            return self._table.vector.copy()
        average: Floats = (self._state[_SUMMED] * self._table.vector - self._sums.vector) / self._state[_AVERAGED]
        return average

    def state(self) -> dict[str, Any]:
        arrays = (self._table.vector, self._sums.vector, self._state)
        tensors = {name: torch.from_numpy(array) for name, array in zip(_ARRAYS, arrays, strict=True)}
        return {"epochs": self._epochs, "generator": self._generator.bit_generator.state, **tensors}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._epochs, self._generator.bit_generator.state = state["epochs"], state["generator"]
        self._table.vector[:], self._sums.vector[:], self._state[:] = (state[name].numpy() for name in _ARRAYS)


def _penalties(problem: ChainProblem) -> tuple[Floats, Floats, Floats]:
    """What rules add to the scores of first tags, steps ``[K * K]`` and last tags: 0 or minus infinity; empty: none."""
    if problem.rules is None:
        return np.zeros(0), np.zeros(0), np.zeros(0)
    first, follow, last = (
        np.where(flags, 0.0, -np.inf).reshape(-1)
        for flags in (problem.rules.first, problem.rules.follow, problem.rules.last)
    )
    return first, follow, last
