"""The residual schedule: a message that may change most goes first, without working out what others would become.

In: potentials and initial messages, plain storage. Out: final messages, beliefs, the number of updates and the largest
change that may still be pending. Examples run one after another.

By how much a message changed is measured as its *growth*: the largest over the smallest ratio of a new value to the old
one, less 1. It tells by how much any message made of it may change: growths of several compound, (1 + a)(1 + b) - 1, a
power w of a message grows by (1 + a)^w - 1, and neither sums nor maxima add to it. So the key of an edge is what its
message may have grown by since it was sent, and bounds its true change; only the message that is sent is worked out
(RBP0L of Sutton & McCallum 2007). At first keys are true growths. Keys within a factor of about 1.5 count as equal, and
are served in the order in which they came (``queue``). The reference engine does the same.
"""

from __future__ import annotations

import math

import numpy as np

from loopwise.compiled.arithmetic import U, inverse
from loopwise.compiled.decorators import fused_callee as callee
from loopwise.compiled.decorators import fused_inlined as scalar
from loopwise.compiled.decorators import fused_kernel as kernel
from loopwise.compiled.lane_vectors import store, total
from loopwise.compiled.prefetch import prefetch
from loopwise.inference.messages.kernels.convergence import MOST_NATS, limits_of
from loopwise.inference.messages.kernels.message_vectors import growth, message_at, pair_message, repeated
from loopwise.inference.messages.kernels.plan import MEMBERS, TABLE_BLOCK, TABLE_START, new_scratch
from loopwise.inference.messages.kernels.queue import first_item, new_queue, set_key
from loopwise.inference.messages.kernels.variables import pull_message, visit_variables

MOST_GROWTH = 1e300


@scalar
def worth_sending(m, rule):
    """One over the growth that is worth sending a message for: more than the tolerance allows, or rounding does. Keys
    are growths times this."""
    if rule.reach == 0:  # messages are not to be judged
        return 0.0
    _, rounding = limits_of(m)
    return 1.0 / max(math.expm1(min(rule.tolerance / rule.reach, MOST_NATS)), 2.2 * rounding)


@scalar
def compounded(key, grown, power, scale):
    """The key, of a message that another one enters with ``power`` which has just grown."""
    more = grown if power == 1 else math.expm1(power * math.log1p(grown))
    return key + more * scale + key * more


@scalar
def pending_change(keys, scale, rule):
    """How far the largest pending change can move a belief in the end."""
    largest = 0.0
    for edge in range(keys.shape[0]):
        largest = max(largest, keys[edge])
    return math.log1p(largest / scale) * rule.reach if largest > 0 else 0.0


@callee
def growth_of(new, old, start, count, semiring):
    """The growth of one message of ``old`` to that of ``new``; 0 for rounding."""
    tiny, rounding = limits_of(new)
    if len(semiring) < 2:
        high, low = 0.0, np.inf
        for place in range(start, start + count):
            ratio = max(new[place], tiny) / max(old[place], tiny)
            high, low = max(high, ratio), min(low, ratio)
        return min(high / low - 1, MOST_GROWTH) if high > low * (1 + 2 * rounding) else 0.0
    high, low, size = -np.inf, np.inf, 1.0
    for place in range(start, start + count):
        moved = 0.0
        if new[place] != old[place]:
            moved = min(max(new[place] - old[place], -MOST_NATS), MOST_NATS)
            size = max(size, abs(new[place]) if abs(new[place]) < np.inf else 1.0)
        high, low = max(high, moved), min(low, moved)
    moved = high - low - 2 * rounding * size
    return math.expm1(min(moved, MOST_NATS)) if moved > 0 else 0.0


@callee
def _renew(
    edge, edge_at, edge_variable, plan, block, theta, flow, fresh_m, base, damping, scratch, literal, general, semiring,
):  # fmt: skip
    """Works out the message that edge ``edge`` would send now; returns its growth."""
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
    return growth_of(fresh_m, flow.m, first, states, semiring)


