"""Shots on their way through the legs of a decoder: who goes on, with how many sweeps, and the best solution so far.

In: a decoder, bits of syndromes, log-odds. Out: the fields of an answer. Stage: use.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from loopwise.inference.families.parity import Bits, Decoded, Floats, LaneRoom

if TYPE_CHECKING:
    from loopwise.apps.decoder.decoder import Decoder

Rows = NDArray[np.intp]


class LegSequence:
    """Some shots, and what is known of each after the legs so far.

    ``keeps``: whether beliefs are kept, for soft output, for legs that go on from them and for a second stage.
    """

    def __init__(self, decoder: Decoder, bits: Bits, odds: Floats, keeps: bool) -> None:
        self.decoder, self.bits, self.odds, self.keeps = decoder, bits, odds, keeps
        shots = len(bits)
        self.hard = np.zeros((shots, decoder.code.bits), np.uint8)
        self.explained, self.sweeps = np.zeros(shots, np.bool_), np.zeros(shots, np.int64)
        self.leg, self.found = np.full(shots, -1), np.zeros(shots, np.int64)
        self.costs = np.full(shots, np.inf)
        self.left = np.zeros((shots if keeps else 0, decoder.code.bits), odds.dtype)
        self.sure = sure_costs(odds, decoder.distance)
        self.room = LaneRoom()  # that all legs use

    def run(self) -> None:
        """All legs, each on the shots that go on."""
        rows = np.arange(len(self.bits))
        for number in range(len(self.decoder.legs)):
            for mine, answer in self._answers(number, rows):
                self._take(number, mine, answer)
            rows = rows[self._goes_on(rows)]
            if not len(rows):
                break

    def run_all(self) -> None:
        """All legs on all shots, as if none explained anything."""
        rows = np.arange(len(self.bits))
        for number in range(len(self.decoder.legs)):
            self.sweeps[:] = 0
            for _ in self._answers(number, rows):
                pass

    def solve(self) -> int:
        """The second stage, on shots that are unexplained; how many these are."""
        decoder, rows = self.decoder, np.flatnonzero(~self.explained)
        if decoder.second is None or not len(rows):
            return 0
        with torch.no_grad():
            passing = decoder.legs[-1].passing(decoder.rule, decoder.layered)
        solved = decoder.second.solve(decoder.code.checks, passing, self.left[rows], self.bits[rows], self._own(rows))
        self.hard[rows], self.explained[rows] = solved.hard, solved.explained
        self.sweeps[rows] += solved.sweeps
        return len(rows)

    def _own(self, rows: Rows) -> Floats:
        """Log-odds of these shots, or those of all."""
        return self.odds[rows] if len(self.odds) > 1 else self.odds

    def _answers(self, number: int, rows: Rows) -> Iterator[tuple[Rows, Decoded]]:
        """What a leg makes of some shots, those that may make as many sweeps together."""
        decoder = self.decoder
        most = decoder.legs[number].sweeps
        allowed = np.full(len(rows), most)
        if decoder.budget is not None:
            allowed = np.minimum(most, decoder.budget - self.sweeps[rows])
        for count in np.unique(allowed):
            mine = rows[allowed == count]
            left = self.left[mine] if self.keeps else self.left
            yield mine, decoder._leg(number, self.bits[mine], self._own(mine), left, self.keeps, int(count), self.room)

    def _take(self, number: int, rows: Rows, answer: Decoded) -> None:
        self.sweeps[rows] += answer.sweeps
        if self.keeps:
            self.left[rows] = answer.soft
        cost = np.where(answer.hard == 1, self._own(rows), 0.0).sum(1, dtype=np.float64)  # as likely ones cost as much
        better = answer.explained & (cost < self.costs[rows])
        self.costs[rows[better]], self.leg[rows[better]] = cost[better], number
        self.found[rows] += answer.explained
        self.explained[rows] |= answer.explained
        better |= ~self.explained[rows]  # the last decisions, for want of a solution
        self.hard[rows[better]] = answer.hard[better]

    def _goes_on(self, rows: Rows) -> NDArray[np.bool_]:
        sure = self.sure[rows] if len(self.sure) > 1 else self.sure
        found = (self.found[rows] < self.decoder.solutions) & ~(self.costs[rows] < sure)
        if self.decoder.budget is not None:
            found &= self.sweeps[rows] < self.decoder.budget
        return np.asarray(found)


def sure_costs(odds: Floats, distance: int | None) -> Floats:
    """Costs of solutions below which nothing else is likelier, for each row of log-odds: half of the ``distance``
    smallest. Another solution that does not do the same differs in so many bits, and has those that this one has not.

    >>> sure_costs(np.array([[1.0, 2.0, 4.0], [1.0, 2.0, -4.0]]), 2).tolist()
    [1.5, -inf]
    """
    if distance is None:
        return np.full(1, -np.inf)
    least = np.partition(odds, min(distance, odds.shape[1]) - 1, axis=1)[:, :distance].sum(1, dtype=np.float64) / 2
    found: Floats = np.where((odds >= 0).all(1), least, -np.inf)
    return found
