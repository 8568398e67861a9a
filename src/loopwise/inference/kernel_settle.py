"""Adjoint sweeps at the fixed point of one kernel run: back belief propagation.

In: a :class:`KernelRun`, the :class:`Journey` that converged, adjoints of its results. Out: :class:`Adjoints`. Stage:
inference. The same kernels undo real steps; here every step finds the final messages.
"""

from __future__ import annotations

import numpy as np

from loopwise.gradient.base import Report
from loopwise.gradient.fixed_point import FixedPoint, OneStep, report_adjoint, solve_adjoint
from loopwise.gradient.unroll import Store
from loopwise.inference.kernel_run import Journey, KernelRun, Options
from loopwise.inference.kernel_undo import Adjoints, Book, KernelUndo, Results, Stretch
from loopwise.inference.schedules import Residual, Sequential
from loopwise.kernels.plan import Adjoint, Seeds, Steps
from loopwise.kernels.threads import in_threads

TOGETHER = 8  # adjoint sweeps between two looks at whether they still add anything


def settle(
    run: KernelRun,
    options: Options,
    journey: Journey,
    adjoint: Results,
    gradient: FixedPoint | OneStep,
    report: Report,
    parameters: bool,
) -> Adjoints:
    """Adjoints of what the run was given; those of its initial messages and its damping are zero. ``parameters``:
    counting numbers want theirs."""
    if isinstance(options.schedule, Residual):  # its fixed points are those of any order
        options = options._replace(schedule=Sequential())
    return _Settling(run, options, journey, gradient, report).pull_back(adjoint, parameters)


class _Settling:
    def __init__(
        self, run: KernelRun, options: Options, journey: Journey, gradient: FixedPoint | OneStep, report: Report
    ) -> None:
        self.run, self.options, self.gradient, self.report = run, options, gradient, report
        self.journey = journey
        unused = -run.examples % run.storage.in_block
        if unused:  # a run that stops examples one by one never writes the lanes that no example fills
            for messages in (journey.m, journey.n):
                messages.reshape(run.blocks, -1, run.storage.lanes)[-1, :, -unused:] = run.neutral
        self.frozen = Steps(
            np.uint64(run.block_size),
            np.uint64(0),
            journey.m,
            np.uint64(0),
            np.uint64(0),
            np.uint64(0),
        )

    def pull_back(self, adjoint: Results, parameters: bool) -> Adjoints:
        book = Book(self.run, self.journey.m.dtype, parameters)
        undo = KernelUndo(self.run, self.options, self.journey, self.journey.m, Store(), parameters=False)
        seeds = undo.seeds(adjoint)
        blocks, parts = self.run.blocks, book.parts

        def solve(part: int) -> list[tuple[int, float]]:
            mine = range(blocks * part // parts, blocks * (part + 1) // parts)
            return [self._solve_block(undo, book, seeds, part, block) for block in mine]

        solves = [solve for some in in_threads(parts, solve) for solve in some]
        if isinstance(self.gradient, OneStep):
            self.report.iterations = 1
        else:
            report_adjoint(self.report, solves, self.gradient, self.journey.m.dtype)
        return book.adjoints()

    def _solve_block(self, undo: KernelUndo, book: Book, seeds: Seeds, part: int, block: int) -> tuple[int, float]:
        """Iterations and residual of one block."""
        here = book.adjoint(part)
        # What the loss says of beliefs and messages, carried to messages to variables.
        self._sweeps_back(undo, book, seeds._replace(last=np.zeros_like(seeds.last)), here, block, 0)
        silent = seeds._replace(last=np.full_like(seeds.last, -1))
        if isinstance(self.gradient, OneStep):
            self._sweeps_back(undo, book, silent, here, block, 1)
            return 1, 0.0
        if self.gradient.anderson:
            return self._accelerated(undo, book, silent, here, block, self.gradient)
        return self._plain(undo, book, silent, here, block, self.gradient)

    def _sweeps_back(
        self, undo: KernelUndo, book: Book, seeds: Seeds, adjoint: Adjoint, block: int, sweeps: int
    ) -> None:
        """Undoes so many sweeps, each of which found the final messages."""
        adjoint.n[:] = 0
        steps, n_base = sweeps * self.options.steps, block * self.run.block_size
        undo.undo(book, seeds, adjoint, block, Stretch(steps, 0, self.journey.n, n_base, self.frozen, n_base))

    def _plain(
        self, undo: KernelUndo, book: Book, silent: Seeds, here: Adjoint, block: int, gradient: FixedPoint
    ) -> tuple[int, float]:
        """The Neumann series: each sweep adds its part of the potentials' adjoints."""
        scale = float(np.abs(here.m).max(initial=0.0))
        iterations, residual = 0, 1.0 if scale > 0 else 0.0
        while residual > gradient.reachable(here.m.dtype) and iterations < gradient.iterations:
            sweeps = min(TOGETHER, gradient.iterations - iterations)
            self._sweeps_back(undo, book, silent, here, block, sweeps)
            iterations += sweeps
            residual = float(np.abs(here.m).max()) / scale
        return iterations, residual

    def _accelerated(
        self, undo: KernelUndo, book: Book, silent: Seeds, here: Adjoint, block: int, gradient: FixedPoint
    ) -> tuple[int, float]:
        """Anderson's iterates first, apart from the sums; then one sweep with the solution."""
        trial_book = Book(self.run, self.journey.m.dtype, parameters=False)
        trial = trial_book.adjoint(0)

        def transpose(y: np.ndarray) -> np.ndarray:
            trial.m[:] = y
            self._sweeps_back(undo, trial_book, silent, trial, block, 1)
            image: np.ndarray = trial.m.copy()
            return image

        y, iterations, residual = solve_adjoint(transpose, here.m.copy(), gradient)
        here.m[:] = y
        self._sweeps_back(undo, book, silent, here, block, 1)
        return iterations, residual
