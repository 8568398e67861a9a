"""What the residual schedule says of messages that it has not worked out: never less than what they would change by."""

from __future__ import annotations

import math

import pytest
import torch

import loopwise as lw
from loopwise.inference import Reference, Residual
from loopwise.inference.messages.pending import Growing, PendingMessages


def largest_change(beliefs: lw.Beliefs, graph: lw.FactorGraph, potentials: lw.TablePotentials) -> float:
    """By how many nats the messages of one more flooding sweep would differ."""
    after = lw.BP(iterations=1, tolerance=0)(graph, potentials, initial=beliefs.messages)
    return float((after.messages - beliefs.messages).detach().abs().max())


@pytest.mark.parametrize("sweeps", [1, 3, 6])
@pytest.mark.parametrize("states", [2, 3, 5])
def test_the_residual_bounds_every_pending_change(sweeps: int, states: int) -> None:
    graph = lw.grid(4, 4, states)
    potentials = lw.TablePotentials.random(graph, scale=1.5, seed=states)
    beliefs = lw.BP(iterations=sweeps, tolerance=0, schedule=Residual())(graph, potentials)
    assert float(beliefs.status.residual) >= 0.25 * largest_change(beliefs, graph, potentials) - 1e-12


def test_a_tolerance_is_kept_by_both_engines() -> None:
    graph = lw.grid(4, 4, 3)
    potentials = lw.TablePotentials.random(graph, scale=1.0, seed=1)
    for engine in (None, Reference()):
        beliefs = lw.BP(iterations=100, tolerance=1e-6, schedule=Residual(), engine=engine)(graph, potentials)
        assert bool(beliefs.status.converged) and float(beliefs.status.residual) <= 1e-6
        assert largest_change(beliefs, graph, potentials) <= 4e-6
    flooding = lw.BP(iterations=500, tolerance=1e-12)(graph, potentials)
    torch.testing.assert_close(beliefs.states, flooding.states, rtol=0, atol=1e-4)


@pytest.mark.parametrize("grown", [math.inf, math.nan, 1e308])
def test_growth_beyond_all_numbers_leaves_keys_that_can_be_compared(grown: float) -> None:
    graph = lw.grid(2, 2)
    pending = PendingMessages(graph.layout, Growing(1e-6, 0.25, 0.0, 1.2e-7), [1.0] * graph.layout.edges)
    for edge in range(graph.layout.edges):
        pending.begin(edge, grown)
    for _ in range(3 * graph.layout.edges):
        edge = pending.next_edge()
        if edge < 0:
            break
        pending.after_sending(edge, grown)
    assert all(math.isfinite(key) for key in pending.keys)
    assert math.isfinite(pending.change())


def test_messages_that_jump_by_hundreds_of_nats_end() -> None:
    """Keys overflowed here, and the search for the next message never ended."""
    graph = lw.grid(3, 3)
    tables = lw.TablePotentials.random(graph, scale=400.0, seed=0)
    given = {name: table.float() for name, table in tables().items()}
    for engine in (None, Reference()):
        for temperature in (1.0, 0.0):
            method = lw.BP(iterations=3, tolerance=1e-6, schedule=Residual(), temperature=temperature, engine=engine)
            beliefs = method(graph, given)
            assert bool(torch.isfinite(beliefs.states).all())
