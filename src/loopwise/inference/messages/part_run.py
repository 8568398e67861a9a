"""One kernel call for a union whose parts stop one by one, and its undoing.

In: packed potentials and initial messages of a union. Out: a :class:`RunResult` with the sweeps, residual and smallest
normaliser of each part, ``[examples * parts]``; and adjoints. Stage: inference. All examples together are one block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import cast

import numpy as np
import torch
from torch import Tensor

from loopwise.compiled.threads import in_threads
from loopwise.graph.factor_graph import Integers
from loopwise.graph.layout import Layout
from loopwise.graph.offsets import starts_of
from loopwise.graph.parts import Parts
from loopwise.inference.messages.backward import AdjointBuffers, Adjoints, Backward, RunOutputs
from loopwise.inference.messages.kernel_run import KernelRun, Options, RunResult, TapeSpec, Workspace
from loopwise.inference.messages.kernels import plan as columns
from loopwise.inference.messages.kernels.convergence import LEAST_REACH
from loopwise.inference.messages.kernels.plan import (
    Adjoint,
    Cuts,
    Ends,
    Flood,
    Messages,
    Order,
    PairFlood,
    PartRules,
    Plan,
    Seeds,
    Span,
    TapeSegment,
)
from loopwise.inference.messages.storage import Arrangement, Storage


@dataclass(frozen=True)
class PartStorage(Storage):
    """Storage of a union, part by part: rows of ``groups`` are those of the first part, then those of the second;
    ``edge_base`` counts from the first message of a part, ``slots`` are those of all parts."""

    cuts: Cuts = None  # type: ignore[assignment]
    slot_place: Integers = None  # type: ignore[assignment]  # [slots] where each slot of the layout stands

    @staticmethod
    def of_union(layout: Layout) -> PartStorage:
        """Built once a layout, and kept on it."""
        if PartStorage not in layout.storages:
            layout.storages[PartStorage] = _built(layout)
        return cast("PartStorage", layout.storages[PartStorage])

    @cached_property
    def order(self) -> Order:
        """The sequential schedule, part after part each forth and back."""
        layout, parts = self.layout, Parts.of(self.layout.graph)
        whole = layout.sequential
        number = np.arange(layout.graph.variables) - self.cuts.variable[parts.variable_part]  # within its part
        way = whole.variables[np.argsort(parts.variable_part[whole.variables], kind="stable")]
        ways = [number[some] for some in np.split(way, self.cuts.variable[1:-1])]
        pull = np.zeros((3, layout.edges), dtype=np.bool_)
        pull[0] = whole.pull_forward[layout.variable_edges]
        pull[1] = whole.pull_backward[layout.variable_edges]
        return Order(np.concatenate([some for way in ways for some in (way, way[::-1])]), pull)

    def plan(self, groups: np.ndarray, exponents: np.ndarray, unary_block: int, plain: bool = False) -> Plan:
        whole = super().plan(groups, exponents, unary_block, plain)
        return whole._replace(state_start=self._own_starts[0], edge_start=self._own_starts[1])

    @cached_property
    def _own_starts(self) -> tuple[Integers, Integers]:
        """``state_start`` and ``edge_start``, those of each part with their end."""
        variable, layout = self.cuts.variable, self.layout
        count = len(variable) - 1
        part = np.repeat(np.arange(count), np.diff(variable) + 1)
        entry = np.arange(layout.graph.variables + count) - part
        return layout.state_start[entry] - self.cuts.state[part], layout.variable_edge_start[entry]

    def group_rows(self, sizes: Sequence[tuple[bool, int]], blocks: int) -> np.ndarray:
        """The rows of all parts, once for each example: their tables stand in different places."""
        rows = np.broadcast_to(self.groups, (blocks, *self.groups.shape)).copy()
        of_parts = rows.reshape(blocks, len(self.cuts.variable) - 1, len(sizes), columns.COLUMNS)
        start = 0
        for number, (shared, size) in enumerate(sizes):
            mine = of_parts[:, :, number]
            first = np.cumsum(mine[0, :, columns.MEMBERS]) - mine[0, :, columns.MEMBERS]
            example = np.arange(blocks, dtype=np.uint64) * np.uint64(0 if shared else size // blocks)
            mine[..., columns.TABLE_START] = start + first * mine[0, :, columns.CELLS] + example[:, None]
            start += size
        return rows.reshape(-1, columns.COLUMNS)

    def pack_messages(self, messages: Tensor, padding: float) -> np.ndarray:
        packed = np.empty(messages.shape, dtype=messages.numpy().dtype)
        packed[:, self.slot_place] = messages.numpy()
        return packed.reshape(-1)

    def unpack_messages(self, values: np.ndarray, examples: int) -> Tensor:
        return torch.from_numpy(np.take(values.reshape(examples, -1), self.slot_place, axis=1))

    def uniform_messages(self, examples: int, log: bool, dtype: np.dtype) -> np.ndarray:
        known = self.kept.get("uniform")
        if known is None or known[0] != (log, dtype):
            sizes = self.layout.graph.cardinalities[self.layout.edge_variable]
            share = np.repeat(1.0 / sizes, sizes)
            messages = np.empty(len(share), dtype=dtype)
            messages[self.slot_place] = np.log(share) if log else share
            known = self.kept["uniform"] = (log, dtype), messages
        return np.tile(known[1], examples)


def _built(layout: Layout) -> PartStorage:
    """Each part's factors stand in a row in each group: unions and conditioning on evidence see to that."""
    plain, parts, members = Storage.of(layout, Arrangement.PLAIN), Parts.of(layout.graph), layout.message_groups
    starts = cast("Integers", layout.graph.part_start)
    owners = [parts.variable_part[member.group.scopes[:, 0]] for member in members]
    if not all((np.diff(owner) >= 0).all() for owner in owners):
        raise ValueError("the factors of a union must stand part by part in each group; make it with lw.graph.union")
    counts = np.array([np.bincount(owner, minlength=parts.count) for owner in owners], dtype=np.int64)
    counts = counts.reshape(-1, parts.count)  # also where no factor sends a message
    before = np.cumsum(counts, axis=1) - counts  # factors of earlier parts, [groups, parts]
    slots = counts * np.array([[member.width] for member in members], dtype=np.int64).reshape(-1, 1)
    slot_start = np.cumsum(slots, axis=0) - slots  # within a part
    message = starts_of(slots.sum(0))
    rows = np.repeat(plain.groups[None], parts.count, axis=0)
    rows[:, :, columns.MEMBERS], rows[:, :, columns.SLOT_START] = counts.T, slot_start.T
    # Where a part's messages of a group begin, less where they begin in the plain arrangement, by edge.
    begin = np.array([[member.slot_start] for member in members], dtype=np.int64).reshape(-1, 1)
    begin = begin + np.cumsum(slots, axis=1) - slots
    number = np.repeat(np.arange(len(members)), [member.group.count * member.group.arity for member in members])
    part = parts.edge_part[: len(number)]
    moved = (slot_start - begin)[number, part]  # within the part
    sizes = layout.graph.cardinalities[layout.edge_variable]
    edges = layout.variable_edges
    return PartStorage(
        layout,
        Arrangement.PLAIN,
        1,
        rows.reshape(-1, columns.COLUMNS),
        (plain.edge_base.astype(np.int64) + moved[edges]).astype(np.uint64),
        plain.edge_group,
        (plain.edge_member.astype(np.int64) - before[number, part][edges]).astype(np.uint64),
        plain.edge_position,
        plain.cell_slots,
        plain.shapes,
        plain.slots,
        cuts=Cuts(len(members), starts, layout.state_start[starts], message),
        slot_place=np.arange(layout.slots) + np.repeat(moved + message[part], sizes),
    )


