"""A message as one value: a vector as long as its variable has states, for pair factors of literal size.

In: flat arrays, in which the states of a message stand side by side. Out: vectors (:class:`Lanes`) with ``+ - * /``,
and the messages of pair factors made of them. Where messages go one at a time there are no factors or examples to put
into lanes: here a message's own states are. Below the stages.

A message to the second variable of a factor is a sum of rows of its table, each times one number; so is one to the
first variable, of the table transposed. So every edge has a table of its own (:func:`tell_tables`), and these stand in
the order in which they are needed.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from loopwise.compiled.arithmetic import U
from loopwise.compiled.decorators import INLINED, fused_leaf
from loopwise.compiled.decorators import fused_callee as callee
from loopwise.compiled.lane_vectors import Lanes, called, filled_with, most, place_of, suffix_of
from loopwise.inference.messages.kernels.plan import TABLE_BLOCK, TABLE_START
from loopwise.inference.messages.kernels.views import at

# What hardly takes longer than counting references to its arrays would.
quick = partial(fused_leaf, forceinline=True)

ROOM = 8  # numbers after the last table


@callee
def tell_tables(plan, theta, block, edges, tables, literal):
    """Writes the table of each of ``edges`` (numbered in the plan's per-variable order) to ``tables``, which has
    ``ROOM`` at its end: a row for each value of the factor's other variable."""
    tables[edges.shape[0] * len(literal) * len(literal) :] = 0
    size, groups = U(len(literal)), plan.groups
    for number in range(U(edges.shape[0])):
        at, told = edges[number], number * size * size
        g = U(plan.edge_group[at])
        start = groups[g, TABLE_START] + block * groups[g, TABLE_BLOCK] + U(plan.edge_member[at]) * size * size
        row, column = (U(1), size) if plan.edge_position[at] == U(0) else (size, U(1))
        for a in range(size):
            for b in range(size):
                tables[told + a * size + b] = theta[start + a * row + b * column]


@intrinsic
def message_at(context: Any, array: Any, start: Any, literal: Any) -> Any:
    """The message that begins at ``start``."""
    states = Lanes(array.dtype, len(literal))

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = place_of(target, builder, array, values[0], values[1], states)
        return builder.load(place, align=array.dtype.bitwidth // 8)

    return states(array, types.uintp, literal), generate


@intrinsic
def row_at(context: Any, array: Any, start: Any, literal: Any) -> Any:
    """A row of a table, in one piece: as many numbers are read as a register has, up to ``ROOM`` beyond the row."""
    states = Lanes(array.dtype, len(literal))
    register = Lanes(array.dtype, 1 << (len(literal) - 1).bit_length())

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = place_of(target, builder, array, values[0], values[1], register)
        whole = builder.load(place, align=array.dtype.bitwidth // 8)
        kept = ir.Constant(ir.VectorType(ir.IntType(32), states.count), list(range(states.count)))
        return builder.shuffle_vector(whole, whole, kept)

    return states(array, types.uintp, literal), generate


@intrinsic
def repeated(context: Any, value: Any, array: Any, literal: Any) -> Any:
    """One number for every state, of the precision of ``array``."""
    states = Lanes(array.dtype, len(literal))

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        return filled_with(builder, states, target.cast(builder, values[0], signature.args[0], states.dtype))

    return states(value, array, literal), generate


def collected(a, b, semiring):
    """The sum of two vectors, or the larger of each two numbers."""


@overload(collected, jit_options=INLINED)
def _collected(a, b, semiring):
    if len(semiring) == 0:
        return lambda a, b, semiring: a + b
    return lambda a, b, semiring: most(a, b)


@quick
def pair_message(rows, n, literal, semiring):
    """The unnormalised message of a factor to one of its variables, from the other's message ``n``."""
    size, data, row = U(len(literal)), rows.data, rows.start
    # Two sums, of even and of odd rows: each number waits for half as many before it.
    even = row_at(data, row, literal) * repeated(at(n, U(0)), data, literal)
    odd = row_at(data, row + size, literal) * repeated(at(n, U(1)), data, literal)
    for state in range(U(2), size, U(2)):
        part = row_at(data, row + state * size, literal) * repeated(at(n, state), data, literal)
        even = collected(even, part, semiring)
    for state in range(U(3), size, U(2)):
        part = row_at(data, row + state * size, literal) * repeated(at(n, state), data, literal)
        odd = collected(odd, part, semiring)
    return collected(even, odd, semiring)


def _reducing(name: str) -> Any:
    @intrinsic
    def reduce(context: Any, a: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            return called(builder, f"llvm.vector.reduce.{name}.{suffix_of(a)}", a.number, values, fastmath=("nnan",))

        return a.dtype(a), generate

    return reduce


_largest, _smallest = _reducing("fmax"), _reducing("fmin")


@intrinsic
def _at_least(context: Any, a: Any, value: Any) -> Any:
    """The larger of each number and ``value``."""

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        floor = filled_with(builder, a, target.cast(builder, values[1], signature.args[1], a.dtype))
        return builder.select(builder.fcmp_ordered(">", values[0], floor), values[0], floor)

    return a(a, value), generate


@quick
def growth(new, old, tiny, rounding):
    """The largest over the smallest ratio of a value of ``new`` to that of ``old``, less 1; 0 for rounding."""
    ratios = _at_least(new, tiny) / _at_least(old, tiny)
    high, low = _largest(ratios), _smallest(ratios)
    return high / low - 1 if high > low * (1 + 2 * rounding) else high * 0
