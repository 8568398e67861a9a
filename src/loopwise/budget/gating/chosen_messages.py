"""Message passing that sends chosen messages only: which ones, in which sweep, is known beforehand.

In: message passing, a graph, for each sweep the edges that send. Out: :class:`ChosenMessages`, an inference method;
with a policy every example also stops by itself. Stage: budget. A kernel of its own makes the messages that are chosen
and touches nothing else; the equations of the reference engine, which make all and keep the chosen ones, are there for
gradients and for what the kernel does not take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.budget.cost import Cost, always_observed
from loopwise.budget.stopping import watched_variables
from loopwise.compiled.arithmetic import FEW_LANES, LANES, lane_tag
from loopwise.graph.evidence import EvidenceLike
from loopwise.graph.factor_graph import FactorGraph, Integers
from loopwise.graph.layout import Layout
from loopwise.graph.offsets import starts_of
from loopwise.inference.base import Inference, Problem
from loopwise.inference.beliefs import Beliefs, Status
from loopwise.inference.messages.features import Course
from loopwise.inference.messages.message_passing import MessagePassing, Reading
from loopwise.inference.messages.policy import Policy
from loopwise.inference.messages.reference import MessageUpdate, ReferenceSolution
from loopwise.inference.messages.schedules import Flooding
from loopwise.inference.normalise import variable_softmax

if TYPE_CHECKING:
    from loopwise.budget.gating.kernels.chosen import Chosen

NOTE = "only chosen messages were sent: nothing is claimed of the others"


@dataclass(frozen=True, eq=False)
class ChosenMessages(Inference):
    """``inference`` without the messages that ``sent`` leaves out; what :func:`~loopwise.budget.send_only` makes.

    Parameters
    ----------
    inference: the equations of messages; its schedule must be flooding.
    graph: whose edges ``sent`` is about; evidence slices them as it slices the graph.
    sent: bool ``[sweeps, edges]``.
    policy: stops each example after the first sweep with a score above 0; without one all sweeps are made.

    >>> import loopwise as lw
    >>> graph = lw.chain(3)
    >>> to_the_right = graph.layout.edge_variable % 2 == 1  # the middle is told, and tells nobody
    >>> method = ChosenMessages(lw.BP(), graph, to_the_right[None])
    >>> method(graph, lw.TablePotentials.random(graph, seed=0)).status.messages
    2
    """

    inference: MessagePassing
    graph: FactorGraph
    sent: NDArray[np.bool_]
    policy: Policy | None = None

    takes_messages: ClassVar[bool] = False
    saver: ClassVar[str] = "lw.budget.save(system, path)"

    def __post_init__(self) -> None:
        edges = self.graph.layout.edges
        if self.sent.ndim != 2 or self.sent.dtype != bool or self.sent.shape[1] != edges or not len(self.sent):
            raise ValueError(
                f"sent must say True or False for each of the {edges} edges, in at least one sweep, not "
                f"{self.sent.dtype} of shape {self.sent.shape}"
            )
        if not isinstance(self.inference.schedule, Flooding) or self.inference.weights is not None:
            raise ValueError("chosen messages are those of flooding sweeps without weights; use lw.BP() or lw.TRW()")
        if self.graph.structured:
            raise ValueError("a structured factor sends all of its messages at once; choose among those of tables")

    @property
    def limit(self) -> int:
        """Sweeps at most."""
        return len(self.sent)

    def __call__(
        self, graph: FactorGraph, potentials: object, evidence: EvidenceLike = None, *, initial: Tensor | None = None
    ) -> Beliefs:
        return _ChosenCall(self, watched_variables(graph, evidence))(graph, potentials, evidence, initial=initial)

    def run(self, problem: Problem) -> Beliefs:
        return _ChosenCall(self, torch.ones(problem.graph.variables, dtype=torch.bool)).run(problem)

    def cost(self, model: Cost, sweeps: Tensor, evidence: EvidenceLike = None) -> Tensor:
        """What runs of so many ``sweeps`` ``[*batch]`` cost by ``model``: of each sweep the messages that are sent."""
        made = torch.arange(1, self.limit + 1).reshape(-1, *[1] * sweeps.ndim) <= sweeps
        observed = always_observed(self.graph, evidence)
        return model.run_of_messages(self.graph, made.double(), torch.from_numpy(self.sent).double(), None, observed)

    def on(self, graph: FactorGraph, edges: Integers) -> ChosenMessages:
        """The same on a part of the graph, whose edges were ``edges`` of this one."""
        return ChosenMessages(self.inference, graph, np.ascontiguousarray(self.sent[:, edges]), self.policy)


class _Ended(NamedTuple):
    """Where each example ended."""

    states: Tensor  # [*batch, states]
    messages: Tensor  # log messages [*batch, slots]
    sweeps: Tensor  # [*batch]
    change: Tensor  # [*batch], of beliefs in the last sweep


class _ChosenCall(Inference):
    """One call: knows which variables of the conditioned graph the policy looks at."""

    def __init__(self, method: ChosenMessages, watched: Tensor) -> None:
        self.method, self.watched = method, watched

    def check_graph(self, graph: FactorGraph) -> None:
        if graph is not self.method.graph and graph != self.method.graph:
            raise ValueError(f"messages were chosen for {self.method.graph!r}; they do not fit {graph!r}")

    def run(self, problem: Problem) -> Beliefs:
        sent = self.method.sent
        if problem.conditioning is not None:
            sent = sent[:, problem.conditioning.edges]
        circuit = MessageUpdate(problem, self.method.inference, self.method.inference.counting_numbers(problem.graph))
        run: _Sweeping = _ReferenceSweeping(circuit, sent)
        if _has_kernel(problem, self.method.inference, circuit):
            run = _KernelSweeping(circuit, sent)
        ended = self._to_the_end(circuit, run)
        if not bool(torch.isfinite(ended.states).all()):  # beyond what the kernel's numbers can hold
            run = _ReferenceSweeping(circuit, sent)
            ended = self._to_the_end(circuit, run)
        return _beliefs(circuit, ended, sent, run.engine)

    def _to_the_end(self, circuit: MessageUpdate, run: _Sweeping) -> _Ended:
        policy, limit = self.method.policy, self.method.limit
        if policy is None:
            states, change = run.all_sweeps(limit)
            return _Ended(states, run.messages(), torch.full(run.batch, limit), change)
        return _stopped(circuit, run, policy, self.watched, limit)


def _stopped(circuit: MessageUpdate, run: _Sweeping, policy: Policy, watched: Tensor, limit: int) -> _Ended:
    """Sweep by sweep, each example until its policy stops it."""
    graph, count = circuit.problem.graph, max(1, run.batch.numel())
    states, messages = run.states(), run.messages()
    flat = [value.reshape(count, -1).clone() for value in (states, messages)]
    sweeps, change = torch.zeros(count, dtype=torch.int64), flat[0].new_zeros(count)
    watched = watched.expand(*run.batch, graph.variables).reshape(count, -1)
    live, last, before = torch.arange(count), None, flat[0]
    for sweep in range(limit):
        now = run.sweep(sweep, sweep + 1).reshape(-1, flat[0].shape[-1])
        course = Course(graph, torch.stack([before, now]), watched[live], limit, sweep + 1, last)
        largest = course.largest[-1].detach()
        stop = policy(course)[-1] > 0 if sweep + 1 < limit else torch.ones(len(live), dtype=torch.bool)
        if bool(stop.any()):
            rows = live[stop]
            flat[0] = flat[0].index_copy(0, rows, now[stop])
            flat[1] = flat[1].index_copy(0, rows, run.messages().reshape(len(live), -1)[stop])
            sweeps[rows], change[rows] = sweep + 1, largest[stop]
        going = ~stop
        if not bool(going.any()):
            break
        live, before, last = live[going], now[going], largest[going]
        run.keep(going)
    batch = run.batch
    return _Ended(
        flat[0].reshape(*batch, -1), flat[1].reshape(*batch, -1), sweeps.reshape(batch), change.reshape(batch)
    )


class _Sweeping:
    """Sweeps of chosen messages, all examples that still run together."""

    engine = ""
    batch: torch.Size

    def sweep(self, first: int, last: int) -> Tensor:
        """Makes sweeps ``first`` to ``last``, the last one not included; the beliefs after them."""
        raise NotImplementedError

    def states(self) -> Tensor:
        """Beliefs as they are."""
        raise NotImplementedError

    def all_sweeps(self, limit: int) -> tuple[Tensor, Tensor]:
        """Beliefs after so many sweeps, and by how much the last one changed those of each example."""
        before = self.sweep(0, limit - 1) if limit > 1 else self.states()
        states = self.sweep(limit - 1, limit)
        change = (states - before).detach().abs().amax(-1) if states.shape[-1] else states.new_zeros(self.batch)
        return states, change

    def messages(self) -> Tensor:
        """Log messages to variables as they are."""
        raise NotImplementedError

    def keep(self, rows: Tensor) -> None:
        """Goes on with some of the examples only, bool."""
        raise NotImplementedError


class _ReferenceSweeping(_Sweeping):
    """The reference engine's equations: all messages are made, those that are chosen count. Differentiable."""

    engine = "reference"

    def __init__(self, circuit: MessageUpdate, sent: NDArray[np.bool_]) -> None:
        self.circuit, self.batch = circuit, circuit.problem.batch
        self.slots = torch.from_numpy(sent).to(circuit.problem.like.device)[:, circuit.slot_edge]
        self.m = circuit.initial()
        self.rows = torch.ones(max(1, self.batch.numel()), dtype=torch.bool)

    def sweep(self, first: int, last: int) -> Tensor:
        for sweep in range(first, last):
            self.m = torch.where(self.slots[sweep], self.circuit.flooding_sweep(self.m), self.m)
        return self.states()

    def states(self) -> Tensor:
        return self._left(variable_softmax(self.circuit.layout, self.circuit.logs(self.m)))

    def messages(self) -> Tensor:
        return self._left(self.m)

    def keep(self, rows: Tensor) -> None:
        self.rows[self.rows.nonzero()[:, 0][~rows]] = False

    def _left(self, values: Tensor) -> Tensor:
        if bool(self.rows.all()):
            return values
        return values.reshape(len(self.rows), -1)[self.rows]


