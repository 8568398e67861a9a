"""The Bethe value: its message form, its derivative."""

from __future__ import annotations

import numpy as np
import torch

import loopwise as lw
from loopwise.graph import grid
from loopwise.inference.messages.message_passing import BP


def test_bethe_equals_its_message_form_at_convergence() -> None:
    """(B1) = (B2) of the ERMA spec at a fixed point of a loopy graph."""
    graph = grid(4, 4, 3)
    generator = torch.Generator().manual_seed(0)
    tables = {g.name: torch.randn(g.count, *g.shape, generator=generator, dtype=torch.float64) for g in graph.groups}
    beliefs = BP(iterations=2000, tolerance=1e-13)(graph, tables)
    m = beliefs.messages.reshape(-1, 2, 3)  # [factor, position, state], log
    total = tables["unary"].clone()
    scopes = torch.tensor(graph.group("pair").scopes)
    total = total.index_add(0, scopes.reshape(-1), m.reshape(-1, 3))
    n = total[scopes] - m
    factor = torch.logsumexp((tables["pair"] + n[:, 0, :, None] + n[:, 1, None, :]).flatten(1), 1).sum()
    edge = torch.logsumexp(n + m, 2).sum()
    torch.testing.assert_close(beliefs.log_partition, factor + torch.logsumexp(total, 1).sum() - edge)


def test_belief_is_the_derivative_of_log_z_at_convergence() -> None:
    graph = grid(3, 3, 2)
    generator = torch.Generator().manual_seed(1)
    tables = {g.name: torch.randn(g.count, *g.shape, generator=generator, dtype=torch.float64) for g in graph.groups}
    solver = BP(iterations=5000, tolerance=1e-14)
    beliefs = solver(graph, tables)
    step = 1e-5
    for name, place in (("pair", (4, 1, 0)), ("unary", (3, 1))):
        ends = []
        for sign in (1, -1):
            moved = {key: table.clone() for key, table in tables.items()}
            moved[name][place] += sign * step
            ends.append(solver(graph, moved).log_partition)
        slope = (ends[0] - ends[1]) / (2 * step)
        torch.testing.assert_close(slope, beliefs.factor(name)[place], rtol=0, atol=1e-8)


def test_the_score_of_an_assignment_where_a_group_is_empty() -> None:
    graph = lw.FactorGraph([2, 2], {"own": [[0], [1]], "pair": np.zeros((0, 2), dtype=int)})
    own = torch.tensor([[0.0, 1.0], [2.0, -1.0]], dtype=torch.float64)
    beliefs = lw.BP(temperature=0)(graph, {"own": own, "pair": torch.zeros(0, 2, 2, dtype=torch.float64)})
    assert beliefs.assignment.tolist() == [1, 0]
    assert float(beliefs.log_partition) == 3.0
