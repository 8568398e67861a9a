"""Pair factors of literal size: both messages, or the undoing of both, from one pass over the table.

In: views of one factor's table and messages. Out: messages or adjoints, in place. With table x, messages to the factor
p and q (of its first and its second variable), the messages to its variables are a and b, each then normalised::

    a_i = sum_j x_ij q_j        b_j = sum_i x_ij p_i

and undoing them, with g = a' / a and h = b' / b (primes are adjoints of logarithms; ERMA spec, 4.1)::

    q_j' = q_j sum_i x_ij g_i   p_i' = p_i sum_j x_ij h_j   x_ij' += x_ij (g_i q_j + h_j p_i)

All values of p, q, a, b stay in registers, which takes straight-line code: it is written out for the size at hand when
a kernel that calls it is compiled. Loops over the size, with the sums in an array, take twice as long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core.types import NoneType
from numba.extending import overload

from loopwise.compiled.arithmetic import U, collect, inverse, lanes_of
from loopwise.compiled.decorators import INLINED
from loopwise.compiled.decorators import fused_callee as callee
from loopwise.compiled.decorators import fused_inlined as scalar
from loopwise.inference.messages.kernels.messages import store_message
from loopwise.inference.messages.kernels.plan import ARITY, K0, K1, SLOT_START, type_of
from loopwise.inference.messages.kernels.views import Message, add, at, entry, put, sums_start, table_at, tables_start


@scalar
def least_mass(array):
    """A message below this counts as forbidden: its inverse could overflow."""
    return array.dtype.type(1e-300) if array.itemsize == 8 else array.dtype.type(1e-37)


@scalar
def share_of(adjoint, mass, least):
    """adjoint / mass; nothing of a mass that vanished."""
    return adjoint / mass if mass > least else adjoint * 0


def send_both(table, n, m, lane, lanes, literal, semiring):
    """Both messages of one lane, normalised, from ``n`` to ``m``; returns the smaller normaliser."""


def send_one(table, n, m, side, literal, semiring):
    """The message to the first (``side`` 0) or second variable of a factor alone, normalised, without lanes; ``n`` is
    the message of the other variable. Returns the normaliser."""


def undo_both(table, n, back, spread, sums, lane, lanes, scale, literal):
    """Undoes both messages of one lane: ``scale`` times the adjoints ``back`` of the messages to variables give those
    of the messages to the factor, ``spread``, and are added up in those of the table, ``sums``."""


@overload(send_both, jit_options=INLINED)
def _send_both(table, n, m, lane, lanes, literal, semiring):
    return _compiled(_sending(len(literal)), "send_both")


@overload(send_one, jit_options=INLINED)
def _send_one(table, n, m, side, literal, semiring):
    return _compiled(_sending_one(len(literal)), "send_one")


@overload(undo_both, jit_options=INLINED)
def _undo_both(table, n, back, spread, sums, lane, lanes, scale, literal):
    return _compiled(_undoing(len(literal)), "undo_both")


def _compiled(lines: list[str], name: str) -> Callable[..., Any]:
    called = (add, at, collect, entry, inverse, least_mass, put, share_of)
    names: dict[str, Any] = {"U": U, **{each.__name__: each for each in called}}
    exec("\n    ".join(lines), names)
    written: Callable[..., Any] = names[name]
    return written


def _read(array: str, first: str, second: str, size: int) -> list[str]:
    """The values of both of a factor's variables, as scalars."""
    return [f"{first}{i} = at({array}, U({i}) * lanes + lane)" for i in range(size)] + [
        f"{second}{j} = at({array}, U({size + j}) * lanes + lane)" for j in range(size)
    ]


def _products(a: str, b: str, q: str, p: str, size: int, plus: Callable[[str, str], str]) -> list[str]:
    """a = x q and b = p x, cell by cell."""
    lines = []
    for i in range(size):
        for j in range(size):
            lines.append(f"x = entry(table, U({i * size + j}), lane, lanes)")
            for total, part, begins in ((f"{a}{i}", f"x * {q}{j}", j == 0), (f"{b}{j}", f"x * {p}{i}", i == 0)):
                lines.append(f"{total} = {part if begins else plus(total, part)}")
    return lines


def _sending(size: int) -> list[str]:
    lines = ["def send_both(table, n, m, lane, lanes, literal, semiring):", *_read("n", "p", "q", size)]
    lines += _products("a", "b", "q", "p", size, lambda total, part: f"collect({total}, {part}, semiring)")
    for message in "ab":
        lines.append(f"{message} = " + " + ".join(f"{message}{i}" for i in range(size)))
        lines.append(f"share_{message} = inverse({message}, semiring)")
    for place, message in enumerate("ab"):
        lines += [f"put(m, U({place * size + i}) * lanes + lane, {message}{i} * share_{message})" for i in range(size)]
    return [*lines, "return min(a, b)"]


