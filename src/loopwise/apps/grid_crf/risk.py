r"""The loss of a grid model on images, and its gradient part by part, so that memory does not grow with the corpus.

In: potentials, inference, a goal, images with labels. Out: a number; gradients in the weights. Stage: use.
With statistics :math:`s_k(\theta)` of each image and the goal :math:`L(s_1, \dots, s_n)`,

.. math:: \frac{dL}{d\theta} = \sum_k \frac{\partial L}{\partial s_k} \frac{d s_k}{d\theta},

and for averages the weights :math:`\partial L / \partial s_k` do not depend on :math:`\theta`: they are found once,
without inference. Other goals (an F measure) take one more inference call an image.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from loopwise.apps.grid_crf.pictures import UNLABELLED, Block
from loopwise.apps.grid_crf.potentials import GridPotentials, weights_of
from loopwise.graph.evidence import Evidence, Role
from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.base import Inference
from loopwise.inference.decision import Distributions
from loopwise.learn.evaluate import Goal
from loopwise.loss.base import Averaged, Measure
from loopwise.loss.likelihood import Objective
from loopwise.loss.targets import Targets
from loopwise.notices import GradientError, LoopwiseWarning
from loopwise.potentials.priors import Prior


@dataclass(frozen=True, eq=False)
class Piece:
    """Some images of one size with their answers."""

    block: Block
    graph: FactorGraph

    @property
    def labels(self) -> Tensor:
        assert self.block.labels is not None
        return self.block.labels

    @cached_property
    def targets(self) -> Targets:
        return Targets.from_values(self.graph, self.labels)

    @cached_property
    def evidence(self) -> Evidence:
        labels = self.labels.numpy()
        return Evidence.of(labels, np.where(labels == UNLABELLED, Role.MISSING, Role.OUTPUT))

    @property
    def scored(self) -> Tensor:
        """How many pixels of each image count."""
        return (self.labels != UNLABELLED).sum(-1).to(torch.float64)


def statistics(goals: Sequence[Goal], potentials: GridPotentials, inference: Inference, piece: Piece) -> list[Tensor]:
    """Of each goal a row an image, ``[images, columns]``; one inference call serves all measures.

    Of an objective: the pixels that count, and its value.
    """
    tables = potentials(piece.block.images)
    beliefs = None
    found = []
    for goal in goals:
        if isinstance(goal, Objective):
            values = goal.per_example(inference, piece.graph, tables, piece.evidence)
            found.append(torch.stack([piece.scored, values.double()], -1))
        else:
            beliefs = inference(piece.graph, tables) if beliefs is None else beliefs
            found.append(goal.statistics(beliefs, piece.targets))
    return found


def combined(goal: Goal, rows: Tensor) -> Tensor:
    """The number for the statistics of all images; objectives count by the pixel, and images alike."""
    if isinstance(goal, Measure):
        return goal.combine(rows)
    return (rows[:, 1] / rows[:, 0]).mean()


def check_goal(goal: object) -> Goal:
    """Refuses what is neither a loss nor a likelihood."""
    if not isinstance(goal, Measure | Objective):
        raise ValueError(f"{goal!r} is no loss; use one of lw.loss, such as lw.loss.UnivariateLikelihood()")
    return goal


class Risk:
    """The loss of all images as a function of the weights, as :class:`~loopwise.optim.LBFGS` minimises it.

    Calling it leaves the gradient in the weights and returns the value. ``doubts``: what inference and its gradient
    warned of in the last call.
    """

    def __init__(
        self,
        potentials: GridPotentials,
        inference: Inference,
        goal: Goal,
        pieces: Sequence[Piece],
        prior: Prior | None = None,
    ) -> None:
        self.potentials, self.inference, self.goal = potentials, inference, check_goal(goal)
        self.pieces, self.prior = pieces, prior
        self.weights = weights_of(potentials)
        self.begun = False
        self.doubts: list[str] = []

    def __call__(self) -> Tensor:
        """Value and gradient; infinite where inference has no gradient, so that a line search turns back."""
        with self._noting():
            try:
                value = self._evaluated()
            except GradientError:
                if not self.begun:
                    raise
                return torch.tensor(torch.inf, dtype=torch.float64)
        self.begun = True
        return value

    def step(self, piece: Piece) -> Tensor:
        """The loss of one piece, with its graph: what a stochastic step minimises."""
        with self._noting():
            (rows,) = statistics([self.goal], self.potentials, self.inference, piece)
            return self._penalised(combined(self.goal, rows))

    def _evaluated(self) -> Tensor:
        adjoint = self._adjoint()
        rows, first = [], 0
        for weight in self.weights:
            weight.grad = None
        with torch.enable_grad():
            for piece in self.pieces:
                (found,) = statistics([self.goal], self.potentials, self.inference, piece)
                own = adjoint[first : first + len(found)]
                first += len(found)
                rows.append(found.detach())
                # What weighs nothing may be NaN, and there is no gradient of it to follow.
                torch.where(own == 0, 0.0, found * own).sum().backward()  # type: ignore[no-untyped-call]
            value = combined(self.goal, torch.cat(rows))
            if self.prior is not None:
                penalty = self.prior.value(self.weights)
                penalty.backward()  # type: ignore[no-untyped-call]
                value = value + penalty.detach()
        return value

    def _penalised(self, value: Tensor) -> Tensor:
        return value if self.prior is None else value + self.prior.value(self.weights)

    def _adjoint(self) -> Tensor:
        """What the loss answers to a change of each statistic, ``[images, columns]``."""
        if isinstance(self.goal, Objective | Averaged):
            return self._constant_adjoint
        with torch.no_grad():
            rows = [statistics([self.goal], self.potentials, self.inference, piece)[0] for piece in self.pieces]
        return self._adjoint_at(torch.cat(rows))

    @cached_property
    def _constant_adjoint(self) -> Tensor:
        rows = []
        for piece in self.pieces:
            if isinstance(self.goal, Averaged):
                rows.append(self.goal.statistics(_Uniform(piece.graph, len(piece.block)), piece.targets))
            else:
                rows.append(torch.stack([piece.scored, piece.scored], -1))
        return self._adjoint_at(torch.cat(rows))

    def _adjoint_at(self, rows: Tensor) -> Tensor:
        leaf = rows.detach().requires_grad_()
        with torch.enable_grad():
            value = combined(self.goal, leaf)
        if value.ndim:
            raise ValueError(
                f"{type(self.goal).__name__} with reduction=Each() is no single number to train for; "
                "leave its reduction out"
            )
        (adjoint,) = torch.autograd.grad(value, leaf)
        return adjoint

    @contextmanager
    def _noting(self) -> Iterator[None]:
        with noted_warnings() as doubts:
            yield
        self.doubts = doubts


class _Uniform(Distributions):
    """Beliefs that know nothing: enough to see what a loss counts."""

    def __init__(self, graph: FactorGraph, images: int) -> None:
        self._graph = graph
        owner = graph.layout.state_variable
        share = torch.from_numpy(1.0 / graph.cardinalities[owner])
        self._states = share.expand(images, len(share))

    @property
    def graph(self) -> FactorGraph:
        return self._graph

    @property
    def states(self) -> Tensor:
        return self._states

    def factor(self, name: str) -> Tensor:
        group = self._graph.group(name)
        value = torch.tensor(1.0 / group.cells, dtype=torch.float64)
        return value.expand(len(self._states), group.count, *group.shape)


@contextmanager
def noted_warnings() -> Iterator[list[str]]:
    """Collects what loopwise warns of inside, instead of showing it; other warnings are passed on afterwards."""
    mine: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LoopwiseWarning)
        try:
            yield mine
        finally:
            others = [entry for entry in caught if not issubclass(entry.category, LoopwiseWarning)]
            mine += [str(entry.message) for entry in caught if issubclass(entry.category, LoopwiseWarning)]
    for entry in others:
        warnings.warn_explicit(entry.message, entry.category, entry.filename, entry.lineno)
