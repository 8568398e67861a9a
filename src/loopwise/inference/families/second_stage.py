"""Second stages: what is tried on shots that sweeps left unexplained.

In: log-odds that sweeps ended with. Out: corrections. Stage: inference. Ordered statistics always explain a syndrome
that can be explained.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from loopwise.arguments import checked_whole
from loopwise.graph.offsets import starts_of
from loopwise.inference.families.parity import CERTAIN, Bits, Decoded, Floats, ParityChecks, Passing, decode

MOST_EXHAUSTIVE = 20


@dataclass(frozen=True)
class OSD:
    """Ordered statistics: checks are solved for the bits most likely flipped; then others are tried for flips that
    cost less.

    Parameters
    ----------
    order: how many of the other bits are tried; 0 takes the first solution (OSD-0).
    exhaustive: all sets of these (OSD-E), ``2**order`` of them; else each of all others alone, and pairs of the first
        ``order`` (the combination sweep, OSD-CS).

    >>> OSD(10)
    OSD(order=10, exhaustive=False)
    """

    order: int = 0
    exhaustive: bool = False

    def __post_init__(self) -> None:
        checked_whole("the order of ordered statistics", self.order, 0)
        if self.exhaustive and self.order > MOST_EXHAUSTIVE:
            raise ValueError(
                f"OSD-E of order {self.order} would try 2**{self.order} sets for each shot; give at most "
                f"{MOST_EXHAUSTIVE}, or leave exhaustive out"
            )

    def solve(
        self, checks: ParityChecks, passing: Passing, log_odds: Floats, syndromes: Bits, priors: Floats
    ) -> Decoded:
        """Corrections, and which syndromes they explain. ``log_odds``: of no flip, ``[shots, bits]``, after the last
        sweep, by which bits are ordered; ``priors``: before anything was seen, ``[1 or shots, bits]``."""
        if len(priors) == 1:
            return self._ordered(checks, log_odds, syndromes, priors[0])
        each = [
            self._ordered(checks, log_odds[k : k + 1], syndromes[k : k + 1], priors[k]) for k in range(len(syndromes))
        ]
        return Decoded(*(np.concatenate(column) for column in zip(*each, strict=True)))

    def _ordered(self, checks: ParityChecks, log_odds: Floats, syndromes: Bits, costs: Floats) -> Decoded:
        from loopwise.inference.families.kernels.osd import COMBINATIONS, EXHAUSTIVE, solve_shots

        order = np.argsort(log_odds, axis=1, kind="stable")
        hard, fine = np.zeros(log_odds.shape, np.uint8), np.zeros(len(order), np.bool_)
        way = EXHAUSTIVE if self.exhaustive else COMBINATIONS
        solve_shots(columns_of(checks), order, syndromes, np.asarray(costs, np.float64), way, self.order, hard, fine)
        return Decoded(hard, log_odds[:0], np.zeros(len(order), np.int32), fine)


@dataclass(frozen=True)
class Decimation:
    """Decides the bits that are most certain, and lets messages pass again among the others, round by round.

    Parameters
    ----------
    rounds: at most so many.
    share: of the bits that is decided in each.
    sweeps: in each.

    >>> Decimation(rounds=5)
    Decimation(rounds=5, share=0.05, sweeps=10)
    """

    rounds: int = 20
    share: float = 0.05
    sweeps: int = 10

    def __post_init__(self) -> None:
        for name in ("rounds", "sweeps"):
            checked_whole(f"{name} of a decimation", getattr(self, name))
        if not 0 < self.share <= 1:
            raise ValueError(f"the share of bits decided in a round must be above 0 and at most 1, not {self.share!r}")

    def solve(
        self, checks: ParityChecks, passing: Passing, log_odds: Floats, syndromes: Bits, priors: Floats
    ) -> Decoded:
        """As :meth:`OSD.solve`; what stays unexplained keeps its last decisions. Sweeps of all rounds are counted."""
        shots, count = len(syndromes), max(1, round(self.share * checks.variables))
        own = np.array(np.broadcast_to(priors, log_odds.shape))
        decided, left = np.zeros(own.shape, np.bool_), log_odds.copy()
        hard, fine, made = np.zeros(own.shape, np.uint8), np.zeros(shots, np.bool_), np.zeros(shots, np.int32)
        rows, constant = np.arange(shots), passing.first_row()
        for _ in range(self.rounds):
            sizes = np.where(decided[rows], -1.0, np.abs(left[rows]))
            chosen = np.argsort(-sizes, axis=1, kind="stable")[:, :count]
            values = np.where(np.take_along_axis(left[rows], chosen, 1) <= 0, -CERTAIN, CERTAIN)
            fresh = ~np.take_along_axis(decided[rows], chosen, 1)
            own[rows[:, None], chosen] = np.where(fresh, values, own[rows[:, None], chosen])
            decided[rows[:, None], chosen] = True
            found = decode(checks, constant, own[rows], syndromes[rows], self.sweeps, soft=True)
            hard[rows], left[rows], fine[rows] = found.hard, found.soft, found.explained
            made[rows] += found.sweeps
            rows = rows[~found.explained]
            if not len(rows):
                break
        return Decoded(hard, left[:0], made, fine)


Second = OSD | Decimation


@lru_cache(maxsize=8)
def columns_of(checks: ParityChecks) -> Any:
    """The checks of each bit, and the rank, for kernels."""
    from loopwise.inference.families.kernels.osd import CheckColumns

    by_bit = np.argsort(checks.variable, kind="stable")
    start = starts_of(np.bincount(checks.variable, minlength=checks.variables))
    return CheckColumns(start.astype(np.int64), checks.edge_check[by_bit], checks.count, rank_of(checks))


def rank_of(checks: ParityChecks) -> int:
    """How many checks are independent, over the field of two elements."""
    rows = [
        sum(1 << int(bit) for bit in checks.variable[a:b]) for a, b in zip(checks.start, checks.start[1:], strict=False)
    ]
    pivots: dict[int, int] = {}
    for row in rows:
        while row:
            high = row.bit_length()
            if high not in pivots:
                pivots[high] = row
                break
            row ^= pivots[high]
    return len(pivots)
