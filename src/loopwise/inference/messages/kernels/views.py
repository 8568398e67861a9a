"""Views: where one factor's table and messages stand in flat arrays, so that kernels read like their equations.

In: nothing. Out: named tuples and what reads and writes through them. A view is made inside a kernel, for one factor;
the compiler takes it apart again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba.core.types import NoneType
from numba.extending import overload

from loopwise.compiled.arithmetic import U, lanes_of
from loopwise.compiled.decorators import INLINED, fused_inlined, spliced
from loopwise.inference.messages.kernels.plan import (
    ARITY,
    CELL_SLOTS,
    CELLS,
    K0,
    K1,
    SHARED,
    SLOT_START,
    TABLE_BLOCK,
    TABLE_START,
    WIDTH,
)


class TableView(NamedTuple):
    """A factor's cells, last axis fastest, a row of lanes for each."""

    data: Any
    start: Any


class SharedTable(NamedTuple):
    """A factor's cells, last axis fastest, which all lanes read."""

    data: Any
    start: Any


class Message(NamedTuple):
    """Values of messages, or anything else with a row of lanes for each value."""

    data: Any
    start: Any


class PairTable(NamedTuple):
    """The table of a pair factor with the variable that is told along the rows: seen from the other variable, the
    strides are swapped."""

    data: Any
    start: Any
    rows: Any
    row: Any
    columns: Any
    column: Any
    lane: Any


class Cells(NamedTuple):
    """A factor of any arity: its cells, and the slot that each cell reads of each of its variables."""

    data: Any
    start: Any
    stride: Any
    lane: Any
    slots: Any
    first_slot: Any
    cells: Any
    arity: Any
    width: Any


def table_at(data, start, shared):
    """The view of a table; ``shared`` (not None): lanes read the same."""


@overload(table_at, inline="always")  # so that who calls it gets no array from a function, and counts no references
def _table_at(data, start, shared):
    if isinstance(shared, NoneType):
        return lambda data, start, shared: TableView(data, start)
    return lambda data, start, shared: SharedTable(data, start)


def entry(table, cell, lane, lanes):
    """What a cell holds for a lane."""


@overload(entry, jit_options=INLINED)
def _entry(table, cell, lane, lanes):
    if table.instance_class is SharedTable:
        return lambda table, cell, lane, lanes: table.data[table.start + cell]
    return lambda table, cell, lane, lanes: table.data[table.start + cell * lanes + lane]


@fused_inlined
def at(message, place):
    return message.data[message.start + place]


@fused_inlined
def put(message, place, value):
    message.data[message.start + place] = value


@fused_inlined
def add(message, place, value):
    message.data[message.start + place] += value


@fused_inlined
def beyond(message, places):
    """The view so many places further on."""
    return Message(message.data, message.start + places)


@fused_inlined
def cell_at(table, a, b, lane):
    """Where a cell of a :class:`PairTable` stands in its data."""
    return table.start + a * table.row + b * table.column + lane * table.lane


@fused_inlined
def slot_at(table, cell, position):
    """The slot that a cell of :class:`Cells` reads of one of the factor's variables."""
    return U(table.slots[table.first_slot + cell * table.arity + position])


@fused_inlined
def value_at(table, cell, lane):
    """What a cell of :class:`Cells` holds for a lane."""
    return table.data[table.start + cell * table.stride + lane * table.lane]


@spliced
def pair_sizes(groups, g, literal):
    """How many values the two variables of a pair factor have."""
    if len(literal) > 0:
        return U(len(literal)), U(len(literal))
    return groups[g, K0], groups[g, K1]


@spliced
def pair_table(data, start, side, sizes, shared, static):
    """The table at ``start`` of a pair factor as its variable ``side`` (0 or 1) sees it; ``shared`` (not None): lanes
    read the same."""
    k0, k1 = sizes
    stride, lane = (lanes_of(static.lanes), U(1)) if shared is None else (U(1), U(0))
    if len(static.literal) > 0:
        rows, columns = k0, k1
    else:
        rows, columns = (k0, k1) if side == U(0) else (k1, k0)
    row, column = (k1, U(1)) if side == U(0) else (U(1), k1)
    return PairTable(data, start, rows, row * stride, columns, column * stride, lane)


@fused_inlined
def cells_of(plan, theta, one, static):
    """The cells of one factor (:class:`~loopwise.inference.messages.kernels.plan.Factor`) of any arity."""
    groups, shared = plan.groups, plan.groups[one.g, SHARED] == U(1)
    stride, lane = (U(1), U(0)) if shared else (lanes_of(static.lanes), U(1))
    start = groups[one.g, TABLE_START] + one.block * groups[one.g, TABLE_BLOCK]
    return Cells(
        theta, start + one.member * groups[one.g, CELLS] * stride, stride, lane, plan.cell_slots,
        groups[one.g, CELL_SLOTS], groups[one.g, CELLS], groups[one.g, ARITY], groups[one.g, WIDTH],
    )  # fmt: skip


@fused_inlined
def tables_start(groups, some):
    """Where the tables of a group begin in theta, for one block."""
    return groups[some.g, TABLE_START] + some.block * groups[some.g, TABLE_BLOCK]


@fused_inlined
def sums_start(adjoint, some):
    """Where the adjoints of the tables of a group begin, for one block."""
    return U(adjoint.theta_start[some.g, 0]) + some.block * U(adjoint.theta_start[some.g, 1])


@fused_inlined
def factor_start(groups, one, static):
    """Where the messages of one factor begin within a block."""
    return (groups[one.g, SLOT_START] + one.member * groups[one.g, WIDTH]) * lanes_of(static.lanes)


def states_of(plan, variable, uniform):
    """How many values a variable has; ``uniform`` (not None) is as long as all of them have."""


@overload(states_of, jit_options=INLINED)
def _states_of(plan, variable, uniform):
    if isinstance(uniform, NoneType):
        return lambda plan, variable, uniform: U(plan.state_start[variable + U(1)] - plan.state_start[variable])
    return lambda plan, variable, uniform: U(len(uniform))
