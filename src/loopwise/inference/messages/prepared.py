"""Small calls of BP: what depends on the graph and the method alone is worked out once and kept on the layout.

In: a method, a graph, potentials of one example. Out: :class:`Beliefs`, or None where this is not for here. Stage:
inference. A call then is: tables copied into one array, their numbers checked, one kernel, a status; whatever else
beliefs can tell is worked out when asked. All that is not plain (a table of another shape, a number out of range,
underflow, evidence) goes the general way, which copes with it or says what is wrong: no check is left out here.

Three nouns: :class:`Packing` (integers of a graph), :class:`Prepared` (a method on it), :class:`PreparedRun` (a call).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from loopwise.compiled import arithmetic
from loopwise.compiled.entry import Entry
from loopwise.gradient.base import Report, check_finite
from loopwise.gradient.hvp import differentiating_twice
from loopwise.gradient.unroll import Store, Unroll
from loopwise.graph.factor_graph import FactorGraph
from loopwise.graph.layout import Layout
from loopwise.inference.base import Problem
from loopwise.inference.beliefs import Beliefs, Status
from loopwise.inference.messages.backward import RunOutputs, tape_for
from loopwise.inference.messages.compiled import Compiled, CompiledSolution, options_of, scaled
from loopwise.inference.messages.compiled_gradient import Session
from loopwise.inference.messages.counting import Bethe
from loopwise.inference.messages.kernel_run import SPARE, KernelRun
from loopwise.inference.messages.kernels import plan as columns
from loopwise.inference.messages.kernels.plan import (
    Adjoint,
    Flood,
    Linearised,
    Messages,
    Potentials,
    Seeds,
    Share,
    Steps,
    TapeSegment,
)
from loopwise.inference.messages.kernels.reverse import undo_steps
from loopwise.inference.messages.kernels.schedules import flood_graph
from loopwise.inference.messages.message_passing import BP, MessagePassing, Reading, hard_zero_notes
from loopwise.inference.messages.schedules import Flooding
from loopwise.inference.messages.sub_batches import RANGES, GradientSpec, SubBatch, flooding_storage

SMALL = 2**16  # numbers in all tables: with more, the general way costs no more
KEPT_METHODS = 4  # that a graph has calls prepared for
FLOOD = Flood()
KINDS = (Tensor, nn.Parameter)  # other kinds of tensor have ways of their own


def prepared_beliefs(method: MessagePassing, graph: FactorGraph, potentials: object) -> Beliefs | None:
    """Beliefs of one example, if the call is a plain one."""
    packing: Packing | None = graph.layout.kept.get(Packing)
    if packing is None or packing.last is not method:
        packing = Packing.of(graph.layout) if _is_plain(method) else None
        if packing is None:
            return None
        packing.last = method
    given = packing.tables(potentials) if type(potentials) is dict or isinstance(potentials, Mapping) else None
    if given is None:
        return None
    call = packing.prepared(method, given.dtype)
    if call is None or (given.wanted and (differentiating_twice() or not call.differentiable)):
        return None
    run = call.run(given)
    return None if run is None else run.beliefs(graph)


def _is_plain(method: MessagePassing) -> bool:
    """Flooding with ordinary counting numbers, and nothing that is trained, traced or watched."""
    return bool(
        type(method) is BP
        and type(method.schedule) is Flooding
        and type(method.counting) is Bethe
        and (method.engine is None or type(method.engine) is Compiled)
        and type(method.temperature) in (float, int)
        and method.temperature == 1
        and type(method.damping) in (float, int)
        and not method.trace
        and method.weights is None
        and method.stop is None
    )


class Place(NamedTuple):
    """Where the table of a group stands in the one array of a call."""

    name: str
    shape: torch.Size
    start: int
    end: int
    states: np.ndarray | None  # of a group of arity 1: the states it speaks of; None: all, in order


class GivenTables(NamedTuple):
    """The tables of a call, as they were given, in the order of the places."""

    tables: list[Tensor]
    arrays: list[np.ndarray]
    dtype: torch.dtype
    batch: torch.Size  # (), or some dimensions of 1
    wanted: bool  # whether a gradient is


class Packing:
    """Where each number of the tables goes, and back: index arrays of one graph."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.storage = layout, flooding_storage(layout, 1, shared=True)
        self.sending, self.unary, self.constant = self._places()
        self.places = (*self.sending, *self.unary, *self.constant)
        self.names = tuple([place.name for place in self.places])
        self.cells, self.size = self.sending[-1].end, self.places[-1].end
        self.in_order = len(self.unary) == 1 and self.unary[0].states is None
        pieces = []
        for place, member in zip(self.sending, layout.message_groups, strict=True):
            index = torch.arange(place.start, place.end).reshape(member.group.count, member.group.cells)
            pieces.append(self.storage.pack_table(index, 1, self.size))  # lanes that no factor fills get what is last
        self.theta = np.concatenate(pieces)
        self.groups = self.storage.group_rows([(True, len(piece)) for piece in pieces], 1)
        self.calls: dict[tuple[int, torch.dtype], Prepared] = {}
        self.last: MessagePassing | None = None  # the method of the last call that was a plain one

    @staticmethod
    def of(layout: Layout) -> Packing | None:
        """That of a graph of small tables; made once, and kept."""
        if Packing not in layout.kept:
            graph = layout.graph
            numbers = sum(group.count * group.cells for group in graph.groups)
            small = layout.edges > 0 and not graph.structured and numbers <= SMALL
            layout.kept[Packing] = Packing(layout) if small else None
        kept: Packing | None = layout.kept[Packing]
        return kept

    @cached_property
    def back(self) -> np.ndarray:
        """Where each cell went."""
        back = np.empty(self.size + 1, dtype=np.int64)
        back[self.theta] = np.arange(len(self.theta))
        return back[: self.cells]

    @cached_property
    def slots(self) -> np.ndarray:
        """Where each slot of the layout stands among packed messages."""
        packed = np.arange(self.storage.slots * self.storage.lanes)
        slots: np.ndarray = self.storage.unpack_messages(packed, 1).numpy().reshape(-1)
        return slots

    @cached_property
    def theta_start(self) -> np.ndarray:
        """Where the tables of each group begin among packed ones; all examples share them."""
        starts = self.groups[:, columns.TABLE_START]
        return np.stack([starts, np.zeros_like(starts)], axis=1)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "calls": {}, "last": None}  # compiled code is not copied

    def _places(self) -> tuple[list[Place], list[Place], list[Place]]:
        layout, end, found = self.layout, 0, []
        sending = [(member.group, None) for member in layout.message_groups]
        for groups in (sending, layout.unary_states, [(group, None) for group in layout.constant_groups]):
            places = []
            for group, states in groups:
                start, end = end, end + group.count * group.cells
                places.append(Place(group.name, torch.Size((group.count, *group.shape)), start, end, states))
            found.append(places)
        return found[0], found[1], found[2]

    def prepared(self, method: MessagePassing, dtype: torch.dtype) -> Prepared | None:
        """``method`` on this graph, for one kind of number; None where it is better run in threads."""
        key = id(method), dtype
        known = self.calls.get(key)
        if known is None or known.method is not method:
            known = Prepared(self, method, dtype)
            recent = dict(list(self.calls.items())[1 - KEPT_METHODS :])
            self.calls = {**recent, key: known}  # replaced, not changed: another thread may be reading it
        return None if known.threaded else known

    def tables(self, potentials: Mapping[str, Any]) -> GivenTables | None:
        """All tables, if they are plain tensors of one kind and of this graph's shapes."""
        if len(potentials) != len(self.places):
            return None
        tables: list[Tensor] = []
        arrays: list[np.ndarray] = []
        batch, recording, wanted = (), torch.is_grad_enabled(), False
        for place in self.places:
            table: Any = potentials.get(place.name)
            if type(table) not in KINDS or table.is_inference() or not table.is_cpu:
                return None
            if table.shape != place.shape:
                lead = table.ndim - len(place.shape)
                if lead <= 0 or table.shape[lead:] != place.shape or table.numel() != place.end - place.start:
                    return None
                batch = max(batch, table.shape[:lead], key=len)
            if table.dtype is not tables[0].dtype if tables else table.dtype not in RANGES:
                return None
            tables.append(table)
            if table.requires_grad:
                wanted, table = recording, table.detach()
            arrays.append(table.numpy())
        return GivenTables(tables, arrays, tables[0].dtype, torch.Size(batch), wanted)

    def folded(self, flat: np.ndarray) -> np.ndarray:
        """Unary log-potentials of all states; where they are in order, they are a part of ``flat``."""
        if self.in_order:
            return flat[self.unary[0].start : self.unary[0].end]
        total = np.zeros(self.layout.states, dtype=flat.dtype)
        for place in self.unary:
            if place.states is None:
                total += flat[place.start : place.end]
            else:
                np.add.at(total, place.states, flat[place.start : place.end])
        return total

    def shift(self, unary: np.ndarray) -> None:
        """Brings the largest log-potential of each variable to 0, in place."""
        size = self.layout.graph.uniform_cardinality
        if size is None:
            first, owner = self.layout.state_start[:-1], self.layout.state_variable
            unary -= np.maximum.reduceat(unary, first)[owner]
        else:
            rows = unary.reshape(-1, size)
            rows -= np.maximum.reduce(rows, axis=1, keepdims=True)

    def seeds(self, states: np.ndarray, adjoint: np.ndarray) -> np.ndarray:
        """Adjoints of log beliefs, of any scale, from those of the beliefs ``states``."""
        size = self.layout.graph.uniform_cardinality
        shares: np.ndarray = states * adjoint
        if size is None:
            first, owner = self.layout.state_start[:-1], self.layout.state_variable
            shares -= states * np.add.reduceat(shares, first)[owner]
        else:
            sums = shares.reshape(-1, size).sum(axis=1, keepdims=True)
            shares -= (states.reshape(-1, size) * sums).reshape(-1)
        return shares

    def gradients(self, adjoint: Adjoint, tables: Sequence[Tensor]) -> list[Tensor | None]:
        """Adjoints of the tables from those of packed numbers; None for constants, which beliefs do not see."""
        cells, found = adjoint.theta.take(self.back), []
        for place, table in zip((*self.sending, *self.unary), tables, strict=False):
            if place.end <= self.cells:
                values = cells[place.start : place.end]
            elif place.states is not None:
                values = adjoint.unary[place.states]
            else:
                values = adjoint.unary if self.in_order else adjoint.unary.copy()  # no two share their memory
            found.append(torch.from_numpy(values.reshape(table.shape)))
        return [*found, *(None for _ in self.constant)]


