"""The compiled engine where factors are not all tables, or messages weighted: sweeps taken step by step.

In: a problem and a method. Out: a solution. Stage: inference. Numba kernels run the sweeps
(``steps``); the reference engine's circuit scales the potentials and reads factor beliefs off the
messages. Results and gradients agree with the reference engine.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from loopwise.gradient.base import Report, check_finite
from loopwise.gradient.fixed_point import FixedPoint, OneStep
from loopwise.gradient.unroll import Checkpoints, Fitting, Recompute, Store, Tape, Unroll
from loopwise.graph.factor_graph import Integers
from loopwise.inference.base import Problem
from loopwise.inference.decode import decode
from loopwise.inference.messages.counting import CountingNumbers
from loopwise.inference.messages.kernels.convergence import NEAR
from loopwise.inference.messages.message_passing import MessagePassing, Solution
from loopwise.inference.messages.message_weights import SweepWeights
from loopwise.inference.messages.pending import Growing
from loopwise.inference.messages.reference import MessageUpdate, Reference, ReferenceSolution, settled, watched
from loopwise.inference.messages.schedules import Flooding, Groups, RandomSequential, Residual, Sequential
from loopwise.inference.messages.stepwise.serial import SerialProgram, SerialRun
from loopwise.inference.messages.stepwise.steps import (
    Checkpoint,
    Floats,
    Program,
    RunAdjoints,
    SteppedRun,
    StepPotentials,
    Stretch,
)
from loopwise.inference.messages.stop import Watches
from loopwise.inference.normalise import variable_softmax
from loopwise.notices import GradientError


@dataclass(frozen=True)
class Stepwise:
    """Numba kernels on the CPU, driven step by step; one thread but for trees."""

    @property
    def name(self) -> str:
        return "compiled"

    @staticmethod
    def takes(problem: Problem, method: MessagePassing) -> bool:
        """Whether there are steps for this: for all but nothing to send, and other types of numbers."""
        return (
            isinstance(method.schedule, (Flooding, Groups, Sequential, RandomSequential, Residual))
            and problem.like.dtype in (torch.float32, torch.float64)
            and problem.batch.numel() > 0
            and problem.graph.layout.edges > 0
        )

    def solve(self, problem: Problem, method: MessagePassing, numbers: CountingNumbers) -> Solution:
        if not self.takes(problem, method):
            return Reference().solve(problem, method, numbers)
        session = _Session(MessageUpdate(problem, method, numbers))
        wanted = method.differentiable(problem, numbers)
        if not wanted or not isinstance(method.gradient, (FixedPoint, OneStep)):
            return session.solve(wanted)
        with torch.no_grad():
            found = session.solve(wanted=False)
        start = ReferenceSolution(
            session.circuit,
            found.messages(),
            found.states,
            found.sweeps,
            found.residual,
            found.sent,
            stopped=found.stopped,
        )
        flooding = session
        if isinstance(method.schedule, Residual):  # whose fixed points are those of sweeps
            flooding = _Session(MessageUpdate(problem, replace(method, schedule=Flooding()), numbers))
        return watched(settled(start, method.gradient, flooding.sweep), method)


@dataclass
class StepSolution:
    """Where a run ended; messages are read off it when asked for."""

    session: _Session
    circuit: MessageUpdate  # the session's, with what variables remember
    call: _SweepsCall
    states: Tensor
    trace: Tensor | None
    token: Tensor  # connects messages to what they came from
    report: Report | None
    domain: str = "log"

    def __post_init__(self) -> None:
        batch, like = self.session.problem.batch, self.session.problem.like
        self.sweeps = torch.from_numpy(self.call.record.sweeps).reshape(batch)
        self.residual = torch.from_numpy(self.call.record.residual).to(like.dtype).reshape(batch)
        self.sent = self.call.record.sent
        self.stopped = self.call.record.stopped.reshape(batch)

    @cached_property
    def _m(self) -> Tensor:
        found: Tensor = _Messages.apply(self.call, self.token)  # type: ignore[no-untyped-call]
        return found.reshape(*self.session.problem.batch, -1)

    @cached_property
    def _n(self) -> Tensor:
        return self.circuit.to_factors(self._m)

    def messages(self) -> Tensor:
        return self._m

    def factor(self, name: str) -> Tensor:
        return self.circuit.factor(name, self._n)

    def structured(self) -> Tensor:
        return self.circuit.structured_energies(self._n)

    def assignment(self) -> Tensor:
        return decode(self.session.problem, self.states, self.factor)

    def scopes_maximised(self, values: Tensor) -> Tensor:
        """See :class:`~loopwise.inference.maximum.method.ScopeSolution`."""
        return self.circuit.scopes_maximised(self._n, values)


@dataclass
class _Record:
    """What a run came to, and what it kept for the way back."""

    logs: Floats  # of beliefs
    trace: list[Floats]  # logs of beliefs after each sweep, if asked for
    sweeps: Integers
    residual: Floats
    stretches: list[Stretch | Checkpoint]
    stopped: Tensor  # [examples] the rule that ended each, -1 for none of those that watch
    sent: int  # messages in all

    @property
    def made(self) -> int:
        """For how many sweeps there are adjoints of beliefs: by residuals, all messages count as one."""
        first = self.stretches[0]
        if isinstance(first, Stretch) and len(self.stretches) == 1:
            return len(first.kept)
        return int(self.sweeps.max(initial=0))


@dataclass
class _SweepsCall:
    """One application of :class:`_Sweeps`: how it runs, and what became of it."""

    session: _Session
    method: MessagePassing
    heard: bool
    tape: Tape | None
    run: SteppedRun | SerialRun = None  # type: ignore[assignment]  # set by the forward pass, as the next
    record: _Record = None  # type: ignore[assignment]
    of_m: Tensor | None = None  # adjoints of messages, left for the backward pass


def _solve(
    run: SteppedRun | SerialRun,
    method: MessagePassing,
    dtype: torch.dtype,
    reach: float,
    tape: Tape | None,
    watches: Watches,
) -> _Record:
    """Sweeps until every example has stopped: as the reference engine judges it."""
    from loopwise.inference.messages.stepwise.kernels.sweeps import largest_change

    examples, limit, threshold = run.examples, method.iterations, method.threshold(dtype)
    start = run.numbers.initial if len(run.numbers.initial) else None
    every = _spacing(tape, limit)
    stretch = Stretch.empty(0) if isinstance(tape, Store) else None
    stretches: list[Stretch | Checkpoint] = [stretch or Checkpoint(0, start, run.bias.copy())]
    rows, states = np.arange(examples), np.zeros(run.sums.shape)
    change, moved = np.zeros(examples), np.zeros(examples)
    sweeps, residual = np.zeros(examples, dtype=np.int64), np.full(examples, np.inf)
    previous, expected = np.full(examples, np.inf), np.full(examples, np.inf)
    run.begin(start)
    run.add_up()
    run.beliefs(rows, states, change)
    watches.begin(torch.from_numpy(states))
    trace = [run.logs()] if method.trace else []
    for sweep in range(1, limit + 1):
        judged = method.judge_messages and bool((expected[rows] <= NEAR * threshold).any())
        before = run.messages() if judged else None
        if every and sweep > 1 and (sweep - 1) % every == 0:
            stretches.append(run.checkpoint(sweep - 1))
        run.sweep(rows, sweep, stretch)
        run.beliefs(rows, states, change)
        moved[rows] = 0.0
        if before is not None:
            largest_change(rows, run.messages(), before, moved)
            moved[rows] *= reach
        left = np.where(change > threshold, change, previous)
        rested = np.where(moved <= threshold, change, np.maximum(change, moved))
        left = np.where(expected > NEAR * threshold, left, rested)
        residual[rows], sweeps[rows] = left[rows], sweep
        # The kernels of the other engine look at no earlier changes.
        if method.tolerance > 0 or watches or sweep > limit - 2:
            shrinks = (change > 0) & (change < previous) & (previous < np.inf)
            ratio = np.divide(change, previous, out=np.ones(examples), where=shrinks)
            expected, previous = np.where(shrinks, change * ratio, change), change.copy()
        if method.trace:
            trace.append(run.logs())
        if watches:
            left[rows[watches.fire(sweep, rows, torch.from_numpy(states[rows]))]] = -np.inf
        if method.tolerance > 0 or watches:
            rows = rows[left[rows] >= method.tolerance]
            if not len(rows):
                break
    enough = method.enough(run.program.layout.graph)
    if enough is not None:
        residual[sweeps >= enough] = 0.0
    layout = run.program.layout
    each = layout.sequential.messages if isinstance(method.schedule, Sequential) else layout.edges
    sent = int(sweeps.sum()) * each
    return _Record(run.logs(), trace, sweeps, residual, stretches, watches.stopped, sent)


def _solve_by_residual(
    run: SerialRun, method: MessagePassing, dtype: torch.dtype, reach: float, tape: Tape | None
) -> _Record:
    """The message that may change most first, example by example, as the reference engine has it."""
    edges, examples = run.program.layout.edges, run.examples
    damping = method.plain_damping
    rule = Growing(method.tolerance, reach, damping, torch.finfo(dtype).eps)
    run.begin(run.numbers.initial if len(run.numbers.initial) else None)
    stretch, sent, residual = Stretch.empty(0), np.zeros(examples, dtype=np.int64), np.zeros(examples)
    kept = []
    for row in range(examples):
        made, sent[row], residual[row] = run.by_residual(row, method.iterations * edges, rule, tape is not None)
        kept.append(made)
    stretch.kept.append(kept)
    run.add_up()
    rows, states, change = np.arange(examples), np.zeros(run.sums.shape), np.zeros(examples)
    run.beliefs(rows, states, change)  # which refuses what is impossible
    stopped = torch.full((examples,), -1)
    return _Record(run.logs(), [], -(-sent // edges), residual, [stretch], stopped, int(sent.sum()))


def _spacing(tape: Tape | None, limit: int) -> int:
    """Sweeps between two whose messages are kept, 0 for none (the whole tape is, or there is no way back)."""
    if tape is None or isinstance(tape, (Store, Recompute)):
        return 0
    wanted = tape.every if isinstance(tape, Checkpoints) else None
    return wanted or max(1, round(limit**0.5))


def run_of(problem: Problem, method: MessagePassing, numbers: CountingNumbers) -> SteppedRun | SerialRun:
    """A run that has begun and made no sweep yet, to be driven from outside; without a gradient."""
    session = _Session(MessageUpdate(problem, method, numbers))
    given = session.given.numbers()
    run = session.run(given, session.heard, False)
    run.begin(given.initial if len(given.initial) else None)
    return run


class Given(NamedTuple):
    """What a run is given, as tensors; see :class:`~loopwise.inference.messages.stepwise.steps.StepPotentials`."""

    exponents: Tensor
    powers: Tensor
    shares: Tensor
    memory: Tensor
    initial: Tensor
    unary: Tensor
    own: Tensor
    tables: tuple[Tensor, ...]

    @staticmethod
    def unflattened(tensors: tuple[Tensor, ...]) -> Given:
        """Fields one after another, tables last."""
        exponents, powers, shares, memory, initial, unary, own = tensors[:7]
        return Given(exponents, powers, shares, memory, initial, unary, own, tensors[7:])

    def flattened(self) -> tuple[Tensor, ...]:
        return (*self[:7], *self.tables)

    def numbers(self) -> StepPotentials:
        return StepPotentials(
            _array(self.exponents),
            _array(self.powers),
            _array(self.shares),
            _array(self.memory),
            _array(self.initial),
            _array(self.unary),
            _array(self.own),
            [_array(table) for table in self.tables],
        )


class _Session:
    """One call of the engine: the reference engine's circuit, whose scaled potentials the kernels run on."""

    def __init__(self, circuit: MessageUpdate) -> None:
        self.circuit, self.problem, self.method = circuit, circuit.problem, circuit.method
        schedule = self.method.schedule
        self.serial = not isinstance(schedule, (Flooding, Groups)) or bool(self.method.temperature == 0)
        kind = SerialProgram if self.serial else Program
        self.program = kind.of(circuit.layout, schedule)
        self.examples = self.problem.batch.numel()
        self.given = self._given()

    def run(self, numbers: StepPotentials, heard: bool, parameters: bool) -> SteppedRun | SerialRun:
        """The kernels' run of ``numbers``."""
        if isinstance(self.program, SerialProgram):
            maximise = bool(self.method.temperature == 0)
            return SerialRun(self.program, numbers, self.examples, heard, parameters, maximise)
        return SteppedRun(self.program, numbers, self.examples, heard, parameters)

    @property
    def heard(self) -> bool:
        """Whether the first stage hears of potentials in the first sweep."""
        schedule = self.method.schedule
        return not (isinstance(schedule, Groups) and schedule.uniform_start and self.problem.initial is None)

    def solve(self, wanted: bool) -> StepSolution:
        """Sweeps from the start; with results that can be differentiated if ``wanted``."""
        layout = self.circuit.layout
        call = _SweepsCall(self, self.method, self.heard, self._tape() if wanted else None)
        token, logs, *trace = self._apply(call, self.given)
        circuit = self.circuit
        if call.run.remembers:
            circuit = copy.copy(circuit)
            circuit.unary = trace.pop(0).reshape(*self.problem.batch, layout.states)
        states = variable_softmax(layout, logs).reshape(*self.problem.batch, layout.states)
        kept = None
        if trace:
            kept = variable_softmax(layout, trace[0]).reshape(len(trace[0]), *states.shape)
        report = Report(type(self.method.gradient).__name__) if states.requires_grad else None
        return StepSolution(self, circuit, call, states, kept, token, report)

    def sweep(self, m: Tensor) -> Tensor:
        """One more sweep from ``m`` ``[*batch, slots]``, differentiable."""
        method = replace(self.method, iterations=1, tolerance=0.0, stop=None, trace=False)
        call = _SweepsCall(self, method, True, Store())
        token = self._apply(call, self.given._replace(initial=m.reshape(self.examples, -1)))[0]
        found: Tensor = _Messages.apply(call, token)  # type: ignore[no-untyped-call]
        return found.reshape(m.shape)

    def _apply(self, call: _SweepsCall, given: Given) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = _Sweeps.apply(call, *given.flattened())  # type: ignore[no-untyped-call]
        return found

    def _given(self) -> Given:
        circuit, examples, batch = self.circuit, self.examples, self.problem.batch

        def flat(values: Tensor, trailing: int) -> Tensor:
            """Batch dimensions flattened, one row where all examples share the values."""
            lead = values.shape[: values.ndim - trailing]
            if all(size == 1 for size in lead):
                return values.reshape(1, *values.shape[values.ndim - trailing :])
            return values.expand(*batch, *values.shape[len(lead) :]).reshape(examples, *values.shape[len(lead) :])

        tables = [
            flat(table.flatten(-member.group.arity), 2)
            for member, table in zip(circuit.layout.message_groups, circuit.tables, strict=True)
        ]
        own = []
        for member, values in zip(circuit.layout.structured, circuit.own, strict=True):
            if values is not None:
                own.append(flat(values, len(member.factor.potentials_shape or ())).flatten(1))
        rows = max((len(each) for each in own), default=1)
        nothing, start = circuit.unary.new_zeros(1, 0), self.problem.initial
        powers, shares, memory = (nothing[:0] if each is None else each for each in self._weights())
        return Given(
            nothing[0] if circuit.plain else circuit.exponents,
            powers,
            shares,
            memory,
            nothing[:0] if start is None else start.expand(*batch, start.shape[-1]).reshape(examples, -1),
            flat(circuit.unary, 1),
            torch.cat([each.expand(rows, -1) for each in own], 1) if own else nothing,
            tuple(tables),
        )

    def _weights(self) -> SweepWeights:
        """With damping, which may be an option, and weights of messages either both or none."""
        circuit, damping = self.circuit, self.method.damping
        powers, shares, memory = circuit.weights or (None, None, None)
        one = circuit.unary.new_ones(1, circuit.layout.edges)
        if shares is None and (isinstance(damping, Tensor) or damping != 0):
            shares = one * (damping.to(one) if isinstance(damping, Tensor) else damping)
        if powers is not None or shares is not None:
            powers, shares = one if powers is None else powers, 0.0 * one if shares is None else shares
        return SweepWeights(powers, shares, memory)

    def _tape(self) -> Tape:
        if self.serial:
            return Store()
        tape = self.method.gradient.tape if isinstance(self.method.gradient, Unroll) else Store()
        if not isinstance(tape, Fitting):
            return tape
        weighted = len(self.given.powers) > 0
        arrays = 1 + (2 if weighted else int(self.given.exponents.requires_grad))  # as Workspace.begin_sweep has it
        size = 8.0 * arrays * self.method.iterations * self.examples * self.circuit.layout.slots
        return Store() if size <= tape.limit else Checkpoints()

    def reference(self, given: Given, sweeps: Tensor, heard: bool) -> tuple[Tensor, ...]:
        """The same run in plain torch, for derivatives of its gradient: messages, logs of beliefs, what variables have
        in place of their potentials if they remember, and the trace of the logs."""
        circuit, layout = copy.copy(self.circuit), self.circuit.layout
        circuit.unary = circuit.own_unary = given.unary
        held = (given.powers, given.shares, given.memory)
        if any(len(each) for each in held):
            circuit.weights = SweepWeights(*(each if len(each) else None for each in held))
        if not circuit.plain:
            circuit.exponent = given.exponents[circuit.slot_edge]
        circuit.tables = [
            table.reshape(len(table), member.group.count, *member.group.shape)
            for member, table in zip(layout.message_groups, given.tables, strict=True)
        ]
        pieces = torch.split(given.own, np.diff(self.program.own_start).tolist(), 1)
        circuit.own = [
            None if own is None else piece.reshape(len(piece), *(member.factor.potentials_shape or ()))
            for member, own, piece in zip(layout.structured, self.circuit.own, pieces, strict=True)
        ]
        if isinstance(self.method.schedule, Residual):
            raise GradientError(
                "the compiled engine has no second derivatives of the residual schedule; use Flooding or Sequential, "
                "or engine=Reference()"
            )
        m = given.initial if len(given.initial) else circuit.initial().reshape(self.examples, -1)
        trace, n = [circuit.logs(m)], circuit.to_factors(m)
        for sweep in range(1, int(sweeps.max()) + 1):
            running = (sweeps >= sweep)[:, None]
            circuit = circuit.at(sweep, m, running)
            if isinstance(self.method.schedule, Sequential):
                moved, sent = circuit.sequential_sweep(m, n)
                n = torch.where(running, sent, n)
            else:
                moved = circuit.sweep(m, first=sweep == 1 and not heard, number=sweep)
            m = torch.where(running, moved, m)
            trace.append(circuit.logs(m))
        bias = (circuit.unary.expand(trace[-1].shape),) if len(given.memory) else ()
        return m, trace[-1], *bias, torch.stack(trace)


