"""Undoing one kernel run: where the tape comes from, which thread undoes what, and the adjoints unpacked.

In: a :class:`KernelRun`, the :class:`RunResult` it made, adjoints of its results. Out: :class:`Adjoints` of what it was
given. Stage: inference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from loopwise.compiled.threads import in_threads
from loopwise.gradient.unroll import Checkpoints, Fitting, Recompute, Store, Tape
from loopwise.inference.messages.kernel_run import KernelRun, Options, RunResult, TapeSpec, Workspace
from loopwise.inference.messages.kernels import plan as columns
from loopwise.inference.messages.kernels.plan import Adjoint, Linearised, Messages, Seeds, Share, TapeSegment
from loopwise.inference.messages.schedules import Residual
from loopwise.inference.messages.storage import Arrangement


class RunOutputs(NamedTuple):
    """One number for every result of a run: log beliefs and log messages, or adjoints of these."""

    states: Tensor  # [examples, states]
    n: Tensor  # [examples, slots]
    m: Tensor
    trace: Tensor | None = None  # [sweeps + 1, examples, states]


@dataclass
class Adjoints:
    """Of everything a run was given, in the shapes it was given in."""

    tables: list[Tensor]  # [factors, cells] where examples share them, else [examples, factors, cells]
    unary: Tensor  # [states] or [examples, states]
    initial: Tensor  # [examples, slots]
    exponents: Tensor  # [edges]
    damping: Tensor  # []


def tape_for(tape: Tape, run: KernelRun, options: Options, parameters: bool, trace: bool) -> tuple[Tape, TapeSpec]:
    """The tape that will be used, and what the forward run has to keep for it. ``parameters``: damping or counting
    numbers want a gradient, which takes messages to variables as well; so does a trace."""
    sweep = options.steps * run.block_size * np.dtype(run.potentials.theta.dtype).itemsize
    if isinstance(options.schedule, Residual):
        return Store(), TapeSpec(steps=True)
    if isinstance(tape, Fitting):
        whole = sweep * options.iterations
        if whole * run.blocks <= tape.limit:
            tape = Store()
        elif whole * run.threads <= tape.limit or (run.blocks > run.threads and whole <= tape.limit):
            tape = Recompute()
        else:
            tape = Checkpoints()
    if isinstance(tape, Checkpoints):
        every = tape.every or max(1, math.isqrt(options.iterations))
        return Checkpoints(every), TapeSpec(every=1 if trace else every * options.steps)
    if isinstance(tape, Store):
        return tape, TapeSpec(steps=True, every=1 if parameters or trace else 0)
    if isinstance(tape, Recompute):
        return tape, TapeSpec(every=1 if trace else 0)
    raise ValueError(
        f"the compiled engine does not know the tape {tape!r}; use Store(), Recompute(), Checkpoints() or Fitting()"
    )


class Backward:
    """The way back of one run."""

    def __init__(
        self, run: KernelRun, options: Options, result: RunResult, start: np.ndarray, tape: Tape, parameters: bool
    ) -> None:
        self.run, self.options, self.result = run, options, result
        self.start, self.tape, self.parameters = start, tape, parameters
        self.dtype = start.dtype

    def pull_back(self, adjoint: RunOutputs) -> Adjoints:
        """Adjoints of potentials, initial messages and inference parameters from those of the results."""
        buffers, seeds = self.buffers(self.parameters), self.seeds(adjoint)
        blocks, parts = self.run.blocks, buffers.parts

        def undo(part: int) -> None:
            workspace = Workspace()
            for block in range(blocks * part // parts, blocks * (part + 1) // parts):
                here = buffers.adjoint(part)
                if isinstance(self.options.schedule, Residual):
                    self._undo_updates(buffers, seeds, here, block)
                else:
                    for low, high in reversed(self.bounds(block)):
                        self.undo(buffers, seeds, here, block, self.segment(block, low, high, workspace))
                buffers.finish(here, block)

        in_threads(parts, undo)
        return buffers.adjoints()

    def buffers(self, parameters: bool) -> AdjointBuffers:
        """What the adjoints of this run are added up in."""
        return AdjointBuffers(self.run, self.dtype, parameters)

    def seeds(self, adjoint: RunOutputs) -> Seeds:
        """What the loss says, packed."""
        storage = self.run.storage
        trace = np.zeros(0, dtype=self.dtype)
        if adjoint.trace is not None:
            sweeps, examples, states = adjoint.trace.shape
            by_example = adjoint.trace.transpose(0, 1).reshape(examples, sweeps * states)
            trace = storage.pack_examples(by_example.contiguous(), 0.0)
        return Seeds(
            storage.pack_examples(adjoint.states.contiguous(), 0.0),
            storage.pack_messages(adjoint.m, 0.0),
            storage.pack_messages(adjoint.n, 0.0),
            trace,
            self.result.sweeps,
        )

    def _sweeps(self, block: int) -> int:
        """How many sweeps the longest run of a block made."""
        lanes = self.run.storage.in_block
        return int(self.result.sweeps[block * lanes : (block + 1) * lanes].max(initial=0))

    def bounds(self, block: int) -> list[tuple[int, int]]:
        """The sweeps (low, high) of each segment of a block's run that has its tape at once, first to last."""
        sweeps = self._sweeps(block)
        length = self.tape.every if isinstance(self.tape, Checkpoints) else None
        if length is None or sweeps <= length:
            return [(0, sweeps)]
        return [(low, min(low + length, sweeps)) for low in range(0, sweeps, length)]

    def segment(self, block: int, low: int, high: int, workspace: Workspace) -> TapeSegment:
        """The tape of some sweeps of a block: kept, or made again."""
        result, size, steps = self.result, self.run.block_size, self.options.steps
        tape = result.tape
        if isinstance(self.tape, Store):
            n_base, m_base = block * int(tape.n_block), block * int(tape.m_block)
            return TapeSegment(high * steps, 0, result.messages.n, np.uint64(n_base), tape, np.uint64(m_base))
        if low == 0:
            m = self.start[block * size : (block + 1) * size].copy()
        else:
            kept = block * int(tape.m_block) + low * steps // int(tape.every) * size
            m = tape.m[kept : kept + size].copy()
        options = self.options._replace(iterations=high - low, tolerance=0.0)
        again = self.run.again(options, m, TapeSpec(True, 1 if self.parameters else 0), block, workspace)
        none = np.uint64(0)
        return TapeSegment(high * steps, low * steps, again.messages.n, none, again.tape, none)

    def undo(self, buffers: AdjointBuffers, seeds: Seeds, adjoint: Adjoint, block: int, segment: TapeSegment) -> None:
        """Undoes one segment, adding to ``adjoint``, which is one of ``buffers``."""
        from loopwise.inference.messages.kernels.reverse import undo_steps

        run, parts = self.run, buffers.kernel_parts
        dampings, barrier = np.zeros((parts, 1), dtype=self.dtype), np.zeros(2, dtype=np.int64)
        schedule, linearised, static = run.schedule(self.options), self.linearised(seeds), run.static()
        in_threads(
            parts,
            lambda part: undo_steps(
                linearised,
                schedule,
                segment,
                adjoint._replace(damping=dampings[part]),
                Share(np.uint64(block), np.uint64(part), np.uint64(parts), barrier),
                static,
            ),
        )
        adjoint.damping[0] += dampings.sum()

    def _undo_updates(self, buffers: AdjointBuffers, seeds: Seeds, adjoint: Adjoint, example: int) -> None:
        from loopwise.inference.messages.kernels.residual import Updates
        from loopwise.inference.messages.kernels.residual_adjoint import undo_updates

        run, result, size = self.run, self.result, self.run.block_size
        block = slice(example * size, (example + 1) * size)
        adjoint.now[:] = result.n[block]
        beliefs = np.zeros(run.storage.layout.states, dtype=self.dtype)
        undo_updates(
            run.run(self.options, result)._replace(messages=Messages(result.m[block].copy(), adjoint.now, beliefs)),
            self.linearised(seeds),
            run.edges_by_variable,
            Updates(result.made, result.residual, result.lowest, result.updates, result.replaced),
            example,
            adjoint,
            self.parameters,
            run.static(),
        )

    def linearised(self, seeds: Seeds) -> Linearised:
        """The run as kernels undo it."""
        run = self.run
        return Linearised(run.plan, run.potentials.theta, run.examples, self.options.damping, seeds)


