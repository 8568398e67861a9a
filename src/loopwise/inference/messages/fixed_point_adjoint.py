"""Adjoint sweeps at the fixed point of one kernel run: back belief propagation.

In: the :class:`Backward` of a run that converged, adjoints of its results. Out: :class:`Adjoints`. Stage:
inference. The same kernels undo real steps; here every step finds the final messages.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loopwise.compiled.threads import in_threads
from loopwise.gradient.base import Report
from loopwise.gradient.fixed_point import FixedPoint, OneStep, report_adjoint, solve_adjoint
from loopwise.inference.messages.backward import AdjointBuffers, Adjoints, Backward, RunOutputs
from loopwise.inference.messages.kernels.plan import Adjoint, Seeds, Steps, TapeSegment
from loopwise.inference.messages.schedules import Residual, Sequential

TOGETHER = 8  # adjoint sweeps between two looks at whether they still add anything


def fixed_point_adjoint(
    backward: Backward, adjoint: RunOutputs, gradient: FixedPoint | OneStep, report: Report, parameters: bool
) -> Adjoints:
    """Adjoints of what the run of ``backward`` was given; those of its initial messages and its damping are zero.
    ``parameters``: counting numbers want theirs."""
    if isinstance(backward.options.schedule, Residual):  # its fixed points are those of any order
        backward.options = backward.options._replace(schedule=Sequential())
    return _FixedPointAdjoint(backward, gradient, report).pull_back(adjoint, parameters)


class _AdjointBlock(NamedTuple):
    """One block on the way back."""

    buffers: AdjointBuffers
    seeds: Seeds
    adjoint: Adjoint
    number: int

    def hearing(self, last: np.ndarray) -> _AdjointBlock:
        """The same where the loss is heard after the sweep ``last`` of each example."""
        return self._replace(seeds=self.seeds._replace(last=last))


class _FixedPointAdjoint:
    def __init__(self, backward: Backward, gradient: FixedPoint | OneStep, report: Report) -> None:
        self.backward, self.gradient, self.report = backward, gradient, report
        self.run, self.options, self.result = backward.run, backward.options, backward.result
        run, result = self.run, self.result
        unused = -run.examples % run.storage.in_block
        if unused:  # a run that stops examples one by one never writes the lanes that no example fills
            for messages in (result.m, result.n):
                messages.reshape(run.blocks, -1, run.storage.lanes)[-1, :, -unused:] = run.neutral
        self.frozen = Steps(
            np.uint64(run.block_size),
            np.uint64(0),
            result.m,
            np.uint64(0),
            np.uint64(0),
            np.uint64(0),
        )

    def pull_back(self, adjoint: RunOutputs, parameters: bool) -> Adjoints:
        buffers, backward = self.backward.buffers(parameters), self.backward
        seeds = backward.seeds(adjoint)
        blocks, parts = self.run.blocks, buffers.parts

        def solve(part: int) -> list[tuple[int, float]]:
            mine = range(blocks * part // parts, blocks * (part + 1) // parts)
            return [self._solve_block(_AdjointBlock(buffers, seeds, buffers.adjoint(part), block)) for block in mine]

        solves = [solve for some in in_threads(parts, solve) for solve in some]
        if isinstance(self.gradient, OneStep):
            self.report.iterations = 1
        else:
            report_adjoint(self.report, solves, self.gradient, self.result.m.dtype)
        return buffers.adjoints()

    def _solve_block(self, block: _AdjointBlock) -> tuple[int, float]:
        """Iterations and residual of one block."""
        last = block.seeds.last
        # What the loss says of beliefs and messages, carried to messages to variables.
        self._sweeps_back(block.hearing(np.zeros_like(last)), 0)
        silent = block.hearing(np.full_like(last, -1))
        if isinstance(self.gradient, OneStep):
            self._sweeps_back(silent, 1)
            return 1, 0.0
        return (self._accelerated if self.gradient.anderson else self._plain)(silent, self.gradient)

    def _sweeps_back(self, block: _AdjointBlock, sweeps: int) -> None:
        """Undoes so many sweeps, each of which found the final messages."""
        block.adjoint.n[:] = 0
        steps, n_base = sweeps * self.options.steps, np.uint64(block.number * self.run.block_size)
        self.backward.undo(*block, TapeSegment(steps, 0, self.result.n, n_base, self.frozen, n_base))

    def _plain(self, block: _AdjointBlock, gradient: FixedPoint) -> tuple[int, float]:
        """The Neumann series: each sweep adds its part of the potentials' adjoints."""
        m = block.adjoint.m
        scale = float(np.abs(m).max(initial=0.0))
        iterations, residual = 0, 1.0 if scale > 0 else 0.0
        while residual > gradient.reachable(m.dtype) and iterations < gradient.iterations:
            sweeps = min(TOGETHER, gradient.iterations - iterations)
            self._sweeps_back(block, sweeps)
            iterations += sweeps
            residual = float(np.abs(m).max()) / scale
        return iterations, residual

    def _accelerated(self, block: _AdjointBlock, gradient: FixedPoint) -> tuple[int, float]:
        """Anderson's iterates first, apart from the sums; then one sweep with the solution."""
        buffers = self.backward.buffers(parameters=False)
        trial = block._replace(buffers=buffers, adjoint=buffers.adjoint(0))

        def transpose(y: np.ndarray) -> np.ndarray:
            trial.adjoint.m[:] = y
            self._sweeps_back(trial, 1)
            image: np.ndarray = trial.adjoint.m.copy()
            return image

        y, iterations, residual = solve_adjoint(transpose, block.adjoint.m.copy(), gradient)
        block.adjoint.m[:] = y
        self._sweeps_back(block, 1)
        return iterations, residual
