"""The backward of mean field: undoing the run that happened, or solving at its fixed point.

In: a finished run and the log-potentials it used. Out: its beliefs as a differentiable tensor. Stage: inference. The
adjoint is a compiled kernel (``mean_field_adjoint``); its own derivative, for Hessian-vector
products, is torch's through :func:`loopwise.inference.mean_field.reference.replay`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.compiled.threads import in_threads
from loopwise.gradient.base import Gradient, Report, check_finite
from loopwise.gradient.fixed_point import FixedPoint, OneStep, check_converged, report_adjoint
from loopwise.gradient.unroll import Checkpoints, Fitting, Tape, Unroll
from loopwise.graph.factor_graph import FactorGraph, Integers
from loopwise.inference.base import Problem
from loopwise.inference.gibbs.method import chunk_count, factor_arrays
from loopwise.inference.mean_field.reference import replay
from loopwise.notices import GradientError

if TYPE_CHECKING:
    from loopwise.inference.gibbs.kernels.gibbs import FactorArrays
    from loopwise.inference.mean_field.kernels.mean_field_adjoint import AdjointArrays

_BYTES = 8  # of a number: mean field always computes in float64

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MeanFieldRun:
    """What a backward must know of a run besides the log-potentials. Numbers of examples, flat batch."""

    graph: FactorGraph
    batch: torch.Size
    like: Tensor
    temperature: float
    threads: int | None
    gradient: Gradient
    starts: Numbers  # [examples, states]: where the run that won began
    sweeps: Integers  # [examples]
    converged: bool

    def problem(self, unary: Tensor, tables: Sequence[Tensor]) -> Problem:
        """The problem of given log-potentials: folded unary ones and a table a message group."""
        names = [member.group.name for member in self.graph.layout.message_groups]
        return Problem(self.graph, dict(zip(names, tables, strict=True)), self.batch, self.like, folded=unary)


def differentiable_beliefs(run: MeanFieldRun, beliefs: Numbers, problem: Problem, report: Report) -> Tensor:
    """``beliefs`` ``[examples, states]`` of ``run`` as float64 ``[*batch, states]`` that depend on ``problem``."""
    tables = [problem.tables[member.group.name] for member in run.graph.layout.message_groups]
    states: Tensor = _Beliefs.apply(run, report, beliefs, problem.unary(), *tables)  # type: ignore[no-untyped-call]
    return states


class _Beliefs(torch.autograd.Function):
    """Potentials to beliefs: the run was made before, this ties it to what it depends on."""

    @staticmethod
    def forward(
        ctx: Any, run: MeanFieldRun, report: Report, beliefs: Numbers, unary: Tensor, *tables: Tensor
    ) -> Tensor:
        states = torch.from_numpy(beliefs).to(unary.device).reshape(*run.batch, beliefs.shape[-1])
        ctx.run, ctx.report = run, report
        ctx.save_for_backward(states, unary, *tables)
        return states

    @staticmethod
    def backward(ctx: Any, *adjoints: Tensor) -> tuple[Tensor | None, ...]:
        states, unary, *tables = ctx.saved_tensors
        found = _Adjoint.apply(ctx.run, ctx.report, adjoints[0], states.detach(), unary, *tables)  # type: ignore[no-untyped-call]
        return (None, None, None, *found)


class _Adjoint(torch.autograd.Function):
    """Adjoints of beliefs to adjoints of potentials."""

    @staticmethod
    def forward(
        ctx: Any, run: MeanFieldRun, report: Report, adjoint: Tensor, states: Tensor, unary: Tensor, *tables: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.run = run
        ctx.save_for_backward(adjoint, unary, *tables)
        return pull_back(run, report, adjoint, states, unary, tables)

    @staticmethod
    def backward(ctx: Any, *vectors: Tensor) -> tuple[Tensor | None, ...]:
        if not isinstance(ctx.run.gradient, Unroll):
            raise GradientError(
                f"{type(ctx.run.gradient).__name__} gradients of mean field cannot be differentiated again; "
                "use gradient=Unroll()"
            )
        further = torch.is_grad_enabled()
        with torch.enable_grad():
            # New tensors, so that a table computed from another is not differentiated through the other.
            own = [saved.view_as(saved) if saved.requires_grad else saved.detach() for saved in ctx.saved_tensors]
            own = [tensor if tensor.requires_grad else tensor.requires_grad_() for tensor in own]
            adjoint, unary, *tables = own
            states = _replayed(ctx.run, unary, tables)
            first = torch.autograd.grad(
                states, own[1:], adjoint, create_graph=True, allow_unused=True, materialize_grads=True
            )
            wanted = [(grad, vector) for grad, vector in zip(first, vectors, strict=True) if grad.requires_grad]
            second = torch.autograd.grad(
                [grad for grad, _ in wanted],
                own,
                [vector for _, vector in wanted],
                create_graph=further,
                allow_unused=True,
            )
        return (None, None, second[0], None, *second[1:])


def _replayed(run: MeanFieldRun, unary: Tensor, tables: Sequence[Tensor]) -> Tensor:
    """The run once more, in torch."""
    problem = run.problem(unary.to(torch.float64), [table.to(torch.float64) for table in tables])
    start = torch.from_numpy(run.starts).to(unary.device).reshape(*run.batch, run.starts.shape[-1])
    sweeps = torch.from_numpy(run.sweeps).to(unary.device).reshape(run.batch)
    return replay(problem, start, sweeps, run.temperature)


def pull_back(
    run: MeanFieldRun, report: Report, adjoint: Tensor, states: Tensor, unary: Tensor, tables: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Adjoints of ``unary`` and ``tables``, in their shapes and dtypes, for those of beliefs ``[*batch, states]``."""
    check_finite(adjoint)
    if not isinstance(run.gradient, Unroll):
        check_converged(run.converged, run.gradient)
    examples = run.batch.numel()
    arrays = factor_arrays(run.problem(unary, tables), run.temperature)
    chunks = chunk_count(run.threads, examples)
    adjoints, places = _adjoint_arrays(run, arrays, unary, tables, chunks)
    flat = _flat(adjoint, examples, run.graph.layout.states)
    beliefs = _flat(states, examples, run.graph.layout.states)
    back = _WayBack(run, report, arrays, adjoints, chunks, beliefs, flat)
    back.undo() if isinstance(run.gradient, Unroll) else back.solve()
    pieces = [adjoints.tables[first:end] for first, end in itertools.pairwise(places)]
    found = [_fitted(adjoints.unary, unary, run, 1)]
    for member, piece, table in zip(run.graph.layout.message_groups, pieces, tables, strict=True):
        found.append(_fitted(piece, table, run, 1 + member.group.arity))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class _WayBack:
    """A run with its beliefs and their adjoints ``[examples, states]``, and room for those of the log-potentials."""

    run: MeanFieldRun
    report: Report
    arrays: FactorArrays
    adjoints: AdjointArrays
    chunks: int
    beliefs: Numbers
    belief_adjoints: Numbers

    def undo(self) -> None:
        """Sweep by sweep, the run that happened."""
        from loopwise.inference.mean_field.kernels.mean_field_adjoint import undo_mean_field

        run, most = self.run, int(self.run.sweeps.max(initial=0))
        assert isinstance(run.gradient, Unroll)
        every = _stride(run.gradient.tape, most, self.chunks * most * self.beliefs.shape[1] * _BYTES)
        self._in_threads(undo_mean_field, every, run.starts, self.beliefs, run.sweeps, self.belief_adjoints)
        self.report.iterations, self.report.residual = most, 0.0

    def solve(self) -> None:
        """Sweeps of the adjoint at the fixed point."""
        from loopwise.inference.mean_field.kernels.mean_field_adjoint import solve_mean_field

        run, report = self.run, self.report
        options = FixedPoint(iterations=1) if isinstance(run.gradient, OneStep) else run.gradient
        assert isinstance(options, FixedPoint)
        sweeps, residuals = np.zeros(len(self.beliefs), dtype=np.int64), np.zeros(len(self.beliefs))
        limits = (int(options.iterations), float(options.tolerance))
        self._in_threads(solve_mean_field, limits, self.beliefs, self.belief_adjoints, sweeps, residuals)
        most, residual = int(sweeps.max(initial=0)), float(residuals.max(initial=0.0))
        if isinstance(run.gradient, OneStep):
            report.iterations, report.residual = most, residual
            return
        if options.anderson:
            report.notes[:] = ["sequential adjoint sweeps, without Anderson acceleration"]
        report_adjoint(report, [(most, residual)], options, np.dtype(np.float64))

    def _in_threads(self, kernel: Callable[..., None], *known: Any) -> None:
        in_threads(self.chunks, lambda chunk: kernel(self.arrays, self.adjoints, chunk, self.chunks, *known))


