"""A message as one value: a vector as long as its variable has states, for pair factors of literal size.

In: flat arrays, in which the states of a message stand side by side. Out: vectors (:class:`Lanes`) with ``+ - * /``,
and the messages of pair factors made of them. Where messages go one at a time there are no factors or examples to put
into lanes: here a message's own states are. Below the stages.

A message to the second variable of a factor is a sum of rows of its table, each times one number; so is one to the
first variable, of the table transposed. Both stand in ``tables``: the transposed ones begin at ``half``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic, overload

from loopwise.compiled.arithmetic import U, inverse
from loopwise.compiled.decorators import INLINED
from loopwise.compiled.decorators import fused_inlined as scalar
from loopwise.compiled.decorators import fused_kernel as kernel
from loopwise.compiled.lane_vectors import Lanes, called, filled_with, most, place_of, store, suffix_of, total
from loopwise.inference.messages.kernels.views import Message, at


class PairTables(NamedTuple):
    """Tables of pairs of literal size, as given and then transposed."""

    data: Any
    half: Any  # where the transposed ones begin


@kernel
def with_transposed(theta, size):
    """All tables, then all of them transposed."""
    tables = np.empty(2 * theta.shape[0], dtype=theta.dtype)
    for first in range(0, theta.shape[0], size * size):
        for row in range(size):
            for column in range(size):
                value = theta[first + row * size + column]
                tables[first + row * size + column] = value
                tables[theta.shape[0] + first + column * size + row] = value
    return tables


@intrinsic
def message_at(context: Any, array: Any, start: Any, literal: Any) -> Any:
    """The message that begins at ``start``."""
    states = Lanes(array.dtype, len(literal))

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = place_of(target, builder, array, values[0], values[1], states)
        return builder.load(place, align=array.dtype.bitwidth // 8)

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


@scalar
def rows_of(tables, start, side):
    """The table that begins at ``start`` as the first (``side`` 0) or second variable of its factor sees it, which is
    told along the columns."""
    return Message(tables.data, start + tables.half if side == U(0) else start)


@scalar
def pair_message(rows, n, literal, semiring):
    """The unnormalised message of a factor to one of its variables, from the other's message ``n``."""
    size, data, row = U(len(literal)), rows.data, rows.start
    message = message_at(data, row, literal) * repeated(at(n, U(0)), data, literal)
    for state in range(U(1), size):
        row += size
        part = message_at(data, row, literal) * repeated(at(n, state), data, literal)
        message = collected(message, part, semiring)
    return message


@scalar
def send_pair(rows, n, m, literal, semiring):
    """The same, normalised, into ``m``; returns the normaliser."""
    message = pair_message(rows, n, literal, semiring)
    mass = total(message)
    store(m.data, m.start, message * repeated(inverse(mass, semiring), m.data, literal))
    return mass


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


@scalar
def growth(new, old, tiny, rounding):
    """The largest over the smallest ratio of a value of ``new`` to that of ``old``, less 1; 0 for rounding."""
    ratios = _at_least(new, tiny) / _at_least(old, tiny)
    high, low = _largest(ratios), _smallest(ratios)
    return high / low - 1 if high > low * (1 + 2 * rounding) else high * 0
