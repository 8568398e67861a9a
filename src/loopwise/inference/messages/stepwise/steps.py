"""Sweeps of message passing taken step by step, and their adjoint: what the compiled engine does with any factor.

In: a layout, a schedule, numbers. Out: messages and sums of them; adjoints. Stage: inference. A *sender* is a group of
tables, or all structured factors of one kind. To each belongs what its messages add up to at every state, so that a
step is: all sums added up, then some senders hear and send, which renews their own sum. Messages are logs, float64.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from loopwise.graph.factor_graph import Integers
from loopwise.graph.layout import Layout
from loopwise.graph.offsets import starts_of
from loopwise.graph.structured.compiled import CompiledMessages, kinds_of
from loopwise.inference.messages.schedules import Groups, Schedule, stages
from loopwise.inference.messages.stepwise.kernels.binary_pairs import (
    Pairs,
    pair_messages,
    pair_seeds,
    pairs_back,
    pairs_send,
)
from loopwise.inference.messages.stepwise.kernels.message_weights import (
    Mixing,
    remember,
    remember_back,
    weigh,
    weigh_back,
)
from loopwise.inference.messages.stepwise.kernels.sweeps import (
    Edges,
    Tables,
    Weights,
    beliefs_of,
    edges_gather,
    edges_hear,
    edges_normalise,
    edges_spread,
    edges_sum,
    exponentials,
    exponents_back,
    table_weights,
    tables_back,
    tables_send,
)
from loopwise.notices import ImpossibleError

if TYPE_CHECKING:
    from loopwise.inference.messages.stepwise.serial import SerialRun

Floats = NDArray[np.float64]
LEAST_PRODUCT = 1e-280  # what a product of the numbers of a cell may come to, in the probability domain


class Source(NamedTuple):
    """The factors of one sender: a group of tables (its number), or structured factors of one kind."""

    ranges: Integers  # [ranges, 2] their edges
    slots: tuple[slice, ...]
    table: int | None
    kind: CompiledMessages | None


class Program:
    """What depends on the graph and the schedule only; kept on the layout."""

    def __init__(self, layout: Layout, schedule: Schedule) -> None:
        self.layout = layout
        sizes = layout.graph.cardinalities[layout.edge_variable]
        slot = starts_of(sizes)
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
        self.table_slots = [
            (member.slot_start, member.slot_start + member.group.count * member.width)
            for member in layout.message_groups
        ]
        self.pairs = {
            number: Pairs(
                layout.state_start[member.group.scopes[:, 0]],
                layout.state_start[member.group.scopes[:, 1]],
                LEAST_PRODUCT**0.5,
            )
            for number, member in enumerate(layout.message_groups)
            if member.group.shape == (2, 2)
        }
        self.own_start = own_starts(layout)
        self.sources: list[Source] = []
        self.stages: list[range] = []  # the sources of each stage
        for names in stages(schedule, layout.graph):
            first = len(self.sources)
            self.sources += self._sources(names)
            self.stages.append(range(first, len(self.sources)))

    @staticmethod
    def of(layout: Layout, schedule: Schedule) -> Program:
        key = ("steps", schedule if isinstance(schedule, Groups) else None)
        if key not in layout.storages:
            layout.storages[key] = Program(layout, schedule)
        found: Program = layout.storages[key]
        return found

    def _sources(self, names: tuple[str, ...]) -> list[Source]:
        layout, found = self.layout, []
        for number, member in enumerate(layout.message_groups):
            if member.group.name in names and member.group.count:
                span = (member.edge_start, member.edge_start + member.group.count * member.group.arity)
                found.append(self._source([span], number, None))
        programs = [member for member in layout.structured if member.name in names]
        numbers = [number for number, member in enumerate(layout.structured) if member.name in names]
        for kind, places in kinds_of([member.factor for member in programs]):
            members = [programs[place] for place in places]
            own = self.own_start[[numbers[place] for place in places]]
            starts = np.array([member.slot_start for member in members], dtype=np.int64)
            spans = [(member.edge_start, member.edge_start + member.factor.arity) for member in members]
            found.append(self._source(spans, None, kind([member.factor for member in members], starts, own)))
        return found

    def _source(self, spans: list[tuple[int, int]], table: int | None, kind: CompiledMessages | None) -> Source:
        """Spans of edges that follow one another are made one."""
        joined: list[list[int]] = []
        for low, high in sorted(spans):
            if joined and joined[-1][1] == low:
                joined[-1][1] = high
            else:
                joined.append([low, high])
        ranges = np.array(joined, dtype=np.int64).reshape(-1, 2)
        slots = tuple(slice(int(self.edges.slot[low]), int(self.edges.slot[high])) for low, high in joined)
        return Source(ranges, slots, table, kind)


def own_starts(layout: Layout) -> Integers:
    """Where the log-potentials of each structured factor begin among those of all, and where the last end."""
    shapes = [member.factor.potentials_shape for member in layout.structured]
    return starts_of([0 if shape is None else int(np.prod(shape)) for shape in shapes])


class StepPotentials(NamedTuple):
    """The numbers of a call, or adjoints of them. One row where all examples share something."""

    exponents: Floats  # [edges], empty if all are 1
    powers: Floats  # [1 or sweeps, edges], weights of messages; no rows where there are neither these nor damping
    shares: Floats  # [1 or sweeps, edges], what messages keep of the old ones, by damping
    memory: Floats  # [1 or sweeps, variables], no rows without it
    initial: Floats  # [examples, slots], empty if messages begin uniform
    unary: Floats  # [1 or examples, states]
    own: Floats  # [1 or examples, numbers of all structured factors]
    tables: list[Floats]  # [1 or examples, factors, cells]

    def mixing(self, sweep: int) -> Any:
        """Weights and damping of one sweep."""
        return Mixing(row_of(self.powers, sweep), row_of(self.shares, sweep))


class SenderWorkspace:
    """What all senders of a run share."""

    def __init__(self, program: Program, numbers: StepPotentials, examples: int, parameters: bool) -> None:
        self.program, self.numbers, self.examples, self.parameters = program, numbers, examples, parameters
        self.weighted = len(numbers.powers) > 0
        self.weights = []
        for tables, theta in zip(program.tables, numbers.tables, strict=True):
            weights = Weights(theta, np.empty(theta.shape), np.empty(theta.shape[:2], dtype=np.bool_))
            table_weights(theta, tables.least, weights.weight, weights.tame)
            self.weights.append(weights)
        slots = program.layout.slots
        self.m = np.empty((examples, slots))  # of senders that keep theirs here
        self.q = np.empty((examples, slots))
        self.copies = Copies(None, None, None)

    @property
    def plain(self) -> bool:
        return len(self.numbers.exponents) == 0

    def begin_sweep(self) -> None:
        """Arrays that the senders of a sweep share; what messages are after it, they are before the next one."""
        last = self.copies.after
        before = (self.m.copy() if last is None else last) if self.weighted else None
        fresh = np.empty(self.m.shape) if self.weighted else None
        after = np.empty(self.m.shape) if self.weighted or self.parameters else None
        self.copies = Copies(before, fresh, after)

    def senders(self) -> list[Sender]:
        """One for each source; pairs of binary variables, neither weighted nor damped, have a faster one."""
        fast = self.plain and not self.parameters and not self.weighted
        return [
            PairSender(self, source)
            if fast and source.table is not None and source.table in self.program.pairs
            else EdgeSender(self, source)
            for source in self.program.sources
        ]


class StepBack(NamedTuple):
    """What a sender undoes a step with, and what it adds to."""

    kept: Any  # what sending returned
    n: Floats  # messages to factors, as it left them
    of_part: Floats  # adjoints of the sum of its messages
    of_sums: Floats  # those of all sums that it heard, added to
    found: StepPotentials  # those of potentials, added to
    unheard: bool


class Copies(NamedTuple):
    """Messages in one sweep of senders that keep theirs in the workspace; None where they are not wanted."""

    before: Floats | None  # before it
    fresh: Floats | None  # before they were weighted
    after: Floats | None


class Sender(ABC):
    """The messages of one source, what they add up to, and the adjoints of both."""

    def __init__(self, work: SenderWorkspace, source: Source) -> None:
        self.work, self.source = work, source
        shape = (work.examples, work.program.layout.states)
        self.part, self.count = np.zeros(shape), np.zeros(shape, dtype=np.int64)

    @abstractmethod
    def start(self, initial: Floats | None) -> None:
        """Takes its slots of ``initial`` log messages; None: uniform ones."""

    @abstractmethod
    def send(self, rows: Integers, sums: Floats, counts: Integers, n: Floats, unheard: bool, sweep: int) -> Any:
        """Sends, given the sums of all messages; ``n``: room for messages to factors, which is left as it then is.
        ``unheard``: messages to these factors are uniform. Returns what :meth:`back` needs."""

    @abstractmethod
    def messages(self, rows: Integers, m: Floats) -> None:
        """Writes its slots of ``m``, normalised."""

    @abstractmethod
    def seed(self, of_m: Floats, of_n: Floats, given: bool) -> None:
        """Begins the way back: adjoints of the last messages, all 0 unless ``given``; the sender may use its slots of
        both arrays from then on."""

    @abstractmethod
    def back(self, rows: Integers, step: StepBack) -> None:
        """Undoes a :meth:`send`."""

    @abstractmethod
    def finish(self, of_part: Floats, found: StepPotentials) -> None:
        """Ends the way back: adds the adjoints of the messages it began with."""


class SentSweep(NamedTuple):
    """What an :class:`EdgeSender` wants back of a sweep."""

    sweep: int
    kept: Any  # by its kind of factors
    copies: Copies


class EdgeSender(Sender):
    """Tables of any shape and structured factors; weights, damping and exponents of any kind."""

    def start(self, initial: Floats | None) -> None:
        work = self.work
        for slots in self.source.slots:
            work.m[:, slots] = 0.0 if initial is None else initial[:, slots]
        self._sum(np.arange(work.examples))

    def _sum(self, rows: Integers) -> None:
        work = self.work
        exponents = work.numbers.exponents
        edges_sum(rows, work.program.edges, self.source.ranges, exponents, work.m, self.part, self.count)

    def send(self, rows: Integers, sums: Floats, counts: Integers, n: Floats, unheard: bool, sweep: int) -> SentSweep:
        work, source = self.work, self.source
        edges_hear(rows, work.program.edges, source.ranges, work.plain, sums, counts, work.m, n)
        if unheard:
            for slots in source.slots:
                n[rows, slots] = 0.0
        kept, copies = self._factors(rows, n), work.copies
        if work.weighted:
            self._copy(copies.fresh)
            weigh(rows, work.program.edges, source.ranges, work.numbers.mixing(sweep), copies.before, work.m)
        self._sum(rows)
        self._copy(copies.after)
        return SentSweep(sweep, kept, copies)

    def _copy(self, target: Floats | None) -> None:
        """Its own messages as they are now."""
        if target is not None:
            for slots in self.source.slots:
                target[:, slots] = self.work.m[:, slots]

    def _factors(self, rows: Integers, n: Floats) -> Any:
        work, number, kind = self.work, self.source.table, self.source.kind
        if number is not None:
            exponentials(rows, n, *work.program.table_slots[number], work.q)
            return tables_send(rows, work.program.tables[number], work.weights[number], n, work.q, work.m)
        assert kind is not None
        possible = np.ones((work.examples, len(kind.factors)), dtype=np.bool_)
        kept = kind.send(rows, n, work.numbers.own, work.m, possible)
        if not possible.all():
            place = int(np.flatnonzero(~possible.all(0))[0])
            kind.factors[place].refuse(torch.from_numpy(~possible[:, place]))
        return kept

    def messages(self, rows: Integers, m: Floats) -> None:
        edges_normalise(rows, self.work.program.edges, self.source.ranges, self.work.m, m)

    def seed(self, of_m: Floats, of_n: Floats, given: bool) -> None:
        self.of_m, self.of_n = of_m, of_n
        self.of_new = np.empty(of_m.shape) if self.work.weighted else of_m

    def back(self, rows: Integers, step: StepBack) -> None:
        work, source, edges = self.work, self.source, self.work.program.edges
        sent, found = step.kept, step.found
        self._spread(rows, step.of_part, sent.copies.after if work.parameters else None, found)
        if work.weighted:
            self._weights_back(rows, sent, found)
        for slots in source.slots:
            self.of_n[rows, slots] = 0.0
        self._factors_back(rows, sent.kept, step.n, found)
        if not work.weighted:
            for slots in source.slots:
                self.of_m[rows, slots] = 0.0
        if not step.unheard:
            edges_gather(rows, edges, source.ranges, self.of_n, self.of_m, step.of_sums)

    def _spread(self, rows: Integers, of_part: Floats, m: Floats | None, found: StepPotentials) -> None:
        work, edges, ranges = self.work, self.work.program.edges, self.source.ranges
        edges_spread(rows, edges, ranges, work.numbers.exponents, of_part, self.of_m)
        if m is not None and not work.plain:
            exponents_back(rows, edges, ranges, m, of_part, found.exponents)

    def _weights_back(self, rows: Integers, sent: SentSweep, found: StepPotentials) -> None:
        ends, mixing = (rows, self.work.program.edges, self.source.ranges), self.work.numbers.mixing(sent.sweep)
        weigh_back(*ends, mixing, *sent.copies[:2], self.of_m, self.of_new, found.mixing(sent.sweep))

    def _factors_back(self, rows: Integers, kept: Any, n: Floats, found: StepPotentials) -> None:
        work, number, kind = self.work, self.source.table, self.source.kind
        if number is not None:
            exponentials(rows, n, *work.program.table_slots[number], work.q)
            tables, weights, of_theta = work.program.tables[number], work.weights[number], found.tables[number]
            tables_back(rows, tables, weights, n, work.q, self.of_new, self.of_n, of_theta)
        elif kind is not None:
            kind.pull_back(rows, n, work.numbers.own, kept, self.of_new, self.of_n, found.own)

    def finish(self, of_part: Floats, found: StepPotentials) -> None:
        begun = self.work.numbers.initial
        self._spread(np.arange(self.work.examples), of_part, begun if len(begun) else None, found)
        if len(begun):
            for slots in self.source.slots:
                found.initial[:, slots] += self.of_m[:, slots]


class PairSender(Sender):
    """Tables between two binary variables, as log-odds, in one pass; messages enter their variables as they are."""

    def start(self, initial: Floats | None) -> None:
        examples, number = self.work.examples, self.source.table
        assert number is not None
        self.number, self.pairs = number, self.work.program.pairs[number]
        self.slot, end = self.work.program.table_slots[number]
        self.odds = np.zeros((examples, 2, len(self.pairs.first)))
        if initial is None:
            return
        given = initial[:, self.slot : end].reshape(examples, -1, 2, 2)
        with np.errstate(invalid="ignore"):
            self.odds = np.ascontiguousarray((given[..., 1] - given[..., 0]).transpose(0, 2, 1))
        for row, odds in enumerate(self.odds):
            for first, values in zip((self.pairs.first, self.pairs.second), odds, strict=True):
                np.add.at(self.part[row], first + 1, np.where(np.isfinite(values), values, 0.0))
                np.add.at(self.count[row], first, ~np.isfinite(values) & (values != -np.inf))
                np.add.at(self.count[row], first + 1, ~np.isfinite(values) & (values != np.inf))

    def send(self, rows: Integers, sums: Floats, counts: Integers, n: Floats, unheard: bool, sweep: int) -> Floats:
        weights, heard = self.work.weights[self.number], np.empty(self.odds.shape)
        if unheard:
            sums, counts = np.zeros(sums.shape), np.zeros(counts.shape, dtype=np.int64)
            self.odds[rows] = 0.0
        pairs_send(rows, self.pairs, weights, sums, counts, self.odds, heard, self.part, self.count)
        return heard

    def messages(self, rows: Integers, m: Floats) -> None:
        pair_messages(rows, self.odds, self.slot, m)

    def seed(self, of_m: Floats, of_n: Floats, given: bool) -> None:
        self.carried = np.zeros(self.odds.shape)
        if given:
            pair_seeds(np.arange(self.work.examples), self.odds, self.slot, of_m, self.carried)

    def back(self, rows: Integers, step: StepBack) -> None:
        heard = np.zeros(step.of_sums.shape) if step.unheard else step.of_sums
        weights, of_theta = self.work.weights[self.number], step.found.tables[self.number]
        pairs_back(rows, self.pairs, weights, step.kept, step.of_part, self.carried, heard, of_theta)
        if step.unheard:
            self.carried[rows] = 0.0

    def finish(self, of_part: Floats, found: StepPotentials) -> None:
        if len(found.initial):
            for side, first in enumerate((self.pairs.first, self.pairs.second)):
                back = self.carried[:, side] + of_part[:, first + 1]
                end = self.slot + 4 * len(first)
                found.initial[:, self.slot + 2 * side + 1 : end : 4] += back
                found.initial[:, self.slot + 2 * side : end : 4] -= back


class Stretch(NamedTuple):
    """What the way back needs of some sweeps in a row."""

    first: int  # the sweep before the first of them
    n: list[Floats]  # messages to factors that each sweep's senders heard, where they keep them there
    kept: list[list[Any]]  # what each sender wants back, by sweep
    logs: list[Floats]  # of beliefs before each sweep; empty unless variables remember them

    @staticmethod
    def empty(first: int) -> Stretch:
        return Stretch(first, [], [], [])


class Checkpoint(NamedTuple):
    """Where a run stood after a sweep, from which the next ones can be made again."""

    sweep: int
    m: Floats | None  # None: uniform
    bias: Floats


class RunAdjoints(NamedTuple):
    """Adjoints of what a run gave."""

    of_m: Floats | None  # of the last messages
    of_bias: Floats | None  # of what variables had in place of their potentials in the last sweep, if they remember
    of_logs: list[Floats]  # of the logs of beliefs after each sweep; an example that had stopped kept those of its last


class SweepingRun(ABC):
    """The numbers of one call, and its sweeps, one after another."""

    layout: Layout
    sums: Floats  # of all messages to each variable
    counts: Integers  # how often each of its values is ruled out

    def logs(self) -> Floats:
        """Logs of beliefs, of any scale."""
        return np.where(self.counts > 0, -np.inf, self.sums)

    def beliefs(self, rows: Integers, states: Floats, change: Floats) -> None:
        """Beliefs into ``states``, their largest change into ``change``; ImpossibleError where a variable has none."""
        dead = beliefs_of(rows, self.layout.state_start, self.logs(), states, change)
        if dead >= 0:
            raise ImpossibleError(
                f"no configuration is possible: messages to variable {dead} contradict each other; "
                "relax a zero, or take back evidence"
            )

    @abstractmethod
    def pull_back(self, stretches: list[Stretch | Checkpoint], sweeps: Integers, given: RunAdjoints) -> StepPotentials:
        """Undoes all sweeps, last to first. ``stretches``: of all sweeps, each its tape, or where it begins."""


class SteppedRun(SweepingRun):
    """All messages of a stage at once. ``heard`` False: the first stage hears nothing in the first sweep."""

    def __init__(self, program: Program, numbers: StepPotentials, examples: int, heard: bool, parameters: bool) -> None:
        self.program, self.numbers, self.examples, self.heard = program, numbers, examples, heard
        self.work = SenderWorkspace(program, numbers, examples, parameters)
        self.senders = self.work.senders()
        self.layout, states = program.layout, program.layout.states
        self.sums, self.counts = np.empty((examples, states)), np.empty((examples, states), dtype=np.int64)
        self.remembers = len(numbers.memory) > 0
        self.bias = numbers.unary  # what variables have in place of their own potentials, if they remember
        if self.remembers:
            self.bias = np.array(np.broadcast_to(numbers.unary, (examples, states)))

    def begin(self, initial: Floats | None) -> None:
        self.work.copies = Copies(None, None, None)
        for sender in self.senders:
            sender.start(initial)

    def add_up(self) -> None:
        """Sums of all messages to each variable, and how often each of its values is ruled out."""
        self.sums[:] = self.bias
        self.counts[:] = 0
        for sender in self.senders:
            self.sums += sender.part
            self.counts += sender.count

    def sweep(self, rows: Integers, sweep: int, stretch: Stretch | None) -> None:
        """All stages once; sums are left as they are after it."""
        if self.remembers:
            logs = remember_beliefs(self, rows, sweep)
            if stretch is not None:
                stretch.logs.append(logs)
            self.add_up()
        n = np.empty(self.work.m.shape)
        self.work.begin_sweep()
        kept: list[Any] = []
        for number, stage in enumerate(self.program.stages):
            if number:
                self.add_up()
            unheard = sweep == 1 and number == 0 and not self.heard
            kept += [self.senders[k].send(rows, self.sums, self.counts, n, unheard, sweep) for k in stage]
        self.add_up()
        if stretch is not None:
            stretch.n.append(n)
            stretch.kept.append(kept)

    def messages(self) -> Floats:
        """All messages to variables, normalised."""
        m, rows = np.empty(self.work.m.shape), np.arange(self.examples)
        for sender in self.senders:
            sender.messages(rows, m)
        return m

    def unnormalised(self, of_m: Floats | None) -> Floats:
        """Adjoints of the last messages from those of :meth:`messages`: they add up to 0 for every edge, and so do all
        that are computed from them."""
        if of_m is None:
            return np.zeros(self.work.m.shape)
        slot = self.program.edges.slot
        totals = np.add.reduceat(of_m, slot[:-1], axis=1)
        found: Floats = of_m - np.exp(self.messages()) * np.repeat(totals, np.diff(slot), axis=1)
        return found

    def checkpoint(self, sweep: int) -> Checkpoint:
        return Checkpoint(sweep, self.messages(), self.bias.copy() if self.remembers else self.bias)

    def again(self, start: Checkpoint, high: int, sweeps: Integers) -> Stretch:
        """The sweeps after ``start`` to ``high``, made again, aside from this run."""
        stretch, twin = Stretch.empty(start.sweep), copy.copy(self)
        twin.work = copy.copy(self.work)
        twin.work.m, twin.work.copies = np.empty(self.work.m.shape), Copies(None, None, None)
        twin.senders, twin.sums, twin.counts = twin.work.senders(), self.sums.copy(), self.counts.copy()
        twin.bias = start.bias.copy()
        twin.begin(start.m)
        twin.add_up()
        for sweep in range(start.sweep + 1, high + 1):
            twin.sweep(np.flatnonzero(sweeps >= sweep), sweep, stretch)
        return stretch

    def pull_back(self, stretches: list[Stretch | Checkpoint], sweeps: Integers, given: RunAdjoints) -> StepPotentials:
        of_m, of_bias, of_logs = given
        found = no_adjoints(self.numbers)
        parts = [np.zeros(self.sums.shape) for _ in self.senders]  # adjoints of each sender's sum since it was sent
        seeds, room = self.unnormalised(of_m), np.zeros(self.work.m.shape)
        for sender in self.senders:
            sender.seed(seeds, room, of_m is not None)
        bias = found.unary
        if self.remembers:
            bias = np.zeros(self.sums.shape) if of_bias is None else of_bias.copy()

        def heard(of_sums: Floats) -> None:
            """Enters adjoints of sums, which are of all parts and of unary potentials, or what replaces them, alike."""
            bias[:] += _alike(of_sums, bias)
            for part in parts:
                part += of_sums

        high = int(sweeps.max(initial=0))
        heard(of_logs[high])
        for told in stretches[::-1]:
            stretch = told if isinstance(told, Stretch) else self.again(told, high, sweeps)
            for sweep in range(high, stretch.first, -1):
                rows, place = np.flatnonzero(sweeps >= sweep), sweep - stretch.first - 1
                for number in range(len(self.program.stages) - 1, -1, -1):
                    unheard = sweep == 1 and number == 0 and not self.heard
                    last = number == 0 and not self.remembers
                    of_sums = of_logs[sweep - 1].copy() if last else np.zeros(self.sums.shape)
                    for k in self.program.stages[number]:
                        kept = stretch.kept[place][k]
                        step = StepBack(kept, stretch.n[place], parts[k], of_sums, found, unheard)
                        self.senders[k].back(rows, step)
                        parts[k][rows] = 0.0
                    heard(of_sums)
                if self.remembers:
                    heard(_remember_back(self, rows, sweep, stretch.logs[place], bias, of_logs[sweep - 1], found))
            high = stretch.first
        for sender, part in zip(self.senders, parts, strict=True):
            sender.finish(part, found)
        if self.remembers:  # before the first sweep variables have their own potentials
            found.unary[:] += _alike(bias, found.unary)
        return found


def no_adjoints(numbers: StepPotentials) -> StepPotentials:
    """Zeros in the place of all numbers, to add to."""
    return StepPotentials(
        np.zeros(numbers.exponents.shape),
        np.zeros(numbers.powers.shape),
        np.zeros(numbers.shares.shape),
        np.zeros(numbers.memory.shape),
        np.zeros(numbers.initial.shape),
        np.zeros(numbers.unary.shape),
        np.zeros(numbers.own.shape),
        [np.zeros(theta.shape) for theta in numbers.tables],
    )


def remember_beliefs(run: SteppedRun | SerialRun, rows: Integers, sweep: int) -> Floats:
    """Has variables remember in this sweep the beliefs before it, whose logs are returned."""
    logs, numbers = run.logs(), run.numbers
    remember(rows, run.program.layout.state_start, row_of(numbers.memory, sweep), numbers.unary, logs, run.bias)
    return logs


def _remember_back(
    run: SteppedRun, rows: Integers, sweep: int, logs: Floats, of_bias: Floats, of_logs: Floats, found: StepPotentials
) -> Floats:
    """Undoes what variables remembered in ``sweep``, which uses up ``of_bias``; the adjoints of the beliefs before."""
    numbers, start, seeds = run.numbers, run.program.layout.state_start, of_logs.copy()
    shares, of_shares = row_of(numbers.memory, sweep), row_of(found.memory, sweep)
    remember_back(rows, start, shares, numbers.unary, logs, of_bias, of_shares, found.unary, seeds)
    return seeds


def _alike(adjoints: Floats, values: Floats) -> Floats:
    """Added up over examples where these share ``values``."""
    found: Floats = adjoints if len(values) == len(adjoints) else adjoints.sum(0, keepdims=True)
    return found


def row_of(values: Floats, sweep: int) -> Floats:
    """The numbers of ``sweep``, counted from 1, where there is a row for each or one for all."""
    row: Floats = values[sweep - 1 if len(values) > 1 else 0]
    return row
