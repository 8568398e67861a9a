"""One message after another (sequential, random, by residuals) with any factors, and max-product of any order.

In: a layout, a schedule, numbers. Out: messages; adjoints. Stage: inference. A :class:`SerialRun` is to the engine that
goes step by step what a :class:`~loopwise.inference.messages.stepwise.steps.SteppedRun` is, and driven alike. Each
schedule is an order of edges: the sequential one visits variables and lets the edges with news send, a random one draws
an order for each sweep, that by residuals asks for the next edge of a round. All messages at once, with maxima in place
of sums, are here too, where some factors are structured.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from loopwise.graph.factor_graph import Integers
from loopwise.graph.layout import Layout
from loopwise.graph.offsets import starts_of
from loopwise.graph.structured.compiled import CompiledMessages, kinds_of
from loopwise.inference.messages.pending import Growing
from loopwise.inference.messages.schedules import RandomSequential, Schedule, Sequential, random_order, stages
from loopwise.inference.messages.stepwise.kernels import serial_rounds as rounds
from loopwise.inference.messages.stepwise.kernels.serial import (
    SerialAdjoints,
    Terms,
    Wiring,
    enter_back,
    enter_message,
    enter_messages,
    hear_edges,
    hear_factor,
    hear_factor_back,
    logs_back,
    logs_of,
    send_in_order,
    table_messages,
    undo_in_order,
)
from loopwise.inference.messages.stepwise.steps import (
    Checkpoint,
    Floats,
    RunAdjoints,
    StepPotentials,
    Stretch,
    SweepingRun,
    no_adjoints,
    own_starts,
    remember_beliefs,
    row_of,
)


class SerialProgram:
    """What depends on the graph and the schedule only; kept on the layout."""

    def __init__(self, layout: Layout, schedule: Schedule) -> None:
        self.layout, self.schedule = layout, schedule
        sizes = layout.graph.cardinalities[layout.edge_variable]
        slot = starts_of(sizes)
        theta, first = [], 0
        for member in layout.message_groups:
            group = member.group
            theta.append(first + np.arange(group.count) * group.cells)
            first += group.count * group.cells
        theta.append(np.full(len(layout.structured), -1))
        self.wiring = Wiring(
            slot,
            layout.state_start[layout.edge_variable],
            layout.edge_variable,
            layout.variable_edge_start,
            layout.variable_edges,
            layout.edge_factor,
            layout.factor_edges,
            np.concatenate(theta).astype(np.int64),
        )
        self.width = int(sizes.max(initial=1))
        self.own_start = own_starts(layout)
        self.first_structured = layout.message_factors - len(layout.structured)
        self.stages = self._stages()
        self._kinds: dict[int, CompiledMessages] = {}

    @staticmethod
    def of(layout: Layout, schedule: Schedule) -> SerialProgram:
        key = ("serial", schedule)
        if key not in layout.storages:
            layout.storages[key] = SerialProgram(layout, schedule)
        found: SerialProgram = layout.storages[key]
        return found

    def _stages(self) -> list[Integers]:
        """The edges that send together, where several do."""
        names = np.array([name for name, count in self.layout.named_factors for _ in range(count)], dtype=object)
        owner = names[self.layout.edge_factor] if self.layout.edges else names[:0]
        return [np.flatnonzero(np.isin(owner, stage)) for stage in stages(self.schedule, self.layout.graph)]

    def order(self, sweep: int) -> Integers | None:
        """The edges of a sweep one after another; None where all of a stage send at once."""
        if isinstance(self.schedule, Sequential):
            return self._sequential()
        if isinstance(self.schedule, RandomSequential):
            return random_order(self.schedule, self.layout, sweep)
        return None

    def _sequential(self) -> Integers:
        kept = self.layout.kept
        if SerialProgram not in kept:
            order, layout, found = self.layout.sequential, self.layout, []
            ways = ((order.variables, order.pull_forward), (order.variables[::-1], order.pull_backward))
            for variables, pull in ways:
                start, degree = layout.variable_edge_start[variables], layout.degrees[variables]
                places = np.repeat(start - np.cumsum(degree) + degree, degree) + np.arange(int(degree.sum()))
                edges = layout.variable_edges[places]
                found.append(edges[pull[edges]])
            kept[SerialProgram] = np.concatenate(found)
        edges_of: Integers = kept[SerialProgram]
        return edges_of

    def kind(self, factor: int) -> CompiledMessages:
        """What sends the messages of one structured factor."""
        number = factor - self.first_structured
        if number not in self._kinds:
            member = self.layout.structured[number]
            made = kinds_of([member.factor])[0][0]
            start, own = np.array([member.slot_start]), self.own_start[[number]]
            self._kinds[number] = made([member.factor], start, own)
        return self._kinds[number]


class SentUpdates(NamedTuple):
    """What the way back needs of some updates of one example."""

    row: int
    sweep: int
    order: Integers
    replaced: Floats


class SerialRun(SweepingRun):
    """The numbers of one call, and its sweeps; as :class:`~loopwise.inference.messages.stepwise.steps.SteppedRun`."""

    def __init__(
        self,
        program: SerialProgram,
        numbers: StepPotentials,
        examples: int,
        heard: bool,
        parameters: bool,
        maximise: bool,
    ) -> None:
        self.program, self.numbers, self.examples, self.heard = program, numbers, examples, heard
        self.maximise, self.bias = maximise, numbers.unary
        self.layout = layout = program.layout
        self.remembers = len(numbers.memory) > 0  # by max-product, which has no way back
        if self.remembers:
            self.bias = np.array(np.broadcast_to(numbers.unary, (examples, layout.states)))
        self.m = np.zeros((examples, layout.slots))
        self.n = np.zeros((1, layout.slots))
        self.sums, self.counts = np.zeros((examples, layout.states)), np.zeros((examples, layout.states), np.int64)
        rows = max([len(table) for table in numbers.tables], default=1)
        each = [np.broadcast_to(table, (rows, *table.shape[1:])).reshape(rows, -1) for table in numbers.tables]
        self.theta = np.concatenate([*each, np.zeros((rows, 0))], axis=1)

    def terms(self, row: int, sweep: int) -> Terms:
        numbers = self.numbers
        none = np.zeros(0)
        weighted = len(numbers.powers) > 0
        return Terms(
            numbers.exponents,
            row_of(numbers.powers, sweep) if weighted else none,
            row_of(numbers.shares, sweep) if weighted else none,
            self.bias[row if len(self.bias) > 1 else 0],
            self.theta[row if len(self.theta) > 1 else 0],
        )

    def begin(self, initial: Floats | None) -> None:
        sizes = np.diff(self.program.wiring.slot)
        self.m[:] = -np.log(np.repeat(sizes, sizes)) if initial is None else initial

    def add_up(self) -> None:
        for row in range(self.examples):
            logs_of(self.program.wiring, self.terms(row, 1), self.m[row], self.sums[row], self.counts[row])

    def messages(self) -> Floats:
        """All messages to variables, normalised."""
        return self.m.copy()

    def sweep(self, rows: Integers, sweep: int, stretch: Stretch | None) -> None:
        order = self.program.order(sweep)
        if self.remembers:
            remember_beliefs(self, rows, sweep)
        kept: list[Any] = []
        for row in rows:
            if order is None:
                self._together(int(row), sweep)
            else:
                kept.append(self.send(int(row), sweep, order, stretch is not None))
        self.add_up()
        if stretch is not None:
            stretch.kept.append(kept)

    def send(self, row: int, sweep: int, order: Integers, keep: bool) -> SentUpdates:
        """One message after another of one example."""
        wiring, width, terms, m = self.program.wiring, self.program.width, self.terms(row, sweep), self.m[row]
        replaced = np.empty(len(order) * width if keep else 0)
        place = 0
        while True:
            place = send_in_order(wiring, terms, order, place, self.maximise, m, self.n[0], replaced, width)
            if place == len(order):
                return SentUpdates(row, sweep, order, replaced)
            edge = int(order[place])
            first, last = wiring.slot[edge], wiring.slot[edge + 1]
            fresh = self.structured_message(row, terms, edge)
            if keep:
                replaced[place * width : place * width + last - first] = m[first:last]
            enter_message(wiring, terms, edge, fresh, m)
            place += 1

    def structured_message(self, row: int, terms: Terms, edge: int) -> Floats:
        """The message of a structured factor along one edge."""
        wiring, factor = self.program.wiring, int(self.program.wiring.factor[edge])
        hear_factor(wiring, terms, factor, edge, self.m[row], self.n[0])
        out = np.zeros(self.n.shape)
        self._send(row, factor, out)
        return out[0, wiring.slot[edge] : wiring.slot[edge + 1]].copy()

    def _send(self, row: int, factor: int, out: Floats) -> Any:
        """All messages of one structured factor into ``out``, from those it hears."""
        kind, own = self.program.kind(factor), self._own(row)
        if self.maximise:
            member = self.program.layout.structured[factor - self.program.first_structured]
            slots = slice(member.slot_start, member.slot_start + member.factor.slots)
            given, shape = torch.from_numpy(self.n[0, slots]), member.factor.potentials_shape
            start = int(kind.own_start[0])
            mine = None
            if shape is not None:
                mine = torch.from_numpy(own[0, start : start + int(np.prod(shape))].copy()).reshape(shape)
            out[0, slots] = member.factor.max_messages(given, mine).numpy()
            return None
        possible = np.ones((1, 1), dtype=np.bool_)
        kept = kind.send(np.zeros(1, dtype=np.int64), self.n, own, out, possible)
        if not possible.all():
            kind.factors[0].refuse(torch.from_numpy(~possible[:, 0]))
        return kept

    def _own(self, row: int) -> Floats:
        own = self.numbers.own
        return own[row : row + 1] if len(own) > 1 else own

    def _together(self, row: int, sweep: int) -> None:
        """Stage by stage, all messages of a stage at once."""
        program, wiring, terms, m = self.program, self.program.wiring, self.terms(row, sweep), self.m[row]
        for number, stage in enumerate(program.stages):
            if sweep == 1 and number == 0 and not self.heard:
                self.n[0, :] = 0.0
            else:
                hear_edges(wiring, terms, stage, m, self.n[0])
            out = np.empty(self.n.shape)
            tables = stage[wiring.theta[wiring.factor[stage]] >= 0]
            table_messages(wiring, terms, tables, self.maximise, self.n[0], out[0], program.width)
            for factor in np.unique(wiring.factor[stage]):
                if wiring.theta[factor] < 0:
                    self._send(row, int(factor), out)
            enter_messages(wiring, terms, stage, out[0], m)

    # --- By residuals -------------------------------------------------------------------------------------------------

    def by_residual(self, row: int, limit: int, rule: Growing, keep: bool) -> tuple[SentUpdates, int, float]:
        """At most ``limit`` messages of one example, that which may change most first; how many were sent, and what may
        still change. Kernels keep the order and send the messages of tables."""
        wiring, width, terms, m = self.program.wiring, self.program.width, self.terms(row, 1), self.m[row]
        edges = len(wiring.variable)
        mine = rounds.GrowthRule(rule.scale, rule.damping, rule.eps, limit, self.maximise)
        pending = rounds.new_pending(edges)
        start = m.copy()
        self._together(row, 2)
        fresh = m.copy()
        m[:] = start
        rounds.begin_rounds(wiring, mine, pending, fresh, m)
        made = rounds.Made(np.empty(edges if keep else 0, dtype=np.int64), np.empty(edges * width if keep else 0))
        while (edge := rounds.send_rounds(wiring, terms, mine, pending, m, self.n[0], made)) != rounds.DONE:
            if edge == rounds.FULL:
                made = rounds.Made(
                    np.resize(made.edges, 2 * len(made.edges)), np.resize(made.replaced, 2 * len(made.replaced))
                )
            else:
                message = self.structured_message(row, terms, edge)
                rounds.enter_by_residual(wiring, terms, mine, pending, edge, message, m, made)
        count = int(pending.counts[2])
        order, replaced = made.edges[:count], made.replaced[: count * width]
        return SentUpdates(row, 1, order, replaced), count, rounds.pending_reach(mine, pending, rule.reach)

    # --- The way back -------------------------------------------------------------------------------------------------

    def checkpoint(self, sweep: int) -> Checkpoint:
        raise AssertionError("runs of single messages keep their whole tape")

    def pull_back(self, stretches: list[Stretch | Checkpoint], sweeps: Integers, given: RunAdjoints) -> StepPotentials:
        program, numbers = self.program, self.numbers
        found = no_adjoints(numbers)
        of_theta, messages = np.zeros(self.theta.shape), self.m.copy()
        of_messages = np.zeros(self.m.shape) if given.of_m is None else given.of_m.copy()
        room, none = np.zeros(program.layout.slots), np.zeros(0)

        def adjoints(row: int, sweep: int) -> SerialAdjoints:
            weighted = len(numbers.powers) > 0
            return SerialAdjoints(
                of_messages[row],
                room,
                found.exponents,
                row_of(found.powers, sweep) if weighted else none,
                row_of(found.shares, sweep) if weighted else none,
                found.unary[row if len(found.unary) > 1 else 0],
                of_theta[row if len(of_theta) > 1 else 0],
            )

        def seed(row: int, seeds: Floats) -> None:
            if seeds.any():
                logs_back(program.wiring, self.terms(row, 1), messages[row], seeds, adjoints(row, 1))

        stretch = stretches[0]
        assert isinstance(stretch, Stretch)
        for row in range(self.examples):
            seed(row, given.of_logs[len(stretch.kept)][row])
        for number in range(len(stretch.kept) - 1, -1, -1):
            for sent in stretch.kept[number]:
                self._undo(sent, messages[sent.row], adjoints(sent.row, sent.sweep), found)
            for row in range(self.examples):
                seed(row, given.of_logs[number][row])
        if len(found.initial):
            found.initial[:] += of_messages
        start = 0
        for table in found.tables:
            size = int(np.prod(table.shape[1:]))
            mine = of_theta[:, start : start + size].reshape(len(of_theta), *table.shape[1:])
            table += mine if len(table) == len(mine) else mine.sum(0, keepdims=True)
            start += size
        return found

    def _undo(self, sent: SentUpdates, m: Floats, adjoints: SerialAdjoints, found: StepPotentials) -> None:
        wiring, width, terms = self.program.wiring, self.program.width, self.terms(sent.row, sent.sweep)
        place, rows = len(sent.order), np.zeros(1, dtype=np.int64)
        of_own = found.own[sent.row : sent.row + 1] if len(found.own) > 1 else found.own
        while (
            place := undo_in_order(wiring, terms, sent.order, place, m, self.n[0], sent.replaced, width, adjoints)
        ) >= 0:
            edge = int(sent.order[place])
            factor, slots = int(wiring.factor[edge]), slice(wiring.slot[edge], wiring.slot[edge + 1])
            size = slots.stop - slots.start
            hear_factor(wiring, terms, factor, edge, m, self.n[0])
            out, of_out, of_n = np.zeros(self.n.shape), np.zeros(self.n.shape), np.zeros(self.n.shape)
            kept = self._send(sent.row, factor, out)
            back = out[0, slots].copy()
            old = sent.replaced[place * width : place * width + size]
            enter_back(wiring, terms, edge, back, old, m, adjoints)
            of_out[0, slots] = back
            self.program.kind(factor).pull_back(rows, self.n, self._own(sent.row), kept, of_out, of_n, of_own)
            adjoints.n[:] += of_n[0]
            adjoints.n[slots] = 0.0
            hear_factor_back(wiring, terms, factor, edge, m, adjoints)
