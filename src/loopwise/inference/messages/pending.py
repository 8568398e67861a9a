"""What the residual schedule of the reference engine knows of messages that it has not worked out.

In: by how much messages that were sent have grown. Out: which edge is to send next, and what may still change. The rule
of :mod:`loopwise.inference.messages.kernels.residual`, for graphs of any factors. Stage: inference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from loopwise.graph.layout import Layout
from loopwise.inference.messages.kernels.convergence import MOST_NATS
from loopwise.inference.messages.kernels.rounds import EASY, MOST_KEY, NARROW, WIDE


class Growing(NamedTuple):
    """When a change counts, and how it is carried on."""

    tolerance: float
    reach: float  # how far a belief can move in the end, when a log message moves by one nat
    damping: float
    eps: float  # of the numbers

    @property
    def scale(self) -> float:
        """One over the growth that is worth sending a message for: more than the tolerance allows, or rounding does."""
        return 1 / max(math.expm1(min(self.tolerance / self.reach, MOST_NATS)), 8.8 * self.eps)


class PendingMessages:
    """By how much the message of each edge may have grown since it was sent, and which is to be sent next, round by
    round (:mod:`loopwise.inference.messages.kernels.rounds`)."""

    def __init__(self, layout: Layout, rule: Growing, powers: Sequence[float]) -> None:
        """``powers``: with which the message of each edge enters its variable."""
        self.layout, self.reach, self.damping, self.powers = layout, rule.reach, rule.damping, powers
        self.scale = rule.scale
        self.keys = [0.0] * layout.edges  # times the scale, at most MOST_KEY
        self.floor, self.rounds, self.round, self.sent = 1.0, 0, iter(range(0)), 0
        self.members: dict[int, list[int]] = {}
        for edge, factor in enumerate(layout.edge_factor.tolist()):
            self.members.setdefault(factor, []).append(edge)

    def begin(self, edge: int, grown: float) -> None:
        """Before anything was sent: by how much the message of ``edge`` would grow."""
        self.keys[edge] = self._compounded(0.0, grown, 1.0) if grown > 0 else 0.0

    def next_edge(self) -> int:
        """The edge that is next, whose key is 0 from now on; -1 if none is worth sending."""
        while True:
            for edge in self.round:
                if self.keys[edge] > self.floor:
                    self.keys[edge] = 0.0
                    self.sent += 1
                    return edge
            largest = max(self.keys, default=0.0)
            if largest <= 1:
                return -1
            edges = range(len(self.keys))
            share = WIDE if self.sent < EASY * len(edges) else NARROW
            self.floor = max(min(largest, MOST_KEY) * share, 1.0)
            self.round = iter(edges if self.rounds % 2 == 0 else edges[::-1])
            self.rounds += 1

    def after_sending(self, edge: int, grown: float) -> None:
        """Once the message of ``edge`` was sent and has ``grown`` by so much."""
        if not grown > 0:  # an impossible message has not grown, either
            return
        if self.damping > 0:  # the rest of its way is pending again
            self.keys[edge] = self._compounded(0.0, grown, self.damping)
        layout = self.layout
        variable = layout.edge_variable[edge]
        for place in range(layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1]):
            at = int(layout.variable_edges[place])
            enters = (1 - self.damping) * abs(self.powers[edge] - (at == edge))
            for other in self.members[int(layout.edge_factor[at])] if enters > 0 else ():
                if other != at:
                    self.keys[other] = self._compounded(self.keys[other], grown, enters)

    def _compounded(self, key: float, grown: float, power: float) -> float:
        grown = min(grown, MOST_KEY)  # keys stay finite: infinity times nothing is no number
        more = grown if power == 1 else math.expm1(power * math.log1p(grown))
        return min(key + more * self.scale + key * more, MOST_KEY)

    def change(self) -> float:
        """How far the largest pending change can move a belief in the end."""
        largest = max(self.keys, default=0.0)
        return math.log1p(largest / self.scale) * self.reach if largest > 0 else 0.0
