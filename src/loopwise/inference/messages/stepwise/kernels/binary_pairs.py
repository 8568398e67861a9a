r"""Factors between two binary variables, as log-odds: their messages and their adjoint, in one pass over the factors.

In: sums of the log messages to each variable. Out: messages, one number each, :math:`o=\log m(1)-\log m(0)`; and what
they add to these sums. Stage: below inference. With :math:`d` the log-odds that the other variable sends,

.. math:: o = \log\frac{\psi_{10}+\psi_{11}e^d}{\psi_{00}+\psi_{01}e^d}

and of every fraction the larger of :math:`1, e^d` is taken out. A variable sends what it has in all less what came from
here, so messages to factors are never stored but for the tape. Blocks fit the first cache; exponentials and logarithms
are taken of a block at once.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.arithmetic import log_add
from loopwise.compiled.arrays import zeros
from loopwise.compiled.decorators import fused_inlined, fused_kernel
from loopwise.compiled.elementary import exp_all, log_all

BLOCK = 128


class Pairs(NamedTuple):
    """Where the variables of a group of factors stand."""

    first: Any  # [factors] state 0 of each variable
    second: Any
    least: Any  # numbers of at least this, or 0, keep their digits when two are multiplied


@fused_inlined
def _heard(total, counts, state, odds):
    """Log-odds that a variable sends to a factor whose own message is ``odds``, where some values are ruled out."""
    off, on = total[state], total[state + 1]
    on -= odds if abs(odds) < np.inf else 0.0
    off = off if counts[state] - (1 if odds == np.inf else 0) == 0 else -np.inf
    on = on if counts[state + 1] - (1 if odds == -np.inf else 0) == 0 else -np.inf
    return on - off if max(off, on) > -np.inf else 0.0  # where both are, the variable has no belief, either


@fused_inlined
def _add_message(odds, state, part, count):
    """Adds a message to the sums of its variable; NaN rules out both values."""
    if abs(odds) < np.inf:
        part[state + 1] += odds
    else:
        count[state] += 0 if odds == -np.inf else 1
        count[state + 1] += 0 if odds == np.inf else 1


@fused_inlined
def _log_odds(off_off, off_on, on_off, on_on, heard):
    """The message in logarithms: for numbers beyond the range of probabilities."""
    off, on = min(-heard, 0.0), min(heard, 0.0)
    return log_add(on_off + off, on_on + on) - log_add(off_off + off, off_on + on)


@fused_kernel
def pairs_send(rows, pairs, weights, sums, counts, odds, heard, part, count):
    """New messages ``odds`` ``[examples, 2, factors]`` from the sums of all messages; the log-odds that each factor
    heard into ``heard``, and the sums of the new messages into ``part`` and ``count``."""
    factors, least = pairs.first.shape[0], pairs.least
    small, ratio = zeros(2 * BLOCK), np.ones(2 * BLOCK)
    for row in rows:
        which = row if weights.theta.shape[0] > 1 else 0
        total, forbidden, mine, told = sums[row], counts[row], odds[row], heard[row]
        theta, weight, tame = weights.theta[which], weights.weight[which], weights.tame[which]
        added, ruled = part[row], count[row]
        clean = True
        for state in range(total.shape[0]):
            clean &= forbidden[state] == 0
            added[state] = 0.0
            ruled[state] = 0
        for begin in range(0, factors, BLOCK):
            size = min(BLOCK, factors - begin)
            for j in range(size):
                a, b = pairs.first[begin + j], pairs.second[begin + j]
                if clean:
                    d0 = total[a + 1] - total[a] - mine[0, begin + j]
                    d1 = total[b + 1] - total[b] - mine[1, begin + j]
                else:
                    d0 = _heard(total, forbidden, a, mine[0, begin + j])
                    d1 = _heard(total, forbidden, b, mine[1, begin + j])
                told[0, begin + j], told[1, begin + j] = d0, d1
                small[j], small[BLOCK + j] = -abs(d0), -abs(d1)
            exp_all(small)
            for j in range(size):
                d0, d1 = told[0, begin + j], told[1, begin + j]
                s0, s1 = small[j], small[BLOCK + j]
                u0, u1 = (s0 if d0 > 0.0 else 1.0), (s1 if d1 > 0.0 else 1.0)
                v0, v1 = (1.0 if d0 > 0.0 else s0), (1.0 if d1 > 0.0 else s1)
                w0, w1, w2, w3 = weight[begin + j, 0], weight[begin + j, 1], weight[begin + j, 2], weight[begin + j, 3]
                ratio[j] = (w2 * u1 + w3 * v1) / (w0 * u1 + w1 * v1)
                ratio[BLOCK + j] = (w1 * u0 + w3 * v0) / (w0 * u0 + w2 * v0)
            log_all(ratio)
            for j in range(size):
                o0, o1 = ratio[j], ratio[BLOCK + j]
                if not tame[begin + j] or min(small[j], small[BLOCK + j]) < least:
                    t0, t1, t2, t3 = theta[begin + j, 0], theta[begin + j, 1], theta[begin + j, 2], theta[begin + j, 3]
                    o0 = _log_odds(t0, t1, t2, t3, told[1, begin + j])
                    o1 = _log_odds(t0, t2, t1, t3, told[0, begin + j])
                mine[0, begin + j], mine[1, begin + j] = o0, o1
                if abs(o0) < np.inf and abs(o1) < np.inf:
                    added[pairs.first[begin + j] + 1] += o0
                    added[pairs.second[begin + j] + 1] += o1
                else:
                    _add_message(o0, pairs.first[begin + j], added, ruled)
                    _add_message(o1, pairs.second[begin + j], added, ruled)


@fused_inlined
def _shares(off_off, off_on, on_off, on_on, heard):
    """Of the sums above and below the fraction bar, in logarithms, the shares of their four terms; 0 where a sum is."""
    off, on = min(-heard, 0.0), min(heard, 0.0)
    above, below = log_add(on_off + off, on_on + on), log_add(off_off + off, off_on + on)
    if above == -np.inf or below == -np.inf:
        return 0.0, 0.0, 0.0, 0.0
    return (
        math.exp(off_off + off - below),
        math.exp(off_on + on - below),
        math.exp(on_off + off - above),
        math.exp(on_on + on - above),
    )


@fused_inlined
def _fractions(w0, w1, w2, w3, u, v):
    """The same from weights."""
    below, above = w0 * u + w1 * v, w2 * u + w3 * v
    if not (below > 0.0 and above > 0.0):
        return 0.0, 0.0, 0.0, 0.0
    below, above = 1.0 / below, 1.0 / above
    return w0 * u * below, w1 * v * below, w2 * u * above, w3 * v * above


@fused_kernel
def pairs_back(rows, pairs, weights, heard, of_sums, carried, of_heard, of_theta):
    """Adjoint of :func:`pairs_send`. ``of_sums``: of the sums that the messages were added to, since they were sent;
    ``carried`` ``[examples, 2, factors]``: what else is known of the adjoints of the messages, replaced by what belongs
    to the messages before; ``of_heard`` (added to): of the sums that were heard."""
    factors, least = pairs.first.shape[0], pairs.least
    small = zeros(2 * BLOCK)
    for row in rows:
        which = row if weights.theta.shape[0] > 1 else 0
        told, back, spread, known = heard[row], of_sums[row], of_heard[row], carried[row]
        theta, weight, tame = weights.theta[which], weights.weight[which], weights.tame[which]
        own = of_theta[which]
        for begin in range(0, factors, BLOCK):
            size = min(BLOCK, factors - begin)
            for j in range(size):
                small[j], small[BLOCK + j] = -abs(told[0, begin + j]), -abs(told[1, begin + j])
            exp_all(small)
            for j in range(size):
                pair = begin + j
                a, b = pairs.first[pair], pairs.second[pair]
                d0, d1, s0, s1 = told[0, pair], told[1, pair], small[j], small[BLOCK + j]
                g0, g1 = back[a + 1] + known[0, pair], back[b + 1] + known[1, pair]
                if tame[pair] and min(s0, s1) >= least:
                    w0, w1, w2, w3 = weight[pair, 0], weight[pair, 1], weight[pair, 2], weight[pair, 3]
                    u0, u1 = (s0 if d0 > 0.0 else 1.0), (s1 if d1 > 0.0 else 1.0)
                    v0, v1 = (1.0 if d0 > 0.0 else s0), (1.0 if d1 > 0.0 else s1)
                    p00, p01, p10, p11 = _fractions(w0, w1, w2, w3, u1, v1)
                    q00, q10, q01, q11 = _fractions(w0, w2, w1, w3, u0, v0)
                else:
                    t0, t1, t2, t3 = theta[pair, 0], theta[pair, 1], theta[pair, 2], theta[pair, 3]
                    p00, p01, p10, p11 = _shares(t0, t1, t2, t3, d1)
                    q00, q10, q01, q11 = _shares(t0, t2, t1, t3, d0)
                own[pair, 0] -= g0 * p00 + g1 * q00
                own[pair, 1] += g1 * q01 - g0 * p01
                own[pair, 2] += g0 * p10 - g1 * q10
                own[pair, 3] += g0 * p11 + g1 * q11
                h0, h1 = g1 * (q11 - q10), g0 * (p11 - p01)
                known[0, pair], known[1, pair] = -h0, -h1
                spread[a] -= h0
                spread[a + 1] += h0
                spread[b] -= h1
                spread[b + 1] += h1


@fused_kernel
def pair_messages(rows, odds, slot, m):
    """Normalised log messages of log-odds; NaN is -inf twice."""
    for row in rows:
        for pair in range(odds.shape[2]):
            for side in range(2):
                value, at = odds[row, side, pair], slot + 4 * pair + 2 * side
                if value != value:
                    m[row, at] = m[row, at + 1] = -np.inf
                else:
                    less = math.log1p(math.exp(-abs(value)))
                    m[row, at], m[row, at + 1] = -max(value, 0.0) - less, min(value, 0.0) - less


@fused_kernel
def pair_seeds(rows, odds, slot, of_m, carried):
    """Adjoints of log-odds from those of normalised log messages."""
    for row in rows:
        for pair in range(odds.shape[2]):
            for side in range(2):
                value, at = odds[row, side, pair], slot + 4 * pair + 2 * side
                small = math.exp(-abs(value))
                on = (1.0 if value >= 0.0 else small) / (1.0 + small)
                off = (small if value >= 0.0 else 1.0) / (1.0 + small)
                fine = abs(value) < np.inf
                carried[row, side, pair] = off * of_m[row, at + 1] - on * of_m[row, at] if fine else 0.0
