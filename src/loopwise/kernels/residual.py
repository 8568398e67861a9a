"""The residual schedule: the message that would change most goes first.

In: potentials and initial messages, plain storage. Out: final messages, beliefs, the number of updates and the largest
change still pending. Examples run one after another; ties go to the lowest edge.
"""

from __future__ import annotations

import numpy as np

from loopwise.kernels.arithmetic import U, kernel
from loopwise.kernels.convergence import message_change
from loopwise.kernels.plan import new_scratch
from loopwise.kernels.variables import pull_message, visit_variables


@kernel
def _above(a, b, key):
    return key[a] > key[b] or (key[a] == key[b] and a < b)


@kernel
def sift(heap, place, key, item):
    """Restores an indexed max-heap after ``key[item]`` changed."""
    at = place[item]
    while at > 0 and _above(item, heap[(at - 1) // 2], key):
        parent = (at - 1) // 2
        heap[at] = heap[parent]
        place[heap[at]] = at
        at = parent
    while True:
        child = 2 * at + 1
        if child >= heap.shape[0]:
            break
        if child + 1 < heap.shape[0] and _above(heap[child + 1], heap[child], key):
            child += 1
        if not _above(heap[child], item, key):
            break
        heap[at] = heap[child]
        place[heap[at]] = at
        at = child
    heap[at] = item
    place[item] = at


@kernel
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


@kernel
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
    key = np.zeros(edges)
    heap, place = np.arange(edges), np.arange(edges)  # a heap while all keys are equal
    for edge in range(edges):
        key[edge] = _renew(
            edge, edge_at, edge_variable, plan, block, numbers.theta, flow, fresh_m, base, damping, scratch, literal,
            general, semiring,
        )  # fmt: skip
        sift(heap, place, key, edge)
    updates = 0
    while edges > 0 and updates < most and key[heap[0]] * rule.reach > rule.tolerance:
        edge = heap[0]
        variable = edge_variable[edge]
        first = base + plan.edge_base[edge_at[edge]]
        if updates < sent.shape[0]:
            sent[updates] = edge
        for state in range(plan.state_start[variable + 1] - plan.state_start[variable]):
            if updates < sent.shape[0]:
                replaced[updates * width + state] = flow.m[first + U(state)]
            flow.m[first + U(state)] = fresh_m[first + U(state)]
        updates += 1
        key[edge] = 0.0
        if damping > 0:  # a damped message has not arrived yet: what is left of its way is pending again
            key[edge] = _renew(
                edge, edge_at, edge_variable, plan, block, numbers.theta, flow, fresh_m, base, damping, scratch,
                literal, general, semiring,
            )  # fmt: skip
        sift(heap, place, key, edge)
        visit_variables(
            U(variable), U(variable + 1), None, None, plan, block, numbers.theta, numbers.unary, unary_base, flow, base,
            base, belief_base, False, damping, scratch, (), None, None, None, None, (), (), power, semiring,
        )  # fmt: skip
        for at in range(plan.edge_start[variable], plan.edge_start[variable + 1]):
            mine = edge_first[at] + np.int64(plan.edge_position[at])
            for other in range(edge_first[at], edge_first[at] + edge_arity[at]):
                if other != mine:
                    key[other] = _renew(
                        other, edge_at, edge_variable, plan, block, numbers.theta, flow, fresh_m, base, damping,
                        scratch, literal, general, semiring,
                    )  # fmt: skip
                    sift(heap, place, key, other)
    visit_variables(
        U(0), variables, None, None, plan, block, numbers.theta, numbers.unary, unary_base, flow, base, base,
        belief_base, True, damping, scratch, (), None, None, None, None, (), (), power, semiring,
    )  # fmt: skip
    pending = key[heap[0]] * rule.reach if edges > 0 else 0.0
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