@callee
def _run_example(
    plan, edge_at, edge_variable, edge_first, edge_arity, numbers, flow, fresh_m, block, most, rule, damping, sent,
    replaced, literal, general, power, semiring,
):  # fmt: skip
    width = replaced.shape[0] // max(sent.shape[0], 1)
    slots, states = U(plan.slots), U(plan.state_start[-1])
    base, belief_base, unary_base = block * slots, block * states, block * U(plan.unary_block)
    variables, edges = U(plan.state_start.shape[0] - 1), edge_variable.shape[0]
    scratch, scale = new_scratch(plan, flow.m, ()), worth_sending(flow.m, rule)
    keys, bits, after, before, home, top = new_queue(edges)
    visit_variables(
        U(0), variables, None, None, plan, block, numbers.theta, numbers.unary, unary_base, flow, base, base,
        belief_base, False, damping, scratch, (), None, None, None, None, (), (), power, semiring,
    )  # fmt: skip
    for edge in range(edges):
        grown = _renew(
            edge, edge_at, edge_variable, plan, block, numbers.theta, flow, fresh_m, base, damping, scratch, literal,
            general, semiring,
        )  # fmt: skip
        set_key(keys, bits, after, before, home, top, edge, grown * scale)
    updates, edge = 0, first_item(after, home, top)
    while edge >= 0 and updates < most:
        variable, place = edge_variable[edge], edge_at[edge]
        first = base + plan.edge_base[place]
        grown = _renew(
            edge, edge_at, edge_variable, plan, block, numbers.theta, flow, fresh_m, base, damping, scratch, literal,
            general, semiring,
        )  # fmt: skip
        if updates < sent.shape[0]:
            sent[updates] = edge
        for state in range(plan.state_start[variable + 1] - plan.state_start[variable]):
            if updates < sent.shape[0]:
                replaced[updates * width + state] = flow.m[first + U(state)]
            flow.m[first + U(state)] = fresh_m[first + U(state)]
        updates += 1
        # A damped message has not arrived yet: what is left of its way is pending again.
        set_key(
            keys, bits, after, before, home, top, edge, compounded(0.0, grown, damping, scale) if damping > 0 else 0.0
        )
        if grown > 0:
            visit_variables(
                U(variable), U(variable + 1), None, None, plan, block, numbers.theta, numbers.unary, unary_base, flow,
                base, base, belief_base, False, damping, scratch, (), None, None, None, None, (), (), power, semiring,
            )  # fmt: skip
            for at in range(plan.edge_start[variable], plan.edge_start[variable + 1]):
                # What a variable tells a factor leaves out that factor's own message.
                enters = (1 - damping) * abs(plan.exponents[place] - (1 if at == place else 0))
                mine = edge_first[at] + np.int64(plan.edge_position[at])
                for other in range(edge_first[at], edge_first[at] + edge_arity[at]):
                    if other != mine and enters > 0:
                        set_key(
                            keys, bits, after, before, home, top, other, compounded(keys[other], grown, enters, scale)
                        )
        edge = first_item(after, home, top)
    visit_variables(
        U(0), variables, None, None, plan, block, numbers.theta, numbers.unary, unary_base, flow, base, base,
        belief_base, True, damping, scratch, (), None, None, None, None, (), (), power, semiring,
    )  # fmt: skip
    return updates, pending_change(keys, scale, rule), scratch.lowest[0]


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


@scalar
def fresh_message(
    edge, variable, edge_start, edge_base, data, half, start, unary, unary_base, m, base, heard, literal, semiring,
):  # fmt: skip
    """The message that ``edge`` of a pair factor would send now, not normalised (its growth does not depend on that),
    from those to ``variable``, the factor's other one."""
    size, opposite = U(len(literal)), U(edge ^ 1) * U(len(literal))
    message = message_at(unary, unary_base + U(variable) * size, literal)
    for at in range(U(edge_start[variable]), U(edge_start[variable + 1])):
        if edge_base[at] != opposite:
            message = message * message_at(m, base + edge_base[at], literal)
    store(heard, U(0), message)
    return pair_message(data, half, start, U(edge & 1), heard, U(0), literal, semiring)


