"""The residual schedule: the message that would change most goes first.

In: potentials and initial messages, plain storage. Out: final messages, beliefs, the number of updates and the largest
change still pending. Examples run one after another; ties go to the lowest edge.
"""

from __future__ import annotations

import math

import numpy as np

from loopwise.compiled.decorators import fused_callee as callee
from loopwise.compiled.decorators import fused_kernel as kernel
from loopwise.compiled.decorators import spliced
from loopwise.kernels.arithmetic import U
from loopwise.kernels.convergence import limits_of, message_change, ratio_of
from loopwise.kernels.pairs import send_one
from loopwise.kernels.plan import MEMBERS, TABLE_BLOCK, TABLE_START, new_scratch
from loopwise.kernels.prefetch import prefetch
from loopwise.kernels.queue import first_item, new_queue, set_key
from loopwise.kernels.variables import pull_message, visit_variables
from loopwise.kernels.views import Message, Table


@callee
def _renew(
    edge,
    edge_at,
    edge_variable,
    plan,
    block,
    theta,
    flow,
    fresh_m,
    base,
    damping,
    scratch,
    literal,
    general,
    semiring,
):
    """Computes the message that edge ``edge`` would send now; returns by how much it differs from the present one, in
    nats."""
    at = edge_at[edge]
    variable = edge_variable[edge]
    states = U(plan.state_start[variable + 1] - plan.state_start[variable])
    first = base + plan.edge_base[at]
    for state in range(states):
        fresh_m[first + state] = flow.m[first + state]
    pull_message(
        U(plan.edge_group[at]), U(plan.edge_member[at]), U(plan.edge_position[at]), plan.groups, plan.cell_slots, block,
        theta, flow.n, base, fresh_m, base, states, damping, scratch.fresh, scratch.partial, scratch.lowest, literal,
        general, None, (), semiring,
    )  # fmt: skip
    message_change(fresh_m, first, states, flow.m, first, scratch.change, (), semiring)
    return scratch.change[0]


@callee
def _run_example(
    plan, edge_at, edge_variable, edge_first, edge_arity, numbers, flow, fresh_m, block, most, rule, damping, sent,
    replaced, literal, general, power, semiring,
):  # fmt: skip
    width = replaced.shape[0] // max(sent.shape[0], 1)
    slots, states = U(plan.slots), U(plan.state_start[-1])
    base, belief_base, unary_base = block * slots, block * states, block * U(plan.unary_block)
    variables, edges = U(plan.state_start.shape[0] - 1), edge_variable.shape[0]
    scratch = new_scratch(plan, flow.m, ())
    visit_variables(
        U(0), variables, None, None, plan, block, numbers.theta, numbers.unary, unary_base, flow, base, base,
        belief_base, False, damping, scratch, (), None, None, None, None, (), (), power, semiring,
    )  # fmt: skip
    keys = np.zeros(edges)
    for edge in range(edges):
        keys[edge] = _renew(
            edge, edge_at, edge_variable, plan, block, numbers.theta, flow, fresh_m, base, damping, scratch, literal,
            general, semiring,
        )  # fmt: skip
    keys, bits, starts = new_queue(keys)
    updates, edge = 0, first_item(bits, starts)
    while edges > 0 and updates < most and keys[edge] * rule.reach > rule.tolerance:
        variable = edge_variable[edge]
        first = base + plan.edge_base[edge_at[edge]]
        if updates < sent.shape[0]:
            sent[updates] = edge
        for state in range(plan.state_start[variable + 1] - plan.state_start[variable]):
            if updates < sent.shape[0]:
                replaced[updates * width + state] = flow.m[first + U(state)]
            flow.m[first + U(state)] = fresh_m[first + U(state)]
        updates += 1
        set_key(keys, bits, starts, edge, 0.0)
        if damping > 0:  # a damped message has not arrived yet: what is left of its way is pending again
            left = _renew(
                edge, edge_at, edge_variable, plan, block, numbers.theta, flow, fresh_m, base, damping, scratch,
                literal, general, semiring,
            )  # fmt: skip
            set_key(keys, bits, starts, edge, left)
        visit_variables(
            U(variable), U(variable + 1), None, None, plan, block, numbers.theta, numbers.unary, unary_base, flow, base,
            base, belief_base, False, damping, scratch, (), None, None, None, None, (), (), power, semiring,
        )  # fmt: skip
        for at in range(plan.edge_start[variable], plan.edge_start[variable + 1]):
            mine = edge_first[at] + np.int64(plan.edge_position[at])
            for other in range(edge_first[at], edge_first[at] + edge_arity[at]):
                if other != mine:
                    moved = _renew(
                        other, edge_at, edge_variable, plan, block, numbers.theta, flow, fresh_m, base, damping,
                        scratch, literal, general, semiring,
                    )  # fmt: skip
                    set_key(keys, bits, starts, other, moved)
        edge = first_item(bits, starts)
    visit_variables(
        U(0), variables, None, None, plan, block, numbers.theta, numbers.unary, unary_base, flow, base, base,
        belief_base, True, damping, scratch, (), None, None, None, None, (), (), power, semiring,
    )  # fmt: skip
    pending = keys[edge] * rule.reach if edges > 0 else 0.0
    return updates, pending, scratch.lowest[0]


