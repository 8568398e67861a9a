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
from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.arithmetic import U, inverse
from loopwise.compiled.decorators import fused_callee as callee
from loopwise.compiled.decorators import fused_inlined as scalar
from loopwise.compiled.decorators import fused_kernel as kernel
from loopwise.compiled.lane_vectors import store, total
from loopwise.compiled.prefetch import prefetch
from loopwise.inference.messages.kernels.convergence import MOST_NATS, limits_of
from loopwise.inference.messages.kernels.factors import pull_message
from loopwise.inference.messages.kernels.message_vectors import (
    growth,
    message_at,
    pair_message,
    repeated,
    rows_of,
)
from loopwise.inference.messages.kernels.plan import (
    MEMBERS,
    TABLE_BLOCK,
    TABLE_START,
    Block,
    Messages,
    Run,
    Span,
    new_scratch,
    told_by,
)
from loopwise.inference.messages.kernels.queue import first_item, new_queue, set_key
from loopwise.inference.messages.kernels.variables import visit_variables
from loopwise.inference.messages.kernels.views import Message

MOST_GROWTH = 1e300


class EdgeOrder(NamedTuple):
    """Edges and variables, each by the other."""

    place: Any  # [edges] of each edge in the plan's per-variable order
    variable: Any  # [edges]
    first: Any  # [edges] in that order: the first edge of the edge's factor
    arity: Any  # and its arity


class Updates(NamedTuple):
    """What a run by residuals leaves, a row an example."""

    made: Any  # [examples] how many messages were sent
    residual: Any  # how far the largest pending change can move a belief
    lowest: Any
    sent: Any  # [examples, room] the edges in the order of their updates
    replaced: Any  # and the message that each replaced, side by side


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


@scalar
def single_block(plan, example):
    """Where an example stands in plain storage."""
    block, slots = U(example), U(plan.slots)
    return Block(block, block * slots, block * slots, block * U(plan.unary_block), block * U(plan.state_start[-1]))


@callee
def visit_all(run, here, watch, scratch, static):
    """All variables send to their factors."""
    variables = U(run.plan.state_start.shape[0] - 1)
    visit_variables(run, here, Span(U(0), variables), None, None, watch, scratch, static)


@callee
def renew(run, fresh, here, at, states, scratch, static):
    """Works out the message that the edge at place ``at`` would send now, in the messages of the run ``fresh``, which
    are those of ``run`` otherwise; returns its growth."""
    first, old, new = here.m + run.plan.edge_base[at], run.messages.m, fresh.messages.m
    for state in range(states):
        new[first + state] = old[first + state]
    pull_message(fresh, here, told_by(run.plan, at, here.block), states, scratch, static)
    return growth_of(new, old, first, states, static.semiring)


@callee
def send_by_residual(run, fresh, edges, most, updates, example, static):
    """One example of :func:`residual_examples`."""
    plan, m, rule, damping = run.plan, run.messages.m, run.rule, run.damping
    sent, replaced, new = updates.sent[example], updates.replaced[example], fresh.messages.m
    width = replaced.shape[0] // max(sent.shape[0], 1)
    here, count = single_block(plan, example), edges.variable.shape[0]
    scratch, scale, queue = new_scratch(plan, m, ()), worth_sending(m, rule), new_queue(count)
    visit_all(run, here, False, scratch, static)
    for edge in range(count):
        variable = edges.variable[edge]
        states = U(plan.state_start[variable + 1] - plan.state_start[variable])
        set_key(queue, edge, renew(run, fresh, here, edges.place[edge], states, scratch, static) * scale)
    made, edge = 0, first_item(queue)
    while edge >= 0 and made < most:
        variable, place = edges.variable[edge], edges.place[edge]
        first, states = here.m + plan.edge_base[place], U(plan.state_start[variable + 1] - plan.state_start[variable])
        grown = renew(run, fresh, here, place, states, scratch, static)
        if made < sent.shape[0]:
            sent[made] = edge
        for state in range(states):
            if made < sent.shape[0]:
                replaced[U(made * width) + state] = m[first + state]
            m[first + state] = new[first + state]
        made += 1
        # A damped message has not arrived yet: what is left of its way is pending again.
        set_key(queue, edge, compounded(0.0, grown, damping, scale) if damping > 0 else 0.0)
        if grown > 0:
            visit_variables(run, here, Span(U(variable), U(variable + 1)), None, None, False, scratch, static)
            for at in range(plan.edge_start[variable], plan.edge_start[variable + 1]):
                # What a variable tells a factor leaves out that factor's own message.
                enters = (1 - damping) * abs(plan.exponents[place] - (1 if at == place else 0))
                mine = edges.first[at] + np.int64(plan.edge_position[at])
                for other in range(edges.first[at], edges.first[at] + edges.arity[at]):
                    if other != mine and enters > 0:
                        set_key(queue, other, compounded(queue.keys[other], grown, enters, scale))
        edge = first_item(queue)
    visit_all(run, here, True, scratch, static)
    updates.made[example] = made
    updates.residual[example] = pending_change(queue.keys, scale, rule)
    updates.lowest[example] = scratch.lowest[0]


@kernel
def residual_examples(run, fresh_m, edges, examples, most, updates, static):
    """``examples`` (a span), each by itself, at most so many messages; ``fresh_m`` is as large as the messages."""
    flow = run.messages
    fresh = Run(
        run.plan, run.potentials, Messages(fresh_m, flow.n, flow.beliefs), run.tape, run.rule, run.damping, run.examples
    )
    for example in range(examples.first, examples.last):
        send_by_residual(run, fresh, edges, most, updates, example, static)