class AdjointBuffers:
    """The arrays that adjoints are added up in: where examples share something, each thread has its own sum."""

    def __init__(self, run: KernelRun, dtype: np.dtype, parameters: bool) -> None:
        storage = run.storage
        self.run, self.storage, self.dtype, self.parameters = run, storage, dtype, parameters
        work = run.examples * storage.layout.edges
        alone = storage.arrangement is Arrangement.FACTORS
        # Threads share the blocks; a block whose factors stand in the lanes is undone by all of them together.
        self.parts = 1 if alone else min(run.parts(work), max(run.blocks, 1))
        self.kernel_parts = run.parts(storage.layout.edges) if alone else 1
        lanes = storage.lanes
        self.places: list[tuple[int, int, bool]] = []  # start, size of a block or thread, whether examples share it
        start = 0
        for row in run.plan.groups:
            size = int(row[columns.MEMBERS]) * int(row[columns.CELLS]) * lanes
            shared = int(row[columns.TABLE_BLOCK]) == 0
            self.places.append((start, size, shared))
            start += size * (self.parts if shared else run.blocks)
        self.theta = np.zeros(start, dtype=dtype)
        self.unary_size = storage.layout.states * storage.in_block
        self.unary_shared = run.plan.unary_block == 0
        self.unary = np.zeros((self.parts if self.unary_shared else run.blocks) * self.unary_size, dtype=dtype)
        self.initial = np.zeros(run.blocks * run.block_size, dtype=dtype)
        self.exponents = np.zeros((self.parts, storage.layout.edges if parameters else 0), dtype=dtype)
        self.damping = np.zeros((self.parts, 1), dtype=dtype)
        self.messages = [[np.zeros(run.block_size, dtype=dtype) for _ in range(3)] for _ in range(self.parts)]

    def adjoint(self, part: int) -> Adjoint:
        """The kernels' view for one thread, with empty message adjoints."""
        m, n, now = self.messages[part]
        m[:], n[:] = 0, 0
        starts = np.array(
            [(start + part * size, 0) if shared else (start, size) for start, size, shared in self.places],
            dtype=np.uint64,
        ).reshape(-1, 2)
        first = part * self.unary_size if self.unary_shared else 0
        return Adjoint(
            m,
            n,
            now,
            self.theta,
            starts,
            self.unary[first:],
            np.uint64(0 if self.unary_shared else self.unary_size),
            self.damping[part],
            self.exponents[part],
        )

    def finish(self, adjoint: Adjoint, block: int) -> None:
        size = self.run.block_size
        self.initial[block * size : (block + 1) * size] = adjoint.m

    def adjoints(self) -> Adjoints:
        examples, layout, storage = self.run.examples, self.storage.layout, self.storage
        tables = []
        for (start, size, shared), member in zip(self.places, layout.message_groups, strict=True):
            group = member.group
            values = self.theta[start : start + size * (self.parts if shared else self.run.blocks)]
            if shared and storage.arrangement is Arrangement.FACTORS:
                tables.append(storage.unpack_factors(values, 1, group.count, group.cells)[0])
            elif shared:
                summed = values.reshape(self.parts, -1, storage.lanes).sum((0, 2))
                tables.append(torch.from_numpy(summed).reshape(group.count, group.cells))
            else:
                tables.append(storage.unpack_factors(values, examples, group.count, group.cells))
        if self.unary_shared:
            unary = torch.from_numpy(self.unary.reshape(self.parts, layout.states, -1).sum((0, 2)))
        else:
            unary = storage.unpack_examples(self.unary, examples)
        exponents = np.zeros(layout.edges, dtype=self.dtype)
        if self.parameters:
            exponents[layout.variable_edges] = self.exponents.sum(0)
        return Adjoints(
            tables,
            unary,
            storage.unpack_messages(self.initial, examples),
            torch.from_numpy(exponents),
            torch.from_numpy(self.damping.sum(0)).reshape(()),
        )
