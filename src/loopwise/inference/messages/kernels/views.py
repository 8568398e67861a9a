"""Views: where one factor's table and messages stand in flat arrays, so that kernels read like their equations.

In: nothing. Out: named tuples and what reads and writes through them. A view is made inside a kernel, for one factor;
the compiler takes it apart again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba.core.types import NoneType
from numba.extending import overload

from loopwise.compiled.decorators import INLINED, fused_inlined


class Table(NamedTuple):
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


def table_at(data, start, shared):
    """The view of a table; ``shared`` (not None): lanes read the same."""


@overload(table_at, jit_options=INLINED)
def _table_at(data, start, shared):
    if isinstance(shared, NoneType):
        return lambda data, start, shared: Table(data, start)
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
