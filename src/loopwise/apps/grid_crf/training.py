"""Training a grid model: one loss after another, by L-BFGS over all images or by any stochastic optimiser.

In: potentials, inference, goals, images with labels. Out: changed weights, a :class:`History`. Stage: use. L-BFGS with
the chain of starting points of Domke (2010, section 4) is what the paper did.
"""

from __future__ import annotations

import logging
import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from loopwise.apps.grid_crf.pictures import Block, images_at_once, parts, take
from loopwise.apps.grid_crf.potentials import GridPotentials
from loopwise.apps.grid_crf.risk import Piece, Risk
from loopwise.inference.base import Inference
from loopwise.learn.evaluate import Goal
from loopwise.learn.history import Epoch, History
from loopwise.learn.optim.lbfgs import LBFGS, Vector, measured_curvature
from loopwise.learn.optim.steps import finish, take_step
from loopwise.learn.plan import MakeOptimizer
from loopwise.learn.progress import Tell
from loopwise.learn.training import TrainingError
from loopwise.loss.clique import CliqueLikelihood, SmoothCliqueError
from loopwise.loss.likelihood import Objective, SurrogateLikelihood
from loopwise.loss.univariate import SmoothError, UnivariateLikelihood
from loopwise.notices import GradientWarning, callers_level
from loopwise.potentials.priors import Prior

logger = logging.getLogger(__name__)

Callback = Callable[[Epoch], "bool | None"]

FLAT = 1e-12  # gradients and changes that are rounding
SOME = 0.1  # the share of doubtful steps that is worth a word


def published_chain(goal: Goal) -> tuple[Goal, ...]:
    """The losses to train one after another to arrive at ``goal`` (Domke 2010, section 4).

    The surrogate likelihood, which is convex, comes first; smooth errors, which are flat far from their optimum, start
    from the likelihood of the same marginals.
    """
    if isinstance(goal, Objective):
        return (goal,)
    if isinstance(goal, SmoothError):
        return SurrogateLikelihood(), UnivariateLikelihood(), goal
    if isinstance(goal, SmoothCliqueError):
        return SurrogateLikelihood(), CliqueLikelihood(), goal
    return SurrogateLikelihood(), goal


@dataclass(frozen=True, eq=False)
class Options:
    """How to train. ``optimizer`` None: L-BFGS."""

    optimizer: MakeOptimizer | None
    iterations: int
    tolerance: float
    batch: int | None
    prior: Prior | None
    seed: int
    curvature: int = 0  # images to measure it on

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise ValueError(f"iterations must be at least 1, not {self.iterations}")
        if self.batch is not None and self.batch < 1:
            raise ValueError(f"batch must be at least 1, or None, not {self.batch}")
        if self.curvature < 0:
            raise ValueError(f"curvature must be a number of images, 0 for none, not {self.curvature}")
        if self.curvature and self.optimizer is not None:
            raise ValueError("curvature is for L-BFGS; leave out curvature, or the optimizer")
        if not 0 <= self.tolerance < 1:
            raise ValueError(f"tolerance must be at least 0 and below 1, not {self.tolerance}")


def train(
    potentials: GridPotentials,
    inference: Inference,
    goals: Sequence[Goal],
    blocks: Sequence[Block],
    options: Options,
    tell: Tell,
    callback: Callback | None,
) -> History:
    """Minimises each of ``goals`` in turn, from where the one before ended."""
    run = _Run(potentials, inference, blocks, options, tell, callback, History())
    for stage, goal in enumerate(goals):
        run.begin(stage, goal)
        if options.optimizer is None:
            run.minimise()
        else:
            run.descend(options.optimizer)
        run.warn()
        if run.stopped:
            break
    return run.history


