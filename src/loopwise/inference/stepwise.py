"""The compiled engine for graphs whose factors are not all tables: sweeps taken step by step.

In: a problem and a method. Out: a solution. Stage: inference. A sweep is a sequence of steps: a stage of factors sends,
tables by one kernel a group and structured factors by one a kind, then the variables send. Messages are logs in the
order of the layout, float64 whatever the potentials are; results agree with the reference engine.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.gradient.base import check_finite
from loopwise.gradient.fixed_point import FixedPoint, OneStep
from loopwise.gradient.unroll import Checkpoints, Fitting, Recompute, Store, Tape, Unroll
from loopwise.graph.factor_graph import Integers
from loopwise.graph.layout import Layout
from loopwise.graph.structured.compiled import CompiledMessages, kinds_of
from loopwise.inference.base import Problem
from loopwise.inference.counting import CountingNumbers
from loopwise.inference.message_passing import MessagePassing
from loopwise.inference.message_weights import SweepWeights
from loopwise.inference.normalise import variable_softmax
from loopwise.inference.reference import Circuit, Reference, ReferenceSolution, settled, watched
from loopwise.inference.schedules import Flooding, Groups, Schedule, stages
from loopwise.inference.stop import Watches
from loopwise.kernels.convergence import NEAR
from loopwise.kernels.sweeps import Edges, Tables, Weights
from loopwise.notices import ImpossibleError

Floats = NDArray[np.float64]
LEAST_PRODUCT = 1e-280  # what a product of the numbers of a cell may come to, in the probability domain


@dataclass(frozen=True)
class Stepwise:
    """Numba kernels on the CPU, driven step by step; one thread but for trees."""

    @property
    def name(self) -> str:
        return "compiled"

    @staticmethod
    def takes(problem: Problem, method: MessagePassing) -> bool:
        """Whether there are steps for this: sum-product, flooding or by groups."""
        return (
            isinstance(method.schedule, (Flooding, Groups))
            and bool(method.temperature != 0)
            and problem.like.dtype in (torch.float32, torch.float64)
            and problem.batch.numel() > 0
            and problem.graph.layout.edges > 0
        )

    def solve(self, problem: Problem, method: MessagePassing, numbers: CountingNumbers) -> ReferenceSolution:
        if not self.takes(problem, method):
            return Reference().solve(problem, method, numbers)
        session = _Session(Circuit(problem, method, numbers), numbers)
        wanted = method.differentiable(problem, numbers)
        if not wanted or not isinstance(method.gradient, (FixedPoint, OneStep)):
            return watched(session.solve(wanted), method)
        with torch.no_grad():
            found = session.solve(False)
        return watched(settled(found, method.gradient, session.sweep), method)


class Stage(NamedTuple):
    """Factors that send together."""

    ranges: Integers  # [ranges, 2] their edges
    slots: tuple[slice, ...]
    tables: tuple[int, ...]  # numbers of table groups
    kinds: tuple[tuple[CompiledMessages, tuple[int, ...]], ...]  # structured factors by kind, and their numbers


class Program:
    """What depends on the graph and the schedule only; kept on the layout."""

    def __init__(self, layout: Layout, schedule: Schedule) -> None:
        self.layout = layout
        sizes = layout.graph.cardinalities[layout.edge_variable]
        slot = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.edges = Edges(slot, layout.state_start[layout.edge_variable], layout.state_start)
        self.tables = [
            Tables(
                member.group.count,
                np.array(member.group.shape, dtype=np.int64),
                member.cell_slots,
                member.slot_start,
                LEAST_PRODUCT ** (1 / member.group.arity),
            )
            for member in layout.message_groups
        ]
        shapes = [member.factor.potentials_shape for member in layout.structured]
        sizes_of = [0 if shape is None else int(np.prod(shape)) for shape in shapes]
        self.own_start = np.concatenate([[0], np.cumsum(sizes_of)]).astype(np.int64)
        self.stages = [self._stage(names) for names in stages(schedule, layout.graph)]
        self.table_slots = [
            (member.slot_start, member.slot_start + member.group.count * member.width)
            for member in layout.message_groups
        ]

    @staticmethod
    def of(layout: Layout, schedule: Schedule) -> Program:
        key = ("stepwise", schedule if isinstance(schedule, Groups) else None)
        if key not in layout.storages:
            layout.storages[key] = Program(layout, schedule)
        found: Program = layout.storages[key]
        return found

    def _stage(self, names: tuple[str, ...]) -> Stage:
        layout = self.layout
        tables = tuple(k for k, member in enumerate(layout.message_groups) if member.group.name in names)
        programs = [k for k, member in enumerate(layout.structured) if member.name in names]
        ends = [(layout.message_groups[k].edge_start, layout.message_groups[k].group) for k in tables]
        spans = [(start, start + group.count * group.arity) for start, group in ends]
        spans += [
            (member.edge_start, member.edge_start + member.factor.arity)
            for member in (layout.structured[k] for k in programs)
        ]
        ranges = _joined(spans)
        kinds = []
        for kind, places in kinds_of([layout.structured[k].factor for k in programs]):
            chosen = np.array([programs[place] for place in places], dtype=np.int64)
            starts = np.array([layout.structured[k].slot_start for k in chosen], dtype=np.int64)
            factors = [layout.structured[k].factor for k in chosen]
            kinds.append((kind(factors, starts, self.own_start[chosen]), tuple(chosen.tolist())))
        slots = tuple(slice(int(self.edges.slot[low]), int(self.edges.slot[high])) for low, high in ranges)
        return Stage(ranges, slots, tables, tuple(kinds))


def _joined(spans: list[tuple[int, int]]) -> Integers:
    """Spans of edges, those that follow one another made one."""
    found: list[list[int]] = []
    for low, high in sorted(span for span in spans if span[0] < span[1]):
        if found and found[-1][1] == low:
            found[-1][1] = high
        else:
            found.append([low, high])
    return np.array(found, dtype=np.int64).reshape(-1, 2)


class Given(NamedTuple):
    """What a run is given: tensors, or adjoints of them. One row where all examples share something."""

    exponents: Tensor  # [edges]
    powers: Tensor  # [1 or sweeps, edges], weights of messages; no rows where there are neither these nor damping
    shares: Tensor  # [1 or sweeps, edges], what messages keep of the old ones, by damping
    memory: Tensor  # [1 or sweeps, variables], no rows without it
    initial: Tensor  # [examples, slots]
    unary: Tensor  # [1 or examples, states]
    own: Tensor  # [1 or examples, numbers of all structured factors]
    tables: tuple[Tensor, ...]  # [1 or examples, factors, cells]


def _unflattened(tensors: tuple[Tensor, ...]) -> Given:
    """Fields one after another, tables last."""
    exponents, powers, shares, memory, initial, unary, own = tensors[:7]
    return Given(exponents, powers, shares, memory, initial, unary, own, tensors[7:])


class Stretch(NamedTuple):
    """What the backward needs of some sweeps in a row."""

    first: int  # the sweep before the first of them
    n: list[Floats]  # messages to factors that each sweep's stages saw
    kept: list[list[list[Any]]]  # what each kind wants back, by sweep and stage
    m: list[list[Floats]]  # messages to variables before each stage, and after the last; empty unless asked for
    fresh: list[list[Floats]]  # those that each stage sent, before they were weighted; empty unless they are
    logs: list[Floats]  # of beliefs before each sweep; empty unless variables remember them

    @staticmethod
    def empty(first: int) -> Stretch:
        return Stretch(first, [], [], [], [], [])


class Checkpoint(NamedTuple):
    """Where a run stood after a sweep."""

    m: Floats
    bias: Floats  # what variables have in place of their own potentials; empty unless they remember


class Run:
    """The numbers of one call, and its sweeps."""

    def __init__(
        self, program: Program, given: Given, examples: int, plain: bool, heard: bool, parameters: bool
    ) -> None:
        from loopwise.kernels.sweeps import table_weights

        self.program, self.examples, self.heard = program, examples, heard
        self.powers, self.shares, self.memory = _array(given.powers), _array(given.shares), _array(given.memory)
        self.weighted, self.remembers = len(self.powers) > 0, len(self.memory) > 0
        self.parameters = parameters or self.weighted
        exponents = _array(given.exponents)
        self.exponents = exponents[:0] if plain else exponents
        self.unary, self.own, self.start = _array(given.unary), _array(given.own), _array(given.initial)
        self.bias = self.unary
        if self.remembers:
            self.bias = np.array(np.broadcast_to(self.unary, (examples, self.unary.shape[1])))
        self.weights = []
        for tables, tensor in zip(program.tables, given.tables, strict=True):
            theta = _array(tensor)
            weights = Weights(theta, np.empty(theta.shape), np.empty(theta.shape[:2], dtype=np.bool_))
            table_weights(theta, tables.least, weights.weight, weights.tame)
            self.weights.append(weights)
        layout = program.layout
        self.q = np.empty((examples, max((end for _, end in program.table_slots), default=0)))
        self.sums, self.counts = np.empty((examples, layout.states)), np.empty(layout.states, dtype=np.int64)
        self.possible = np.ones((examples, max(len(layout.structured), 1)), dtype=np.bool_)
        self.nothing = np.zeros((0, 2), dtype=np.int64)

    def blank(self) -> Floats:
        return np.empty((self.examples, self.program.layout.slots))

    def variables(self, rows: Integers, m: Floats, n: Floats, stage: int | None) -> None:
        """Variables send what ``stage`` is to see; logs of beliefs into ``sums``."""
        from loopwise.kernels.sweeps import variables_send

        ranges = self.nothing if stage is None else self.program.stages[stage].ranges
        variables_send(rows, self.program.edges, self.exponents, self.bias, m, ranges, n, self.sums, self.counts)

    def begin(self, rows: Integers, m: Floats, n: Floats, first: bool) -> None:
        """What the first stage of a sweep sees; in the very first sweep perhaps nothing."""
        self.variables(rows, m, n, 0)
        if first and not self.heard:
            for slots in self.program.stages[0].slots:
                n[rows, slots] = 0.0

    def recall(self, rows: Integers, m: Floats, n: Floats, sweep: int, stretch: Stretch | None) -> None:
        """What variables remember in sweep ``sweep`` of the beliefs in ``sums``, and what its first stage then sees."""
        from loopwise.kernels.message_weights import remember

        if not self.remembers:
            return
        remember(rows, self.program.layout.state_start, _row(self.memory, sweep), self.unary, self.sums, self.bias)
        if stretch is not None:
            stretch.logs.append(self.sums.copy())
        self.begin(rows, m, n, sweep == 1)

    def sweep(self, rows: Integers, m: Floats, n: Floats, turn: int, stretch: Stretch | None) -> None:
        """All stages once, in sweep ``turn``; ``n`` holds what the first of them sees, and gets what the others see."""
        from loopwise.kernels.message_weights import weigh

        kept, states, fresh = [], [], []
        for number, stage in enumerate(self.program.stages):
            if number:
                self.variables(rows, m, n, number)
            old = m.copy() if self.weighted or (stretch is not None and self.parameters) else m
            states.append(old)
            kept.append(self._stage(rows, stage, m, n))
            if self.weighted:
                fresh += [m.copy()] if stretch is not None else []
                powers, shares = _row(self.powers, turn), _row(self.shares, turn)
                weigh(rows, self.program.edges, stage.ranges, powers, shares, old, m)
        if stretch is not None:
            stretch.n.append(n)
            stretch.kept.append(kept)
            if self.parameters:
                stretch.m.append([*states, m.copy()])
            stretch.fresh.append(fresh)

    def _stage(self, rows: Integers, stage: Stage, m: Floats, n: Floats) -> list[Any]:
        from loopwise.kernels.sweeps import exponentials, tables_send

        for number in stage.tables:
            exponentials(rows, n, *self.program.table_slots[number], self.q)
            tables_send(rows, self.program.tables[number], self.weights[number], n, self.q, m)
        kept = []
        for kind, members in stage.kinds:
            possible = self.possible[:, : len(members)]
            possible[:] = True
            kept.append(kind.send(rows, n, self.own, m, possible))
            if not possible[rows].all():
                place = int(np.flatnonzero(~possible[rows].all(0))[0])
                kind.factors[place].refuse(torch.from_numpy(~possible[:, place].copy()))
        return kept

    def beliefs(self, rows: Integers, states: Floats, change: Floats) -> None:
        """Beliefs of ``sums``; ImpossibleError where a variable has none."""
        from loopwise.kernels.sweeps import beliefs_of

        dead = beliefs_of(rows, self.program.layout.state_start, self.sums, states, change)
        if dead >= 0:
            raise ImpossibleError(
                f"no configuration is possible: messages to variable {dead} contradict each other; "
                "relax a zero, or take back evidence"
            )

    def again(self, start: Checkpoint, low: int, high: int, sweeps: Integers) -> Stretch:
        """The sweeps after ``low`` to ``high``, made again from the messages after ``low``."""
        stretch, m = Stretch.empty(low), start.m.copy()
        if self.remembers:
            self.bias[:] = start.bias
        for sweep in range(low + 1, high + 1):
            rows, n = np.flatnonzero(sweeps >= sweep), self.blank()
            self.begin(rows, m, n, sweep == 1)
            self.recall(rows, m, n, sweep, stretch)
            self.sweep(rows, m, n, sweep, stretch)
        return stretch


class Record(NamedTuple):
    """Where a run ended, and what it kept."""

    m: Floats
    logs: Floats  # of beliefs
    bias: Floats  # what variables had in place of their own potentials in the last sweep, if they remember
    trace: Floats | None
    sweeps: Integers
    residual: Floats
    stretch: Stretch | None  # everything, if that was kept
    checkpoints: dict[int, Checkpoint]  # where it was after some sweeps
    stopped: Tensor  # [examples] the rule that ended each, -1 for none of those that watch


def _solve(
    run: Run, method: MessagePassing, dtype: torch.dtype, reach: float, tape: Tape | None, watches: Watches
) -> Record:
    """Sweeps until every example has stopped: as the reference engine judges it."""
    from loopwise.kernels.sweeps import largest_change

    examples, limit, threshold = run.examples, method.iterations, method.threshold(dtype)
    every = _spacing(tape, limit)
    stretch = Stretch.empty(0) if isinstance(tape, Store) else None
    m, n, rows = run.start.copy(), run.blank(), np.arange(examples)
    states, change, moved = np.zeros(run.sums.shape), np.zeros(examples), np.zeros(examples)
    sweeps, residual = np.zeros(examples, dtype=np.int64), np.full(examples, np.inf)
    previous, expected = np.full(examples, np.inf), np.full(examples, np.inf)
    nothing = np.zeros((0, 0))
    checkpoints = {0: Checkpoint(run.start, run.bias.copy())} if every else {}
    run.begin(rows, m, n, first=True)
    run.beliefs(rows, states, change)
    watches.begin(torch.from_numpy(states))
    trace = [run.sums.copy()] if method.trace else []
    run.recall(rows, m, n, 1, stretch)
    for sweep in range(1, limit + 1):
        judged = bool((expected[rows] <= NEAR * threshold).any()) and method.judge_messages
        before = m.copy() if judged else m
        run.sweep(rows, m, n, sweep, stretch)
        n = n if stretch is None else run.blank()
        run.variables(rows, m, n, 0 if sweep < limit and not run.remembers else None)
        run.beliefs(rows, states, change)
        moved[rows] = 0.0
        if judged:
            largest_change(rows, m, before, moved)
            moved[rows] *= reach
        left = np.where(change > threshold, change, previous)
        rested = np.where(moved <= threshold, change, np.maximum(change, moved))
        left = np.where(expected > NEAR * threshold, left, rested)
        residual[rows], sweeps[rows] = left[rows], sweep
        if method.tolerance > 0 or watches or sweep > limit - 2:
            shrinks = (change > 0) & (change < previous) & (previous < np.inf)
            ratio = np.divide(change, previous, out=np.ones(examples), where=shrinks)
            expected, previous = np.where(shrinks, change * ratio, change), change.copy()
        if method.trace:
            trace.append(run.sums.copy())
        if every and sweep % every == 0:
            checkpoints[sweep] = Checkpoint(m.copy(), run.bias.copy() if run.remembers else nothing)
        if watches:
            left[rows[watches.fire(sweep, rows, torch.from_numpy(states[rows]))]] = -np.inf
        if method.tolerance > 0 or watches:
            rows = rows[left[rows] >= method.tolerance]
            if not len(rows):
                break
        if sweep < limit:
            run.recall(rows, m, n, sweep + 1, stretch)
    enough = method.enough(run.program.layout.graph)
    if enough is not None:
        residual[sweeps >= enough] = 0.0
    kept = np.stack(trace) if method.trace else None
    bias = run.bias.copy() if run.remembers else nothing
    return Record(m, run.sums.copy(), bias, kept, sweeps, residual, stretch, checkpoints, watches.stopped)


def _spacing(tape: Tape | None, limit: int) -> int:
    """Sweeps between two that are kept, 0 for none (all of them, or no gradient)."""
    if tape is None or isinstance(tape, Store):
        return 0
    if isinstance(tape, Recompute):
        return max(limit, 1)
    wanted = tape.every if isinstance(tape, Checkpoints) else None
    return wanted or max(1, round(limit**0.5))


class Adjoints(NamedTuple):
    """Adjoints of what a run was given, in the shapes of its arrays."""

    exponents: Floats
    powers: Floats
    shares: Floats
    memory: Floats
    initial: Floats
    unary: Floats
    own: Floats
    tables: list[Floats]


def _pull_back(
    run: Run, record: Record, of_m: Floats, of_logs: Floats, of_bias: Floats | None, of_trace: Floats | None
) -> Adjoints:
    """Undoes the sweeps one by one."""
    program, sweeps = run.program, record.sweeps
    found = Adjoints(
        np.zeros(program.layout.edges),
        np.zeros(run.powers.shape),
        np.zeros(run.shares.shape),
        np.zeros(run.memory.shape),
        of_m.copy(),
        np.zeros(run.unary.shape),
        np.zeros(run.own.shape),
        [np.zeros(weights.theta.shape) for weights in run.weights],
    )
    undo = _Undo(run, found, of_bias)
    seeds = of_logs.copy()
    if of_trace is not None:
        for sweep in range(len(of_trace)):  # an example that has stopped keeps its last beliefs
            seeds[sweeps <= sweep] += of_trace[sweep][sweeps <= sweep]
    undo.variables(np.arange(run.examples), None, seeds, record.m)
    high = int(sweeps.max(initial=0))
    while high > 0:
        if record.stretch is not None:
            stretch = record.stretch
        else:
            low = max(sweep for sweep in record.checkpoints if sweep < high)
            stretch = run.again(record.checkpoints[low], low, high, sweeps)
        for sweep in range(high, stretch.first, -1):
            rows = np.flatnonzero(sweeps >= sweep)
            undo.sweep(rows, stretch, sweep, None if of_trace is None else of_trace[sweep - 1])
        high = stretch.first
    if run.remembers:  # before the first sweep variables have their own potentials
        found.unary[...] += undo.bias if len(found.unary) > 1 else undo.bias.sum(0)
    return found


class _Undo:
    """The adjoint of a sweep; adjoints of messages to variables are those of ``found.initial`` in the end."""

    def __init__(self, run: Run, found: Adjoints, of_bias: Floats | None) -> None:
        self.run, self.found, self.m = run, found, found.initial
        self.n, self.new = np.zeros(self.m.shape), np.empty(self.m.shape) if run.weighted else self.m
        self.bias = found.unary
        if run.remembers:
            self.bias = np.zeros(run.bias.shape) if of_bias is None else of_bias.copy()

    def sweep(self, rows: Integers, stretch: Stretch, sweep: int, of_logs: Floats | None) -> None:
        run, place = self.run, sweep - stretch.first - 1
        n, kept = stretch.n[place], stretch.kept[place]
        given = stretch.m[place] if run.parameters else [n] * (len(kept) + 1)
        for number in range(len(kept) - 1, -1, -1):
            stage = run.program.stages[number]
            if run.weighted:
                self._weights(rows, stage, sweep, given[number], stretch.fresh[place][number])
            self._stage(rows, stage, n, kept[number])
            unheard = sweep == 1 and number == 0 and not run.heard
            seeds = np.zeros(run.sums.shape) if number or of_logs is None else of_logs.copy()
            if number == 0 and run.remembers:
                self._memory(rows, None if unheard else 0, sweep, stretch.logs[place], seeds, given[0])
            else:
                self.variables(rows, None if unheard else number, seeds, given[number])

    def _weights(self, rows: Integers, stage: Stage, sweep: int, old: Floats, fresh: Floats) -> None:
        from loopwise.kernels.message_weights import weigh_back

        run, found = self.run, self.found
        powers, shares = _row(run.powers, sweep), _row(run.shares, sweep)
        of_powers, of_shares = _row(found.powers, sweep), _row(found.shares, sweep)
        ends = (rows, run.program.edges, stage.ranges)
        weigh_back(*ends, powers, shares, old, fresh, self.m, self.new, of_powers, of_shares)

    def _memory(self, rows: Integers, stage: int | None, sweep: int, logs: Floats, seeds: Floats, m: Floats) -> None:
        """Undoes what variables sent in this sweep, what they remembered for it, and the beliefs that was of."""
        from loopwise.kernels.message_weights import remember_back

        run, found = self.run, self.found
        self.variables(rows, stage, np.zeros(seeds.shape), m)
        of_shares = _row(found.memory, sweep)
        start, shares = run.program.layout.state_start, _row(run.memory, sweep)
        remember_back(rows, start, shares, run.unary, logs, self.bias, of_shares, found.unary, seeds)
        self.variables(rows, None, seeds, m)

    def variables(self, rows: Integers, stage: int | None, seeds: Floats, m: Floats) -> None:
        """Undoes what the variables sent to ``stage``; ``seeds``: adjoints of the logs of beliefs, used up."""
        from loopwise.kernels.sweeps import exponents_back, variables_back

        run = self.run
        ranges = run.nothing if stage is None else run.program.stages[stage].ranges
        variables_back(rows, run.program.edges, run.exponents, ranges, self.n, seeds, self.m, self.bias)
        if run.parameters:
            exponents_back(rows, run.program.edges, m, seeds, self.found.exponents)

    def _stage(self, rows: Integers, stage: Stage, n: Floats, kept: list[Any]) -> None:
        from loopwise.kernels.sweeps import exponentials, tables_back

        run, program = self.run, self.run.program
        for slots in stage.slots:
            self.n[rows, slots] = 0.0
        for number in stage.tables:
            exponentials(rows, n, *program.table_slots[number], run.q)
            tables_back(
                rows, program.tables[number], run.weights[number], n, run.q, self.new, self.n, self.found.tables[number]
            )
        for (kind, _), mine in zip(stage.kinds, kept, strict=True):
            kind.pull_back(rows, n, run.own, mine, self.new, self.n, self.found.own)
        if not run.weighted:
            for slots in stage.slots:
                self.m[rows, slots] = 0.0


class _Session:
    """One call: the reference engine's circuit, whose scaled potentials the kernels run on."""

    def __init__(self, circuit: Circuit, numbers: CountingNumbers) -> None:
        self.circuit, self.problem, self.method = circuit, circuit.problem, circuit.method
        self.program = Program.of(circuit.layout, self.method.schedule)
        self.examples = self.problem.batch.numel()
        schedule = self.method.schedule
        self.heard = not (isinstance(schedule, Groups) and schedule.uniform_start and self.problem.initial is None)
        self.exponents = numbers.exponents(circuit.layout, self.problem.like)
        self.given = self._given()

    def solve(self, wanted: bool) -> ReferenceSolution:
        """Sweeps from the start; with results that can be differentiated if ``wanted``."""
        tape = self._tape() if wanted and isinstance(self.method.gradient, Unroll) else None
        record: list[Record] = []
        m, logs, *rest = self._apply(self.given, self.method, self.heard, tape, record)
        batch, layout, done = self.problem.batch, self.circuit.layout, record[0]
        circuit, trace = self.circuit, rest
        if len(self.given.memory):
            circuit, trace = copy.copy(circuit), rest[1:]
            circuit.unary = rest[0].reshape(*batch, layout.states)
        kept = None
        if trace:
            kept = variable_softmax(layout, trace[0]).reshape(len(trace[0]), *batch, layout.states)
        return ReferenceSolution(
            circuit,
            m.reshape(*batch, layout.slots),
            variable_softmax(layout, logs).reshape(*batch, layout.states),
            torch.from_numpy(done.sweeps).reshape(batch),
            torch.from_numpy(done.residual).to(self.problem.like.dtype).reshape(batch),
            int(done.sweeps.sum()) * layout.edges,
            kept,
            stopped=done.stopped.reshape(batch),
        )

    def sweep(self, m: Tensor) -> Tensor:
        """One more sweep from ``m`` ``[*batch, slots]``, differentiable."""
        from dataclasses import replace

        given = self.given._replace(initial=m.reshape(self.examples, -1))
        method = replace(self.method, iterations=1, tolerance=0.0, stop=None, trace=False)
        return self._apply(given, method, True, Store(), [])[0].reshape(m.shape)

    def _apply(
        self, given: Given, method: MessagePassing, heard: bool, tape: Tape | None, record: list[Record]
    ) -> tuple[Tensor, ...]:
        flat = (*given[:-1], *given.tables)
        found: tuple[Tensor, ...] = _Sweeps.apply(_Call(self, method, heard, tape, record), *flat)  # type: ignore[no-untyped-call]
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
        initial = circuit.initial() if self.problem.initial is None else self.problem.initial
        own = []
        for member, values in zip(circuit.layout.structured, circuit.own, strict=True):
            if values is not None:
                own.append(flat(values, len(member.factor.potentials_shape or ())).flatten(1))
        rows = max((len(each) for each in own), default=1)
        numbers = torch.cat([each.expand(rows, -1) for each in own], 1) if own else circuit.unary.new_zeros(1, 0)
        damping, none = self.method.damping, circuit.unary.new_zeros(0, 0)
        powers, shares, memory = circuit.weights or (None, None, None)
        one = circuit.unary.new_ones(1, circuit.layout.edges)
        if circuit.weights is None and (isinstance(damping, Tensor) or damping != 0):
            shares = one * (damping.to(one) if isinstance(damping, Tensor) else damping)
        if powers is not None or shares is not None:
            powers, shares = one if powers is None else powers, 0.0 * one if shares is None else shares
        return Given(
            self.exponents,
            none if powers is None else powers,
            none if shares is None else shares,
            none if memory is None else memory,
            initial.expand(*batch, initial.shape[-1]).reshape(examples, -1),
            flat(circuit.unary, 1),
            numbers,
            tuple(tables),
        )

    def _tape(self) -> Tape:
        tape = self.method.gradient.tape if isinstance(self.method.gradient, Unroll) else Store()
        if not isinstance(tape, Fitting):
            return tape
        size = 8.0 * self.method.iterations * self.examples * self.circuit.layout.slots
        return Store() if size <= tape.limit else Checkpoints()

    def reference(self, given: Given, sweeps: Tensor, heard: bool, traced: bool) -> tuple[Tensor, ...]:
        """The same run in plain torch, for derivatives of its gradient."""
        circuit = copy.copy(self.circuit)
        circuit.unary, circuit.exponent = given.unary, given.exponents[circuit.slot_edge]
        circuit.own_unary = given.unary
        held = (given.powers, given.shares, given.memory)
        if any(len(each) for each in held):
            circuit.weights = SweepWeights(*(each if len(each) else None for each in held))
        groups = circuit.layout.message_groups
        circuit.tables = [
            table.reshape(len(table), member.group.count, *member.group.shape)
            for member, table in zip(groups, given.tables, strict=True)
        ]
        pieces = torch.split(given.own, np.diff(self.program.own_start).tolist(), 1)
        circuit.own = [
            None if own is None else piece.reshape(len(piece), *(member.factor.potentials_shape or ()))
            for member, own, piece in zip(circuit.layout.structured, self.circuit.own, pieces, strict=True)
        ]
        m, trace = given.initial, [circuit.logs(given.initial)]
        for sweep in range(1, int(sweeps.max()) + 1):
            running = sweeps >= sweep
            circuit = circuit.at(sweep, m, running)
            moved = circuit.sweep(m, first=sweep == 1 and not heard)
            m = torch.where(running[:, None], moved, m)
            trace.append(circuit.logs(m))
        bias = (circuit.unary.expand(trace[-1].shape),) if len(given.memory) else ()
        return (m, trace[-1], *bias, *((torch.stack(trace),) if traced else ()))


