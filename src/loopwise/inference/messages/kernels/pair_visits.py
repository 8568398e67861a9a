"""Sequential visits where all factors are pairs of literal size: probabilities, undamped, plain BP, one example.

In: tables and messages, a message's states side by side. Out: messages, in place; beliefs where asked for. What
:func:`loopwise.inference.messages.kernels.variables.visit_variables` does, with messages as vectors.
"""

from __future__ import annotations

from loopwise.compiled.arithmetic import U
from loopwise.compiled.decorators import fused_callee as callee
from loopwise.compiled.lane_vectors import store
from loopwise.inference.messages.kernels.message_vectors import message_at, rows_of, send_pair
from loopwise.inference.messages.kernels.plan import TABLE_BLOCK, TABLE_START
from loopwise.inference.messages.kernels.variables import update_belief
from loopwise.inference.messages.kernels.views import Message


@callee
def visit_pairs(run, here, schedule, turn, pull, watch, scratch, static):
    """The variables in the order of ``turn`` (0: forth, 1: back) renew the messages to them that ``pull`` marks, and
    send to those factors whose other variable comes later, which are the others; back, to all: to factors whose other
    variable came before, another visit sends before they are asked."""
    plan, tables, unary = run.plan, schedule.tables, run.potentials.unary
    literal, semiring = static.literal, static.semiring
    order, all_sides, size, groups = schedule.way[turn], turn == 1, U(len(literal)), plan.groups
    edge_start, edge_base, edge_group = plan.edge_start, plan.edge_base, plan.edge_group
    edge_member, edge_position = plan.edge_member, plan.edge_position
    m, n, beliefs, base, n_base = run.messages.m, run.messages.n, run.messages.beliefs, here.m, here.n
    whole, lowest = scratch.total, scratch.lowest
    least = lowest[0]
    for index in range(order.shape[0]):
        variable = U(order[index])
        first, last = U(edge_start[variable]), U(edge_start[variable + U(1)])
        for at in range(first, last):
            if not pull[at]:
                continue
            g, side, place = U(edge_group[at]), edge_position[at], edge_base[at]
            start = groups[g, TABLE_START] + here.block * groups[g, TABLE_BLOCK] + U(edge_member[at]) * size * size
            other = place + size if side == U(0) else place - size
            mass = send_pair(
                rows_of(tables, start, side), Message(n, n_base + other), Message(m, base + place), literal, semiring
            )
            least = min(least, mass)
        own = message_at(unary, here.unary + variable * size, literal)
        if last - first == U(4):
            # Every inner variable of a grid: the four products share their halves.
            a, b = edge_base[first], edge_base[first + U(1)]
            c, d = edge_base[first + U(2)], edge_base[first + U(3)]
            ma, mb = message_at(m, base + a, literal), message_at(m, base + b, literal)
            mc, md = message_at(m, base + c, literal), message_at(m, base + d, literal)
            left, right = ma * mb * own, mc * md
            outside = right * own
            if all_sides or not pull[first]:
                store(n, n_base + a, mb * outside)
            if all_sides or not pull[first + U(1)]:
                store(n, n_base + b, ma * outside)
            if all_sides or not pull[first + U(2)]:
                store(n, n_base + c, md * left)
            if all_sides or not pull[first + U(3)]:
                store(n, n_base + d, mc * left)
            if watch:
                store(whole, U(0), left * right)
        else:
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
            update_belief(beliefs, here.beliefs + variable * size, size, scratch, (), semiring)
            least = min(least, lowest[0])
    lowest[0] = min(least, lowest[0])
