r"""Skip-chain conditional random fields: chains with links between tokens that are far apart.

In: a problem and pairs of tokens. Out: :class:`SkipChain`, the same problem with scores

.. math:: \sum_t\theta_{y_t}\cdot f_t(x)+\sum_t\theta_{y_{t-1}y_t}\cdot g_t(x)+\sum_{(s,t)\in L}\theta^L_{y_sy_t}

(Sutton & McCallum 2004), its likelihood and its risk. Stage: learning.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch

from loopwise.decode.rules import Flags
from loopwise.inference.base import Inference
from loopwise.learn.chain.linked import ChainView, LinkedChains, Links
from loopwise.learn.chain.problem import ChainProblem, ChainWeights
from loopwise.learn.chain.risk import gold_of
from loopwise.loss.chains import SoftLoss, slopes
from loopwise.potentials.linear import Floats, Integers


@dataclass(frozen=True, eq=False)
class SkipChain(ChainProblem):
    """Weights of steps have a row more for each kind of links, after the others."""

    links: Links = field(kw_only=True)
    inference: Inference = field(kw_only=True)

    def start(self) -> ChainWeights:
        return ChainWeights.zeros(self.unary.features, self.step_rows + self.links.kinds, self.states)

    def link_scores(self, weights: ChainWeights) -> Floats:
        """Of each kind of links, ``[kinds, K, K]``."""
        found: Floats = weights.pair[self.step_rows :].reshape(-1, self.states, self.states)
        return found

    def full_gradient(self, unary: Floats, pair: Floats, link: Floats) -> Floats:
        """:meth:`gradient` with slopes in the scores of links, ``[kinds, K, K]``, too."""
        vector = self.gradient(unary, pair)
        vector[len(vector) - link.size :] = link.reshape(-1)
        return vector

    def view(self, weights: ChainWeights) -> ChainView:
        """What is said of each sentence, under the rules and what is given."""
        unary, pair = self.scores(weights)
        return self.linked.view(self.held(unary), pair, self.link_scores(weights))

    def log_likelihoods(self, weights: ChainWeights, tags: Integers, allowed: Flags | None = None) -> Floats:
        """The log-probability of ``tags``, document by document; an estimate unless inference is exact."""
        (unary, pair), link = self.scores(weights), self.link_scores(weights)
        mask = tags[:, None] == np.arange(self.states) if allowed is None else allowed
        held = self.linked.log_partitions(np.where(mask, unary, -np.inf), pair, link)
        return held - self.linked.log_partitions(unary, pair, link)

    @cached_property
    def linked(self) -> LinkedChains:
        """The chains with their links."""
        return LinkedChains(self.chains, self.links, self.states, self.inference)


class SkipLikelihood:
    r"""Value and gradient of :math:`\log Z-\log Z(A)`, :math:`A` the tags that agree with what is known.

    Under an approximate method both are those of the surrogate likelihood: the gradient is the difference of beliefs,
    and that of the value at a fixed point (:class:`loopwise.loss.SurrogateLikelihood`).
    """

    def __init__(self, problem: SkipChain) -> None:
        self.problem = problem
        if problem.allowed is None:
            self._steps = problem.gold_counts()
            self._taken = self._steps > 0
            self._links = np.zeros((problem.links.kinds, problem.states, problem.states))
            gold = problem.gold[problem.links.place]
            np.add.at(self._links, (problem.links.kind, gold[:, 0], gold[:, 1]), 1.0)

    def __call__(self, weights: ChainWeights) -> tuple[float, Floats]:
        problem, gold = self.problem, self.problem.gold
        (unary, pair), link = problem.scores(weights), problem.link_scores(weights)
        free = problem.linked.marginals(unary, pair, link)
        if problem.allowed is not None:
            held = problem.linked.marginals(problem.held(unary), pair, link)
            gaps = free.single - held.single, free.double - held.double, free.link - held.link
            return free.log_z - held.log_z, problem.full_gradient(*gaps)
        token = np.arange(problem.tokens)
        steps = np.vdot(self._steps[self._taken], pair[self._taken])
        value = free.log_z - unary[token, gold].sum() - steps - np.vdot(self._links, link)
        free.single[token, gold] -= 1.0
        return float(value), problem.full_gradient(free.single, free.double - self._steps, free.link - self._links)


class SkipRisk:
    """Value and gradient of a loss of marginals: exact for sentences without links, through inference for others."""

    def __init__(self, problem: SkipChain, loss: SoftLoss) -> None:
        self.problem, self.loss = problem, loss
        self.gold = gold_of(problem, loss)

    def __call__(self, weights: ChainWeights) -> tuple[float, Floats]:
        problem, linked, scale = self.problem, self.problem.linked, self.problem.tokens
        (unary, pair), link = problem.scores(weights), problem.link_scores(weights)
        loose, apart = linked.loose_marginals(unary, pair, each=True), linked.loose_tokens
        single, double = np.empty_like(unary), np.zeros((len(unary), problem.states, problem.states))
        single[apart], double[apart] = loose.single, loose.double
        leaves = [torch.from_numpy(scores.copy()).requires_grad_() for scores in (unary, pair, link)]
        if len(linked.tokens):
            beliefs = linked.inferred(*leaves, quiet=True)
            answers = [linked.states_of(beliefs), beliefs.factor("pair")]
            single[linked.tokens], double[linked.follows] = (answer.detach().numpy() for answer in answers)
        value, in_tags, in_steps = slopes(self.loss, single, double, self.gold)
        found = np.zeros_like(unary), np.zeros_like(pair), np.zeros_like(link)
        shared = len(pair) == 1
        own, tables = linked.loose.adjoints(loose, in_tags[apart], in_steps[apart], shared=shared)
        found[0][apart], found[1][slice(None) if shared else apart] = own, tables
        if len(linked.tokens):
            told = [torch.from_numpy(in_tags[linked.tokens]), torch.from_numpy(in_steps[linked.follows])]
            for target, slope in zip(found, torch.autograd.grad(answers, leaves, told), strict=True):
                target += slope.numpy()
        return scale * value, scale * problem.full_gradient(*found)