class _KernelSweeping(_Sweeping):
    """The kernel: examples side by side, nothing made that is not sent."""

    engine = "compiled"

    def __init__(self, circuit: MessageUpdate, sent: NDArray[np.bool_]) -> None:
        from loopwise.budget.gating.kernels.chosen import ChosenWorkspace

        layout, problem = circuit.layout, circuit.problem
        self.circuit, self.batch = circuit, problem.batch
        self.plan = _plan(layout, sent)
        count = max(1, self.batch.numel())
        self.lanes = _Lanes.of(count)
        with torch.no_grad():
            self.tables = self.lanes.tables(_tables(circuit, count))
            start = circuit.initial().reshape(count, -1)[0].double().numpy()  # that of every example
            unary = circuit.unary.expand(*self.batch, layout.states).reshape(count, -1).double().numpy()
        self.m = self.lanes.same(start)
        self.sums = self.lanes.pack(unary + np.bincount(layout.slot_state, start, minlength=layout.states))
        self.starts = layout.state_start.astype(np.uintp)
        sizes = np.diff(self.plan.slot.astype(np.int64))
        each = [int(sizes[np.flatnonzero(row)].sum()) for row in sent]
        widest = int(np.diff(self.plan.slot[self.plan.edges].astype(np.int64)).max(initial=1))
        self.workspace = ChosenWorkspace(
            np.empty(max([1, *each]) * self.lanes.width), np.empty(widest * self.lanes.width)
        )

    def sweep(self, first: int, last: int) -> Tensor:
        self._send(first, last)
        return self.states()

    def _send(self, first: int, last: int) -> None:
        from loopwise.budget.gating.kernels.chosen import send_chosen

        if last > first and len(self.plan.order):
            send_chosen(self.plan, first, last, self.tables, self.m, self.sums, self.workspace, self.lanes.tag)

    def states(self) -> Tensor:
        return self._tensor(self._beliefs()).to(self.circuit.problem.like.dtype)

    def _beliefs(self) -> NDArray[np.float64]:
        from loopwise.budget.gating.kernels.chosen import beliefs_of

        found = np.empty_like(self.sums)
        if len(found):
            beliefs_of(self.starts, self.sums, found, self.lanes.tag)
        return found

    def all_sweeps(self, limit: int) -> tuple[Tensor, Tensor]:
        self._send(0, limit - 1)
        before = self._beliefs()
        self._send(limit - 1, limit)
        after, like = self._beliefs(), self.circuit.problem.like
        change = self.lanes.largest(np.abs(after - before))
        return self._tensor(after).to(like.dtype), torch.from_numpy(change).reshape(self.batch).to(like.dtype)

    def messages(self) -> Tensor:
        return self._tensor(self.m).to(self.circuit.problem.like.dtype)

    def keep(self, rows: Tensor) -> None:
        chosen, before = rows.numpy(), self.lanes
        self.lanes = _Lanes(int(chosen.sum()), before.width)
        self.m, self.sums = (self.lanes.pack(before.unpack(values)[chosen]) for values in (self.m, self.sums))
        if before.examples > 1 and len(self.tables) > int(self.plan.cell[-1]):
            self.tables = self.lanes.pack(before.unpack(self.tables)[chosen])

    def _tensor(self, values: NDArray[np.float64]) -> Tensor:
        found = torch.from_numpy(self.lanes.unpack(values))
        return found.reshape(*self.batch, -1) if len(found) == max(1, self.batch.numel()) else found


