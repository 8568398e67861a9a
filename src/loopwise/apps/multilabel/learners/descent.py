r"""Likelihood and empirical risk, by L-BFGS through :func:`loopwise.fit`.

In: a problem, an inference method. Out: weights. Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from loopwise.apps.multilabel.decoding import ByBeliefs, Decoder
from loopwise.apps.multilabel.learners.base import Watch, check_positive
from loopwise.apps.multilabel.problem import Problem
from loopwise.apps.multilabel.scaling import is_sparse
from loopwise.apps.multilabel.weights import LabelWeights
from loopwise.decode.base import Decoder as Rule
from loopwise.decode.pointwise import Identity
from loopwise.graph.builders import complete
from loopwise.graph.evidence import Role
from loopwise.inference.base import Inference
from loopwise.inference.message_passing import BP
from loopwise.learn.evaluate import Goal
from loopwise.learn.examples import Examples
from loopwise.learn.fit import fit
from loopwise.learn.optim.lbfgs import LBFGS
from loopwise.learn.system import System
from loopwise.loss.likelihood import SurrogateLikelihood
from loopwise.loss.univariate import Hamming
from loopwise.potentials.features import Features
from loopwise.potentials.priors import L2
from loopwise.potentials.sparse import feature_scores


class LabelPotentials(nn.Module):
    """Tables from inputs: groups ``unary`` ``[examples, labels, 2]`` and ``pair`` ``[pairs, 2, 2]``."""

    def __init__(self, weights: LabelWeights) -> None:
        super().__init__()
        self.graph = complete(weights.labels)
        self.unary = nn.Parameter(torch.from_numpy(weights.unary.copy()))
        self.pair = nn.Parameter(torch.from_numpy(weights.pair.copy()))

    def forward(self, inputs: Tensor | Features) -> dict[str, Tensor]:
        labels, features, _ = self.unary.shape
        table = self.unary.transpose(0, 1).reshape(features, 2 * labels)
        if isinstance(inputs, Features):
            scores = feature_scores(table, inputs, np.arange(2 * labels), torch.float64, False)
        else:
            scores = inputs @ table
        return {"unary": scores.reshape(-1, labels, 2), "pair": self.pair}

    def vector(self) -> np.ndarray:
        """The weights as :class:`LabelWeights` has them."""
        return np.concatenate([part.detach().reshape(-1).numpy() for part in (self.unary, self.pair)])


def examples_of(problem: Problem) -> Examples:
    """All labels outputs; inputs dense, or as sparse features."""
    inputs: Any = torch.from_numpy(problem.inputs) if not is_sparse(problem.inputs) else None
    if inputs is None:
        rows = problem.rows
        inputs = Features.of(rows.indptr, rows.indices, rows.data, batch=(len(problem),))
    graph = complete(problem.labels)
    return Examples.of(graph, problem.gold, np.full(problem.labels, Role.OUTPUT), inputs=inputs)


def minimise(
    problem: Problem,
    start: LabelWeights,
    watch: Watch,
    goal: Goal,
    inference: Inference,
    rule: Rule,
    l2: float,
    iterations: int,
    seed: int,
) -> LabelWeights:
    """Weights that minimise the mean of ``goal`` plus ``l2 / 2n`` times their squares."""
    potentials = LabelPotentials(start)
    system = System(potentials, inference, rule)

    def told(iteration: int, loss: float) -> bool:
        watch.round(loss, lambda: start.like(potentials.vector()))
        return False

    fit(
        system,
        examples_of(problem),
        goal,
        optimizer=lambda parameters: LBFGS(parameters, iterations=iterations, callback=told),
        epochs=1,
        batch=len(problem),
        prior=L2(l2 / len(problem)) if l2 else None,
        seed=seed,
        progress=False,
    )
    return start.like(potentials.vector())


@dataclass(frozen=True)
class Likelihood:
    r"""Maximum likelihood with an L2 penalty, :math:`\sum\log p(y\mid x)-\frac{\lambda}{2}|\theta|^2`.

    Under ``inference``: the surrogate likelihood of BP by default; ``lw.Exact()`` for the likelihood itself.
    """

    l2: float = 10.0
    iterations: int = 100
    inference: Inference = field(default_factory=lambda: BP(iterations=20))

    def __post_init__(self) -> None:
        check_positive(iterations=self.iterations)
        if not self.l2 >= 0:
            raise ValueError(f"l2 must not be negative, but is {self.l2}")

    @property
    def rounds(self) -> int:
        return self.iterations

    @property
    def decoder(self) -> Decoder:
        return ByBeliefs(self.inference)

    def learn(self, problem: Problem, start: LabelWeights, watch: Watch, seed: int) -> LabelWeights:
        goal = SurrogateLikelihood()
        return minimise(problem, start, watch, goal, self.inference, Identity(), self.l2, self.iterations, seed)


@dataclass(frozen=True)
class ERM:
    r"""Minimises the loss of the decisions made from the beliefs of ``inference``, however few its sweeps
    (Stoyanov, Ropson & Eisner 2011).

    ``loss``: the expected number of wrong labels by default; ``lw.loss.F1()`` and any other of ``lw.loss`` will do.
    ``rule``: a decoder of ``lw.decode``, soft in training; the beliefs themselves by default. The problem is not
    convex: it starts from the weights that ``begin`` finds (None: from those given, where 0 is a poor choice).
    """

    loss: Goal = field(default_factory=Hamming)
    l2: float = 1.0
    iterations: int = 100
    inference: Inference = field(default_factory=lambda: BP(iterations=5))
    rule: Rule = field(default_factory=Identity)
    begin: Likelihood | None = field(default_factory=Likelihood)

    def __post_init__(self) -> None:
        check_positive(iterations=self.iterations)
        if not self.l2 >= 0:
            raise ValueError(f"l2 must not be negative, but is {self.l2}")

    @property
    def rounds(self) -> int:
        return self.iterations + (0 if self.begin is None else self.begin.rounds)

    @property
    def decoder(self) -> Decoder:
        return ByBeliefs(self.inference)

    def learn(self, problem: Problem, start: LabelWeights, watch: Watch, seed: int) -> LabelWeights:
        if self.begin is not None:
            start = self.begin.learn(problem, start, watch, seed)
        return minimise(problem, start, watch, self.loss, self.inference, self.rule, self.l2, self.iterations, seed)