class _Run:
    """One call of :func:`train` in progress."""

    def __init__(
        self,
        potentials: GridPotentials,
        inference: Inference,
        blocks: Sequence[Block],
        options: Options,
        tell: Tell,
        callback: Callback | None,
        history: History,
    ) -> None:
        self.potentials, self.inference, self.blocks = potentials, inference, blocks
        self.options, self.tell, self.callback, self.history = options, tell, callback, history
        self.pieces = [self._piece(part) for part in parts(blocks, options.batch)]
        self.stopped = False
        self.risk: Risk
        self.stage = self.steps = 0
        self.doubts: list[tuple[int, str]] = []  # at which step of the stage, and what
        self.since = time.perf_counter()

    def begin(self, stage: int, goal: Goal) -> None:
        self.stage = stage
        logger.info("stage %d: %s", stage + 1, type(goal).__name__)
        self.risk = Risk(self.potentials, self.inference, goal, self.pieces, self.options.prior)
        self.steps, self.doubts = 0, []
        self.since = time.perf_counter()

    def stepped(self) -> None:
        """Counts a step, and what inference warned of at it."""
        self.steps += 1
        if self.risk.doubts:
            self.doubts.append((self.steps, self.risk.doubts[0]))

    def minimise(self) -> None:
        """All images at once, by L-BFGS."""
        optimizer = LBFGS(
            self.risk.weights,
            self.options.iterations,
            gradient_tolerance=FLAT,
            loss_tolerance=FLAT,
            curvature=self._curvature() if self.options.curvature else None,
            callback=self._after_iteration,
        )
        optimizer.step(self.risk)
        if self.steps == 0:  # no iteration: what inference warned of at the start
            self.stepped()
        assert optimizer.report is not None
        report = optimizer.report
        if self.stopped:
            reason = "ended by the callback"
        else:
            reason = "converged" if report.converged or self._settled() else report.message.lower()
        self.history.ended = f"{reason} after {report.iterations} iterations of {type(self.risk.goal).__name__}"

    def _after_iteration(self, iteration: int, loss: float) -> bool:
        self.stepped()
        return self._note(iteration, loss) or self._settled()

    def _curvature(self) -> Vector:
        """Of the present loss, on the first images."""
        risk, few = self.risk, list(parts(take(self.blocks, self.options.curvature), self.options.batch))
        risk = Risk(self.potentials, self.inference, risk.goal, [self._piece(part) for part in few], risk.prior)
        try:
            return measured_curvature(risk.weights, risk)
        except ValueError as problem:
            raise TrainingError(f"{problem}; do without it (curvature=0), or start at other weights") from None

    def _settled(self) -> bool:
        """Whether the last two iterations of this stage changed the loss by less than the tolerance, relatively.

        SciPy's own rule is absolute for losses below 1, as those of pixels are.
        """
        losses = [epoch.loss for epoch in self.history.epochs if epoch.stage == self.stage][-3:]
        if len(losses) < 3:
            return False
        small = self.options.tolerance * abs(losses[-1])
        return losses[0] - losses[1] <= small and losses[1] - losses[2] <= small

    def descend(self, make: MakeOptimizer) -> None:
        """Some images of one size a step, in random order."""
        optimizer = make(self.risk.weights)
        generator = np.random.default_rng([self.options.seed, self.stage])
        self.potentials.train()
        try:
            with torch.random.fork_rng(devices=[]):  # whatever the potentials draw (dropout)
                torch.manual_seed(int(generator.integers(2**31)))
                for epoch in range(self.options.iterations):
                    loss = self._epoch(optimizer, generator)
                    finish(optimizer)
                    if self._note(epoch + 1, loss):
                        break
        finally:
            self.potentials.eval()
        self.history.ended = f"{self.history.epochs[-1].number} epochs"

    def warn(self) -> None:
        """One warning for all that inference warned of in this stage, points that a line search has left apart."""
        if self.doubts and (self.doubts[-1][0] == self.steps or len(self.doubts) > SOME * self.steps):
            warnings.warn(
                f"in {len(self.doubts)} of {self.steps} steps for {type(self.risk.goal).__name__} inference gave a "
                f"doubtful answer (more sweeps or damping may help), first: {self.doubts[0][1]}",
                GradientWarning,
                stacklevel=callers_level(),
            )

    def _epoch(self, optimizer: torch.optim.Optimizer, generator: np.random.Generator) -> float:
        """One pass; the mean loss of an image."""
        pieces = []
        for block in self.blocks:
            size = images_at_once(*block.size) if self.options.batch is None else self.options.batch
            order = generator.permutation(len(block))
            pieces += [block.take(order[start : start + size]) for start in range(0, len(block), size)]
        total = 0.0
        for place in generator.permutation(len(pieces)).tolist():
            piece = self._piece(pieces[place])
            value = float(take_step(optimizer, lambda piece=piece: self.risk.step(piece)))  # type: ignore[misc]
            self.stepped()
            if not math.isfinite(value):
                raise TrainingError(f"the loss became {value}; try a lower rate, or damp inference")
            total += value * len(piece.block)
        return total / sum(map(len, pieces))

    def _note(self, iteration: int, loss: float) -> bool:
        now = time.perf_counter()
        epoch = Epoch(len(self.history.epochs) + 1, loss, now - self.since, self.stage)
        self.since = now
        self.history.epochs.append(epoch)
        done = self.stage * self.options.iterations + iteration
        logger.debug("iteration %d: loss %.6g", iteration, loss)
        self.tell(done, f"{type(self.risk.goal).__name__}, iteration {iteration}, loss {loss:.5g}")
        self.stopped = bool(self.callback is not None and self.callback(epoch))
        return self.stopped

    def _piece(self, block: Block) -> Piece:
        return Piece(block, self.potentials.lattice(*block.size).graph)
