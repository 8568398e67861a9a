"""Compiled messages of the factors that an automaton reads.

In: log messages. Out: messages, adjoints. Stage: structure. Parity, counts, logic and one-of-many all
run in one kernel: they differ in their transitions only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loopwise.graph.factor_graph import Integers
from loopwise.graph.offsets import starts_of
from loopwise.graph.structured.compiled import CompiledMessages, Flags, Floats


class AutomatonMessages(CompiledMessages):
    """Factors with ``transitions`` ``[variables, states, 2]`` and ``accepted``, log weights of the states at the end
    (None: those are the factor's potentials). Factors of one structure share their transitions."""

    def __init__(self, factors: Sequence[Any], slot_start: Integers, own_start: Integers) -> None:
        from loopwise.graph.structured.kernels.automaton import Automata

        super().__init__(factors, slot_start, own_start)
        starts: dict[Any, int] = {}
        tables: list[np.ndarray] = []
        move_start = []
        for factor in factors:
            if factor not in starts:
                starts[factor] = sum(table.size for table in tables)
                tables.append(factor.transitions)
            move_start.append(starts[factor])
        states = np.array([factor.transitions.shape[1] for factor in factors], dtype=np.int64)
        final_start = starts_of(states)[:-1]
        self.automata = Automata(
            slot_start,
            np.array([factor.arity for factor in factors], dtype=np.int64),
            states,
            np.array(move_start, dtype=np.int64),
            np.concatenate([table.reshape(-1) for table in tables]).astype(np.int64),
            final_start,
        )
        given = [factor.accepted for factor in factors]
        self.accepted = np.concatenate(
            [np.zeros(size) if each is None else each for size, each in zip(states, given, strict=True)]
        )[None].astype(np.float64)
        pieces = [
            (np.arange(size) + first, np.arange(size) + begin)
            for size, first, begin, each in zip(states, final_start, own_start, given, strict=True)
            if each is None
        ]
        # Where the weights of the end are potentials: their places here and among all potentials.
        self.weighted = tuple(np.concatenate([*column, np.zeros(0, np.int64)]) for column in zip(*pieces, strict=True))

    def _final(self, own: Floats) -> Floats:
        if not self.weighted:
            return self.accepted
        final = np.repeat(self.accepted, len(own), 0)
        final[:, self.weighted[0]] = own[:, self.weighted[1]]
        return final

    def send_first(self, rows: Integers, final: Floats, incoming: Floats, outgoing: Floats, *told: Flags) -> None:
        """Where a subclass has a faster way for some factors; ``told``: possible, and which are done."""

    def back_first(self, rows: Integers, final: Floats, incoming: Floats, *adjoints: Any) -> None:
        """The adjoint of :meth:`send_first`: adjoints of messages out, in and of the end, and which are done."""

    def send(self, rows: Integers, incoming: Floats, own: Floats, outgoing: Floats, possible: Flags) -> None:
        from loopwise.graph.structured.kernels.automaton import automata_send

        final, done = self._final(own), np.zeros((len(incoming), len(self.factors)), dtype=np.bool_)
        self.send_first(rows, final, incoming, outgoing, possible, done)
        if not done[rows].all():
            automata_send(rows, self.automata, final, incoming, outgoing, possible, done)

    def pull_back(self, rows: Integers, incoming: Floats, own: Floats, kept: Any, *adjoints: Floats) -> None:
        from loopwise.graph.structured.kernels.automaton import automata_back

        of_outgoing, of_incoming, of_own = adjoints
        final = self._final(own)
        of_final, done = np.zeros(final.shape), np.zeros((len(incoming), len(self.factors)), dtype=np.bool_)
        self.back_first(rows, final, incoming, of_outgoing, of_incoming, of_final, done)
        if not done[rows].all():
            automata_back(rows, self.automata, final, incoming, of_outgoing, of_incoming, of_final, done)
        if self.weighted:
            of_own[:, self.weighted[1]] += of_final[:, self.weighted[0]]


class ParityMessages(AutomatonMessages):
    """Parity factors: in closed form, but for messages of hundreds of nats."""

    def send_first(self, rows: Integers, final: Floats, incoming: Floats, outgoing: Floats, *told: Flags) -> None:
        from loopwise.graph.structured.kernels.parity import parities_send

        parities_send(rows, self.automata, final, incoming, outgoing, *told)

    def back_first(self, rows: Integers, final: Floats, incoming: Floats, *adjoints: Any) -> None:
        from loopwise.graph.structured.kernels.parity import parities_back

        parities_back(rows, self.automata, final, incoming, *adjoints)


class OneOfMessages(AutomatonMessages):
    """One-of-many factors: in closed form, but where a value is ruled out or messages are of hundreds of nats."""

    def send_first(self, rows: Integers, final: Floats, incoming: Floats, outgoing: Floats, *told: Flags) -> None:
        from loopwise.graph.structured.kernels.one_of import one_of_send

        one_of_send(rows, self.automata, final, incoming, outgoing, *told)

    def back_first(self, rows: Integers, final: Floats, incoming: Floats, *adjoints: Any) -> None:
        from loopwise.graph.structured.kernels.one_of import one_of_back

        one_of_back(rows, self.automata, final, incoming, *adjoints)
