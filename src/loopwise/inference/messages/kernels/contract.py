"""Tables of any arity and size, one axis at a time: messages of factors, and undoing them, in the probability domain.

In: views of one factor's table and messages. Out: messages or adjoints, in place.

A table is read as a matrix, all axes but the last by the last. One pass over it gives the message to the last variable
and a table with one axis less, the last one summed out, from which the other messages come in the same way::

    rows_i = sum_j x_ij right_j     columns_j = sum_i left_i x_ij

where ``right`` is the last variable's message and ``left`` the products of the others'. So all messages of a factor
cost little more than two multiplications a cell, whatever its arity. Undoing them is made of the same two sums (see
:func:`undo_table`), and a pair factor is the case of one pass.

Where each example has its own lanes but all share a table, the sums are matrix products.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload

from loopwise.compiled.arithmetic import U, balance, collect, lanes_of
from loopwise.compiled.decorators import fused_callee as callee
from loopwise.inference.messages.kernels.messages import store_message
from loopwise.inference.messages.kernels.pairs import least_mass, share_of
from loopwise.inference.messages.kernels.plan import ARITY, CELLS, SHAPE, SLOT_START, TABLE_BLOCK, TABLE_START, WIDTH
from loopwise.inference.messages.kernels.views import Message, SharedTable, TableView, add, at, entry, put, table_at

# A callee whose sums may be taken in another order, so that they vectorise.
reordered = njit(
    nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, fastmath={"contract", "reassoc", "nsz"},
    error_model="numpy",
)  # fmt: skip

# Smaller shared tables are not worth a call of the matrix product.
PRODUCT_CELLS = U(64)


class Levels(NamedTuple):
    """Room for what belongs to a factor's tables of 1, 2, ... axes, one after another, largest last."""

    left: Any  # products of the messages of all variables but the last
    rows: Any  # the table with its last axis summed out
    rows_back: Any  # adjoints of these two
    left_back: Any


@callee
def new_levels(plan, like, lane_tag, undo):
    """Room for the largest factor of ``plan``; for adjoints, too, if ``undo`` is True."""
    most = 1
    for g in range(plan.groups.shape[0]):
        size, total = 1, 0
        for position in range(np.int64(plan.groups[g, ARITY]) - 1):
            size *= plan.shapes[np.int64(plan.groups[g, SHAPE]) + position]
            total += size
        most = max(most, total)
    most *= np.int64(lanes_of(lane_tag))
    back = most if undo else 0
    return Levels(
        np.empty(most, dtype=like.dtype), np.empty(most, dtype=like.dtype), np.empty(back, dtype=like.dtype),
        np.empty(back, dtype=like.dtype),
    )  # fmt: skip


