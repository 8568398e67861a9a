r"""A compiled upper bound on the largest score, by dual coordinate descent.

In: a factor graph as flat arrays, messages :math:`\lambda_{\alpha i}`, ``[slots]``. Out: better messages, in place; the
bound; assignments read off them. Below the stages. For *any* messages

.. math:: \max_x \text{score}(x) \le D(\lambda) = \sum_i \max_{x_i} \Big(\theta_i + \sum_{\alpha\ni i} \lambda_{\alpha
          i}\Big)(x_i) + \sum_\alpha \max_{x_\alpha} \Big(\theta_\alpha - \sum_{i\in\alpha} \lambda_{\alpha i}\Big)

so the bound needs no convergence. Sweeps are those of TRW-S (Kolmogorov 2006) and, for factors of any arity, of SRMP
(Kolmogorov 2015): a variable collects the max-marginals of all its factors and shares the sum evenly among the factors
ahead; no step can raise D. A *dead* state, one that no assignment of finite (or good enough) score has, is marked by
:math:`\lambda = +\infty` in all factors of its variable.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loopwise.compiled.decorators import callee, kernel


class Sharing(NamedTuple):
    """The order of a sweep, and how variables share what they have collected."""

    order: np.ndarray  # int64 [variables]
    forward: np.ndarray  # [edges]: share of the edge's factor on the way there, 0 if none of its variables follows
    backward: np.ndarray  # [edges]: on the way back
    slot_start: np.ndarray  # int64 [edges]: first slot of each edge


class CollectRoom(NamedTuple):
    """Working space of :func:`collect`, and of who calls it."""

    free: np.ndarray  # int64 [variables], -1: no variable is fixed
    axes: np.ndarray  # int64 [largest arity], the free edges of a factor
    digits: np.ndarray  # int64 [largest arity], their values
    out: np.ndarray  # [largest cardinality]
    total: np.ndarray  # [largest cardinality]


@callee
def collect(arrays, example, edge, values, lam, slot_start, room):
    """``out[x]``: the factor's largest cell (less the messages of its free variables) where the edge's variable is x.

    Variables with ``values`` of 0 and more are fixed at them; -1 is free. ``out`` is the ``room``'s.
    """
    axes, digits, out = room.axes, room.digits, room.out
    factor = arrays.edge_factor[edge]
    cell = arrays.table_start[factor] + example * arrays.table_step[factor]
    free = 0
    for other in range(arrays.factor_edge_start[factor], arrays.factor_edge_start[factor + 1]):
        if other == edge:
            continue
        fixed = values[arrays.edge_variable[other]]
        if fixed >= 0:
            cell += arrays.edge_stride[other] * fixed
        else:
            axes[free] = other
            digits[free] = 0
            free += 1
    variable, stride = arrays.edge_variable[edge], arrays.edge_stride[edge]
    size = arrays.state_start[variable + 1] - arrays.state_start[variable]
    for value in range(size):
        out[value] = -np.inf
    while True:
        cost = 0.0
        for axis in range(free):
            cost += lam[slot_start[axes[axis]] + digits[axis]]
        for value in range(size):
            out[value] = max(out[value], arrays.tables[cell + stride * value] - cost)
        axis = free - 1
        while axis >= 0:  # the next cell of the free variables, last one fastest
            member = arrays.edge_variable[axes[axis]]
            digits[axis] += 1
            cell += arrays.edge_stride[axes[axis]]
            if digits[axis] < arrays.state_start[member + 1] - arrays.state_start[member]:
                break
            cell -= arrays.edge_stride[axes[axis]] * digits[axis]
            digits[axis] = 0
            axis -= 1
        if axis < 0:
            return


@callee
def mark_dead(arrays, variable, value, lam, slot_start):
    """No assignment that counts has this value."""
    for place in range(arrays.variable_edge_start[variable], arrays.variable_edge_start[variable + 1]):
        lam[slot_start[arrays.variable_edges[place]] + value] = np.inf


@kernel
def mark_zeros(arrays, example, lam, slot_start):
    """States that the unary potentials rule out are dead."""
    row = example if arrays.unary.shape[0] > 1 else 0
    for variable in range(arrays.state_start.shape[0] - 1):
        for value in range(arrays.state_start[variable + 1] - arrays.state_start[variable]):
            if arrays.unary[row, arrays.state_start[variable] + value] == -np.inf:
                mark_dead(arrays, variable, value, lam, slot_start)


@callee
def _visit(arrays, example, variable, share, lam, slot_start, room):
    """One variable of a sweep. False if it has no possible value."""
    free, out, total = room.free, room.out, room.total
    start, row = arrays.state_start[variable], example if arrays.unary.shape[0] > 1 else 0
    size = arrays.state_start[variable + 1] - start
    begin, end = arrays.variable_edge_start[variable], arrays.variable_edge_start[variable + 1]
    for value in range(size):
        total[value] = arrays.unary[row, start + value]
    for place in range(begin, end):
        edge = arrays.variable_edges[place]
        collect(arrays, example, edge, free, lam, slot_start, room)
        for value in range(size):
            slot = slot_start[edge] + value
            if lam[slot] == np.inf:
                total[value] = -np.inf
            else:
                total[value] += out[value]
                lam[slot] = out[value]  # -inf for a moment, where the state turns out to be dead
    top = -np.inf
    for value in range(size):
        top = max(top, total[value])
    if top == -np.inf:
        return False
    for value in range(size):
        if total[value] == -np.inf:
            mark_dead(arrays, variable, value, lam, slot_start)
            continue
        for place in range(begin, end):
            edge = arrays.variable_edges[place]
            # less the top, which changes no sum: messages stay of the size of the potentials
            lam[slot_start[edge] + value] -= share[edge] * (total[value] - top)
    return True


@callee
def _room(arrays):
    variables = arrays.state_start.shape[0] - 1
    largest, arity = 1, 1
    for variable in range(variables):
        largest = max(largest, arrays.state_start[variable + 1] - arrays.state_start[variable])
    for factor in range(arrays.table_start.shape[0]):
        arity = max(arity, arrays.factor_edge_start[factor + 1] - arrays.factor_edge_start[factor])
    return CollectRoom(
        np.full(variables, -1, dtype=np.int64), np.empty(arity, dtype=np.int64), np.empty(arity, dtype=np.int64),
        np.empty(largest), np.empty(largest),
    )  # fmt: skip


@kernel
def dual_sweeps(arrays, example, sharing, lam, count):
    """``count`` sweeps there and back. False if some variable has no possible value: then no assignment has."""
    room = _room(arrays)
    for _ in range(count):
        for variable in sharing.order:
            if not _visit(arrays, example, variable, sharing.forward, lam, sharing.slot_start, room):
                return False
        for variable in sharing.order[::-1]:
            if not _visit(arrays, example, variable, sharing.backward, lam, sharing.slot_start, room):
                return False
    return True


@callee
def _variable_totals(arrays, example, variable, lam, slot_start, total):
    """theta_i + sum of messages for each value, -inf for dead ones; the largest, and the largest sum of magnitudes."""
    start, row = arrays.state_start[variable], example if arrays.unary.shape[0] > 1 else 0
    top, most = -np.inf, 0.0
    for value in range(arrays.state_start[variable + 1] - start):
        total[value] = arrays.unary[row, start + value]
        size = abs(total[value])
        for place in range(arrays.variable_edge_start[variable], arrays.variable_edge_start[variable + 1]):
            message = lam[slot_start[arrays.variable_edges[place]] + value]
            size += abs(message)
            total[value] += message if message < np.inf else -np.inf
        if total[value] > -np.inf:
            top, most = max(top, total[value]), max(most, size)
    return top, most


@kernel
def dual_bound(arrays, example, lam, slot_start):
    """D at these messages, and an amount that its rounding errors cannot exceed; -inf if nothing is possible."""
    room = _room(arrays)
    free, out, total = room.free, room.out, room.total
    bound = lost = magnitude = 0.0
    longest, variables = 1, arrays.state_start.shape[0] - 1
    for term in range(variables + arrays.table_start.shape[0]):
        if term < variables:
            top, size = _variable_totals(arrays, example, term, lam, slot_start, total)
            longest = max(longest, 1 + arrays.variable_edge_start[term + 1] - arrays.variable_edge_start[term])
        else:
            factor = term - variables
            edge = arrays.factor_edge_start[factor]
            member = arrays.edge_variable[edge]
            collect(arrays, example, edge, free, lam, slot_start, room)
            top, size = -np.inf, 0.0
            for value in range(arrays.state_start[member + 1] - arrays.state_start[member]):
                top = max(top, out[value] - lam[slot_start[edge] + value])
            for other in range(edge, arrays.factor_edge_start[factor + 1]):
                member, most = arrays.edge_variable[other], 0.0
                for value in range(arrays.state_start[member + 1] - arrays.state_start[member]):
                    message = lam[slot_start[other] + value]
                    if message < np.inf:
                        most = max(most, abs(message))
                size += most
            size += abs(top) + size  # a cell is the term plus its messages
            longest = max(longest, 1 + arrays.factor_edge_start[factor + 1] - edge)
        if top == -np.inf:
            return -np.inf, 0.0
        magnitude += size
        larger = bound + top
        lost += (bound - larger) + top if abs(bound) >= abs(top) else (top - larger) + bound
        bound = larger
    return bound + lost, (longest + 3) * 2.0**-52 * magnitude


@kernel
def prune_states(arrays, example, lam, slot_start, bound, target):
    """Marks states dead with which no assignment scores ``target`` or more (reduced-cost fixing); how many it marked.

    ``bound`` is D at these messages. A variable that collects the max-marginals of its factors cannot raise D, and then
    D falls short by what a value's total lacks to the largest. From here on D bounds the score of assignments of
    ``target`` or more.
    """
    room = _room(arrays)
    free, out, total = room.free, room.out, room.total
    row = example if arrays.unary.shape[0] > 1 else 0
    marked = 0
    for variable in range(arrays.state_start.shape[0] - 1):
        start = arrays.state_start[variable]
        size = arrays.state_start[variable + 1] - start
        begin, end = arrays.variable_edge_start[variable], arrays.variable_edge_start[variable + 1]
        if begin == end:
            continue
        for value in range(size):
            dead = lam[slot_start[arrays.variable_edges[begin]] + value] == np.inf
            total[value] = -np.inf if dead else arrays.unary[row, start + value]
        for place in range(begin, end):
            collect(arrays, example, arrays.variable_edges[place], free, lam, slot_start, room)
            for value in range(size):
                total[value] += out[value]
        top = total[0]
        for value in range(size):
            top = max(top, total[value])
        for value in range(size):
            if total[value] > -np.inf and bound - (top - total[value]) < target:
                mark_dead(arrays, variable, value, lam, slot_start)
                marked += 1
    return marked


@kernel
def round_in_order(arrays, example, order, lam, slot_start, values):
    """Fixes variables in ``order`` at the value that looks best given those fixed before (sequential rounding).

    Where every value breaks a zero, at one that breaks fewest.
    """
    room = _room(arrays)
    out, total = room.out, room.total
    broken = np.empty(total.shape[0], dtype=np.int64)
    row = example if arrays.unary.shape[0] > 1 else 0
    values[:] = -1
    for variable in order:
        start = arrays.state_start[variable]
        size = arrays.state_start[variable + 1] - start
        for value in range(size):
            potential = arrays.unary[row, start + value]
            total[value] = potential if potential > -np.inf else 0.0
            broken[value] = potential == -np.inf
        for place in range(arrays.variable_edge_start[variable], arrays.variable_edge_start[variable + 1]):
            edge = arrays.variable_edges[place]
            collect(arrays, example, edge, values, lam, slot_start, room)
            for value in range(size):
                if out[value] == -np.inf or lam[slot_start[edge] + value] == np.inf:
                    broken[value] += 1
                else:
                    total[value] += out[value]
        best = 0
        for value in range(1, size):
            if broken[value] < broken[best] or (broken[value] == broken[best] and total[value] > total[best]):
                best = value
        values[variable] = best