def _stride(tape: Tape, sweeps: int, needed: float) -> int:
    """How many sweeps apart beliefs are kept on the way back: 1, or k of :class:`Checkpoints`."""
    if isinstance(tape, Checkpoints):
        return tape.every or max(1, math.isqrt(sweeps))
    return max(1, math.isqrt(sweeps)) if isinstance(tape, Fitting) and needed > tape.limit else 1


def _adjoint_arrays(
    run: MeanFieldRun, arrays: FactorArrays, unary: Tensor, tables: Sequence[Tensor], chunks: int
) -> tuple[AdjointArrays, list[int]]:
    """Room for all adjoints, and where in ``tables`` that of each group begins and ends."""
    from loopwise.inference.mean_field.kernels.mean_field_adjoint import AdjointArrays

    starts, chunk_steps, places, cells = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [0], 0
    for member, table in zip(run.graph.layout.message_groups, tables, strict=True):
        group = member.group
        rows = table.shape[table.ndim - 1 - group.arity]
        shared = table.numel() == rows * group.cells  # over examples
        starts.append(cells + np.arange(group.count) * (group.cells if rows == group.count else 0))
        chunk_steps.append(np.full(group.count, rows * group.cells if shared else 0))
        cells += (chunks if shared else run.batch.numel()) * rows * group.cells
        places.append(cells)
    states = run.graph.layout.states
    adjoints = AdjointArrays(
        unary=np.zeros((chunks if unary.numel() == states else run.batch.numel(), states)),
        tables=np.zeros(cells),
        table_start=np.concatenate(starts),
        example_step=arrays.table_step,
        chunk_step=np.concatenate(chunk_steps),
    )
    return adjoints, places


def _flat(tensor: Tensor, examples: int, states: int) -> Numbers:
    array: Numbers = tensor.detach().to("cpu", torch.float64).reshape(examples, states).contiguous().numpy()
    return array


def _fitted(adjoint: Numbers, tensor: Tensor, run: MeanFieldRun, rank: int) -> Tensor:
    """Adjoints added up in the shape of ``tensor``, whose own axes are the last ``rank``."""
    tail = tensor.shape[tensor.ndim - rank :]
    found = torch.from_numpy(adjoint) / run.temperature
    if tensor.numel() == tail.numel():  # shared by all examples: one copy a chunk
        found = found.reshape(-1, *tail).sum(0) if tail.numel() else found
        return found.reshape(tensor.shape).to(tensor)
    return found.reshape(*run.batch, *tail).sum_to_size(tensor.shape).to(tensor)