@reordered
def plain_sums(table, left, right, size, width, rows, columns, semiring):
    """:func:`add_sums` without lanes: four rows at a time, along each of them. Sums may be reordered for that."""
    x, x0, r, r0, c, c0 = table.data, table.start, right.data, right.start, columns.data, columns.start
    for block in range(size // U(4)):
        i = block * U(4)
        first, second = x0 + i * width, x0 + (i + U(1)) * width
        third, fourth = x0 + (i + U(2)) * width, x0 + (i + U(3)) * width
        a, b, d, e = at(left, i), at(left, i + U(1)), at(left, i + U(2)), at(left, i + U(3))
        sa, sb, sd, se = at(rows, i), at(rows, i + U(1)), at(rows, i + U(2)), at(rows, i + U(3))
        for j in range(width):
            q, total = r[r0 + j], c[c0 + j]
            xa, xb, xd, xe = x[first + j], x[second + j], x[third + j], x[fourth + j]
            sa, sb = collect(sa, xa * q, semiring), collect(sb, xb * q, semiring)
            sd, se = collect(sd, xd * q, semiring), collect(se, xe * q, semiring)
            one, other = collect(xa * a, xb * b, semiring), collect(xd * d, xe * e, semiring)
            c[c0 + j] = collect(total, collect(one, other, semiring), semiring)
        put(rows, i, sa)
        put(rows, i + U(1), sb)
        put(rows, i + U(2), sd)
        put(rows, i + U(3), se)
    for i in range(size // U(4) * U(4), size):
        a, sa = at(left, i), at(rows, i)
        for j in range(width):
            xa = x[x0 + i * width + j]
            sa = collect(sa, xa * r[r0 + j], semiring)
            c[c0 + j] = collect(c[c0 + j], xa * a, semiring)
        put(rows, i, sa)


@callee
def add_sums(table, left, right, size, width, rows, columns, lane_tag, semiring):
    """rows_i += sum_j x_ij right_j and columns_j += sum_i left_i x_ij, from one pass over a table of ``size`` by
    ``width`` cells."""
    lanes = lanes_of(lane_tag)
    if len(lane_tag) == 0:
        plain_sums(table, left, right, size, width, rows, columns, semiring)
        return
    for i in range(size):
        cell, row = i * width, i * lanes
        for block in range(width // U(4)):
            j = block * U(4)
            for lane in range(lanes):
                a, place = at(left, row + lane), j * lanes + lane
                xa, xb = entry(table, cell + j, lane, lanes), entry(table, cell + j + U(1), lane, lanes)
                xd, xe = entry(table, cell + j + U(2), lane, lanes), entry(table, cell + j + U(3), lane, lanes)
                one = collect(xa * at(right, place), xb * at(right, place + lanes), semiring)
                two = collect(xd * at(right, place + U(2) * lanes), xe * at(right, place + U(3) * lanes), semiring)
                put(rows, row + lane, collect(at(rows, row + lane), collect(one, two, semiring), semiring))
                put(columns, place, collect(at(columns, place), xa * a, semiring))
                put(columns, place + lanes, collect(at(columns, place + lanes), xb * a, semiring))
                put(columns, place + U(2) * lanes, collect(at(columns, place + U(2) * lanes), xd * a, semiring))
                put(columns, place + U(3) * lanes, collect(at(columns, place + U(3) * lanes), xe * a, semiring))
        for j in range(width // U(4) * U(4), width):
            for lane in range(lanes):
                xa, place = entry(table, cell + j, lane, lanes), j * lanes + lane
                put(rows, row + lane, collect(at(rows, row + lane), xa * at(right, place), semiring))
                put(columns, place, collect(at(columns, place), xa * at(left, row + lane), semiring))


@callee
def product_sums(table, left, right, size, width, rows, columns, lane_tag):
    """:func:`add_sums` of a table that all lanes share, to sums that are empty: two matrix products."""
    lanes = lanes_of(lane_tag)
    x = table.data[table.start : table.start + size * width].reshape((np.int64(size), np.int64(width)))
    np.dot(x, _matrix(right, width, lanes), _matrix(rows, size, lanes))
    np.dot(x.T, _matrix(left, size, lanes), _matrix(columns, width, lanes))


@callee
def _matrix(message, size, lanes):
    """The rows of lanes of ``size`` values."""
    piece = message.data[message.start : message.start + size * lanes]
    return piece.reshape((np.int64(size), np.int64(lanes)))


def sum_out(table, left, right, size, width, rows, columns, lane_tag, semiring):
    """:func:`add_sums` to sums that are empty; as matrix products where that is possible and pays."""


@overload(sum_out, jit_options={"error_model": "numpy"})
def _sum_out(table, left, right, size, width, rows, columns, lane_tag, semiring):
    if table.instance_class is not SharedTable or len(semiring) > 0:
        return lambda table, left, right, size, width, rows, columns, lane_tag, semiring: add_sums(
            table, left, right, size, width, rows, columns, lane_tag, semiring
        )

    def choose(table, left, right, size, width, rows, columns, lane_tag, semiring):
        if size * width >= PRODUCT_CELLS:
            product_sums(table, left, right, size, width, rows, columns, lane_tag)
        else:
            add_sums(table, left, right, size, width, rows, columns, lane_tag, semiring)

    return choose


@callee
def clear(message, count):
    for place in range(count):
        put(message, place, 0)


@callee
def outer(left, right, size, width, product, lane_tag):
    """product_ij = left_i right_j."""
    lanes = lanes_of(lane_tag)
    for i in range(size):
        for j in range(width):
            for lane in range(lanes):
                put(product, (i * width + j) * lanes + lane, at(left, i * lanes + lane) * at(right, j * lanes + lane))


@callee
def contract(table, n, levels, fresh, shape, lane_tag, semiring):
    """All messages of one factor, unnormalised, from ``n`` to ``fresh``, each as a view of the first; ``shape`` is that
    of its table. Leaves products and summed tables in ``levels``."""
    lanes, arity = lanes_of(lane_tag), U(shape.shape[0])
    left, rows = levels.left, levels.rows
    size, level, slot = U(shape[0]), U(0), U(shape[0])  # of the level at hand; slots of the variables before
    for place in range(size * lanes):
        left[place] = at(n, place)
    for position in range(U(1), arity - U(1)):
        width = U(shape[position])
        outer(
            Message(left, level), Message(n.data, n.start + slot * lanes), size, width,
            Message(left, level + size * lanes), lane_tag,
        )  # fmt: skip
        level += size * lanes
        size *= width
        slot += width
    width = U(shape[arity - U(1)])
    clear(fresh, (slot + width) * lanes)
    clear(Message(rows, U(0)), level + size * lanes)
    sum_out(
        table, Message(left, level), Message(n.data, n.start + slot * lanes), size, width, Message(rows, level),
        Message(fresh.data, fresh.start + slot * lanes), lane_tag, semiring,
    )  # fmt: skip
    for back in range(U(2), arity):
        position = arity - back
        width = U(shape[position])
        size //= width
        slot -= width
        level -= size * lanes
        add_sums(
            TableView(rows, level + size * lanes), Message(left, level), Message(n.data, n.start + slot * lanes), size,
            width, Message(rows, level), Message(fresh.data, fresh.start + slot * lanes), lane_tag, semiring,
        )  # fmt: skip
    for place in range(size * lanes):
        put(fresh, place, rows[place])


@callee
def spread_cells(left, right, size, width, left_back, right_back, target, lane_tag):
    """target_ij = left_i right_j + left_back_i right_back_j."""
    lanes = lanes_of(lane_tag)
    for i in range(size):
        for j in range(width):
            for lane in range(lanes):
                a, b = i * lanes + lane, j * lanes + lane
                value = at(left, a) * at(right, b) + at(left_back, a) * at(right_back, b)
                put(target, (i * width + j) * lanes + lane, value)


@callee
def add_cells(table, left, right, size, width, left_back, right_back, sums, lane_tag):
    """sums_ij += x_ij (left_i right_j + left_back_i right_back_j)."""
    lanes = lanes_of(lane_tag)
    for i in range(size):
        for j in range(width):
            for lane in range(lanes):
                a, b, cell = i * lanes + lane, j * lanes + lane, i * width + j
                value = at(left, a) * at(right, b) + at(left_back, a) * at(right_back, b)
                add(sums, cell * lanes + lane, entry(table, cell, lane, lanes) * value)


@callee
def undo_table(table, n, back, spread, sums, levels, rates, shape, scale, lane_tag):
    """Undoes all messages of one factor: from ``scale`` times the adjoints ``back`` of its messages to variables come
    those of the messages to it, ``spread``, and what is added to those of its table, ``sums`` (all of logarithms).

    With bars for derivatives by values: the adjoints of one level are those of the next larger one's rows::

        x^_ij = rows^_i right_j + left_i columns^_j
        right^_j = sum_i rows^_i x_ij      left^_i = sum_j x_ij columns^_j

    and those of the products ``left`` go down again to the messages they are made of.
    """
    lanes, arity = lanes_of(lane_tag), U(shape.shape[0])
    left, rows, rows_back, left_back = levels
    contract(table, n, levels, rates, shape, lane_tag, ())
    slots = U(0)
    for position in range(arity):
        slots += U(shape[position])
    least = least_mass(left)
    for place in range(slots * lanes):
        put(rates, place, share_of(at(back, place) * scale, at(rates, place), least))
        put(spread, place, 0)
    size, level, slot = U(shape[0]), U(0), U(shape[0])
    for place in range(size * lanes):
        rows_back[place] = at(rates, place)
    for position in range(U(1), arity - U(1)):
        width, above = U(shape[position]), level + size * lanes
        column = slot * lanes
        clear(Message(left_back, level), size * lanes)
        add_sums(
            TableView(rows, above), Message(rows_back, level), Message(rates.data, rates.start + column), size, width,
            Message(left_back, level), Message(spread.data, spread.start + column), lane_tag, (),
        )  # fmt: skip
        spread_cells(
            Message(rows_back, level), Message(n.data, n.start + column), size, width, Message(left, level),
            Message(rates.data, rates.start + column), Message(rows_back, above), lane_tag,
        )  # fmt: skip
        level = above
        size *= width
        slot += width
    width, column = U(shape[arity - U(1)]), slot * lanes
    clear(Message(left_back, level), size * lanes)
    sum_out(
        table, Message(rows_back, level), Message(rates.data, rates.start + column), size, width,
        Message(left_back, level), Message(spread.data, spread.start + column), lane_tag, (),
    )  # fmt: skip
    add_cells(
        table, Message(rows_back, level), Message(n.data, n.start + column), size, width, Message(left, level),
        Message(rates.data, rates.start + column), sums, lane_tag,
    )  # fmt: skip
    for step in range(U(2), arity):
        position = arity - step
        width = U(shape[position])
        above = level
        size //= width
        slot -= width
        level -= size * lanes
        add_sums(
            TableView(left_back, above), Message(left, level), Message(n.data, n.start + slot * lanes), size, width,
            Message(left_back, level), Message(spread.data, spread.start + slot * lanes), lane_tag, (),
        )  # fmt: skip
    for place in range(size * lanes):
        put(spread, place, left_back[place])
    for place in range(slots * lanes):
        put(spread, place, at(spread, place) * at(n, place))


@callee
def contract_step(run, here, some, scratch, shared, static):
    """Messages of some factors of one group, of any arity; probabilities."""
    plan, theta, lane_tag, semiring = run.plan, run.potentials.theta, static.lanes, static.semiring
    lanes, row = lanes_of(lane_tag), plan.groups[some.g]
    cell_stride = lanes if shared is None else U(1)
    shape = plan.shapes[row[SHAPE] : row[SHAPE] + row[ARITY]]
    tables, slots = row[TABLE_START] + some.block * row[TABLE_BLOCK], row[SLOT_START] * lanes
    m, n, fresh, lowest, damping = run.messages.m, run.messages.n, scratch.fresh, scratch.lowest, run.damping
    levels = new_levels(plan, theta, lane_tag, False)
    for member in range(some.first, some.last):
        place = slots + member * row[WIDTH] * lanes
        table = table_at(theta, tables + member * row[CELLS] * cell_stride, shared)
        contract(table, Message(n, here.n + place), levels, Message(fresh, U(0)), shape, lane_tag, semiring)
        offset = U(0)
        for states in shape:
            store_message(fresh, offset, m, here.m + place + offset, U(states), damping, lowest, lanes, semiring)
            offset += U(states) * lanes


@callee
def contract_back(run, some, n, adjoint, scratch, shared, static):
    """Undoes the messages of some factors of one group, of any arity; probabilities. Of the adjoints of messages stays
    what damping kept of the old ones."""
    plan, theta, lane_tag, kept = run.plan, run.theta, static.lanes, run.kept
    lanes, row = lanes_of(lane_tag), plan.groups[some.g]
    cell_stride = lanes if shared is None else U(1)
    shape = plan.shapes[row[SHAPE] : row[SHAPE] + row[ARITY]]
    tables, slots = row[TABLE_START] + some.block * row[TABLE_BLOCK], row[SLOT_START] * lanes
    table_sums = U(adjoint.theta_start[some.g, 0]) + some.block * U(adjoint.theta_start[some.g, 1])
    back, spread, sums, rates = adjoint.m, adjoint.n, adjoint.theta, scratch.rates
    levels = new_levels(plan, theta, lane_tag, True)
    scale = theta.dtype.type(1 - kept)
    for member in range(some.first, some.last):
        place, cell = slots + member * row[WIDTH] * lanes, member * row[CELLS]
        offset = place
        for states in shape:
            balance(back, offset, U(states), lane_tag)
            offset += U(states) * lanes
        undo_table(
            table_at(theta, tables + cell * cell_stride, shared), Message(n.data, n.start + place),
            Message(back, place), Message(spread, place), Message(sums, table_sums + cell * lanes), levels,
            Message(rates, U(0)), shape, scale, lane_tag,
        )  # fmt: skip
        for at_place in range(place, place + row[WIDTH] * lanes):
            back[at_place] *= kept