class _Call(NamedTuple):
    """How one application of :class:`_Sweeps` runs, and where it leaves its record."""

    session: _Session
    method: MessagePassing
    heard: bool
    tape: Tape | None
    record: list[Record]


class _Sweeps(torch.autograd.Function):
    """Arguments: the call, then those of :class:`Given`, tables last. Results: messages, logs of beliefs, a trace."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *tensors: Tensor) -> tuple[Tensor, ...]:
        session, given = call.session, _unflattened(tensors)
        trained = given.exponents.requires_grad
        run = Run(session.program, given, session.examples, session.circuit.plain, call.heard, trained)
        like = session.problem.like
        watches = Watches(call.method.stop, session.problem, call.method.iterations)
        record = _solve(run, call.method, like.dtype, session.circuit.reach, call.tape, watches)
        call.record.append(record)
        ctx.call, ctx.run, ctx.record = call, run, record
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        found = [record.m, record.logs] + ([record.bias] if run.remembers else [])
        found += [] if record.trace is None else [record.trace]
        return tuple(torch.from_numpy(each).to(like.dtype) for each in found)

    @staticmethod
    def backward(ctx: Any, *adjoints: Tensor | None) -> tuple[Tensor | None, ...]:
        for adjoint in adjoints:
            check_finite(adjoint)
        if torch.is_grad_enabled():
            return (None, *_differentiable_gradient(ctx, adjoints))
        record: Record = ctx.record
        shapes = (record.m.shape, record.logs.shape)
        seeds = [
            np.zeros(shape) if adjoint is None else _array(adjoint)
            for adjoint, shape in zip(adjoints, shapes, strict=False)
        ]
        rest = [None if adjoint is None else _array(adjoint) for adjoint in adjoints[2:]]
        of_bias = rest.pop(0) if ctx.run.remembers else None
        found = _pull_back(ctx.run, record, seeds[0], seeds[1], of_bias, rest[0] if rest else None)
        flat = (*found[:-1], *found.tables)
        return (None, *(torch.from_numpy(each).to(like) for each, like in zip(flat, ctx.saved_tensors, strict=True)))


def _differentiable_gradient(ctx: Any, adjoints: tuple[Tensor | None, ...]) -> list[Tensor | None]:
    """The gradient as a function that can be differentiated again: that of the same run in torch."""
    tensors, call = ctx.saved_tensors, ctx.call
    needed = [place for place, wanted in enumerate(ctx.needs_input_grad[1:]) if wanted]
    given = _unflattened(tensors)
    results = call.session.reference(
        given, torch.from_numpy(ctx.record.sweeps), call.heard, ctx.record.trace is not None
    )
    pairs = [(result, adjoint) for result, adjoint in zip(results, adjoints, strict=True) if adjoint is not None]
    sources = [tensors[place] for place in needed]
    outputs, seeds = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    found = torch.autograd.grad(outputs, sources, seeds, create_graph=True, allow_unused=True)
    answer: list[Tensor | None] = [None] * len(tensors)
    for place, gradient in zip(needed, found, strict=True):
        answer[place] = gradient
    return answer


def _row(values: Floats, sweep: int) -> Floats:
    """The numbers of sweep ``sweep``, counted from 1, where there is a row for each or one for all."""
    row: Floats = values[sweep - 1 if len(values) > 1 else 0]
    return row


def _array(tensor: Tensor) -> Floats:
    array: Floats = tensor.detach().to("cpu", torch.float64).contiguous().numpy()
    return array