class _Sweeps(torch.autograd.Function):
    """Arguments: the call, then those of :class:`Given`. Results: a token for :class:`_Messages`, logs of beliefs, what
    variables have in place of their potentials if they remember, and the logs after each sweep if they are traced."""

    @staticmethod
    def forward(ctx: Any, call: _SweepsCall, *tensors: Tensor) -> tuple[Tensor, ...]:
        session, given, like = call.session, Given.unflattened(tensors), call.session.problem.like
        trained = given.exponents.requires_grad
        call.run = session.run(given.numbers(), call.heard, trained)
        if isinstance(call.method.schedule, Residual):
            assert isinstance(call.run, SerialRun)
            call.record = _solve_by_residual(call.run, call.method, like.dtype, session.circuit.reach, call.tape)
        else:
            watches = Watches(call.method.stop, session.problem, call.method.iterations)
            call.record = _solve(call.run, call.method, like.dtype, session.circuit.reach, call.tape, watches)
        ctx.call = call
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        found = [np.zeros(1), call.record.logs] + ([call.run.bias] if call.run.remembers else [])
        found += [np.stack(call.record.trace)] if call.record.trace else []
        return tuple(torch.from_numpy(each).to(like.dtype) for each in found)

    @staticmethod
    def backward(ctx: Any, token: Tensor | None, *adjoints: Tensor | None) -> tuple[Tensor | None, ...]:
        call: _SweepsCall = ctx.call
        of_m, call.of_m = call.of_m, None
        for adjoint in (of_m, *adjoints):
            check_finite(adjoint)
        if torch.is_grad_enabled():
            return (None, *_differentiable_gradient(ctx, of_m, adjoints))
        record, last = call.record, call.record.made
        of_logs = [np.zeros(record.logs.shape) for _ in range(last + 1)]
        if adjoints[0] is not None:
            of_logs[last] += _array(adjoints[0])
        rest = [None if adjoint is None else _array(adjoint) for adjoint in adjoints[1:]]
        of_bias = rest.pop(0) if call.run.remembers else None
        if rest and rest[0] is not None:
            for whole, each in zip(of_logs, rest[0], strict=True):
                whole += each
        given = RunAdjoints(None if of_m is None else _array(of_m), of_bias, of_logs)
        found = call.run.pull_back(record.stretches, record.sweeps, given)
        flat = (*found[:7], *found.tables)
        return (None, *(torch.from_numpy(each).to(like) for each, like in zip(flat, ctx.saved_tensors, strict=True)))


