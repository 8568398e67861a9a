r"""Training a grid model: one loss after another, by L-BFGS over all images or by any stochastic optimiser.

In: potentials, inference, goals, images with labels. Out: :class:`GridObjective`; a :class:`History`. Stage: use; the
rounds are run by :func:`loopwise.learn.trainer.train`. L-BFGS with the chain of starting points of Domke (2010,
section 4) is what the paper did. Gradients are taken part by part, so that memory does not grow with the corpus: with
statistics :math:`s_k(\theta)` of each image and the goal :math:`L(s_1, \dots, s_n)`,

.. math:: \frac{dL}{d\theta} = \sum_k \frac{\partial L}{\partial s_k} \frac{d s_k}{d\theta},

and for averages the weights :math:`\partial L / \partial s_k` do not depend on :math:`\theta`: they are found once,
without inference. Other goals (an F measure) take one more inference call an image.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from loopwise.apps.grid_crf.features import ImageBatch, images_at_once, parts, take
from loopwise.apps.grid_crf.model import GridPotentials, weights_of
from loopwise.apps.grid_crf.report import LabelledImages, check_goal, combined, statistics, weights_of_images
from loopwise.arguments import checked_whole
from loopwise.formats.files import PathLike
from loopwise.graph.factor_graph import FactorGraph
from loopwise.inference.base import Inference
from loopwise.inference.decision import Distributions
from loopwise.learn.evaluate import Goal
from loopwise.learn.files.checkpoint import checksum, identify
from loopwise.learn.files.ledger import SPARING, Ledger
from loopwise.learn.history import History
from loopwise.learn.objective import Callback, Objective, RoundError
from loopwise.learn.optim.lbfgs import FlatLoss, Vector, measured_curvature
from loopwise.learn.optim.lbfgs_run import LBFGSRun
from loopwise.learn.optim.steps import finish, take_step
from loopwise.learn.plan import MakeOptimizer
from loopwise.learn.progress import Tell
from loopwise.learn.trainer import Limits, TrainingError, train
from loopwise.loss.base import Averaged
from loopwise.loss.clique import CliqueLikelihood, SmoothCliqueError
from loopwise.loss.likelihood import LikelihoodObjective as Likelihoods
from loopwise.loss.likelihood import SurrogateLikelihood
from loopwise.loss.univariate import SmoothError, UnivariateLikelihood
from loopwise.notices import GradientError, GradientWarning, LoopwiseWarning, warn
from loopwise.potentials.priors import Prior

logger = logging.getLogger(__name__)

FLAT = 1e-12  # gradients and changes that are rounding
MEMORY = 10  # pairs of differences that L-BFGS keeps
SOME = 0.1  # the share of doubtful steps that is worth a word


def published_chain(goal: Goal) -> tuple[Goal, ...]:
    """The losses to train one after another to arrive at ``goal`` (Domke 2010, section 4).

    The surrogate likelihood, which is convex, comes first; smooth errors, which are flat far from their optimum, start
    from the likelihood of the same marginals.
    """
    if isinstance(goal, Likelihoods):
        return (goal,)
    if isinstance(goal, SmoothError):
        return SurrogateLikelihood(), UnivariateLikelihood(), goal
    if isinstance(goal, SmoothCliqueError):
        return SurrogateLikelihood(), CliqueLikelihood(), goal
    return SurrogateLikelihood(), goal


@dataclass(frozen=True, eq=False)
class GridTraining:
    """How to train. ``optimizer`` None: L-BFGS."""

    optimizer: MakeOptimizer | None
    iterations: int
    tolerance: float
    batch: int | None
    prior: Prior | None
    seed: int
    curvature: int = 0  # images to measure it on

    def __post_init__(self) -> None:
        checked_whole("iterations", self.iterations)
        if self.batch is not None and self.batch < 1:
            raise ValueError(f"batch must be at least 1, or None, not {self.batch}")
        if self.curvature < 0:
            raise ValueError(f"curvature must be a number of images, 0 for none, not {self.curvature}")
        if self.curvature and self.optimizer is not None:
            raise ValueError("curvature is for L-BFGS; leave out curvature, or the optimizer")
        if not 0 <= self.tolerance < 1:
            raise ValueError(f"tolerance must be at least 0 and below 1, not {self.tolerance}")


def fit_grid(
    objective: GridObjective, tell: Tell, callbacks: Sequence[Callback], checkpoint: PathLike | None = None
) -> History:
    """Minimises each goal in turn, from where the one before ended."""
    ledger = Ledger.open(checkpoint, {} if checkpoint is None else objective.identity(), SPARING)
    limits = Limits.rounds(*[objective.options.iterations] * len(objective.goals))
    objective.potentials.train(objective.options.optimizer is not None)
    try:
        with torch.random.fork_rng(devices=[]):  # whatever the potentials draw (dropout)
            history = train(objective, limits, ledger=ledger, callbacks=callbacks, tell=tell)
    finally:
        objective.potentials.eval()
    objective.warn()
    return history


class GridObjective(Objective):
    """Goals of a grid model on images, a stage each: a round is an iteration of L-BFGS, or an epoch."""

    def __init__(
        self,
        potentials: GridPotentials,
        inference: Inference,
        goals: Sequence[Goal],
        blocks: Sequence[ImageBatch],
        options: GridTraining,
    ) -> None:
        self.potentials, self.inference, self.goals = potentials, inference, goals
        self.blocks, self.options = blocks, options
        self.pieces = [self._piece(part) for part in parts(blocks, options.batch)]
        self._doubts: list[tuple[int, str]] = []  # at which step of the stage, and what
        self._stage = self._steps = 0

    def begin(self, restart: int, stage: int) -> None:
        self.warn()
        self._open(stage)
        if self.options.optimizer is None:
            function = FlatLoss(self._risk.weights, self._risk, self._curvature() if self.options.curvature else None)
            self._descend(function, function.start(), None)

    def _open(self, stage: int) -> None:
        goal = self.goals[stage]
        logger.info("stage %d: %s", stage + 1, type(goal).__name__)
        self._stage = stage
        self._risk = Risk(self.potentials, self.inference, goal, self.pieces, self.options.prior)
        self._steps, self._losses, self._doubts = 0, list[float](), []
        if self.options.optimizer is not None:
            self._optimizer = self.options.optimizer(self._risk.weights)
            self._generator = np.random.default_rng([self.options.seed, stage])
            torch.manual_seed(int(self._generator.integers(2**31)))

    def _descend(self, function: FlatLoss, start: Vector, state: Mapping[str, Any] | None) -> None:
        def is_flat(gradient: Vector) -> bool:
            return bool(np.abs(function.gradient_of(gradient)).max(initial=0.0) <= FLAT)

        self._function = function
        self._run = LBFGSRun(function, start, memory=MEMORY, tolerance=FLAT, is_flat=is_flat, state=state)
        if state is None and self._run.ended:  # no iteration: what inference warned of at the start
            self._stepped()

    def round(self, tell: Tell) -> float | None:
        loss = self._iteration() if self.options.optimizer is None else self._epoch(tell)
        if loss is not None:
            self._losses.append(loss)
        return loss

    def _iteration(self) -> float | None:
        """All images at once, by L-BFGS."""
        value = None
        try:
            value = self._run.step()
        finally:  # the last trial may have been another point
            self._function.write(self._run.point)
        if value is not None or not self._steps:
            self._stepped()
        return value

    @property
    def ended(self) -> str:
        if self.options.optimizer is not None:
            return ""
        run, over = self._run, self._run.iteration >= self.options.iterations
        if run.converged or self._settled():
            reason = "converged"
        else:
            reason = run.ended or ("the iterations are used up" if over else "")
        return reason and f"{reason} after {run.iteration} iterations of {type(self._risk.goal).__name__}"

    def _settled(self) -> bool:
        """Whether the last two iterations of this stage changed the loss by less than the tolerance, relatively.

        The rule of L-BFGS is absolute for losses below 1, as those of pixels are.
        """
        losses = self._losses[-3:]
        if len(losses) < 3:
            return False
        small = self.options.tolerance * abs(losses[-1])
        return losses[0] - losses[1] <= small and losses[1] - losses[2] <= small

    def _curvature(self) -> Vector:
        """Of the present loss, on the first images."""
        risk, few = self._risk, list(parts(take(self.blocks, self.options.curvature), self.options.batch))
        risk = Risk(self.potentials, self.inference, risk.goal, [self._piece(part) for part in few], risk.prior)
        try:
            return measured_curvature(risk.weights, risk)
        except ValueError as problem:
            raise TrainingError(f"{problem}; do without it (curvature=0), or start at other weights") from None

    def _epoch(self, tell: Tell) -> float:
        """Some images of one size a step, in random order; the mean loss of an image."""
        good = self.weights()
        pieces = []
        for block in self.blocks:
            size = images_at_once(*block.size) if self.options.batch is None else self.options.batch
            order = self._generator.permutation(len(block))
            pieces += [block.take(order[start : start + size]) for start in range(0, len(block), size)]
        total = 0.0
        for number, place in enumerate(self._generator.permutation(len(pieces)).tolist()):
            piece = self._piece(pieces[place])
            value = float(take_step(self._optimizer, lambda piece=piece: self._risk.step(piece)))  # type: ignore[misc]
            self._stepped()
            if not math.isfinite(value):
                finish(self._optimizer)
                self.set_weights(good)
                raise RoundError(f"the loss became {value}", "; try a lower rate, or damp inference")
            total += value * _weight(piece.block)
            tell((number + 1) / len(pieces), f"{type(self._risk.goal).__name__}, loss {value:.5g}")
        finish(self._optimizer)
        return total / sum(map(_weight, pieces))

    def identity(self) -> dict[str, str]:
        """What tells a training from others."""
        arrays = [array for block in self.blocks for array in (block.images.numpy(), self._piece(block).labels.numpy())]
        arrays += [block.weights.numpy() for block in self.blocks if block.weights is not None]
        start = [tensor.numpy() for tensor in self.weights().values()]
        return {
            "training data": f"{sum(map(len, self.blocks))} images (checksum {checksum(*arrays)})",
            "model": f"{len(start)} tensors (checksum {checksum(*start)})",
            "inference": identify(self.inference),
            "goals": identify(list(self.goals)),
            "options": identify(self.options),
        }

    # --- State -------------------------------------------------------------------------------------------------------

    def weights(self) -> dict[str, Tensor]:
        return {name: tensor.detach().clone() for name, tensor in self.potentials.state_dict().items()}

    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        self.potentials.load_state_dict(dict(weights))

    def state(self) -> dict[str, Any]:
        own: dict[str, Any]
        if self.options.optimizer is None:
            own = {"function": self._function.state(), "run": self._run.state()}
        else:
            own = {
                "optimizer": self._optimizer.state_dict(),
                "generator": self._generator.bit_generator.state,
                "draws": torch.get_rng_state(),
            }
        place = {"stage": self._stage, "steps": self._steps, "losses": self._losses, "doubts": self._doubts}
        return {**place, "weights": self.weights(), **own}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.set_weights(state["weights"])
        self._open(state["stage"])
        self._steps, self._losses, self._doubts = state["steps"], list(state["losses"]), list(state["doubts"])
        if self.options.optimizer is None:
            function = FlatLoss(self._risk.weights, self._risk).at(state["function"])
            self._risk.begun = True
            self._descend(function, state["run"]["point"].numpy(), state["run"])
        else:
            self._optimizer.load_state_dict(state["optimizer"])
            self._generator.bit_generator.state = state["generator"]
            torch.set_rng_state(state["draws"])

    # --- Doubts ------------------------------------------------------------------------------------------------------

    def _stepped(self) -> None:
        """Counts a step, and what inference warned of at it."""
        self._steps += 1
        if self._risk.doubts:
            self._doubts.append((self._steps, self._risk.doubts[0]))

    def warn(self) -> None:
        """One warning for all that inference warned of in this stage, points that a line search has left apart."""
        if (
            self._stage >= 0
            and self._doubts
            and (self._doubts[-1][0] == self._steps or len(self._doubts) > SOME * self._steps)
        ):
            warn(
                f"in {len(self._doubts)} of {self._steps} steps for {type(self._risk.goal).__name__} inference gave a "
                f"doubtful answer (more sweeps or damping may help), first: {self._doubts[0][1]}",
                GradientWarning,
            )

    def _piece(self, block: ImageBatch) -> LabelledImages:
        return LabelledImages(block, self.potentials.lattice(*block.size).graph)


def _weight(block: ImageBatch) -> float:
    return float(len(block)) if block.weights is None else float(block.weights.sum())


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
        pieces: Sequence[LabelledImages],
        prior: Prior | None = None,
    ) -> None:
        self.potentials, self.inference, self.goal = potentials, inference, check_goal(goal)
        self.pieces, self.prior = pieces, prior
        self.weights, self.image_weights = weights_of(potentials), weights_of_images(pieces)
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

    def step(self, piece: LabelledImages) -> Tensor:
        """The loss of one piece, with its graph: what a stochastic step minimises."""
        with self._noting():
            (rows,) = statistics([self.goal], self.potentials, self.inference, piece)
            return self._penalised(combined(self.goal, rows, piece.block.weights))

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
            value = combined(self.goal, torch.cat(rows), self.image_weights)
            if self.prior is not None:
                penalty = self.prior.value(self.weights)
                penalty.backward()  # type: ignore[no-untyped-call]
                value = value + penalty.detach()
        return value

    def _penalised(self, value: Tensor) -> Tensor:
        return value if self.prior is None else value + self.prior.value(self.weights)

    def _adjoint(self) -> Tensor:
        """What the loss answers to a change of each statistic, ``[images, columns]``."""
        if isinstance(self.goal, Likelihoods | Averaged):
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
            value = combined(self.goal, leaf, self.image_weights)
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