class PairGraph(NamedTuple):
    """What sending one message after another of pair factors looks at. Edges 2 f and 2 f + 1 belong to factor f; the
    message of edge e begins at e times the size."""

    variable: Any  # [edges]
    edge_start: Any
    edge_base: Any
    tables: Any  # PairTables
    starts: Any  # [factors] where each table begins
    unary: Any
    m: Any
    base: Any  # where the example's messages begin, and its unary potentials
    unary_base: Any


@scalar
def fresh_message(graph, edge, heard, literal, semiring):
    """The message that ``edge`` would send now, not normalised (its growth does not depend on that), from those to the
    factor's other variable."""
    size, opposite, variable = U(len(literal)), U(edge ^ 1) * U(len(literal)), graph.variable[edge ^ 1]
    message = message_at(graph.unary, graph.unary_base + U(variable) * size, literal)
    for at in range(U(graph.edge_start[variable]), U(graph.edge_start[variable + 1])):
        if graph.edge_base[at] != opposite:
            message = message * message_at(graph.m, graph.base + graph.edge_base[at], literal)
    store(heard, U(0), message)
    rows = rows_of(graph.tables, graph.starts[edge // 2], U(edge & 1))
    return pair_message(rows, Message(heard, U(0)), literal, semiring)


@scalar
def ask_for(graph, queue, edge, literal):
    """Has all the memory fetched that sending ``edge`` will need: to wait for it is what takes time."""
    size = U(len(literal))
    start = graph.starts[edge // 2] + (U(0) if edge & 1 else graph.tables.half)
    for cell in range(U(0), size * size, U(8)):
        prefetch(graph.tables.data, start + cell)
    variable = graph.variable[edge ^ 1]
    for at in range(U(graph.edge_start[variable]), U(graph.edge_start[variable + 1])):
        prefetch(graph.m, graph.base + graph.edge_base[at])
    variable = graph.variable[edge]
    for at in range(U(graph.edge_start[variable]), U(graph.edge_start[variable + 1])):
        other = np.int64(graph.edge_base[at] // size) ^ 1
        prefetch(queue.keys, other)
        prefetch(queue.after, other)
    prefetch(graph.m, graph.base + U(edge) * size)


@callee
def table_starts(plan, block, edges, literal):
    """Where the table of each pair factor begins."""
    starts, factor, size = np.empty(edges // 2, dtype=np.uint64), 0, U(len(literal))
    for g in range(plan.groups.shape[0]):
        start = plan.groups[g, TABLE_START] + block * plan.groups[g, TABLE_BLOCK]
        for member in range(plan.groups[g, MEMBERS]):
            starts[factor] = start + member * size * size
            factor += 1
    return starts


@kernel
def residual_pairs(run, tables, edges, examples, most, updates, static):
    """:func:`residual_examples` where all factors are pairs of literal size: probabilities, undamped, plain BP, with
    messages as vectors."""
    plan, m, rule, literal, semiring = run.plan, run.messages.m, run.rule, static.literal, static.semiring
    size, count, sent = U(len(literal)), edges.variable.shape[0], updates.sent
    heard, width = np.empty(len(literal), dtype=m.dtype), U(updates.replaced.shape[1] // max(sent.shape[1], 1))
    tiny, rounding = limits_of(m)
    scale = worth_sending(m, rule)
    for example in range(examples.first, examples.last):
        here = single_block(plan, example)
        graph = PairGraph(
            edges.variable, plan.edge_start, plan.edge_base, tables, table_starts(plan, here.block, count, literal),
            run.potentials.unary, m, here.m, here.unary,
        )  # fmt: skip
        scratch, past, queue = new_scratch(plan, m, ()), updates.replaced[example], new_queue(count)
        edge_start, edge_base, keys, after = plan.edge_start, plan.edge_base, queue.keys, queue.after
        least = m.dtype.type(np.inf)
        for edge in range(count):
            fresh = fresh_message(graph, edge, heard, literal, semiring)
            least = min(least, total(fresh))  # an impossible message has not grown, and would never be sent
            grown = growth(fresh, message_at(m, here.m + U(edge) * size, literal), tiny, rounding)
            set_key(queue, edge, min(grown, MOST_GROWTH) * scale)
        made, edge = 0, first_item(queue)
        while edge >= 0 and made < most:
            place, variable = here.m + U(edge) * size, edges.variable[edge]
            ahead = after[after[edge]] if after[edge] < count else count  # likely to be the next one but one
            if ahead < count:
                ask_for(graph, queue, ahead, literal)
            fresh = fresh_message(graph, edge, heard, literal, semiring)
            old = message_at(m, place, literal)
            if made < sent.shape[1]:
                sent[example, made] = edge
                store(past, U(made) * width, old)
            mass = total(fresh)
            least = min(least, mass)
            store(m, place, fresh * repeated(inverse(mass, semiring), m, literal))
            made += 1
            set_key(queue, edge, 0.0)
            grown = min(growth(fresh, old, tiny, rounding), MOST_GROWTH)
            if grown > 0:
                for at in range(U(edge_start[variable]), U(edge_start[variable + 1])):
                    if here.m + edge_base[at] != place:
                        other = np.int64(edge_base[at] // size) ^ 1
                        set_key(queue, other, compounded(keys[other], grown, 1, scale))
            edge = first_item(queue)
        visit_all(run, here, True, scratch, static)
        updates.made[example] = made
        updates.residual[example] = pending_change(keys, scale, rule)
        updates.lowest[example] = min(least, scratch.lowest[0])