@scalar
def ask_for(edge, edge_variable, edge_start, edge_base, data, half, starts, m, base, keys, after, literal):
    """Has all the memory fetched that sending ``edge`` will need: to wait for it is what takes time."""
    size = U(len(literal))
    start = starts[edge // 2] + (U(0) if edge & 1 else half)
    for cell in range(U(0), size * size, U(8)):
        prefetch(data, start + cell)
    variable = edge_variable[edge ^ 1]
    for at in range(U(edge_start[variable]), U(edge_start[variable + 1])):
        prefetch(m, base + edge_base[at])
    variable = edge_variable[edge]
    for at in range(U(edge_start[variable]), U(edge_start[variable + 1])):
        other = np.int64(edge_base[at] // size) ^ 1
        prefetch(keys, other)
        prefetch(after, other)
    prefetch(m, base + U(edge) * size)


@kernel
def residual_pairs(
    plan, edge_variable, tables, numbers, flow, first, last, most, rule, updates, residual, lowest, sent, replaced,
    literal, power, semiring,
):  # fmt: skip
    """:func:`residual_examples` where all factors are pairs of literal size: probabilities, undamped, plain BP, with
    messages as vectors. Edges 2 f and 2 f + 1 belong to factor f; the message of edge e begins at e times the size."""
    size, slots, states = U(len(literal)), U(plan.slots), U(plan.state_start[-1])
    unary, m, data, half = numbers.unary, flow.m, tables.data, tables.half
    edge_start, edge_base = plan.edge_start, plan.edge_base
    variables, edges = U(plan.state_start.shape[0] - 1), edge_variable.shape[0]
    starts = np.empty(edges // 2, dtype=np.uint64)
    heard, width = np.empty(len(literal), dtype=m.dtype), U(replaced.shape[1] // max(sent.shape[1], 1))
    tiny, rounding = limits_of(m)
    scale = worth_sending(m, rule)
    for example in range(first, last):
        block = U(example)
        base, unary_base = block * slots, block * U(plan.unary_block)
        factor = 0
        for g in range(plan.groups.shape[0]):
            start = plan.groups[g, TABLE_START] + block * plan.groups[g, TABLE_BLOCK]
            for member in range(plan.groups[g, MEMBERS]):
                starts[factor] = start + member * size * size
                factor += 1
        scratch, past = new_scratch(plan, m, ()), replaced[example]
        least = m.dtype.type(np.inf)
        keys, bits, after, before, home, top = new_queue(edges)
        for edge in range(edges):
            fresh = fresh_message(
                edge, edge_variable[edge ^ 1], edge_start, edge_base, data, half, starts[edge // 2], unary, unary_base,
                m, base, heard, literal, semiring,
            )  # fmt: skip
            least = min(least, total(fresh))  # an impossible message has not grown, and would never be sent
            grown = growth(fresh, message_at(m, base + U(edge) * size, literal), tiny, rounding)
            set_key(keys, bits, after, before, home, top, edge, min(grown, MOST_GROWTH) * scale)
        made, edge = 0, first_item(after, home, top)
        while edge >= 0 and made < most:
            here, variable = base + U(edge) * size, edge_variable[edge]
            ahead = after[after[edge]] if after[edge] < edges else edges  # likely to be the next one but one
            if ahead < edges:
                ask_for(ahead, edge_variable, edge_start, edge_base, data, half, starts, m, base, keys, after, literal)
            fresh = fresh_message(
                edge, edge_variable[edge ^ 1], edge_start, edge_base, data, half, starts[edge // 2], unary, unary_base,
                m, base, heard, literal, semiring,
            )  # fmt: skip
            old = message_at(m, here, literal)
            if made < sent.shape[1]:
                sent[example, made] = edge
                store(past, U(made) * width, old)
            mass = total(fresh)
            least = min(least, mass)
            store(m, here, fresh * repeated(inverse(mass, semiring), m, literal))
            made += 1
            set_key(keys, bits, after, before, home, top, edge, 0.0)
            grown = min(growth(fresh, old, tiny, rounding), MOST_GROWTH)
            if grown > 0:
                for at in range(U(edge_start[variable]), U(edge_start[variable + 1])):
                    if base + edge_base[at] != here:
                        other = np.int64(edge_base[at] // size) ^ 1
                        set_key(keys, bits, after, before, home, top, other, compounded(keys[other], grown, 1, scale))
            edge = first_item(after, home, top)
        visit_variables(
            U(0), variables, None, None, plan, block, numbers.theta, unary, unary_base, flow, base, base,
            block * states, True, 0.0, scratch, (), None, None, None, None, (), (), power, semiring,
        )  # fmt: skip
        updates[example] = made
        residual[example] = pending_change(keys, scale, rule)
        lowest[example] = min(least, scratch.lowest[0])