class Prepared:
    """A method on a graph, for one kind of number."""

    def __init__(self, packing: Packing, method: MessagePassing, dtype: torch.dtype) -> None:
        layout, storage = packing.layout, packing.storage
        graph = layout.graph
        self.flood, self.undo = Entry(flood_graph), Entry(undo_steps)
        self.packing, self.method, self.torch_dtype = packing, method, dtype
        self.like = torch.empty(0, dtype=dtype)
        self.dtype = self.like.numpy().dtype
        self.nats, self.floor = RANGES[dtype]
        self.engine = method.engine if isinstance(method.engine, Compiled) else Compiled()
        self.shortened = method.no_longer_than_needed(graph)
        self.options = options = options_of(self.shortened, graph, dtype)
        self.counting = method.counting_numbers(graph)
        exponents = self.counting.exponents(layout, self.like)
        empty = np.zeros(0, dtype=self.dtype)
        self.plan = storage.plan(packing.groups, exponents.numpy(), 0, plain=True)
        self.kernel = kernel = self.kernel_run(Potentials(empty, empty))
        self.threaded = kernel.parts(layout.edges) > 1
        self.rule, size = kernel.rule(options), kernel.block_size
        self.uniform = storage.uniform_messages(1, False, self.dtype)
        self.ones, self.zeros = np.ones(size, dtype=self.dtype), np.zeros(size, dtype=self.dtype)
        self.end = np.zeros(1, dtype=self.dtype)  # what lanes get that no factor fills
        self.barrier = np.zeros(2, dtype=np.int64)  # where a single thread meets itself: nothing is written
        self.zero, block = np.uint64(0), np.uint64(size)
        self.tape = Steps(block, self.zero, empty, self.zero, block, self.zero)
        self.long_tape = self.tape._replace(n_block=np.uint64((options.iterations + 1) * size), n_step=block)
        gradient = method.gradient
        self.differentiable = isinstance(gradient, Unroll) and isinstance(
            tape_for(gradient.tape, kernel, options, False, False)[0], Store
        )
        self.static = kernel.static()
        self.share = Share(self.zero, self.zero, np.uint64(1), self.barrier)

    def kernel_run(self, numbers: Potentials) -> KernelRun:
        """The engine's view of a run of one example."""
        made = KernelRun(
            self.packing.storage, self.plan, numbers, 1, self.engine.threads, arithmetic.PROBABILITY_SUM, plain=True
        )
        made.sweeps = self.options.likely_sweeps
        return made

    def numbers(self, arrays: Sequence[np.ndarray]) -> tuple[Potentials, int] | None:
        """Tables checked, exponentiated and packed, and how many cells are 0; None if some number needs more care."""
        packing, safe, forbidden = self.packing, self.nats / 6, 0
        flat = np.concatenate((*arrays, self.end), axis=None)
        with np.errstate(over="ignore"):
            gentle = flat.dot(flat) <= (safe / 4) ** 2  # then no number is larger than safe / 4
        if not gentle:
            low, high = flat.min(), flat.max()  # both are NaN if a number is
            if low == -math.inf:
                possible = flat > -math.inf
                forbidden = len(flat) - int(np.count_nonzero(possible))
                if not possible[packing.cells :].all():
                    return None  # whether a variable has a possible value is asked the general way
                low = flat[possible].min()
            if not (high <= safe and low >= -5 * safe):
                return None
        # NumPy's exponential rounds otherwise than that of the general way. Nothing of the tables themselves is kept.
        unary = packing.folded(flat)
        if not (gentle and packing.in_order) and np.ptp(unary) > self.nats:
            return None
        packing.shift(unary)
        torch.from_numpy(flat).exp_()
        if not packing.in_order:
            torch.from_numpy(unary).exp_()
        return Potentials(flat.take(packing.theta), unary), forbidden

    def run(self, given: GivenTables) -> PreparedRun | None:
        """Runs; None if numbers need the log domain."""
        packed = self.numbers(given.arrays)
        if packed is None:
            return None
        kernel, options, dtype = self.kernel, self.options, self.dtype
        size, tape = kernel.block_size, self.long_tape if given.wanted else self.tape
        n = kernel.blank_messages(options.iterations + 1, dtype, lent=True) if given.wanted else self.ones.copy()
        flow = Messages(self.uniform.copy(), n, np.zeros(self.packing.layout.states, dtype=dtype))
        run = columns.Run(self.plan, packed[0], flow, tape, self.rule, options.damping, 1)
        before, change = np.empty(size, dtype=dtype), np.zeros((2, 1), dtype=dtype)
        arguments = (run, self.share, self.zero, 0, before, change, self.static)
        sweeps, residual, _, lowest = self.flood(arguments)
        if not lowest > self.floor or math.isnan(flow.beliefs.dot(flow.beliefs)):
            return None
        if options.iterations == 0:
            residual = math.inf  # no sweep was made, so nothing is known of it
        if options.enough is not None and sweeps >= options.enough:
            residual = 0.0
        made = PreparedRun(self, given, packed[0], packed[1], flow, sweeps, np.array(residual, dtype=dtype), lowest)
        if given.wanted:
            SPARE.return_after(made, n)
        return made


