"""The residual schedule: messages that may change most go first, without working out what others would become.

In: potentials and initial messages, plain storage. Out: final messages, beliefs, the number of updates and the largest
change that may still be pending. Examples run one after another.

By how much a message changed is measured as its *growth*: the largest over the smallest ratio of a new value to the old
one, less 1. It tells by how much any message made of it may change: growths of several compound, (1 + a)(1 + b) - 1, a
power w of a message grows by (1 + a)^w - 1, and neither sums nor maxima add to it. So the key of an edge is what its
message may have grown by since it was sent, and bounds its true change; only the message that is sent is worked out
(RBP0L of Sutton & McCallum 2007). At first keys are true growths. Messages go in rounds: those whose keys are within a
factor of eight of the largest one (of two, if the model is hard), in the order of edges or back (``rounds``), each made
of the latest ones. The reference engine does the same.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.arithmetic import U, inverse
from loopwise.compiled.decorators import fused_callee as callee
from loopwise.compiled.decorators import fused_inlined as scalar
from loopwise.compiled.decorators import fused_kernel as kernel
from loopwise.compiled.decorators import fused_leaf
from loopwise.compiled.lane_vectors import store, total
from loopwise.compiled.prefetch import prefetch
from loopwise.inference.messages.kernels.convergence import MOST_NATS, limits_of
from loopwise.inference.messages.kernels.factors import pull_message
from loopwise.inference.messages.kernels.message_vectors import (
    ROOM,
    growth,
    message_at,
    pair_message,
    quick,
    repeated,
    tell_tables,
)
from loopwise.inference.messages.kernels.plan import (
    Block,
    Messages,
    Run,
    Span,
    new_scratch,
    told_by,
)
from loopwise.inference.messages.kernels.rounds import (
    GROUP,
    MOST_KEY,
    NO_ROUND,
    any_above,
    largest_key,
    new_keys,
    next_floor,
    turned,
)
from loopwise.inference.messages.kernels.variables import visit_variables
from loopwise.inference.messages.kernels.views import Message

MOST_GROWTH = 1e300
AHEAD = 10  # turns before its own for which the table of an edge is asked


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
    """The key, of a message that another one enters with ``power`` which has just grown; finite."""
    more = grown if power == 1 else math.expm1(power * math.log1p(grown))
    return min(key + more * scale + key * more, MOST_KEY)


@scalar
def pending_change(keys, scale, rule):
    """How far the largest pending change can move a belief in the end."""
    largest = largest_key(keys)
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


@scalar
def raise_keys(plan, keys, edges, edge, grown, scale, damping):
    """Once the message of ``edge`` has ``grown``: messages that it enters may grow, too."""
    variable, place = edges.variable[edge], edges.place[edge]
    for at in range(plan.edge_start[variable], plan.edge_start[variable + 1]):
        # What a variable tells a factor leaves out that factor's own message.
        enters = (1 - damping) * abs(plan.exponents[place] - (1 if at == place else 0))
        mine = edges.first[at] + np.int64(plan.edge_position[at])
        for other in range(edges.first[at], edges.first[at] + edges.arity[at]):
            if other != mine and enters > 0:
                keys.values[other] = compounded(keys.values[other], grown, enters, scale)


@callee
def send_by_residual(run, fresh, edges, most, updates, example, static):
    """One example of :func:`residual_examples`."""
    plan, m, rule, damping = run.plan, run.messages.m, run.rule, run.damping
    sent, replaced, new = updates.sent[example], updates.replaced[example], fresh.messages.m
    width = replaced.shape[0] // max(sent.shape[0], 1)
    here, count = single_block(plan, example), edges.variable.shape[0]
    scratch, scale, keys = new_scratch(plan, m, ()), worth_sending(m, rule), new_keys(count)
    visit_all(run, here, False, scratch, static)
    for edge in range(count):
        variable = edges.variable[edge]
        states = U(plan.state_start[variable + 1] - plan.state_start[variable])
        grown = renew(run, fresh, here, edges.place[edge], states, scratch, static)
        keys.values[edge] = compounded(0.0, grown, 1, scale)
    made, rounds, floor = 0, 0, next_floor(keys, 0, count)
    while made < most and floor != NO_ROUND:
        for turn in range(count):
            edge = turned(turn, rounds, count)
            if not keys.values[edge] > floor or made == most:
                continue
            variable, place = edges.variable[edge], edges.place[edge]
            states = U(plan.state_start[variable + 1] - plan.state_start[variable])
            first, grown = here.m + plan.edge_base[place], renew(run, fresh, here, place, states, scratch, static)
            if made < sent.shape[0]:
                sent[made] = edge
            for state in range(states):
                if made < sent.shape[0]:
                    replaced[U(made * width) + state] = m[first + state]
                m[first + state] = new[first + state]
            made += 1
            # A damped message has not arrived yet: what is left of its way is pending again.
            keys.values[edge] = compounded(0.0, grown, damping, scale) if damping > 0 else 0.0
            if grown > 0:
                visit_variables(run, here, Span(U(variable), U(variable + 1)), None, None, False, scratch, static)
                raise_keys(plan, keys, edges, edge, grown, scale, damping)
        rounds, floor = rounds + 1, next_floor(keys, made, count)
    visit_all(run, here, True, scratch, static)
    updates.made[example] = made
    updates.residual[example] = pending_change(keys, scale, rule)
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
    message of edge e begins at e times the size, its table at e times its square."""

    variable: Any  # [edges]
    start: Any  # [edges + 1] where each edge begins in
    beside: Any  # the other edges of its variable
    tables: Any
    unary: Any
    m: Any
    base: Any  # where the example's messages begin, and its unary potentials
    unary_base: Any