class _Lanes(NamedTuple):
    """So many examples in blocks, ``width`` side by side; the last block is filled up with the last example."""

    examples: int
    width: int

    @staticmethod
    def of(count: int) -> _Lanes:
        return _Lanes(count, 1 if count == 1 else FEW_LANES if count <= FEW_LANES else LANES)

    @property
    def blocks(self) -> int:
        return -(-self.examples // self.width)

    @property
    def tag(self) -> tuple[int, ...]:
        return lane_tag(self.width)

    def pack(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """``[examples, columns]`` as ``[blocks, columns, lanes]``, flat."""
        missing = self.blocks * self.width - self.examples
        if missing:
            rows = np.concatenate([rows, np.broadcast_to(rows[-1], (missing, rows.shape[1]))])
        return rows.reshape(self.blocks, self.width, rows.shape[1]).transpose(0, 2, 1).reshape(-1)

    def unpack(self, flat: NDArray[np.float64]) -> NDArray[np.float64]:
        """Back again."""
        columns = len(flat) // (self.blocks * self.width)
        rows = flat.reshape(self.blocks, columns, self.width).transpose(0, 2, 1)
        return rows.reshape(self.blocks * self.width, columns)[: self.examples]

    def same(self, row: NDArray[np.float64]) -> NDArray[np.float64]:
        """One row for all examples, packed."""
        return np.tile(np.repeat(row, self.width), self.blocks)

    def largest(self, flat: NDArray[np.float64]) -> NDArray[np.float64]:
        """The largest number of each example, 0 where there is none."""
        columns = len(flat) // (self.blocks * self.width)
        found: NDArray[np.float64] = flat.reshape(self.blocks, columns, self.width).max(1, initial=0.0)
        return found.reshape(-1)[: self.examples]

    def tables(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Tables ``[examples, cells]`` packed, and those that all examples share, ``[1, cells]``, as they are."""
        return rows[0].copy() if len(rows) == 1 else self.pack(rows)


def _plan(layout: Layout, sent: NDArray[np.bool_]) -> Chosen:
    from loopwise.budget.gating.kernels.chosen import Chosen

    sizes = layout.graph.cardinalities[layout.edge_variable]
    cells = [np.full(member.group.count, member.group.cells) for member in layout.message_groups]
    numbers = (
        starts_of(sent.sum(1)),
        np.nonzero(sent)[1],
        starts_of(sizes),
        layout.state_start[layout.edge_variable],
        layout.edge_factor,
        layout.factor_edges,
        starts_of(np.concatenate([np.zeros(0, dtype=np.int64), *cells])),
    )
    return Chosen(layout.states, *(np.ascontiguousarray(each, dtype=np.uintp) for each in numbers))


def _tables(circuit: MessageUpdate, count: int) -> NDArray[np.float64]:
    """Tables as probabilities, each over its largest, ``[examples or 1, cells]``."""
    found = []
    for member, table in zip(circuit.layout.message_groups, circuit.tables, strict=True):
        axes = tuple(range(table.ndim - member.group.arity, table.ndim))
        scaled = (table - table.amax(axes, keepdim=True)).double().exp()
        shared = table.ndim == member.group.arity + 1
        whole = scaled if shared else scaled.expand(*circuit.problem.batch, *scaled.shape[-1 - member.group.arity :])
        found.append(whole.reshape(1 if shared else count, -1))
    rows = max([len(each) for each in found], default=1)
    flat = [each.expand(rows, -1) for each in found] or [torch.zeros(1, 0, dtype=torch.float64)]
    whole_rows: NDArray[np.float64] = torch.cat(flat, 1).numpy()
    return whole_rows


def _has_kernel(problem: Problem, method: MessagePassing, circuit: MessageUpdate) -> bool:
    """Whether the kernel takes this: plain sums, finite tables, no gradient, on the CPU."""
    numbers = method.counting_numbers(problem.graph)
    plain = circuit.plain and not circuit.maximise and not isinstance(method.damping, Tensor) and method.damping == 0
    finite = all(np.isfinite(problem.extent(name).low) for name in problem.tables)
    here = problem.like.device.type == "cpu" and problem.batch.numel() > 0
    return plain and finite and here and not method.differentiable(problem, numbers)


def _beliefs(circuit: MessageUpdate, ended: _Ended, sent: NDArray[np.bool_], engine: str) -> Beliefs:
    each = starts_of(sent.sum(1))
    status = Status(
        method="chosen messages",
        exact=circuit.layout.edges == 0,
        converged=circuit.layout.edges == 0,
        sweeps=ended.sweeps,
        residual=ended.change,
        messages=int(each[ended.sweeps.numpy()].sum()),
        engine=engine,
        domain="log",
        notes=() if circuit.layout.edges == 0 else (NOTE,),
    )
    final = ReferenceSolution(circuit, ended.messages, ended.states, ended.sweeps, ended.change, status.messages)
    reading = Reading(circuit.problem, final, circuit.numbers, circuit.method.temperature, status)
    return Beliefs(
        circuit.problem.graph, ended.states, reading.factor, reading.log_partition, status, lambda: ended.messages
    )
