"""The kernels of single messages, each against the reference engine's equations."""

from __future__ import annotations

import numpy as np
import torch

import loopwise as lw
from loopwise.inference.base import Problem
from loopwise.inference.messages.reference import MessageUpdate
from loopwise.inference.messages.stepwise.kernels.serial import (
    Terms,
    hear_edges,
    logs_of,
    send_in_order,
    table_messages,
)
from loopwise.inference.messages.stepwise.serial import SerialProgram


def case() -> tuple[MessageUpdate, SerialProgram, Terms, np.ndarray]:
    graph = lw.FactorGraph([2, 3, 2], {"unary": [[0], [2]], "pair": [[0, 1], [2, 1]], "three": [[0, 1, 2]]})
    tables = dict(lw.TablePotentials.random(graph, seed=1)())
    tables = {name: table.detach().double() for name, table in tables.items()}
    problem = Problem(graph, tables, torch.Size(), torch.empty(0, dtype=torch.float64))
    method = lw.BP()
    update = MessageUpdate(problem, method, method.counting_numbers(graph))
    none = np.zeros(0)
    theta = np.concatenate([table.numpy().reshape(-1) for table in update.tables])
    rng = np.random.default_rng(3)
    m = update.initial().numpy() + rng.normal(size=graph.layout.slots)
    return update, SerialProgram(graph.layout, method.schedule), Terms(none, none, none, update.unary.numpy(), theta), m


def test_what_factors_hear_and_send_is_that_of_the_equations() -> None:
    update, program, terms, m = case()
    edges = np.arange(update.layout.edges)
    n, out = np.zeros(len(m)), np.zeros(len(m))
    hear_edges(program.wiring, terms, edges, m, n)
    wanted = update.to_factors(torch.from_numpy(m))
    table_messages(program.wiring, terms, edges, False, n, out, program.width)
    sent = update.to_variables(wanted).numpy()
    for edge in edges:
        slots = slice(program.wiring.slot[edge], program.wiring.slot[edge + 1])
        np.testing.assert_allclose(n[slots] - np.logaddexp.reduce(n[slots]), wanted.numpy()[slots], atol=1e-12)
        np.testing.assert_allclose(out[slots] - np.logaddexp.reduce(out[slots]), sent[slots], atol=1e-12)


def test_an_order_is_one_message_after_another() -> None:
    update, program, terms, m = case()
    order = np.random.default_rng(0).permutation(update.layout.edges)
    wanted = torch.from_numpy(m.copy())
    for edge in order:
        wanted = torch.where(update.slot_edge == int(edge), update.flooding_sweep(wanted), wanted)
    mine, room = m.copy(), np.zeros(len(m))
    assert send_in_order(program.wiring, terms, order, 0, False, mine, room, np.zeros(0), program.width) == len(order)
    np.testing.assert_allclose(mine, wanted.numpy(), atol=1e-12)
    logs, counts = np.zeros(update.layout.states), np.zeros(update.layout.states, dtype=np.int64)
    logs_of(program.wiring, terms, mine, logs, counts)
    np.testing.assert_allclose(logs, update.logs(wanted).numpy(), atol=1e-12)
    assert not counts.any()
