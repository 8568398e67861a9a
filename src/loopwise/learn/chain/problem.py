"""Sequences as a chain model sees them: features, gold tags, and how weights become scores and slopes weights.

In: designs of tags and of steps, gold tags. Out: :class:`ChainProblem`, which objectives are over, and
:class:`ChainWeights`. Stage: learning. Scores are linear in the weights, so every way to learn is a way to choose
slopes in the scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from loopwise.decode.rules import Flags, Rules
from loopwise.inference.families.chains import Chains
from loopwise.learn.optim.lbfgs_run import Function
from loopwise.potentials.features import Features
from loopwise.potentials.linear import Design, Floats, Integers


@dataclass(frozen=True, eq=False)
class ChainWeights:
    """``unary[f, k]``: of feature f with tag k. ``pair[f, j * K + k]``: of step feature f with tags j, k.

    Both are views of one ``vector``. Step feature 0 is always there: its row is the plain table of steps.
    """

    unary: Floats
    pair: Floats
    vector: Floats

    @staticmethod
    def of_vector(vector: Floats, features: int, step_features: int, states: int) -> ChainWeights:
        """Views of a vector, unary weights first."""
        cut = features * states
        unary, pair = vector[:cut].reshape(features, states), vector[cut:].reshape(step_features, states * states)
        return ChainWeights(unary, pair, vector)

    @staticmethod
    def zeros(features: int, step_features: int, states: int) -> ChainWeights:
        size = features * states + step_features * states * states
        return ChainWeights.of_vector(np.zeros(size), features, step_features, states)

    def tensors(self) -> dict[str, Tensor]:
        """As files have them."""
        return {"unary": torch.from_numpy(self.unary), "pair": torch.from_numpy(self.pair)}

    def like(self, vector: Floats) -> ChainWeights:
        """The same shapes over another vector."""
        return ChainWeights.of_vector(vector, len(self.unary), len(self.pair), self.states)

    @property
    def states(self) -> int:
        return int(self.unary.shape[1])


ChainFunction = Callable[[ChainWeights], tuple[float, Floats]]  # value and gradient


@dataclass(frozen=True, eq=False)
class ChainProblem:
    """Features of a text; ``steps`` None: the only step feature is the constant one, and one table serves all steps.

    ``gold`` ``[tokens]`` is empty where nothing is known. ``allowed`` ``[tokens, K]``: which tags each token may have,
    where some are known in part or not at all; their ``gold`` is then -1. None: all are known. ``labels`` name the
    tags, ``rules`` say which sequences there are.
    """

    unary: Design
    steps: Design | None
    chains: Chains
    labels: tuple[str, ...]
    gold: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    allowed: Flags | None = None
    rules: Rules | None = None

    @property
    def states(self) -> int:
        return len(self.labels)

    @property
    def tokens(self) -> int:
        return int(self.chains.start[-1])

    @property
    def sentences(self) -> int:
        return len(self.chains.start) - 1

    @property
    def step_rows(self) -> int:
        """Step features that have weights: rows of these, before any others."""
        return 1 if self.steps is None else self.steps.features

    def start(self) -> ChainWeights:
        """ChainWeights of the right shape, all zero."""
        return ChainWeights.zeros(self.unary.features, self.step_rows, self.states)

    def scores(self, weights: ChainWeights) -> tuple[Floats, Floats]:
        """Of tags ``[tokens, K]`` and of steps ``[1 or tokens, K, K]``."""
        threads, square = self.chains.threads, (-1, self.states, self.states)
        unary = self.unary.scores(weights.unary, threads)
        tables = weights.pair[: self.step_rows]
        pair = (tables if self.steps is None else self.steps.scores(tables, threads)).reshape(square)
        return (unary, pair) if self.rules is None else self.rules(self.chains, unary, pair)

    def held(self, unary: Floats) -> Floats:
        """Scores of tags with minus infinity where a token may not have one."""
        return unary if self.allowed is None else np.where(self.allowed, unary, -np.inf)

    def refuse_unknown(self, who: str) -> None:
        """A ValueError if some tag is not known."""
        unknown = np.flatnonzero(self.gold < 0)
        if unknown.size:
            sentence = int(np.searchsorted(self.chains.start, unknown[0], side="right")) - 1
            raise ValueError(
                f"{who} needs every tag, and {len(unknown)} are not known, the first in sentence {sentence}; train by "
                "likelihood, perceptron or SVM, or leave such sentences out"
            )

    def gradient(self, unary: Floats, pair: Floats) -> Floats:
        """Slopes in the weights, as one vector, from slopes in the scores, shaped like these."""
        threads, found = self.chains.threads, self.start()
        self.unary.transposed_scores(unary, threads, found.unary)
        tables = found.pair[: self.step_rows]
        if self.steps is None:
            tables[...] = pair.reshape(1, -1)
        else:
            self.steps.transposed_scores(pair.reshape(len(pair), -1), threads, tables)
        return found.vector

    def of_vector(self, function: ChainFunction) -> Function:
        """``function`` of weights as one of their vector."""
        shape = self.start()
        return lambda vector: function(shape.like(vector))

    def log_likelihoods(self, weights: ChainWeights, tags: Integers, allowed: Flags | None = None) -> Floats:
        """The log-probability of ``tags`` ``[tokens]``, chain by chain; ``allowed``: of any tags that these allow."""
        unary, pair = self.scores(weights)
        total = self.chains.marginals(unary, pair).log_z
        if allowed is None:
            return self.chains.chain_scores(unary, pair, tags) - total
        held = replace(self, allowed=allowed).held(unary)
        return self.chains.log_partition(held, pair) - total

    def gold_counts(self) -> Floats:
        """How often each step occurs in the gold tags, both known, shaped like the scores of steps."""
        follows = np.flatnonzero(self.chains.follows)
        follows = follows[(self.gold[follows - 1] >= 0) & (self.gold[follows] >= 0)]
        before, after = self.gold[follows - 1], self.gold[follows]
        counts = np.zeros((1 if self.steps is None else self.tokens, self.states, self.states))
        table = np.zeros_like(follows) if self.steps is None else follows
        np.add.at(counts, (table, before, after), 1.0)
        return counts

    def step_features(self) -> Features:
        """The step features of each token, one after another."""
        if self.steps is not None:
            return self.steps.flat
        return Features(np.arange(self.tokens + 1), np.zeros(self.tokens, dtype=np.int32))