class _Messages(torch.autograd.Function):
    """The messages that a run ended with, made only if asked for; their adjoints wait for the run's own backward, which
    the token calls."""

    @staticmethod
    def forward(ctx: Any, call: _SweepsCall, token: Tensor) -> Tensor:
        ctx.call = call
        ctx.set_materialize_grads(False)
        return torch.from_numpy(call.run.messages()).to(token.dtype)

    @staticmethod
    def backward(ctx: Any, adjoint: Tensor | None) -> tuple[None, Tensor | None]:
        if adjoint is None:
            return None, None
        ctx.call.of_m = adjoint if ctx.call.of_m is None else ctx.call.of_m + adjoint
        return None, adjoint.new_zeros(1)


def _differentiable_gradient(ctx: Any, of_m: Tensor | None, adjoints: tuple[Tensor | None, ...]) -> list[Tensor | None]:
    """The gradient as a function that can be differentiated again: that of the same run in torch."""
    tensors, call = ctx.saved_tensors, ctx.call
    needed = [place for place, wanted in enumerate(ctx.needs_input_grad[1:]) if wanted]
    results = call.session.reference(Given.unflattened(tensors), torch.from_numpy(call.record.sweeps), call.heard)
    pairs = [
        (result, adjoint) for result, adjoint in zip(results, (of_m, *adjoints), strict=False) if adjoint is not None
    ]
    sources = [tensors[place] for place in needed]
    outputs, seeds = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    found = torch.autograd.grad(outputs, sources, seeds, create_graph=True, allow_unused=True)
    answer: list[Tensor | None] = [None] * len(tensors)
    for place, gradient in zip(needed, found, strict=True):
        answer[place] = gradient
    return answer


def _array(tensor: Tensor) -> Floats:
    array: Floats = tensor.detach().to("cpu", torch.float64).contiguous().numpy()
    return array
