"""The compiled engine as a differentiable function of everything it is given.

In: scaled potentials, initial messages, exponents, damping, as tensors. Out: log beliefs and log messages whose
backward runs the adjoint kernels. Stage: inference. Results are in no particular scale (any constant may be added to a
variable's log belief or to a log message): normalising them, in torch, comes after.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from loopwise.gradient.base import Report, check_finite
from loopwise.gradient.fixed_point import FixedPoint, OneStep, check_converged, once_only
from loopwise.gradient.once import taken_once
from loopwise.gradient.unroll import Unroll
from loopwise.graph.layout import Layout
from loopwise.inference.messages.backward import Adjoints, RunOutputs
from loopwise.inference.messages.hvp import Direction
from loopwise.inference.messages.kernel_run import Options
from loopwise.inference.messages.sub_batches import GradientSpec, Scaled, SubBatch, solve
from loopwise.notices import GradientError
from loopwise.potentials.checks import Extent


class Session:
    """One call: how to run, and the parts that ran."""

    def __init__(
        self,
        options: Options,
        layout: Layout,
        threads: int | None,
        maximise: bool,
        asked: GradientSpec,
        converged: Callable[[Tensor], bool],
    ) -> None:
        self.options, self.layout, self.threads = options, layout, threads
        self.maximise, self.asked, self.converged = maximise, asked, converged
        self.report = Report(type(asked.gradient).__name__)
        self.parts: list[SubBatch] = []

    def differentiable(self, given: Scaled, damping: Tensor | float) -> RunOutputs:
        """Results connected to what was given."""
        damping = damping if isinstance(damping, Tensor) else given.unary.new_tensor(damping)
        initial = given.initial if given.initial is not None else given.unary.new_zeros(0)
        shapes = _Shapes(self, given.examples, given.extents, given.plain)
        found = _Solve.apply(shapes, given.exponents, damping, initial, given.unary, *given.tables)  # type: ignore[no-untyped-call]
        return RunOutputs(*found)

    def run(self, given: Scaled) -> None:
        """Runs; the results are in the parts. Nothing that is given may want a gradient."""
        self.parts = solve(given, self.options, self.layout, self.threads, self.maximise, self.asked)

    def results(self) -> RunOutputs:
        """Results of all parts as plain numbers."""
        return RunOutputs(
            self.joined([torch.log(part.states) for part in self.parts]),
            self.joined([part.to_factors() for part in self.parts]),
            self.joined([part.messages() for part in self.parts]),
            self.trace() if self.asked.trace else None,
        )

    def trace(self) -> Tensor:
        """Log beliefs after each sweep, ``[sweeps + 1, examples, states]``, of any scale."""
        sweeps = max((int(part.result.sweeps.max()) for part in self.parts), default=0)
        return self.joined([part.trace(sweeps).transpose(0, 1) for part in self.parts]).transpose(0, 1)

    def joined(self, pieces: list[Tensor]) -> Tensor:
        """The parts' rows in the order of the examples."""
        if len(pieces) == 1:
            return pieces[0]
        whole = pieces[0].new_empty(sum(len(piece) for piece in pieces), *pieces[0].shape[1:])
        for part, piece in zip(self.parts, pieces, strict=True):
            whole[part.index] = piece
        return whole

    def pull_back(self, given: Scaled, adjoint: RunOutputs) -> Adjoints:
        """Adjoints of what was given, from those of the results."""
        self.report.clear()
        if isinstance(self.asked.gradient, (FixedPoint, OneStep)) and self.layout.edges:
            residual = np.concatenate([part.result.residual for part in self.parts])
            check_converged(self.converged(torch.from_numpy(residual)), self.asked.gradient)
        rows = [_rows(adjoint, part, len(self.parts)) for part in self.parts]
        found = [part.pull_back(mine, self.report) for part, mine in zip(self.parts, rows, strict=True)]
        return self._added(given, found)

    def push_and_pull(self, given: Scaled, adjoint: RunOutputs, direction: Direction) -> tuple[RunOutputs, Adjoints]:
        """Tangents of results and of adjoints, when what was given moves along ``direction``."""
        if not isinstance(self.asked.gradient, Unroll):
            raise GradientError(once_only(self.asked.gradient or Unroll()))
        moved, dotted = [], []
        for part in self.parts:
            mine = direction.select(part.index) if len(self.parts) > 1 else direction
            results, adjoints = part.push_and_pull(_rows(adjoint, part, len(self.parts)), mine)
            moved.append(results)
            dotted.append(adjoints)
        traces = [each.trace.transpose(0, 1) for each in moved if each.trace is not None]
        results = RunOutputs(
            self.joined([each.states for each in moved]),
            self.joined([each.n for each in moved]),
            self.joined([each.m for each in moved]),
            self.joined(traces).transpose(0, 1) if traces else None,
        )
        return results, self._added(given, dotted)

    def _added(self, given: Scaled, found: list[Adjoints]) -> Adjoints:
        """The parts' adjoints put together: added where examples share a thing, else in their places."""

        def together(whole: Tensor, shared: bool, pieces: list[Tensor]) -> Tensor:
            if len(pieces) == 1:
                return pieces[0].reshape(whole.shape)
            if shared:
                return torch.stack([piece.reshape(whole.shape) for piece in pieces]).sum(0)
            return self.joined([piece.reshape(-1, *whole.shape[1:]) for piece in pieces])

        return Adjoints(
            [
                together(table, table.ndim == 2, [each.tables[number] for each in found])
                for number, table in enumerate(given.tables)
            ],
            together(given.unary, given.unary.ndim == 1, [each.unary for each in found]),
            self.joined([each.initial for each in found]),
            torch.stack([each.exponents for each in found]).sum(0),
            torch.stack([each.damping for each in found]).sum(0),
        )


