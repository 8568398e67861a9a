"""The risk of chains: a smooth loss of their marginals, under the inference that is used.

In: a problem with gold tags, a loss of marginals. Out: functions of weights with value and gradient. Stage: learning.
Marginals are exact (forward-backward), or those of any method that has a gradient, loopy or truncated as it may be.
"""

from __future__ import annotations

import numpy as np
import torch

from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.base import Inference
from loopwise.learn.chain.problem import ChainProblem, ChainWeights
from loopwise.loss.chains import OF_TOKENS, GoldTags, SoftLoss, slopes
from loopwise.potentials.linear import Floats


class ExactRisk:
    """Value and gradient of the loss of exact marginals."""

    def __init__(self, problem: ChainProblem, loss: SoftLoss) -> None:
        self.problem, self.loss = problem, loss
        self.gold = gold_of(problem, loss)

    def __call__(self, weights: ChainWeights) -> tuple[float, Floats]:
        problem, scale = self.problem, self.problem.tokens
        unary, pair = problem.scores(weights)
        known = problem.chains.marginals(unary, pair, each=True)
        value, in_tags, in_steps = slopes(self.loss, known.single, known.double, self.gold)
        adjoints = problem.chains.adjoints(known, in_tags, in_steps, shared=len(pair) == 1)
        return scale * value, scale * problem.gradient(*adjoints)


class RiskUnder:
    """The same under any inference method, on the factor graph of all sentences."""

    def __init__(self, problem: ChainProblem, loss: SoftLoss, inference: Inference) -> None:
        self.problem, self.loss, self.inference = problem, loss, inference
        self.gold = gold_of(problem, loss)
        self.graph = chain_graph(problem)
        self.follows = torch.from_numpy(np.flatnonzero(problem.chains.follows))

    def __call__(self, weights: ChainWeights) -> tuple[float, Floats]:
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


def gold_of(problem: ChainProblem, loss: SoftLoss) -> GoldTags:
    """What the loss is told; only losses of single tokens can leave tokens out."""
    if not isinstance(loss, OF_TOKENS):
        problem.refuse_unknown(type(loss).__name__)
    return GoldTags(problem.gold, problem.chains.start, problem.labels, problem.allowed)


def chain_graph(problem: ChainProblem) -> FactorGraph:
    """All sentences as one graph: groups ``unary``, a factor a token, and ``pair``, one a step."""
    token, follows = np.arange(problem.tokens), np.flatnonzero(problem.chains.follows)
    scopes = {"unary": token[:, None], "pair": np.stack([follows - 1, follows], axis=1)}
    return FactorGraph(np.full(problem.tokens, problem.states), scopes)
