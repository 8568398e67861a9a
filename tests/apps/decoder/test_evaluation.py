"""Failures are counted up to stabilisers."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from loopwise.apps.decoder import OSD, Decoder, Flips, relay
from loopwise.inference.families.parity import FEW_SHOTS
from oracles.codes import toric


def test_failures_are_counted_up_to_stabilisers() -> None:
    code = toric()
    stabiliser = np.zeros((1, code.bits), np.uint8)
    stabiliser[0, [0, 3, 16, 28]] = 1  # the edges at a vertex
    nothing = np.zeros((1, code.bits), np.uint8)
    assert not code.checks.syndromes(stabiliser).any()
    assert not code.failures(stabiliser, nothing).any()
    loop = nothing.copy()
    loop[0, [0, 4, 8, 12]] = 1  # around the torus, across the loop that is looked at
    assert not code.checks.syndromes(loop).any()
    assert code.failures(loop, nothing).all()


def test_kernels_are_compiled_before_the_clock_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every leg and the second stage have run by then, in rows of lanes for many shots and for few."""
    code = toric()
    decoder = Decoder(code, legs=relay(code, 1, 3), second=OSD(0))
    events: list[Any] = []
    leg, solve, clock = Decoder._leg, OSD.solve, time.perf_counter

    def seen_leg(self: Decoder, number: int, bits: Any, *rest: Any) -> Any:
        events.append((number, len(bits)))
        return leg(self, number, bits, *rest)

    def seen_solve(self: OSD, *rest: Any) -> Any:
        events.append("second")
        return solve(self, *rest)

    def seen_clock() -> float:
        events.append("clock")
        return clock()

    monkeypatch.setattr(Decoder, "_leg", seen_leg)
    monkeypatch.setattr(OSD, "solve", seen_solve)
    monkeypatch.setattr(time, "perf_counter", seen_clock)
    counts = decoder.evaluate(Flips(code), 100, seed=3)
    before = set(events[: events.index("clock")])
    assert (
        before == {*((leg, shots) for leg in (0, 1) for shots in (1, FEW_SHOTS + 1)), "second"} and counts.shots == 100
    )
    monkeypatch.undo()
    again = decoder.evaluate(Flips(code), 100, seed=3)
    assert (again.errors, again.unexplained, again.sweeps) == (counts.errors, counts.unexplained, counts.sweeps)