def _sending_one(size: int) -> list[str]:
    lines = ["def send_one(table, n, m, side, literal, semiring):"]
    lines += [f"q{j} = at(n, U({j}))" for j in range(size)]
    for test, row, column in (("if side == U(0):", size, 1), ("else:", 1, size)):
        lines.append(test)
        for j in range(size):
            for i in range(size):
                part = f"entry(table, U({i * row + j * column}), U(0), U(1)) * q{j}"
                lines.append(f"    a{i} = " + (part if j == 0 else f"collect(a{i}, {part}, semiring)"))
    lines += ["mass = " + " + ".join(f"a{i}" for i in range(size)), "share = inverse(mass, semiring)"]
    return [*lines, *(f"put(m, U({i}), a{i} * share)" for i in range(size)), "return mass"]


def _undoing(size: int) -> list[str]:
    lines = ["def undo_both(table, n, back, spread, sums, lane, lanes, scale, literal):", *_read("n", "p", "q", size)]
    lines += _products("a", "b", "q", "p", size, lambda total, part: f"{total} + {part}")
    lines += [*_read("back", "g", "h", size), "least = least_mass(table.data)"]
    for rate, mass in (("g", "a"), ("h", "b")):
        lines += [f"{rate}{i} = share_of({rate}{i} * scale, {mass}{i}, least)" for i in range(size)]
    lines += _products("c", "d", "h", "g", size, lambda total, part: f"{total} + {part}")
    for i in range(size):
        for j in range(size):
            cell = f"U({i * size + j})"
            part = f"entry(table, {cell}, lane, lanes) * (g{i} * q{j} + h{j} * p{i})"
            lines.append(f"add(sums, {cell} * lanes + lane, {part})")
    for place, (message, total) in enumerate((("p", "c"), ("q", "d"))):
        lines += [f"put(spread, U({place * size + i}) * lanes + lane, {message}{i} * {total}{i})" for i in range(size)]
    return lines


def suited(static: Any, logs: Any, tables: Any, pairs: Any, either: Any) -> Any:
    """Of four ways to deal with a group of factors the one that the types call for: in the log domain, without pairs
    of literal size, with nothing else, with both."""
    if len(type_of(static, "semiring")) > 1:
        return logs
    if len(type_of(static, "literal")) == 0:
        return tables
    return pairs if isinstance(type_of(static, "general"), NoneType) else either


@scalar
def is_literal(groups, g, static):
    """Whether a group is one of pairs of the literal size."""
    size = U(len(static.literal))
    return groups[g, ARITY] == U(2) and groups[g, K0] == size and groups[g, K1] == size


@scalar
def is_pair(groups, g, static):
    """Whether the kernels for one message of pairs take a group: of the literal size if there is one."""
    return is_literal(groups, g, static) if len(static.literal) > 0 else groups[g, ARITY] == U(2)


@callee
def pair_step(run, here, some, scratch, shared, static):
    """Messages of some pair factors of one group, whose sizes are literal; probabilities."""
    lanes, size, groups = lanes_of(static.lanes), U(len(static.literal)), run.plan.groups
    cells = size * size * (lanes if shared is None else U(1))
    tables, slots = tables_start(groups, some), groups[some.g, SLOT_START] * lanes
    theta, m, n, fresh, lowest = run.potentials.theta, run.messages.m, run.messages.n, scratch.fresh, scratch.lowest
    for member in range(some.first, some.last):
        place = slots + member * U(2) * size * lanes
        table, source = table_at(theta, tables + member * cells, shared), Message(n, here.n + place)
        target = Message(m, here.m + place) if run.damping == 0 else Message(fresh, U(0))
        for lane in range(lanes):
            mass = send_both(table, source, target, lane, lanes, static.literal, static.semiring)
            lowest[lane] = min(lowest[lane], mass)
        if run.damping != 0:
            for side in range(U(2)):
                o = side * size * lanes
                store_message(fresh, o, m, here.m + place + o, size, run.damping, lowest, lanes, static.semiring)


@callee
def pair_back(run, some, n, adjoint, scratch, shared, static):
    """Undoes both messages of some pair factors of one group, whose sizes are literal. Of the adjoints of messages
    stays what damping kept of the old ones; if that is nothing, anything is left in them."""
    lanes, size, groups = lanes_of(static.lanes), U(len(static.literal)), run.plan.groups
    stride = lanes if shared is None else U(1)
    tables, slots = tables_start(groups, some), groups[some.g, SLOT_START] * lanes
    table_sums = sums_start(adjoint, some)
    theta, back, spread, sums, kept = run.theta, adjoint.m, adjoint.n, adjoint.theta, run.kept
    data, n_start, scale = n.data, n.start, theta.dtype.type(1 - kept)
    for member in range(some.first, some.last):
        here, cell = slots + member * U(2) * size * lanes, member * size * size
        table = table_at(theta, tables + cell * stride, shared)
        for lane in range(lanes):
            undo_both(
                table, Message(data, n_start + here), Message(back, here), Message(spread, here),
                Message(sums, table_sums + cell * lanes), lane, lanes, scale, static.literal,
            )  # fmt: skip
        if kept > 0:
            for place in range(here, here + U(2) * size * lanes):
                back[place] *= kept