class PreparedRun:
    """One call: what it was given, and where it ended."""

    def __init__(
        self,
        call: Prepared,
        given: GivenTables,
        numbers: Potentials,
        forbidden: int,
        flow: Messages,
        sweeps: int,
        residual: np.ndarray,
        lowest: float,
    ) -> None:
        self.call, self.given, self.numbers, self.forbidden = call, given, numbers, forbidden
        self.flow, self.sweeps, self.residual, self.lowest = flow, sweeps, residual, lowest
        self.report: Report | None = None  # what the last backward did, if there can be one

    def beliefs(self, graph: FactorGraph) -> Beliefs:
        """The variables' beliefs, and all else when asked for; ``graph`` may have names that its twin here has not."""
        call, given, results = self.call, self.given, None
        if given.wanted:
            self.report = Report("Unroll")
            results = RunOutputs(*_Connected.apply(self, *given.tables))  # type: ignore[no-untyped-call]
        states = torch.from_numpy(self.flow.beliefs) if results is None else results.states
        answer = PreparedAnswer(self, states.reshape(*given.batch, -1) if given.batch else states, results)
        if call.options.tolerance > 0 and not self.residual <= call.options.threshold:
            call.method.warn_unless_converged(answer.status)
        found = Beliefs(
            graph,
            answer.states,
            answer.factor,
            answer.log_partition,
            answer.make_status,
            answer.messages,
            gradient=self.report,
            bounds=answer.bounds,
        )
        found.remember("the potentials of group {!r} were", zip(call.packing.names, given.tables, strict=True))
        return found

    def problem_of(self, tables: Sequence[Tensor]) -> Problem:
        """The problem as the engine would have been given it."""
        packing = self.call.packing
        named = {place.name: table for place, table in zip(packing.places, tables, strict=True)}
        return Problem(packing.layout.graph, named, self.given.batch, self.call.like)

    def connected(self) -> tuple[Tensor, Tensor, Tensor]:
        """Beliefs, log messages to factors and to variables, ``[1, slots]`` each, up to a constant."""
        call, size = self.call, self.call.kernel.block_size
        last, slots = self.sweeps * size, call.packing.slots
        n = torch.from_numpy(self.flow.n[last : last + size][slots][None]).log_()
        return torch.from_numpy(self.flow.beliefs), n, torch.from_numpy(self.flow.m[slots][None]).log_()

    def pull_back(self, states: Tensor | None, n: Tensor | None, m: Tensor | None) -> list[Tensor | None]:
        """Adjoints of all tables from those of the results."""
        assert self.report is not None
        self.report.clear()
        for adjoint in (states, n, m):
            check_finite(adjoint)
        call, packing, kernel = self.call, self.call.packing, self.call.kernel
        dtype, zero, storage = call.dtype, call.zero, packing.storage
        seeds = Seeds(
            np.zeros(packing.layout.states, dtype=dtype)
            if states is None
            else packing.seeds(self.flow.beliefs, states.to(call.torch_dtype).numpy()),
            call.zeros if m is None else storage.pack_messages(m.to(call.torch_dtype), 0.0),
            call.zeros if n is None else storage.pack_messages(n.to(call.torch_dtype), 0.0),
            np.zeros(0, dtype=dtype),
            np.array([self.sweeps]),
        )
        size = kernel.block_size
        messages = np.zeros((3, size), dtype=dtype)
        back = Adjoint(
            messages[0],
            messages[1],
            messages[2],
            np.zeros(len(packing.theta), dtype=dtype),
            packing.theta_start,
            np.zeros(packing.layout.states, dtype=dtype),
            zero,
            np.zeros(1, dtype=dtype),
            np.zeros(0, dtype=dtype),
        )
        linearised = Linearised(call.plan, self.numbers.theta, 1, call.options.damping, seeds)
        segment = TapeSegment(self.sweeps, 0, self.flow.n, zero, call.long_tape, zero)
        arguments = (linearised, FLOOD, segment, back, call.share, call.static)
        call.undo(arguments)
        return packing.gradients(back, self.given.tables)

    def pull_back_again(self, adjoints: Sequence[Tensor | None], tables: Sequence[Tensor]) -> list[Tensor | None]:
        """The same so that it can be differentiated: the engine runs once more, and keeps what that takes."""
        call = self.call
        solution = call.engine.solve(self.problem_of(tables), call.shortened, call.counting)
        assert isinstance(solution, CompiledSolution) and solution.results is not None
        results = (solution.states.reshape(-1), solution.results.n, solution.results.m)
        sent = [(result, adjoint) for result, adjoint in zip(results, adjoints, strict=True) if adjoint is not None]
        wanted = [table for table in tables if table.requires_grad]
        found = torch.autograd.grad(
            [result for result, _ in sent],
            wanted,
            [adjoint for _, adjoint in sent],
            create_graph=True,
            allow_unused=True,
        )
        gradients = iter(found)
        return [next(gradients) if table.requires_grad else None for table in tables]