@quick
def fresh_message(graph, edge, heard, literal, semiring):
    """The message that ``edge`` would send now, not normalised (its growth does not depend on that), from those to the
    factor's other variable."""
    size, opposite = U(len(literal)), edge ^ 1
    message = message_at(graph.unary, graph.unary_base + U(graph.variable[opposite]) * size, literal)
    for at in range(U(graph.start[opposite]), U(graph.start[opposite + 1])):
        message = message * message_at(graph.m, graph.base + U(graph.beside[at]) * size, literal)
    store(heard, U(0), message)
    return pair_message(Message(graph.tables, U(edge) * size * size), Message(heard, U(0)), literal, semiring)


@quick
def ask_for(graph, edge, literal):
    """Has the table fetched that the message of ``edge`` is made of: to wait for it is what takes time."""
    cells = U(len(literal) * len(literal))
    for cell in range(U(0), cells, U(8)):
        prefetch(graph.tables, U(edge) * cells + cell)


@fused_leaf
def send_pairs(graph, keys, heard, scale, most, kept, static):
    """Works out the growths of all messages, then sends at most so many; ``kept``: room for the edges that sent and the
    messages they replaced. Returns how many, and the smallest normaliser."""
    m, literal, semiring, values = graph.m, static.literal, static.semiring, keys.values
    sent, past, start, beside, count = kept[0], kept[1], graph.start, graph.beside, graph.variable.shape[0]
    size, width, groups = U(len(literal)), U(past.shape[0] // max(sent.shape[0], 1)), -(-count // GROUP)
    tiny, rounding = limits_of(m)
    least = m.dtype.type(np.inf)
    for edge in range(count):
        fresh = fresh_message(graph, edge, heard, literal, semiring)
        least = min(least, total(fresh))  # an impossible message has not grown, and would never be sent
        grown = growth(fresh, message_at(m, graph.base + U(edge) * size, literal), tiny, rounding)
        values[edge] = compounded(0.0, min(grown, MOST_GROWTH), 1, scale)
    made, rounds, floor = 0, 0, next_floor(keys, 0, count)
    while made < most and floor != NO_ROUND:
        for number in range(groups):
            first = turned(number, rounds, groups) * GROUP
            if not any_above(keys, first, floor):
                continue
            for turn in range(GROUP):
                edge = first + turned(turn, rounds, GROUP)
                later = min(max(edge + (AHEAD if rounds % 2 == 0 else -AHEAD), 0), count - 1)
                ask_for(graph, later if values[later] > floor else edge, literal)
                if not values[edge] > floor or made == most:
                    continue
                place = graph.base + U(edge) * size
                fresh, old = fresh_message(graph, edge, heard, literal, semiring), message_at(m, place, literal)
                if made < sent.shape[0]:
                    sent[made] = edge
                    store(past, U(made) * width, old)
                mass = total(fresh)
                least = min(least, mass)
                store(m, place, fresh * repeated(inverse(mass, semiring), m, literal))
                made += 1
                values[edge] = 0.0
                grown = min(growth(fresh, old, tiny, rounding), MOST_GROWTH)
                for at in range(U(start[edge]), U(start[edge + 1])):
                    other = np.int64(beside[at]) ^ 1
                    values[other] = compounded(values[other], grown, 1, scale)
        rounds, floor = rounds + 1, next_floor(keys, made, count)
    return made, least


@kernel
def residual_pairs(run, beside, edges, examples, most, updates, static):
    """:func:`residual_examples` where all factors are pairs of literal size: probabilities, undamped, plain BP, with
    messages as vectors. ``beside``: ``start`` and ``beside`` of :class:`PairGraph`."""
    plan, m, literal, count = run.plan, run.messages.m, static.literal, edges.variable.shape[0]
    heard, scale = np.empty(len(literal), dtype=m.dtype), worth_sending(m, run.rule)
    tables = np.empty(count * len(literal) * len(literal) + ROOM, dtype=m.dtype)
    for example in range(examples.first, examples.last):
        here, scratch, keys = single_block(plan, example), new_scratch(plan, m, ()), new_keys(count)
        tell_tables(plan, run.potentials.theta, here.block, edges.place, tables, literal)
        graph = PairGraph(edges.variable, *beside, tables, run.potentials.unary, m, here.m, here.unary)
        kept = updates.sent[example], updates.replaced[example]
        made, least = send_pairs(graph, keys, heard, scale, most, kept, static)
        visit_all(run, here, True, scratch, static)
        updates.made[example] = made
        updates.residual[example] = pending_change(keys, scale, run.rule)
        updates.lowest[example] = min(least, scratch.lowest[0])
