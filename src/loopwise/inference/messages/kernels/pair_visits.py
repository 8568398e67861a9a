"""Sequential visits where all factors are pairs of literal size: probabilities, undamped, plain BP, one example.

In: tables and messages, a message's states side by side. Out: messages, in place; beliefs where asked for. What
:func:`loopwise.inference.messages.kernels.variables.visit_variables` does, with messages as vectors.

Tables stand in the order in which they are read, one for each message that is pulled: to fetch them from here and there
would take longer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from loopwise.compiled.arithmetic import U, inverse
from loopwise.compiled.decorators import fused_leaf
from loopwise.compiled.lane_vectors import store, total
from loopwise.inference.messages.kernels.message_vectors import message_at, pair_message, quick, repeated
from loopwise.inference.messages.kernels.variables import update_belief
from loopwise.inference.messages.kernels.views import Message


class Pulls(NamedTuple):
    """What visits read to renew a message, and where they write it."""

    tables: Any
    source: Any
    n: Any
    n_base: Any
    m: Any
    lowest: Any


@quick
def message_to(pulls, place, pulled, number, literal, semiring):
    """The message that stands at ``place``; if it is ``pulled``, as number so and so, it is renewed first. It is handed
    on as a value: to read what was just written takes as long as to work it out."""
    if not pulled:
        return message_at(pulls.m, place, literal)
    size, lowest = U(len(literal)), pulls.lowest
    n = Message(pulls.n, pulls.n_base + pulls.source[number])
    message = pair_message(Message(pulls.tables, number * size * size), n, literal, semiring)
    mass = total(message)
    lowest[0] = min(lowest[0], mass)
    message = message * repeated(inverse(mass, semiring), pulls.m, literal)
    store(pulls.m, place, message)
    return message


@fused_leaf
def visit_pairs(run, here, schedule, turn, pulls, watch, scratch, static):
    """The variables in the order of ``turn`` (0: forth, 1: back) renew the messages to them that row ``pulls`` marks,
    and send to those factors whose other variable comes later, which are the others; back, to all: to factors whose
    other variable came before, another visit sends before they are asked."""
    plan, unary, whole, all_sides = run.plan, run.potentials.unary, scratch.total, turn == 1
    literal, semiring, size = static.literal, static.semiring, U(len(static.literal))
    order, starts, pull = schedule.way[turn], schedule.starts[pulls], schedule.pull[pulls]
    edge_start, edge_base, m, n = plan.edge_start, plan.edge_base, run.messages.m, run.messages.n
    base, n_base = here.m, here.n
    new = Pulls(schedule.tables, schedule.source, n, n_base, m, scratch.lowest)
    for index in range(U(order.shape[0])):
        variable, number = U(order[index]), starts[index]
        first, last = U(edge_start[variable]), U(edge_start[variable + U(1)])
        own = message_at(unary, here.unary + variable * size, literal)
        if last - first == U(4):
            # Every inner variable of a grid: the four products share their halves.
            a, b = edge_base[first], edge_base[first + U(1)]
            c, d = edge_base[first + U(2)], edge_base[first + U(3)]
            pa, pb, pc, pd = pull[first], pull[first + U(1)], pull[first + U(2)], pull[first + U(3)]
            ma = message_to(new, base + a, pa, number, literal, semiring)
            number += U(pa)
            mb = message_to(new, base + b, pb, number, literal, semiring)
            number += U(pb)
            mc = message_to(new, base + c, pc, number, literal, semiring)
            number += U(pc)
            md = message_to(new, base + d, pd, number, literal, semiring)
            left, right = ma * mb * own, mc * md
            outside = right * own
            if all_sides or not pa:
                store(n, n_base + a, mb * outside)
            if all_sides or not pb:
                store(n, n_base + b, ma * outside)
            if all_sides or not pc:
                store(n, n_base + c, md * left)
            if all_sides or not pd:
                store(n, n_base + d, mc * left)
            if watch:
                store(whole, U(0), left * right)
        else:
            for at in range(first, last):
                message_to(new, base + edge_base[at], pull[at], number, literal, semiring)
                number += U(pull[at])
            for at in range(first, last):
                if all_sides or not pull[at]:
                    message = own
                    for beside in range(first, last):
                        if beside != at:
                            message = message * message_at(m, base + edge_base[beside], literal)
                    store(n, n_base + edge_base[at], message)
            if watch:
                message = own
                for at in range(first, last):
                    message = message * message_at(m, base + edge_base[at], literal)
                store(whole, U(0), message)
        if watch:
            update_belief(run.messages.beliefs, here.beliefs + variable * size, size, scratch, (), semiring)