class PartRun(KernelRun):
    """Packed potentials of unions, and how the kernels are specialised for them."""

    storage: PartStorage

    @cached_property
    def union(self) -> Parts:
        return Parts.of(self.storage.layout.graph)

    def arranged(self) -> tuple[int, int]:
        return 1, self.examples * self.storage.slots

    @property
    def stopping(self) -> int:
        return self.examples * self.union.count

    @property
    def block_states(self) -> int:
        return self.examples * self.storage.layout.states

    def start(self, options: Options, m: np.ndarray, spec: TapeSpec) -> RunResult:
        assert options.enough_parts is not None
        self.sweeps, enough = options.likely_sweeps, options.enough_parts
        limits = np.where(enough > 0, np.minimum(enough, options.iterations), options.iterations)
        longest = options._replace(iterations=int(limits.max(initial=0)))
        result = self._allocate(longest, m, spec, 1)
        self._run_parts(options, result, limits)
        sweeps = result.sweeps.reshape(self.examples, -1)
        if options.iterations == 0:
            result.residual[:] = np.inf  # no sweep was made, so nothing is known of it
        result.residual[((enough > 0) & (sweeps >= enough)).reshape(-1)] = 0.0
        result.sent = int((sweeps * (self.union.edges if options.steps == 1 else self.union.messages)).sum())
        return result

    def again(self, options: Options, m: np.ndarray, spec: TapeSpec, block: int, workspace: Workspace) -> RunResult:
        result = self._allocate(options, m, spec, 1, workspace)
        self._run_parts(options, result, np.full(self.union.count, options.iterations))
        return result

    def shares(self) -> list[Span]:
        """Parts for each thread that is worth starting, of about equally many messages."""
        count = self.parts(self.examples * self.storage.layout.edges)
        message = self.storage.cuts.message
        ends = np.searchsorted(message, message[-1] * np.arange(1, count) // count)
        bounds = [0, *(int(end) for end in ends), self.union.count]
        return [Span(first, last) for first, last in pairwise(bounds)]

    def schedule(self, options: Options) -> Flood | Order | PairFlood:
        if options.steps == 2:
            return self.storage.order
        return PairFlood(self.potentials.theta[:0]) if self._as_vectors(options) else Flood()

    def _run_parts(self, options: Options, result: RunResult, limits: Integers) -> None:
        from loopwise.inference.messages.kernels.parts import run_parts

        ends = Ends(
            Messages(result.m, result.n, result.beliefs),
            result.n is not result.messages.n,
            result.sweeps,
            result.residual,
            result.lowest,
            result.m[:0],
            result.m[:0].reshape(0, 0),
        )
        rules = PartRules(limits, self._reach(options))
        run, cuts, shares = self.run(options, result), self.storage.cuts, self.shares()
        schedule = self.schedule(options)
        static = self.static(options.steps == 2 and self._quick(options))
        in_threads(len(shares), lambda part: run_parts(run, schedule, cuts, rules, shares[part], ends, static))

    def _reach(self, options: Options) -> np.ndarray:
        """As of the rule, of each part."""
        if not options.judge_messages:
            return np.zeros(self.union.count)
        largest = np.ones(self.union.count)
        if not self.plain:
            largest = np.zeros(self.union.count)
            np.maximum.at(largest, self._edge_part, self.plan.exponents)
        return np.maximum(0.25 * largest / (1 - options.damping), LEAST_REACH)

    @cached_property
    def _edge_part(self) -> Integers:
        """Of each edge, in the order of the plan."""
        return self.union.edge_part[self.storage.layout.variable_edges]


class PartBackward(Backward):
    """The way back of one run of a union."""

    run: PartRun

    def buffers(self, parameters: bool) -> PartBuffers:
        return PartBuffers(self.run, self.dtype, parameters)

    def seeds(self, adjoint: RunOutputs) -> Seeds:
        seeds = super().seeds(adjoint._replace(trace=None))
        if adjoint.trace is None:
            return seeds
        by_part = np.split(adjoint.trace.numpy(), self.run.storage.cuts.state[1:-1], axis=-1)
        examples = range(self.run.examples)
        return seeds._replace(trace=np.concatenate([part[:, row].reshape(-1) for row in examples for part in by_part]))

    def _sweeps(self, block: int) -> int:
        return int(self.result.sweeps.max(initial=0))

    def segment(self, block: int, low: int, high: int, workspace: Workspace) -> TapeSegment:
        found = super().segment(block, low, high, workspace)
        return found._replace(high=np.minimum(found.high, self.result.sweeps * self.options.steps))

    def undo(self, buffers: AdjointBuffers, seeds: Seeds, adjoint: Adjoint, block: int, segment: TapeSegment) -> None:
        from loopwise.inference.messages.kernels.parts import undo_parts

        run, shares = self.run, self.run.shares()
        dampings = np.zeros((len(shares), 1), dtype=self.dtype)
        schedule, linearised, static = run.schedule(self.options), self.linearised(seeds), run.static()
        ends = segment._replace(high=np.ascontiguousarray(np.broadcast_to(segment.high, run.stopping)))
        in_threads(
            len(shares),
            lambda part: undo_parts(
                linearised,
                schedule,
                ends,
                adjoint._replace(damping=dampings[part]),
                run.storage.cuts,
                shares[part],
                static,
            ),
        )
        adjoint.damping[0] += dampings.sum()


class PartBuffers(AdjointBuffers):
    """The arrays that adjoints are added up in, which stand as the potentials do."""

    run: PartRun

    def __init__(self, run: PartRun, dtype: np.dtype, parameters: bool) -> None:
        self.run, self.storage, self.dtype, self.parameters = run, run.storage, dtype, parameters
        self.parts = self.kernel_parts = 1
        self.theta = np.zeros(len(run.potentials.theta), dtype=dtype)
        self.unary = np.zeros(len(run.potentials.unary), dtype=dtype)
        self.initial = np.zeros(run.block_size, dtype=dtype)
        self.exponents = np.zeros((1, run.storage.layout.edges if parameters else 0), dtype=dtype)
        self.damping = np.zeros((1, 1), dtype=dtype)
        self.messages = [[np.zeros(run.block_size, dtype=dtype) for _ in range(3)]]

    def adjoint(self, part: int) -> Adjoint:
        m, n, now = self.messages[0]
        m[:], n[:] = 0, 0
        start = self.run.plan.groups[:, columns.TABLE_START]
        starts = np.stack([start, np.zeros_like(start)], axis=1)
        zero = np.uint64(0)
        return Adjoint(m, n, now, self.theta, starts, self.unary, zero, self.damping[0], self.exponents[0])

    def adjoints(self) -> Adjoints:
        run, layout, start, tables = self.run, self.run.storage.layout, 0, []
        rows = len(run.plan.groups) // run.examples
        examples = run.plan.groups.reshape(run.examples, rows, columns.COLUMNS)[:, :, columns.TABLE_START]
        for number, member in enumerate(layout.message_groups):
            size = member.group.count * member.group.cells
            shared = examples[0, number] == examples[-1, number]
            copies = 1 if shared else run.examples
            mine = self.theta[start : start + size * copies]
            tables.append(torch.from_numpy(mine).reshape(copies, member.group.count, member.group.cells))
            start += len(mine)
        exponents = np.zeros(layout.edges, dtype=self.dtype)
        if self.parameters:
            exponents[layout.variable_edges] = self.exponents[0]
        unary = torch.from_numpy(self.unary)
        return Adjoints(
            tables,
            unary.reshape(run.examples, -1) if run.plan.unary_block else unary,
            run.storage.unpack_messages(self.initial, run.examples),
            torch.from_numpy(exponents),
            torch.from_numpy(self.damping[0]).reshape(()),
        )