@kernel
def residual_examples(
    plan, edge_at, edge_variable, edge_first, edge_arity, numbers, flow, fresh_m, first, last, most, rule, damping,
    updates, residual, lowest, sent, replaced, literal, general, power, semiring,
):  # fmt: skip
    """Examples ``first`` to ``last``, each by itself. ``edge_at``: place of each edge in the plan's per-variable order;
    ``edge_first`` and ``edge_arity`` (in that order): the first edge and the arity of its factor. ``sent`` and
    ``replaced``, a row an example: the edges in the order of their updates and the message each replaced, as many as
    there is room for."""
    for example in range(first, last):
        updates[example], residual[example], lowest[example] = _run_example(
            plan, edge_at, edge_variable, edge_first, edge_arity, numbers, flow, fresh_m, U(example), most, rule,
            damping, sent[example], replaced[example], literal, general, power, semiring,
        )  # fmt: skip


@spliced
def pair_renew(edge, start, theta, n, source, m, fresh, base, lowest, limit, tiny, literal, semiring):
    """The message that ``edge`` of a pair factor would send now, written to ``fresh``; returns by how many times a
    value of it differs from the present one, 0 for rounding. ``start``: of the factor's table; ``source``: of the other
    variable's message in ``n``."""
    size = U(len(literal))
    here = base + U(edge) * size
    mass = send_one(Table(theta, start), Message(n, source), Message(fresh, here), U(edge % 2), literal, semiring)
    lowest[0] = min(lowest[0], mass)
    ratio = m.dtype.type(1.0)
    for a in range(size):
        ratio = max(ratio, ratio_of(fresh[here + a], m[here + a], tiny))
    return ratio if ratio > limit else ratio * 0


@kernel
def residual_pairs(
    plan, edge_variable, numbers, flow, fresh_m, first, last, most, rule, updates, residual, lowest, sent, replaced,
    literal, power, semiring,
):  # fmt: skip
    """:func:`residual_examples` where all factors are pairs of literal size: probabilities, undamped, plain BP.

    Edges 2 f and 2 f + 1 belong to factor f, and the messages of edge e begin at e times the size. Keys are ratios, not
    nats: no logarithms. Only the messages that a change reaches are worked out: the variable's to its other factors,
    and from there on.
    """
    size, slots, states = U(len(literal)), U(plan.slots), U(plan.state_start[-1])
    theta, unary, m, n = numbers.theta, numbers.unary, flow.m, flow.n
    edge_start, edge_base, state_start = plan.edge_start, plan.edge_base, plan.state_start
    variables, edges = U(plan.state_start.shape[0] - 1), edge_variable.shape[0]
    tables = np.empty(edges // 2, dtype=np.uint64)
    message = np.empty(len(literal), dtype=m.dtype)
    tiny, rounding = limits_of(m)
    limit = m.dtype.type(math.exp(rounding))
    settled = math.exp(min(rule.tolerance / rule.reach + rounding, 700.0)) if rule.reach > 0 else np.inf
    for example in range(first, last):
        block = U(example)
        base, unary_base = block * slots, block * U(plan.unary_block)
        factor = 0
        for g in range(plan.groups.shape[0]):
            start = plan.groups[g, TABLE_START] + block * plan.groups[g, TABLE_BLOCK]
            for member in range(plan.groups[g, MEMBERS]):
                tables[factor] = start + member * size * size
                factor += 1
        scratch = new_scratch(plan, m, ())
        least = scratch.lowest
        visit_variables(
            U(0), variables, None, None, plan, block, theta, unary, unary_base, flow, base, base, block * states, False,
            0.0, scratch, (), None, None, None, None, (), (), power, semiring,
        )  # fmt: skip
        keys = np.empty(edges)
        for edge in range(edges):
            keys[edge] = pair_renew(
                edge, tables[edge // 2], theta, n, base + U(edge ^ 1) * size, m, fresh_m, base, least, limit, tiny,
                literal, semiring,
            )  # fmt: skip
        keys, bits, starts = new_queue(keys)
        made, edge = 0, first_item(bits, starts)
        while edges > 0 and made < most and keys[edge] > settled:
            here, variable = base + U(edge) * size, edge_variable[edge]
            kept = made < sent.shape[1]
            if kept:
                sent[example, made] = edge
            for state in range(size):
                if kept:
                    replaced[example, made * (replaced.shape[1] // sent.shape[1]) + np.int64(state)] = m[here + state]
                m[here + state] = fresh_m[here + state]
            made += 1
            set_key(keys, bits, starts, edge, 0.0)
            u0 = unary_base + U(state_start[variable])
            begin, end = U(edge_start[variable]), U(edge_start[variable + 1])
            for at in range(begin, end):  # in any order, and all at once: waiting for memory is what takes time
                other = np.int64(edge_base[at] // size) ^ 1
                for cell in range(U(0), size * size, U(8)):
                    prefetch(theta, tables[other // 2] + cell)
                prefetch(m, base + U(other) * size)
                prefetch(fresh_m, base + U(other) * size)
                prefetch(keys, other)
            for at in range(begin, end):
                if base + edge_base[at] == here:
                    continue
                for state in range(size):
                    message[state] = unary[u0 + state]
                for beside in range(begin, end):
                    if beside != at:
                        there = base + edge_base[beside]
                        for state in range(size):
                            message[state] *= m[there + state]
                other = np.int64(edge_base[at] // size) ^ 1
                ratio = pair_renew(
                    other, tables[other // 2], theta, message, U(0), m, fresh_m, base, least, limit, tiny, literal,
                    semiring,
                )  # fmt: skip
                set_key(keys, bits, starts, other, ratio)
            edge = first_item(bits, starts)
        visit_variables(
            U(0), variables, None, None, plan, block, theta, unary, unary_base, flow, base, base, block * states, True,
            0.0, scratch, (), None, None, None, None, (), (), power, semiring,
        )  # fmt: skip
        pending = keys[edge] if edges > 0 else 0.0
        updates[example] = made
        residual[example] = (math.log(pending) - rounding) * rule.reach if pending > limit else 0.0
        lowest[example] = least[0]
