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
from loopwise.inference.messages.kernels.queue import BUCKETS


class Growing(NamedTuple):
    """When a change counts, and how it is carried on."""

    tolerance: float
    reach: float  # how far a belief can move in the end, when a log message moves by one nat
    damping: float
    eps: float  # of the numbers


class PendingMessages:
    """By how much the message of each edge may have grown since it was sent, and which is to be sent next: the oldest
    in the highest bucket, of which there are two for each power of two (``queue``)."""

    def __init__(self, layout: Layout, rule: Growing, powers: Sequence[float]) -> None:
        """``powers``: with which the message of each edge enters its variable."""
        self.layout, self.reach, self.damping, self.powers = layout, rule.reach, rule.damping, powers
        self.scale = 1 / max(math.expm1(min(rule.tolerance / rule.reach, MOST_NATS)), 8.8 * rule.eps)
        self.keys, self.home = [0.0] * layout.edges, [-1] * layout.edges
        self.buckets: list[dict[int, None]] = [{} for _ in range(BUCKETS)]  # in the order in which edges came
        self.members: dict[int, list[int]] = {}
        for edge, factor in enumerate(layout.edge_factor.tolist()):
            self.members.setdefault(factor, []).append(edge)

    def set_key(self, edge: int, key: float) -> None:
        """Gives an edge another key, times ``scale``; in another bucket it goes last."""
        self.keys[edge] = key
        mantissa, exponent = math.frexp(min(key, 1e300))
        place = min(2 * (exponent - 1) + (mantissa >= 0.75), BUCKETS - 1) if key > 1 else -1
        if place != self.home[edge]:
            if self.home[edge] >= 0:
                del self.buckets[self.home[edge]][edge]
            self.home[edge] = place
            if place >= 0:
                self.buckets[place][edge] = None

    def first(self) -> int:
        """The edge that is next; -1 if none is worth sending."""
        return next((next(iter(bucket)) for bucket in reversed(self.buckets) if bucket), -1)

    def after_sending(self, edge: int, grown: float) -> None:
        """Once the message of ``edge`` was sent and has ``grown`` by so much."""
        self.set_key(edge, self._compounded(0.0, grown, self.damping) if self.damping > 0 else 0.0)
        if grown == 0:
            return
        layout = self.layout
        variable = layout.edge_variable[edge]
        for place in range(layout.variable_edge_start[variable], layout.variable_edge_start[variable + 1]):
            at = int(layout.variable_edges[place])
            enters = (1 - self.damping) * abs(self.powers[edge] - (at == edge))
            for other in self.members[int(layout.edge_factor[at])] if enters > 0 else ():
                if other != at:
                    self.set_key(other, self._compounded(self.keys[other], grown, enters))

    def _compounded(self, key: float, grown: float, power: float) -> float:
        more = grown if power == 1 else math.expm1(power * math.log1p(grown))
        return key + more * self.scale + key * more

    def change(self) -> float:
        """How far the largest pending change can move a belief in the end."""
        largest = max(self.keys, default=0.0)
        return math.log1p(largest / self.scale) * self.reach if largest > 0 else 0.0
