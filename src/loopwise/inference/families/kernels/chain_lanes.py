"""Forward-backward on many chains at once, :data:`LANES` of about one length side by side.

In: as for ``chain.marginals``, with one pair table for all steps, and an order. Out: the same.
Stage: below inference. Arrays are ``[token, state, lane]``, flat: the inner loops run over lanes and have a constant
length, so they become vector instructions, which loops over a dozen states do not. Only for chains whose potentials
span at most :data:`WIDEST` nats: then no message can underflow. What is impossible (minus infinity) has potential 0 and
may leave little of a message: chains whose sums fall below :data:`LEAST` are reported as NaN, and done elsewhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.arithmetic import U
from loopwise.compiled.decorators import callee, fused_callee, kernel

LANES = 32
_L = U(LANES)
# A message is at least exp(-range of unary and pair log-potentials) / K, and products of two must stay normal numbers.
WIDEST = 300.0
LEAST = 1e-200  # sums above it have lost nothing that counts: products go down to 1e-308


@kernel
def shifted(unary, start, first, last, out, highest, widest):
    """``out = unary - its largest entry`` token by token; of each chain their sum and the widest range of a token, but
    for what is impossible."""
    states = unary.shape[1]
    for chain in range(first, last):
        total, wide = 0.0, 0.0
        for token in range(start[chain], start[chain + 1]):
            most, least = -np.inf, np.inf
            for state in range(states):
                if unary[token, state] != -np.inf:
                    most, least = max(most, unary[token, state]), min(least, unary[token, state])
            total += most
            if not most - least <= wide:
                wide = most - least  # NaN where the token allows nothing
            for state in range(states):
                out[token, state] = unary[token, state] - most
        highest[chain], widest[chain] = total, wide


class LaneChains(NamedTuple):
    """The chains of a block, one a lane."""

    begin: Any  # [lanes] first tokens
    length: Any  # [lanes]
    states: Any
    longest: Any  # of the lengths


@callee
def _load(potential, chains, room):
    """The potentials of the lanes' chains, 1 after their ends."""
    begin, length, states, longest = chains.begin, chains.length, chains.states, chains.longest
    for lane in range(_L):
        for place in range(length[lane]):
            base = place * states * _L + lane
            for state in range(states):
                room[base + state * _L] = potential[begin[lane] + place, state]
        for cell in range(length[lane] * states, longest * states):
            room[cell * _L + lane] = 1.0


@fused_callee
def _product(step, message, source, states, out, base):
    """``out[k] = sum_j message[j] step[j, k]`` for all lanes; four terms at a time: fewer stores."""
    whole = states - states % U(4)
    for state in range(states):
        place = base + state * _L
        for lane in range(_L):
            out[place + lane] = 0.0
        for other in range(U(0), whole, U(4)):
            row, cell = source + other * _L, other * states + state
            one, two = step[cell], step[cell + states]
            three, four = step[cell + U(2) * states], step[cell + U(3) * states]
            for lane in range(_L):
                low = one * message[row + lane] + two * message[row + _L + lane]
                high = three * message[row + U(2) * _L + lane] + four * message[row + U(3) * _L + lane]
                out[place + lane] += low + high
        for other in range(whole, states):
            weight, row = step[other * states + state], source + other * _L
            for lane in range(_L):
                out[place + lane] += weight * message[row + lane]


@callee
def _normalise(message, base, states, total, inverse):
    for lane in range(_L):
        total[lane] = 0.0
    for state in range(states):
        for lane in range(_L):
            total[lane] += message[base + state * _L + lane]
    for lane in range(_L):
        inverse[lane] = 1.0 / total[lane]
    for state in range(states):
        for lane in range(_L):
            message[base + state * _L + lane] *= inverse[lane]


@callee
def _forward(step, potential, states, longest, left, norm, inverse):
    """Filtered distributions ``left`` and their normalisers ``norm`` ``[token, lane]``."""
    width = states * _L
    for place in range(longest):
        base = place * width
        if place == U(0):
            for cell in range(width):
                left[cell] = potential[cell]
        else:
            _product(step, left, base - width, states, left, base)
            for cell in range(base, base + width):
                left[cell] *= potential[cell]
        _normalise(left, base, states, norm[place], inverse)


