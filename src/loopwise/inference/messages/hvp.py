"""One kernel run and its undoing, both with tangents: forward over reverse.

In: a :class:`Backward`, adjoints of the results, a direction in which what was given moves. Out: tangents of the
results and of the adjoints: a Hessian-vector product. Stage: inference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from torch import Tensor

from loopwise.compiled.threads import in_threads
from loopwise.inference.messages.backward import AdjointBuffers, Adjoints, Backward, RunOutputs
from loopwise.inference.messages.kernel_run import Workspace
from loopwise.inference.messages.kernels.plan import Adjoint, Share, Tangent, TapeSegment


@dataclass(frozen=True)
class Direction:
    """Potentials and initial messages of some examples, or a move of these."""

    tables: list[Tensor]  # [factors, cells] if all examples share it, else [examples, factors, cells]
    unary: Tensor  # [states] or [examples, states]
    initial: Tensor | None  # [examples, slots]

    def select(self, index: Tensor) -> Self:
        """The same for some of the examples."""
        return replace(
            self,
            tables=[table if table.ndim == 2 else table[index] for table in self.tables],
            unary=self.unary if self.unary.ndim == 1 else self.unary[index],
            initial=None if self.initial is None else self.initial[index],
        )


def push_and_pull(backward: Backward, adjoint: RunOutputs, direction: Direction) -> tuple[RunOutputs, Adjoints]:
    """Tangents of the results, and of the adjoints that ``backward.pull_back(adjoint)`` gives."""
    product = _HVP(backward, adjoint, direction)
    blocks, parts = backward.run.blocks, product.dotted.parts

    def work(part: int) -> None:
        workspace = Workspace()
        for block in range(blocks * part // parts, blocks * (part + 1) // parts):
            product.block(part, block, workspace)

    in_threads(parts, work)
    return product.results(), product.dotted.adjoints()


class _HVP:
    def __init__(self, backward: Backward, adjoint: RunOutputs, direction: Direction) -> None:
        run, dtype = backward.run, backward.dtype
        storage = run.storage
        self.backward, self.run, self.dtype = backward, run, dtype
        self.seeds = backward.seeds(adjoint)
        self.plain = AdjointBuffers(run, dtype, parameters=False)
        self.dotted = AdjointBuffers(run, dtype, parameters=False)
        self.theta = storage.pack_tables(direction.tables, run.examples, 0.0)[0].astype(dtype, copy=False)
        self.unary = storage.pack_unary(direction.unary, 0.0)
        size = run.blocks * run.block_size
        self.start = np.zeros(size, dtype=dtype)
        if direction.initial is not None:
            self.start = storage.pack_messages(direction.initial, 0.0)
        self.last_unary = np.zeros_like(self.seeds.unary)
        self.last_m, self.last_n = np.zeros(size, dtype=dtype), np.zeros(size, dtype=dtype)
        self.trace = np.zeros_like(self.seeds.trace)
        self.linearised, self.static = backward.linearised(self.seeds), run.static()

    def block(self, part: int, block: int, workspace: Workspace) -> None:
        """One block, segment by segment: forth to find where each segment starts, then back."""
        size, bounds = self.run.block_size, self.backward.bounds(block)
        m = self.start[block * size : (block + 1) * size].copy()
        starts = {0: m.copy()}
        for low, high in bounds[:-1]:
            segment = self.backward.segment(block, low, high, workspace)
            self._push(self._tangent(m, segment, workspace), block, segment)
            starts[high] = m.copy()
        plain, dotted = self.plain.adjoint(part), self.dotted.adjoint(part)
        for low, high in reversed(bounds):
            segment = self.backward.segment(block, low, high, workspace)
            tangent = self._tangent(starts[low], segment, workspace)
            self._push(tangent, block, segment)
            self._pull(tangent, plain, dotted, block, segment)
        self.dotted.finish(dotted, block)

    def results(self) -> RunOutputs:
        storage, examples = self.run.storage, self.run.examples
        trace = None
        if self.trace.size:
            states = storage.layout.states
            by_example = storage.unpack_examples(self.trace, examples)
            trace = by_example.reshape(examples, -1, states).transpose(0, 1)
        return RunOutputs(
            storage.unpack_examples(self.last_unary, examples),
            storage.unpack_messages(self.last_n, examples),
            storage.unpack_messages(self.last_m, examples),
            trace,
        )

    def _tangent(self, m: np.ndarray, segment: TapeSegment, workspace: Workspace) -> Tangent:
        size = self.run.block_size
        return Tangent(
            m,
            workspace.array("n moves", (segment.high - segment.low + 1) * size, self.dtype),
            workspace.array("now", size, self.dtype),
            self.theta,
            self.unary,
            self.last_unary,
            self.last_m,
            self.last_n,
            self.trace,
        )

    def _push(self, tangent: Tangent, block: int, segment: TapeSegment) -> None:
        from loopwise.inference.messages.kernels.tangents import push_steps

        schedule, shares = self.run.schedule(self.backward.options), self._shares(block)
        in_threads(
            self.dotted.kernel_parts,
            lambda part: push_steps(self.linearised, schedule, segment, tangent, shares[part], self.static),
        )

    def _pull(self, tangent: Tangent, plain: Adjoint, dotted: Adjoint, block: int, segment: TapeSegment) -> None:
        from loopwise.inference.messages.kernels.factor_tangents import Both
        from loopwise.inference.messages.kernels.tangents import hvp_steps

        schedule, both = self.run.schedule(self.backward.options), Both(plain, dotted)
        shares = self._shares(block)
        in_threads(
            self.dotted.kernel_parts,
            lambda part: hvp_steps(self.linearised, schedule, segment, tangent, both, shares[part], self.static),
        )

    def _shares(self, block: int) -> list[Share]:
        """The shares of all threads in the work on a block."""
        parts, barrier = self.dotted.kernel_parts, np.zeros(2, dtype=np.int64)
        return [Share(np.uint64(block), np.uint64(part), np.uint64(parts), barrier) for part in range(parts)]
