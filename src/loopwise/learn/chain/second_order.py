r"""Chains whose tags depend on the two before them, as first-order chains of pairs of tags.

In: a problem. Out: :class:`SecondOrder`, the same problem with scores

.. math:: \sum_t\theta_{y_t}\cdot f_t(x)+\theta_{y_{t-1}y_t}+\theta_{y_{t-2}y_{t-1}y_t}.

Stage: learning. A state is a pair (tag before, tag); states that do not fit each other are never neighbours. Exact, and
O(K^4) a token: for a dozen of tags.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from loopwise.decode.rules import Flags
from loopwise.learn.chain.problem import ChainProblem, ChainWeights
from loopwise.potentials.linear import Floats, Integers

MOST = 40  # tags; with more, tables of pairs of pairs are too large


@dataclass(frozen=True, eq=False)
class SecondOrder(ChainProblem):
    """Scores are of pairs: state ``a * K + b`` is tag b after a, and a = K at first tokens.

    Weights of steps have a row for pairs and then one for each tag a, those of (a, b, c). ``allowed`` must be given.
    """

    def __post_init__(self) -> None:
        if self.states > MOST:
            raise ValueError(
                f"there are {self.states} tags; chains of second order take at most {MOST}: use order=1, or fewer tags"
            )
        if self.steps is not None:
            raise ValueError("chains of second order have no step_templates; leave them out, or use order=1")

    def start(self) -> ChainWeights:
        return ChainWeights.zeros(self.unary.features, 1 + self.states, self.states)

    def scores(self, weights: ChainWeights) -> tuple[Floats, Floats]:
        """Of pairs ``[tokens, (K + 1) K]`` and of steps between them."""
        states = self.states
        single = self.unary.scores(weights.unary, self.chains.threads)
        table = weights.pair[:1].reshape(1, states, states)
        if self.rules is not None:
            single, table = self.rules(self.chains, single, table)
        both = np.full((self.tokens, states + 1, states), -np.inf)
        both[:, :states] = np.where(self.chains.follows[:, None, None], table + single[:, None, :], -np.inf)
        both[self._first, states] = single[self._first]
        steps = np.full((states + 1, states, states + 1, states), -np.inf)
        middle = np.arange(states)
        triples = np.concatenate([weights.pair[1:].reshape(states, states, states), np.zeros((1, states, states))])
        steps[:, middle, middle, :] = triples
        size = (states + 1) * states
        return both.reshape(-1, size), steps.reshape(1, size, size)

    def held(self, unary: Floats) -> Floats:
        if self.allowed is None:
            return unary
        before = np.ones((self.tokens, self.states + 1), dtype=np.bool_)
        before[1:, : self.states] = self.allowed[:-1]
        before[self._first, : self.states] = True
        mask = before[:, :, None] & self.allowed[:, None, :]
        return np.where(mask.reshape(unary.shape), unary, -np.inf)

    def gradient(self, unary: Floats, pair: Floats) -> Floats:
        states, found = self.states, self.start()
        both = unary.reshape(-1, states + 1, states)
        self.unary.transposed_scores(np.ascontiguousarray(both.sum(axis=1)), self.chains.threads, found.unary)
        found.pair[0] = both[:, :states].sum(axis=0).reshape(-1)
        middle = np.arange(states)
        steps = pair.reshape(states + 1, states, states + 1, states)[:states, middle, middle, :]
        found.pair[1:] = steps.reshape(states, -1)
        return found.vector

    def log_likelihoods(self, weights: ChainWeights, tags: Integers, allowed: Flags | None = None) -> Floats:
        mask = tags[:, None] == np.arange(self.states) if allowed is None else allowed
        return super().log_likelihoods(weights, tags, mask)

    def tags(self, path: Integers) -> Integers:
        """The tags of a path of pairs."""
        return path % self.states

    def single(self, marginals: Floats) -> Floats:
        """The marginals of tags ``[tokens, K]`` from those of pairs."""
        found: Floats = marginals.reshape(-1, self.states + 1, self.states).sum(axis=1)
        return found

    @cached_property
    def _first(self) -> Integers:
        return np.flatnonzero(~self.chains.follows)