@callee
def _backward(turned, potential, length, states, longest, right, total, inverse, sound):
    """What the tokens to the right say of each token; ``potential`` becomes its product with that; ``sound``: whether
    sums were large enough."""
    width = states * _L
    for back in range(longest):
        place = longest - U(1) - back
        base = place * width
        if back > U(0):
            _product(turned, potential, base + width, states, right, base)
        for lane in range(_L):
            if length[lane] <= place + U(1):  # the chain has no token after this one
                for state in range(states):
                    right[base + state * _L + lane] = 1.0
        _normalise(right, base, states, total, inverse)
        for lane in range(_L):
            sound[lane] &= total[lane] >= LEAST
        for cell in range(base, base + width):
            potential[cell] *= right[cell]


@callee
def _combine(chains, left, right, potential, norm, total, inverse, sound, single):
    """Marginals; ``potential`` becomes what turns ``left`` and a step into those of pairs, 0 after a chain's end;
    ``sound`` as in :func:`_backward`."""
    begin, length, states, longest = chains.begin, chains.length, chains.states, chains.longest
    width = states * _L
    for place in range(longest):
        base = place * width
        for cell in range(base, base + width):
            right[cell] *= left[cell]
        _normalise(right, base, states, total, inverse)
        for lane in range(_L):
            inside = length[lane] > place
            sound[lane] &= not inside or (total[lane] >= LEAST and norm[place, lane] >= LEAST)
            total[lane] = 1.0 / (total[lane] * norm[place, lane]) if inside else 0.0
            if inside:
                for state in range(states):
                    single[begin[lane] + place, state] = right[base + state * _L + lane]
        for state in range(states):
            for lane in range(_L):
                potential[base + state * _L + lane] *= total[lane]


# Sums over lanes may be taken in any order: only so do they become vector instructions.
@callee(fastmath={"reassoc", "nsz", "contract"})
def _add_pairs(states, longest, left, potential, sums):
    """Adds to ``sums[j, k]``, over tokens and lanes, the marginals of pairs without the factor of the step."""
    width, whole = states * _L, states - states % U(2)
    for place in range(U(1), longest):
        base = place * width
        for one in range(states):
            source = base - width + one * _L
            for two in range(U(0), whole, U(2)):
                row, total, other = base + two * _L, 0.0, 0.0
                for lane in range(_L):
                    total += left[source + lane] * potential[row + lane]
                    other += left[source + lane] * potential[row + _L + lane]
                sums[one * states + two] += total
                sums[one * states + two + U(1)] += other
            for two in range(whole, states):
                total, row = 0.0, base + two * _L
                for lane in range(_L):
                    total += left[source + lane] * potential[row + lane]
                sums[one * states + two] += total


@kernel
def lane_marginals(potential, step, start, order, first, last, single, double, log_norm):
    """Marginals of blocks ``first`` to ``last - 1`` of ``LANES`` chains each, taken from ``order``.

    ``potential`` ``[tokens, K]`` and ``step`` ``[K, K]``: exponentials. ``log_norm[c]``: log Z of them. The expected
    counts of steps are added to ``double`` ``[K, K]``. NaN where so little of a message was left that it may be wrong.
    """
    states, longest = U(potential.shape[1]), U(1)
    for place in range(first * LANES, min(last * LANES, len(order))):
        longest = max(longest, U(start[order[place] + 1] - start[order[place]]))
    rows, turned, sums = np.empty(states * states), np.empty(states * states), np.zeros(states * states)
    for one in range(states):
        for two in range(states):
            rows[one * states + two] = turned[two * states + one] = step[one, two]
    size = longest * states * _L
    room, left, right = np.empty(size), np.empty(size), np.empty(size)
    norm, total, inverse = np.empty((longest, _L)), np.empty(LANES), np.empty(LANES)
    begin, length, sound = np.zeros(LANES, U), np.zeros(LANES, U), np.empty(LANES, np.bool_)
    for block in range(first, last):
        here = U(0)
        for lane in range(LANES):
            begin[lane] = length[lane] = U(0)
            sound[lane] = True
            if block * LANES + lane < len(order):
                chain = order[block * LANES + lane]
                begin[lane], length[lane] = U(start[chain]), U(start[chain + 1] - start[chain])
                here = max(here, length[lane])
        chains = LaneChains(begin, length, states, here)
        _load(potential, chains, room)
        _forward(rows, room, states, here, left, norm, inverse)
        _backward(turned, room, length, states, here, right, total, inverse, sound)
        _combine(chains, left, right, room, norm, total, inverse, sound, single)
        _add_pairs(states, here, left, room, sums)
        for lane in range(min(LANES, len(order) - block * LANES)):
            value = 0.0
            for place in range(length[lane]):
                value += np.log(norm[place, U(lane)])
            log_norm[order[block * LANES + lane]] = value if sound[lane] else np.nan
    for one in range(states):
        for two in range(states):
            double[one, two] += sums[one * states + two] * step[one, two]
