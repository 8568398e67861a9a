"""The four arithmetics of message passing, chosen by type so that the compiler sees constants.

A *tag* is a tuple whose length is known to the compiler: ``len(tag)`` is a literal there, branches on it vanish, and
each combination in use is compiled (and cached) on its own.

======  ==================  ========================  ==========================
length  domain              combine                   collect
======  ==================  ========================  ==========================
0       probability         product                   sum
1       probability         product                   maximum (max-product)
2       log                 sum                       log-sum-exp
3       log                 sum                       maximum
======  ==================  ========================  ==========================

A lane tag says how many examples (or factors) stand side by side in memory: ``()`` is 1, ``(0,)`` is FEW_LANES,
``(0, 0)`` is LANES. A power tag says how a message enters its variable: ``()`` as it is (BP), ``(0,)`` by its square
root (rho = 1/2), ``(0, 0)`` by any power.
"""

from __future__ import annotations

import math

import numpy as np

from loopwise.compiled.decorators import fused_callee, fused_inlined

LANES = 32  # examples or factors innermost: fills vector registers, and a block of messages still fits the cache
FEW_LANES = 8  # where examples are few: one long vector register
U = np.uintp  # unsigned indices need no wrap-around test, which lets loops vectorise

PROBABILITY_SUM: tuple[int, ...] = ()
PROBABILITY_MAX = (0,)
LOG_SUM = (0, 0)
LOG_MAX = (0, 0, 0)

PLAIN: tuple[int, ...] = ()
SQUARE_ROOT = (0,)
ANY_POWER = (0, 0)


def lane_tag(lanes: int) -> tuple[int, ...]:
    """The tag of so many lanes: 1, FEW_LANES or LANES."""
    return (0,) * (1, FEW_LANES, LANES).index(lanes)


@fused_inlined
def lanes_of(tag):
    if len(tag) == 2:
        return U(32)
    return U(8) if len(tag) == 1 else U(1)


@fused_inlined
def combine(a, b, semiring):
    if len(semiring) < 2:
        return a * b
    return a + b


@fused_inlined
def one(array, semiring):
    return array.dtype.type(1.0) if len(semiring) < 2 else array.dtype.type(0.0)


@fused_inlined
def nothing(array, semiring):
    return array.dtype.type(0.0) if len(semiring) < 2 else array.dtype.type(-np.inf)


@fused_callee
def log_add(a, b):
    """log(exp a + exp b), right at -inf."""
    high = max(a, b)
    if high == -np.inf:
        return high
    return high + math.log1p(math.exp(min(a, b) - high))


@fused_inlined
def collect(a, b, semiring):
    if len(semiring) == 0:
        return a + b
    if len(semiring) == 2:
        return log_add(a, b)
    return max(a, b)


@fused_inlined
def add_mass(a, b, semiring):
    """Adds probability mass whatever the semiring: normalisation is by the sum in max-product, too."""
    if len(semiring) < 2:
        return a + b
    return log_add(a, b)


@fused_inlined
def inverse(total, semiring):
    """What to combine with to divide by a normaliser; an empty one changes nothing (it is noticed elsewhere)."""
    if len(semiring) < 2:
        return 1 / total if total > 0 else total + 1
    return -total if total > -np.inf else 0.0


@fused_inlined
def remove(a, b, semiring):
    """``a`` without its part ``b``; where ``b`` is nothing, so is ``a``, and so is the result."""
    if len(semiring) < 2:
        return a / b if b > 0 else a * 0
    return a - b if b > -np.inf else b


@fused_inlined
def raise_to(a, exponent, power, semiring):
    """``a`` to the power a message enters its variable with."""
    if len(power) == 0:
        return a
    if len(semiring) >= 2:
        return a * exponent if a > -np.inf else a
    if len(power) == 1:
        return math.sqrt(a)
    return a**exponent if a > 0 else a


@fused_inlined
def blend(new, old, damping, semiring):
    """Damping in the log domain: ``new^(1 - d) old^d``; forbidden values stay forbidden."""
    if len(semiring) >= 2:
        if new == -np.inf or old == -np.inf:
            return new
        return (1 - damping) * new + damping * old
    if damping == 0.5:
        return math.sqrt(new * old) if old > 0 else new
    return new ** (1 - damping) * old**damping if new > 0 and old > 0 else new


@fused_inlined
def probability(a, semiring):
    if len(semiring) < 2:
        return a
    return math.exp(a)


@fused_callee
def balance(values, start, states, lane_tag):
    """Makes the adjoints of a log message or belief sum to zero over its values, as they do but for rounding, which
    every sweep would multiply by the degree of variables and the arity of factors. Values without an adjoint, such as
    forbidden ones, keep none."""
    lanes = lanes_of(lane_tag)
    for lane in range(lanes):
        excess, size = values.dtype.type(0.0), values.dtype.type(0.0)
        for state in range(states):
            value = values[start + state * lanes + lane]
            excess += value
            size += abs(value)
        share = excess / size if size > 0 else excess
        for state in range(states):
            value = values[start + state * lanes + lane]
            values[start + state * lanes + lane] = value - abs(value) * share
