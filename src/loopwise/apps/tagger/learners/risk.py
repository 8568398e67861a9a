"""Empirical risk minimisation: weights for the loss that is measured, under the inference that is used.

In: a problem, a smooth loss of marginals. Out: weights. Stage: use. Marginals are exact (forward-backward), or those of
any method that has a gradient, loopy or truncated as it may be.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from loopwise.apps.tagger.chains import Floats
from loopwise.apps.tagger.condensing import Condensed
from loopwise.apps.tagger.learners.base import Watch
from loopwise.apps.tagger.learners.descent import minimise
from loopwise.apps.tagger.learners.likelihood import Likelihood, check_descent
from loopwise.apps.tagger.problem import Problem, Weights
from loopwise.apps.tagger.soft_losses import EntityF1, Gold, SoftLoss, slopes
from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.base import Inference


@dataclass(frozen=True)
class ERM:
    r"""Minimises :math:`n\,\ell(\mu(w),y)+\frac{\lambda}{2}|w|^2` by L-BFGS (Stoyanov, Ropson & Eisner 2011).

    :math:`\ell` is ``loss`` of the text, :math:`\mu(w)` its marginals, ``n`` the number of tokens, so that ``l2`` has
    the weight against a wrong token that it has for :class:`Likelihood` (and less against an entity, in F1: there are
    more tokens). The problem is not convex: it starts from the weights that ``begin`` finds (None: from those given,
    where zero is a poor choice). ``inference``: None for exact marginals, whose adjoint is a covariance (O(K^2) a
    token); or a method such as ``lw.BP(iterations=3)``.
    """

    loss: SoftLoss = field(default_factory=EntityF1)
    l2: float = 1.0
    iterations: int = 50
    tolerance: float = 1e-6
    memory: int = 6
    begin: Likelihood | None = field(default_factory=Likelihood)
    inference: Inference | None = None

    def __post_init__(self) -> None:
        check_descent(self.l2, self.iterations)

    @property
    def rounds(self) -> int:
        return self.iterations + (0 if self.begin is None else self.begin.rounds)

    def learn(self, problem: Problem, start: Weights, watch: Watch, seed: int) -> Weights:
        if self.begin is not None:
            start = self.begin.learn(problem, start, watch, seed)
        small = Condensed.of(problem)
        found = minimise(
            self._risk(small.problem),
            small.narrow(start),
            watch,
            l2=self.l2,
            iterations=self.iterations,
            tolerance=self.tolerance,
            memory=self.memory,
            threads=problem.chains.threads,
        )
        return small.widen(found)

    def _risk(self, problem: Problem) -> ExactRisk | RiskUnder:
        if self.inference is None:
            return ExactRisk(problem, self.loss)
        return RiskUnder(problem, self.loss, self.inference)


class ExactRisk:
    """Value and gradient of the loss of exact marginals."""

    def __init__(self, problem: Problem, loss: SoftLoss) -> None:
        self.problem, self.loss = problem, loss
        self.gold = Gold(problem.gold, problem.chains.start, problem.labels)

    def __call__(self, weights: Weights) -> tuple[float, Floats]:
        problem, scale = self.problem, self.problem.tokens
        unary, pair = problem.scores(weights)
        known = problem.chains.marginals(unary, pair, each=True)
        value, in_tags, in_steps = slopes(self.loss, known.single, known.double, self.gold)
        adjoints = problem.chains.adjoints(known, in_tags, in_steps, shared=len(pair) == 1)
        return scale * value, scale * problem.gradient(*adjoints)


class RiskUnder:
    """The same under any inference method, on the factor graph of all sentences."""

    def __init__(self, problem: Problem, loss: SoftLoss, inference: Inference) -> None:
        self.problem, self.loss, self.inference = problem, loss, inference
        self.gold = Gold(problem.gold, problem.chains.start, problem.labels)
        self.graph = chain_graph(problem)
        self.follows = torch.from_numpy(np.flatnonzero(problem.chains.follows))

    def __call__(self, weights: Weights) -> tuple[float, Floats]:
        problem, scale = self.problem, self.problem.tokens
        unary, pair = (torch.from_numpy(scores).requires_grad_() for scores in problem.scores(weights))
        tables = pair if len(pair) == 1 else pair[self.follows]
        beliefs = self.inference(self.graph, {"unary": unary, "pair": tables})
        single = beliefs.states.reshape(unary.shape)
        double = single.new_zeros(len(unary), *pair.shape[1:]).index_copy(0, self.follows, beliefs.factor("pair"))
        value = self.loss(single, double, self.gold)
        slopes = torch.autograd.grad(value, (unary, pair))
        gradient = problem.gradient(*(slope.contiguous().numpy() for slope in slopes))
        return scale * float(value.detach()), scale * gradient


def chain_graph(problem: Problem) -> FactorGraph:
    """All sentences as one graph: groups ``unary``, a factor a token, and ``pair``, one a step."""
    token, follows = np.arange(problem.tokens), np.flatnonzero(problem.chains.follows)
    scopes = {"unary": token[:, None], "pair": np.stack([follows - 1, follows], axis=1)}
    return FactorGraph(np.full(problem.tokens, problem.states), scopes)