def _rows(results: RunOutputs, part: SubBatch, parts: int) -> RunOutputs:
    if parts == 1:
        return results
    trace = None if results.trace is None else results.trace[:, part.index]
    return RunOutputs(results.states[part.index], results.n[part.index], results.m[part.index], trace)


class _Shapes(NamedTuple):
    """What the flat argument list of the functions below stands for."""

    session: Session
    examples: int
    extents: tuple[Extent, ...] | None
    plain: bool

    def given(self, exponents: Tensor, initial: Tensor, unary: Tensor, *tables: Tensor) -> Scaled:
        return Scaled(
            [table.detach() for table in tables],
            unary.detach(),
            initial.detach() if initial.numel() else None,
            exponents.detach(),
            self.examples,
            self.extents,
            self.plain,
        )

    def results(self, like: Tensor, adjoints: tuple[Tensor | None, ...]) -> RunOutputs:
        """Adjoints of all results; those nobody gave are zero."""
        layout = self.session.layout
        widths = (layout.states, layout.slots, layout.slots)
        full = [
            like.new_zeros(()).expand(self.examples, width) if adjoint is None else adjoint.to(like.dtype)
            for adjoint, width in zip(adjoints, widths, strict=False)
        ]
        for adjoint in adjoints:
            check_finite(adjoint)
        return RunOutputs(full[0], full[1], full[2], adjoints[3] if len(adjoints) > 3 else None)


class _Solve(torch.autograd.Function):
    """Arguments: shapes, exponents, damping, initial, unary, *tables. Results: states, n, m, trace."""

    @staticmethod
    def forward(ctx: Any, shapes: _Shapes, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.shapes, session = shapes, shapes.session
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        exponents, _, initial, unary, *tables = tensors
        session.run(ctx.shapes.given(exponents, initial, unary, *tables))
        found = session.results()
        return (*found[:3], found.trace) if found.trace is not None else found[:3]

    @staticmethod
    def backward(ctx: Any, *adjoints: Tensor | None) -> tuple[Tensor | None, ...]:
        results = ctx.shapes.results(ctx.saved_tensors[3], adjoints)
        given = [each for each in results if each is not None]
        return (None, *_SolvePullBack.apply(ctx.shapes, len(given), *given, *ctx.saved_tensors))  # type: ignore[no-untyped-call]


def _hvp(shapes: _Shapes, results: RunOutputs, arguments: tuple[Tensor, ...], direction: Direction) -> Any:
    """Tangents of results and adjoints along ``direction``."""
    exponents, _, initial, unary, *tables = arguments
    return shapes.session.push_and_pull(shapes.given(exponents, initial, unary, *tables), results, direction)


class _SolvePullBack(torch.autograd.Function):
    """Arguments: shapes, number of adjoints, *adjoints, *arguments of _Solve. Results: adjoints of those."""

    @staticmethod
    def forward(ctx: Any, shapes: _Shapes, count: int, *tensors: Tensor) -> tuple[Tensor | None, ...]:
        adjoints, arguments = tensors[:count], tensors[count:]
        ctx.shapes, ctx.count = shapes, count
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        exponents, damping, initial, unary, *tables = arguments
        results = RunOutputs(*adjoints)
        found = shapes.session.pull_back(shapes.given(exponents, initial, unary, *tables), results)
        start = found.initial if initial.numel() else torch.zeros_like(initial)
        return (found.exponents.to(exponents), found.damping.to(damping), start, found.unary, *found.tables)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Tensor | None, ...]:
        """Of v . J^T s: the tangent J v for the adjoints s, and by symmetry of the second derivative its own push along
        v for the rest."""
        count, tensors = ctx.count, ctx.saved_tensors
        shapes, needs = ctx.shapes, ctx.needs_input_grad[2:]
        trained = any(needs[count : count + 2]) or any(each is not None for each in cotangents[:2])
        if trained:
            raise GradientError(
                "the compiled engine has no second derivatives with respect to damping or counting numbers; use "
                "engine=Reference()"
            )
        arguments = tensors[count:]
        initial, unary, *tables = arguments[2:]
        along = [
            torch.zeros_like(value) if move is None else move.detach().to(value)
            for move, value in zip(cotangents[2:], (initial, unary, *tables), strict=True)
        ]
        direction = Direction(along[2:], along[1], along[0] if initial.numel() else None)
        adjoints = RunOutputs(*(tensor.detach() for tensor in tensors[:count]))
        moved, dotted = _hvp(shapes, adjoints, arguments, direction)
        results = [each for each in (*moved[:3], moved.trace)[:count] if each is not None]
        again = [*results, dotted.unary, *dotted.tables, *([dotted.initial] if initial.numel() else [])]
        message = "the compiled engine differentiates twice; use engine=Reference() for third derivatives"
        again = list(taken_once(message, again, [*tensors, *cotangents]))
        start = again.pop() if initial.numel() else None
        return (None, None, *again[: len(results)], None, None, start, *again[len(results) :])
