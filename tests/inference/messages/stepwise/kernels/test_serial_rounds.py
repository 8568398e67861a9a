"""Rounds of single messages with structured factors among them, against what the reference engine knows of them."""

from __future__ import annotations

import numpy as np
import pytest

import loopwise as lw
from loopwise.inference.messages.pending import Growing, PendingMessages
from loopwise.inference.messages.stepwise.kernels.serial import Terms
from loopwise.inference.messages.stepwise.kernels.serial_rounds import (
    DONE,
    FULL,
    GrowthRule,
    Made,
    begin_rounds,
    enter_by_residual,
    new_pending,
    pending_reach,
    send_rounds,
)
from loopwise.inference.messages.stepwise.serial import SerialProgram

EPS = 2.2e-16


def growth(new: np.ndarray, old: np.ndarray) -> float:
    moved = new - old
    size = max(1.0, float(np.abs(new[new != old]).max(initial=0)))
    return float(np.expm1(max(moved.max() - moved.min() - 8 * EPS * size, 0)))


@pytest.mark.parametrize("damping", [0.0, 0.4])
@pytest.mark.parametrize("powers", [1.0, 0.6])
def test_the_same_messages_in_the_same_order(damping: float, powers: float) -> None:
    graph = lw.FactorGraph(
        [2, 3, 2, 2], {"pair": [[0, 1], [2, 1]], "other": [[0, 2], [2, 3]]}, {"odd": (lw.Parity(3), [0, 2, 3])}
    )
    layout, rng = graph.layout, np.random.default_rng(0)
    program = SerialProgram(layout, lw.Residual())
    edges, slots, width = layout.edges, program.wiring.slot, program.width
    exponents, shares = np.full(edges, powers), np.full(edges, damping)
    terms = Terms(exponents, np.ones(edges), shares, rng.normal(size=layout.states), rng.normal(size=20))
    uniform = -np.log(np.repeat(np.diff(slots), np.diff(slots)))
    growing = Growing(1e-4, 0.25 * powers / (1 - damping), damping, EPS)
    rule, pending = GrowthRule(growing.scale, damping, EPS, 60, False), new_pending(edges)
    plain = PendingMessages(layout, growing, exponents.tolist())
    m, n = uniform.copy(), np.zeros(layout.slots)
    fresh = m + 0.3 * rng.normal(size=len(m))  # as if worked out
    begin_rounds(program.wiring, rule, pending, fresh, m)
    for edge in range(edges):
        mine = slice(slots[edge], slots[edge + 1])
        plain.begin(edge, growth(fresh[mine], m[mine]))
    assert pending.keys.values[:edges] == pytest.approx(np.array(plain.keys))
    made, told = Made(np.empty(3, dtype=np.int64), np.empty(3 * width)), 0
    while True:
        edge = send_rounds(program.wiring, terms, rule, pending, m, n, made)
        if edge not in (DONE, FULL):  # a structured factor's, which says something new each time
            message = rng.normal(size=2)
            enter_by_residual(program.wiring, terms, rule, pending, edge, message, m, made)
        before = m.copy()  # what was sent is followed from the last to the first, then told from the first on
        for place in range(int(pending.counts[2]) - 1, told - 1, -1):
            sent = int(made.edges[place])
            size = slots[sent + 1] - slots[sent]
            now = before[slots[sent] : slots[sent + 1]].copy()
            before[slots[sent] : slots[sent + 1]] = made.replaced[place * width : place * width + size]
            made.replaced[place * width : place * width + size] = now  # the new one, for what follows
        for place in range(told, int(pending.counts[2])):
            sent = int(made.edges[place])
            mine = slice(slots[sent], slots[sent + 1])
            new = made.replaced[place * width : place * width + slots[sent + 1] - slots[sent]].copy()
            assert plain.next_edge() == sent
            plain.after_sending(sent, growth(new, before[mine]))
            before[mine] = new
        told = int(pending.counts[2])
        if edge == DONE:
            break
        if edge == FULL:
            made = Made(np.resize(made.edges, 2 * len(made.edges)), np.resize(made.replaced, 2 * len(made.replaced)))
    assert told == 60 or plain.next_edge() == -1
    assert told > 10
    assert pending_reach(rule, pending, growing.reach) == pytest.approx(plain.change())