class PreparedAnswer:
    """What beliefs ask a run for later. Results are connected to the run, so it must not hold them itself."""

    def __init__(self, run: PreparedRun, states: Tensor, results: RunOutputs | None) -> None:
        self.run, self.states, self.results = run, states, results

    @cached_property
    def status(self) -> Status:
        """What can be claimed of the run."""
        run, call = self.run, self.run.call
        method, layout, batch = call.method, call.packing.layout, run.given.batch
        verdict = method.verdict(layout.graph, run.residual.item(), run.sweeps, call.torch_dtype)
        ended = 0 if call.options.tolerance > 0 and run.residual < call.options.tolerance else -1
        sweeps, residual, stopped = (
            torch.from_numpy(value.reshape(batch)) for value in (np.array(run.sweeps), run.residual, np.array(ended))
        )
        zeros = hard_zero_notes(run.forbidden, call.packing.cells) if run.forbidden and not verdict.exact else ()
        sent = run.sweeps * layout.edges
        return method.status(layout.graph, verdict, sweeps, residual, sent, "compiled", "probability", zeros, stopped)

    def make_status(self) -> Status:
        return self.status

    def factor(self, name: str) -> Tensor:
        return self._reading.factor(name)

    def log_partition(self) -> Tensor:
        return self._reading.log_partition()

    def bounds(self) -> tuple[Tensor, Tensor]:
        return self._reading.bounds()

    def messages(self) -> Tensor:
        return self._reading.solution.messages()

    @cached_property
    def _reading(self) -> Reading:
        """The same run as the engine keeps it."""
        run, call = self.run, self.run.call
        problem = run.problem_of(run.given.tables)
        given, keep, options = scaled(problem, call.shortened, call.counting), GradientSpec(), call.options
        kernel, size = call.kernel_run(run.numbers), call.kernel.block_size
        last = run.sweeps * size if run.given.wanted else 0
        result = kernel.arrived(run.flow, run.flow.n[last : last + size], run.sweeps, run.residual, run.lowest)
        session = Session(options, call.packing.layout, call.engine.threads, False, keep, call.method.has_converged)
        session.parts = [SubBatch(torch.arange(1), given, kernel, options, result, keep, None)]
        session.report = run.report or session.report
        solution = CompiledSolution(problem, session, given, self.results, self.states)
        return Reading(problem, solution, call.counting, call.method.temperature, self.status)


class _Connected(torch.autograd.Function):
    """Arguments: a run, its tables. Results: those of the run."""

    @staticmethod
    def forward(ctx: Any, run: PreparedRun, *tables: Tensor) -> tuple[Tensor, ...]:
        ctx.run, results = run, run.connected()
        ctx.save_for_backward(*tables, results[0])  # which the backward reads, too
        ctx.set_materialize_grads(False)
        return results

    @staticmethod
    def backward(ctx: Any, *adjoints: Tensor | None) -> tuple[Tensor | None, ...]:
        *tables, _ = ctx.saved_tensors  # raises if one was written to
        if torch.is_grad_enabled():
            return (None, *ctx.run.pull_back_again(adjoints, tables))
        return (None, *ctx.run.pull_back(*adjoints))
