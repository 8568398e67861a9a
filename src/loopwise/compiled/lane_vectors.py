"""Rows of lanes as values: what a kernel computes for all examples side by side is one expression over vectors.

In: flat arrays, in which each row of lanes stands in one piece. Out: a type of the compiler's, :class:`Lanes`, with
``+ - * /`` and the functions of this file. A loop over lanes vectorises only where the compiler can show that no two
arrays overlap, which it seldom can; a vector is loaded, computed with in registers, and stored, whatever else there is.
Conditions are words with a bit for each lane (32 at most), so that signs multiply by ``^``. Below the stages.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, overload, register_model

from loopwise.compiled.arithmetic import FEW_LANES, LANES
from loopwise.compiled.decorators import INLINED

_CONTRACT = ("contract",)  # fused multiply-add, the only liberty taken, but in sums over lanes
_WORD = ir.IntType(32)


class Lanes(types.Type):
    """A row of lanes of one precision."""

    def __init__(self, dtype: Any, count: int) -> None:
        self.dtype, self.count = dtype, count
        super().__init__(name=f"Lanes({dtype}, {count})")

    @property
    def number(self) -> Any:
        return ir.DoubleType() if self.dtype == types.float64 else ir.FloatType()

    @property
    def whole(self) -> Any:
        return ir.IntType(64 if self.dtype == types.float64 else 32)

    @property
    def vector(self) -> Any:
        return ir.VectorType(self.number, self.count)

    @property
    def wholes(self) -> Any:
        return ir.VectorType(self.whole, self.count)


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, lanes: Lanes) -> None:
        super().__init__(manager, lanes, lanes.vector)


def _count(tag: Any) -> int:
    """How many lanes a lane tag stands for."""
    return (1, FEW_LANES, LANES)[len(tag)]


def place_of(context: Any, builder: Any, array: Any, value: Any, start: Any, lanes: Lanes) -> Any:
    made = context.make_array(array)(context, builder, value)
    return builder.bitcast(builder.gep(made.data, [start]), lanes.vector.as_pointer())


def filled_with(builder: Any, lanes: Lanes, number: Any) -> Any:
    """One number in all lanes."""
    nothing = ir.Constant(lanes.vector, ir.Undefined)
    one = builder.insert_element(nothing, number, ir.Constant(_WORD, 0))
    return builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(_WORD, lanes.count), [0] * lanes.count))


def _splat(lanes: Lanes, value: Any) -> Any:
    """The same constant in all lanes."""
    return ir.Constant(lanes.vector, [ir.Constant(lanes.number, value)] * lanes.count)


def _splat_whole(lanes: Lanes, value: int) -> Any:
    return ir.Constant(lanes.wholes, [ir.Constant(lanes.whole, value)] * lanes.count)


def _bits(lanes: Lanes, builder: Any, mask: Any) -> Any:
    """A mask as a word."""
    short = builder.bitcast(mask, ir.IntType(lanes.count))
    return short if lanes.count == 32 else builder.zext(short, _WORD)


def _mask(lanes: Lanes, builder: Any, word: Any) -> Any:
    short = word if lanes.count == 32 else builder.trunc(word, ir.IntType(lanes.count))
    return builder.bitcast(short, ir.VectorType(ir.IntType(1), lanes.count))


def called(builder: Any, name: str, result: Any, arguments: Sequence[Any], **options: Any) -> Any:
    kind = ir.FunctionType(result, [one.type for one in arguments])
    known = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(known, arguments, **options)


def suffix_of(lanes: Lanes) -> str:
    return f"v{lanes.count}f{64 if lanes.dtype == types.float64 else 32}"


@intrinsic
def load(context: Any, array: Any, start: Any, tag: Any) -> Any:
    """The row of lanes that begins at ``start``."""
    lanes = Lanes(array.dtype, _count(tag))

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.load(
            place_of(target, builder, array, values[0], values[1], lanes), align=array.dtype.bitwidth // 8
        )

    return lanes(array, types.uintp, tag), generate


@intrinsic
def store(context: Any, array: Any, start: Any, lanes: Any) -> Any:
    """Writes a row of lanes to the place that begins at ``start``."""

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = place_of(target, builder, array, values[0], values[1], lanes)
        builder.store(values[2], place, align=array.dtype.bitwidth // 8)
        return target.get_dummy_value()

    return types.void(array, types.uintp, lanes), generate


@intrinsic
def spread(context: Any, value: Any, array: Any, tag: Any) -> Any:
    """One number in all lanes, of the precision of ``array``."""
    lanes = Lanes(array.dtype, _count(tag))

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        return filled_with(builder, lanes, target.cast(builder, values[0], signature.args[0], lanes.dtype))

    return lanes(value, array, tag), generate


def _binary(name: str) -> Any:
    @intrinsic
    def apply(context: Any, a: Any, b: Any) -> Any:
        return a(a, b), lambda target, builder, signature, values: getattr(builder, name)(*values, flags=_CONTRACT)

    return apply


def _operator(sign: Callable[[Any, Any], Any], apply: Any) -> None:
    @overload(sign, jit_options=INLINED)
    def both(a, b):
        if isinstance(a, Lanes) and a == b:
            return lambda a, b: apply(a, b)
        return None


for _sign, _name in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _operator(_sign, _binary(_name))


def _choosing(relation: str) -> Any:
    @intrinsic
    def choose(context: Any, a: Any, b: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            return builder.select(builder.fcmp_ordered(relation, *values), *values)

        return a(a, b), generate

    return choose


least = _choosing("<")
most = _choosing(">")


@intrinsic
def size(context: Any, a: Any) -> Any:
    """The absolute value."""

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        return called(builder, f"llvm.fabs.{suffix_of(a)}", a.vector, values)

    return a(a), generate


def _comparing(relation: str) -> Any:
    @intrinsic
    def compare(context: Any, a: Any, b: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            return _bits(a, builder, builder.fcmp_ordered(relation, *values))

        return types.uint32(a, b), generate

    return compare


equal = _comparing("==")  # words: in which lanes it is so
below = _comparing("<")
at_most = _comparing("<=")


@intrinsic
def where(context: Any, word: Any, a: Any, b: Any) -> Any:
    """``a`` in the lanes of a word, ``b`` in others."""

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.select(_mask(a, builder, values[0]), values[1], values[2])

    return a(types.uint32, a, a), generate


@intrinsic
def turned(context: Any, a: Any, b: Any) -> Any:
    """``a`` with the other sign where that of ``b`` is minus: signs multiply without leaving vector registers."""

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        mine, other = (builder.bitcast(value, a.wholes) for value in values)
        sign = builder.and_(other, _splat_whole(a, 1 << (a.dtype.bitwidth - 1)))
        return builder.bitcast(builder.xor(mine, sign), a.vector)

    return a(a, b), generate


@intrinsic
def total(context: Any, a: Any) -> Any:
    """The sum over lanes, in any order."""

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        arguments = [ir.Constant(a.number, -0.0), values[0]]
        return called(builder, f"llvm.vector.reduce.fadd.{suffix_of(a)}", a.number, arguments, fastmath=("reassoc",))

    return a.dtype(a), generate


# --- exp and log -----------------------------------------------------------------------------------------------------

_LOG2_E = 1.4426950408889634
# By precision: log 2 in two parts, of which the first times a whole number is exact; 1.5 * 2^(bits of the mantissa), a
# sum with which has a whole number in its last bits, and its bits; bits of the mantissa; bias of the exponent; bits of
# sqrt(1/2), from where mantissas are taken to sqrt(2); the least argument of exp; terms of its series.
_PARTS: dict[Any, Any] = {
    types.float64: (
        6.93147180369123816490e-01, 1.90821492927058770002e-10, 6755399441055744.0, 0x4338000000000000, 52, 1023,
        0x3FE6A09E00000000, -700.0, 13,
    ),
    types.float32: (0.693359375, -2.12194440e-4, 12582912.0, 0x4B400000, 23, 127, 0x3F3504F3, -87.0, 7),
}  # fmt: skip
# log m = 2 artanh(s), s = f / (2 + f), f = m - 1: minimax coefficients of z = s^2, as C libraries have them.
_LOG_SERIES = {
    types.float64: (
        0.6666666666666735130, 0.3999999999940941908, 0.2857142874366239149, 0.2222219843214978396,
        0.1818357216161805012, 0.1531383769920937332, 0.1479819860511658591,
    ),
    types.float32: (0.66666662693, 0.40000972152, 0.28498786688, 0.24279078841),
}  # fmt: skip


@intrinsic
def exp_of(context: Any, a: Any) -> Any:
    """exp of numbers that are not above 0: 2^k e^r with |r| <= log(2) / 2, e^r by its series; below -700 (float32: -87)
    as if they were that."""
    high, low, rounding, rounding_bits, shift, bias, _, lowest, terms = _PARTS[a.dtype]

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        def times(x: Any, y: Any, z: Any) -> Any:
            return builder.fadd(builder.fmul(x, y, flags=_CONTRACT), z, flags=_CONTRACT)

        x, least_x = values[0], _splat(a, lowest)
        x = builder.select(builder.fcmp_ordered("<", x, least_x), least_x, x)
        rounded = times(x, _splat(a, _LOG2_E), _splat(a, rounding))
        k = builder.fsub(rounded, _splat(a, rounding))
        r = times(k, _splat(a, -low), times(k, _splat(a, -high), x))
        factorial, inverse = 1, []
        for term in range(1, terms + 1):
            factorial *= term
            inverse.append(1 / factorial)
        tail = _splat(a, inverse[-1])
        for one in (*inverse[-2::-1], 1.0):
            tail = times(tail, r, _splat(a, one))
        power = builder.sub(builder.bitcast(rounded, a.wholes), _splat_whole(a, rounding_bits - bias))
        power = builder.shl(power, _splat_whole(a, shift))
        return builder.fmul(tail, builder.bitcast(power, a.vector))

    return a(a), generate


@intrinsic
def log_of(context: Any, a: Any) -> Any:
    """log of normal numbers above 0: k log 2 + log m, sqrt(1/2) <= m < sqrt(2)."""
    high, low, rounding, rounding_bits, shift, _, root, _, _ = _PARTS[a.dtype]

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        def times(x: Any, y: Any, z: Any) -> Any:
            return builder.fadd(builder.fmul(x, y, flags=_CONTRACT), z, flags=_CONTRACT)

        bits, one = builder.bitcast(values[0], a.wholes), _splat(a, 1.0)
        k = builder.ashr(builder.sub(bits, _splat_whole(a, root)), _splat_whole(a, shift))
        m = builder.bitcast(builder.sub(bits, builder.shl(k, _splat_whole(a, shift))), a.vector)
        f = builder.fsub(m, one)
        power = builder.bitcast(builder.add(k, _splat_whole(a, rounding_bits)), a.vector)
        power = builder.fsub(power, _splat(a, rounding))
        s = builder.fdiv(f, builder.fadd(f, _splat(a, 2.0)))
        z = builder.fmul(s, s)
        series = _splat(a, _LOG_SERIES[a.dtype][-1])
        for coefficient in _LOG_SERIES[a.dtype][-2::-1]:
            series = times(series, z, _splat(a, coefficient))
        half = builder.fmul(builder.fmul(f, f), _splat(a, 0.5))
        series = builder.fmul(s, times(series, z, half))
        rest = builder.fsub(half, times(power, _splat(a, low), series))
        return times(power, _splat(a, high), builder.fsub(f, rest))

    return a(a), generate
