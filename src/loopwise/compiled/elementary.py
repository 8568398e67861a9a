"""exp and log of whole arrays, written so that the compiler turns them into vector instructions.

In: a contiguous float64 array. Out: the same array, overwritten; each value within one unit in the last place of the C
library's, which is called number by number and costs three times as much. Infinities, NaN, zeros and subnormal numbers
are treated as there. Below the stages.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from loopwise.compiled.decorators import fused_callee, fused_kernel

_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # k * high is exact for |k| < 2^20
_ROUND = 6755399441055744.0  # 1.5 * 2^52: a sum with it has a whole number in its last bits
_ROUND_BITS = 0x4338000000000000  # ... and these bits
_LEAST_NORMAL, _TWO_TO_54 = 2.2250738585072014e-308, 18014398509481984.0
_HALF_ROOT_BITS = 0x3FE6A09E00000000  # of sqrt(1/2): mantissas are taken from there to sqrt(2)


@intrinsic
def _bits(context: Any, value: Any) -> Any:
    """A float64 as the int64 of the same bits."""
    return types.int64(types.float64), lambda target, builder, signature, values: builder.bitcast(
        values[0], target.get_value_type(types.int64)
    )


@intrinsic
def _number(context: Any, value: Any) -> Any:
    """An int64 as the float64 of the same bits."""
    return types.float64(types.int64), lambda target, builder, signature, values: builder.bitcast(
        values[0], target.get_value_type(types.float64)
    )


@fused_kernel
def exp_all(values):
    """exp in place: 2^k e^r with |r| <= log(2) / 2, e^r by its Taylor polynomial of degree 13."""
    for place in range(np.uint64(values.shape[0])):
        x = values[place]
        x = -760.0 if x < -760.0 else x  # beyond, the two powers of 2 below would leave their range
        x = 720.0 if x > 720.0 else x
        rounded = x * _LOG2_E + _ROUND
        k = rounded - _ROUND
        r = (x - k * _LN2_HIGH) - k * _LN2_LOW
        power = _bits(rounded) - _ROUND_BITS
        tail = 1 / 6227020800
        tail = tail * r + 1 / 479001600
        tail = tail * r + 1 / 39916800
        tail = tail * r + 1 / 3628800
        tail = tail * r + 1 / 362880
        tail = tail * r + 1 / 40320
        tail = tail * r + 1 / 5040
        tail = tail * r + 1 / 720
        tail = tail * r + 1 / 120
        tail = tail * r + 1 / 24
        tail = tail * r + 1 / 6
        tail = tail * r + 1 / 2
        half = power >> 1  # in two steps, so that subnormal results are rounded once
        scaled = (tail * r * r + r + 1.0) * _number((half + 1023) << 52)
        values[place] = scaled * _number((power - half + 1023) << 52)


@fused_kernel
def log_all(values):
    """log in place: k log 2 + log m with sqrt(1/2) <= m < sqrt(2), log m by the series of 2 artanh(f / (2 + f)), f =
    m - 1, with the minimax coefficients of the C library."""
    for place in range(np.uint64(values.shape[0])):
        x = values[place]
        subnormal = x < _LEAST_NORMAL
        bits = _bits(x * _TWO_TO_54 if subnormal else x)
        k = (bits - _HALF_ROOT_BITS) >> 52
        f = _number(bits - (k << 52)) - 1.0
        power = _number(k + _ROUND_BITS) - _ROUND
        power = power - 54.0 if subnormal else power
        s = f / (2.0 + f)
        z = s * s
        w = z * z
        odd = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01))
        even = w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01))
        square = 0.5 * f * f
        series = s * (square + odd + z * (6.666666666666735130e-01 + even))
        result = power * _LN2_HIGH - ((square - (series + power * _LN2_LOW)) - f)
        result = -np.inf if x == 0.0 else result
        result = x if x == np.inf else result
        values[place] = result if x >= 0.0 else np.nan


@fused_callee
def normalise_log(values, first, last):
    """Makes the exponentials of some logs add up to 1, if any is not -inf; returns the log of what they added up to."""
    top, mass = -np.inf, 0.0
    for slot in range(first, last):
        top = max(top, values[slot])
    if top == -np.inf:
        return top
    for slot in range(first, last):
        mass += math.exp(values[slot] - top)
    mass = top + math.log(mass)
    for slot in range(first, last):
        values[slot] -= mass
    return mass
