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
from loopwise.inference.threads import in_threads
from loopwise.kernels.plan import Adjoint, Seeds, Tape

TOGETHER = 8  # adjoint sweeps between two looks at whether they still add anything


def settle(
    run: KernelRun, options: Options, journey: Journey, adjoint: Results, gradient: FixedPoint | OneStep, report: Report
) -> Adjoints:
    """Adjoints of what the run was given; those of its initial messages are zero."""
    if isinstance(options.schedule, Residual):  # its fixed points are those of any order
        options = options._replace(schedule=Sequential())
    return _Settling(run, options, journey, gradient, report).pull_back(adjoint)


class _Settling:
    def __init__(
        self, run: KernelRun, options: Options, journey: Journey, gradient: FixedPoint | OneStep, report: Report
    ) -> None:
        self.run, self.options, self.gradient, self.report = run, options, gradient, report
        self.journey = journey
        self.frozen = Tape(
            np.uint64(run.block_size),
            np.uint64(0),
            np.empty(0, dtype=journey.m.dtype),
            np.uint64(0),
            np.uint64(0),
            np.uint64(0),
        )

    def pull_back(self, adjoint: Results) -> Adjoints:
        book = Book(self.run, self.journey.m.dtype, parameters=False)
        undo = KernelUndo(self.run, self.options, self.journey, self.journey.m, Store(), parameters=False)
        seeds = undo.seeds(adjoint)
        blocks, parts = self.run.blocks, book.parts

        def solve(part: int) -> None:
            for block in range(blocks * part // parts, blocks * (part + 1) // parts):
                self._solve_block(undo, book, seeds, part, block)

        in_threads(parts, solve)
        return book.adjoints()

    def _solve_block(self, undo: KernelUndo, book: Book, seeds: Seeds, part: int, block: int) -> None:
        here = book.adjoint(part)
        # What the loss says of beliefs and messages, carried to messages to variables.
        self._sweeps_back(undo, book, seeds._replace(last=np.zeros_like(seeds.last)), here, block, 0)
        silent = seeds._replace(last=np.full_like(seeds.last, -1))
        if isinstance(self.gradient, OneStep):
            self._sweeps_back(undo, book, silent, here, block, 1)
            self.report.iterations = 1
        elif self.gradient.anderson:
            self._accelerated(undo, book, silent, here, block, self.gradient)
        else:
            self._plain(undo, book, silent, here, block, self.gradient)

    def _sweeps_back(
        self, undo: KernelUndo, book: Book, seeds: Seeds, adjoint: Adjoint, block: int, sweeps: int
    ) -> None:
        """Undoes so many sweeps, each of which found the final messages."""
        adjoint.n[:] = 0
        steps, n_base = sweeps * self.options.steps, block * self.run.block_size
        undo.undo(book, seeds, adjoint, block, Stretch(steps, 0, self.journey.n, n_base, self.frozen, 0))

    def _plain(
        self, undo: KernelUndo, book: Book, silent: Seeds, here: Adjoint, block: int, gradient: FixedPoint
    ) -> None:
        """The Neumann series: each sweep adds its part of the potentials' adjoints."""
        scale = float(np.abs(here.m).max(initial=0.0))
        iterations, residual = 0, 1.0 if scale > 0 else 0.0
        while residual > gradient.tolerance and iterations < gradient.iterations:
            sweeps = min(TOGETHER, gradient.iterations - iterations)
            self._sweeps_back(undo, book, silent, here, block, sweeps)
            iterations += sweeps
            residual = float(np.abs(here.m).max()) / scale
        report_adjoint(self.report, iterations, residual, gradient)

    def _accelerated(
        self, undo: KernelUndo, book: Book, silent: Seeds, here: Adjoint, block: int, gradient: FixedPoint
    ) -> None:
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
        report_adjoint(self.report, iterations, residual, gradient)
