"""Linear chains of any lengths: log Z, marginals, and the adjoint of marginals.

In: ``unary`` ``[tokens, K]`` and ``pair`` ``[1 or tokens, K, K]`` log-potentials (one table for all steps, or one a
token: ``pair[t]`` joins tokens ``t - 1`` and ``t``), ``start`` ``[chains + 1]``, and the range ``first`` to ``last`` of
chains to work on, so that threads share a corpus. Out: arrays filled in place. Stage: below inference.

Messages are probabilities, normalised at every token. What they cannot hold is noticed: entries below :data:`_FLUSHED`
may have lost mass, and a bound on its share is carried along; a chain whose bound exceeds :data:`_SHARE` (ranges of
hundreds of nats) is done again with logarithms. O(K^2) a token.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.decorators import callee, kernel

_FLUSHED = 1e-250  # below this a product with one more factor may underflow
_SHARE = 1e-18  # of lost mass: less than a rounding error


@callee
def _exponentials(unary, begin, end, potential):
    """``exp(unary - its maximum)`` of each token; the sum of the maxima (not finite if a token allows nothing)."""
    states, total = unary.shape[1], 0.0
    for token in range(begin, end):
        highest, base = unary[token, 0], (token - begin) * states
        for state in range(1, states):
            highest = max(highest, unary[token, state])
        if not np.isfinite(highest):
            return highest
        total += highest
        for state in range(states):
            potential[base + state] = np.exp(unary[token, state] - highest)
    return total


@callee
def _pair_exponentials(pair, table, place, step, turned):
    """``exp(pair[table] - its maximum)`` and its transpose, as table ``place`` of each; the maximum."""
    states = pair.shape[1]
    highest, base = -np.inf, place * states * states
    for one in range(states):
        for two in range(states):
            highest = max(highest, pair[table, one, two])
    for one in range(states):
        for two in range(states):
            value = np.exp(pair[table, one, two] - highest)
            step[base + one * states + two] = value
            turned[base + two * states + one] = value
    return highest


@callee
def _normalise(message, base, states, lost):
    """Makes a message sum to one; the sum, and the new bound on the share of mass that was lost.

    A step carries a lost share on to every state, and potentials are at most 1: it grows at most ``states`` times.
    """
    total, least = 0.0, np.inf
    for state in range(base, base + states):
        total += message[state]
        least = min(least, message[state])
    lost *= states
    if least < _FLUSHED:
        lost += states * _FLUSHED
    scale = 1.0 / total
    for state in range(base, base + states):
        message[state] *= scale
    return total, lost * scale


class StepTables(NamedTuple):
    """The pair tables, all flat."""

    step: Any  # [tables, K, K] exponentials
    turned: Any  # the same transposed
    offset: Any  # [tables] what was subtracted before


@callee
def _forward(unary, pair, begin, end, tables, potential, left, norm, bound):
    """Filtered distributions ``left`` of one chain and their normalisers ``norm``; log Z, NaN if not to be trusted.

    ``tables``: with a table a token they are filled here, for the tokens of this chain. ``bound[0]``: the largest share
    that may be lost. All but ``unary`` and ``pair`` are flat.
    """
    step, turned, offset = tables.step, tables.turned, tables.offset
    states, shared = unary.shape[1], pair.shape[0] == 1
    total = _exponentials(unary, begin, end, potential)
    if not np.isfinite(total):
        return np.nan
    lost = bound[0] = 0.0
    for place in range(end - begin):
        base = place * states
        if place == 0:
            for state in range(states):
                left[state] = potential[state]
        else:
            table = 0 if shared else place
            if not shared:
                offset[table] = _pair_exponentials(pair, begin + place, place, step, turned)
            total += offset[table]
            for state in range(states):
                left[base + state] = 0.0
            row = table * states * states
            for before in range(base - states, base):
                mass = left[before]
                for state in range(states):
                    left[base + state] += mass * step[row + state]
                row += states
            for state in range(states):
                left[base + state] *= potential[base + state]
        norm[place], lost = _normalise(left, base, states, lost)
        if not lost <= _SHARE:
            return np.nan
        bound[0] = max(bound[0], lost)
        total += np.log(norm[place])
    return total


@callee
def _backward(states, length, turned, shared, potential, right, bound):
    """What the tokens to the right say of each token, ``right``; whether it can be trusted.

    ``potential`` becomes its product with ``right``: what a token and all to its right say together.
    """
    lost = bound[1] = 0.0
    for back in range(length):
        base = (length - 1 - back) * states
        for state in range(base, base + states):
            right[state] = 1.0 if back == 0 else 0.0
        if back > 0:
            row = 0 if shared else (length - back) * states * states
            for after in range(base + states, base + 2 * states):
                mass = potential[after]
                for state in range(states):
                    right[base + state] += mass * turned[row + state]
                row += states
        _, lost = _normalise(right, base, states, lost)
        if not lost <= _SHARE:
            return False
        bound[1] = max(bound[1], lost)
        for state in range(base, base + states):
            potential[state] *= right[state]
    return True


@callee
def _combine(begin, end, states, left, right, potential, norm, bound, single):
    """Marginals ``single[begin:end]``; ``potential`` becomes what turns ``left`` and a step into those of pairs.

    ``p(y_{t-1} = j, y_t = k) = left[t - 1, j] step[j, k] potential[t, k]``. Whether it can be trusted.
    """
    for place in range(end - begin):
        base, total = place * states, 0.0
        for state in range(states):
            share = left[base + state] * right[base + state]
            single[begin + place, state] = share
            total += share
        if not (bound[0] + bound[1]) * states + states * _FLUSHED <= _SHARE * total * min(norm[place], 1.0):
            return False
        scale = 1.0 / total
        for state in range(states):
            single[begin + place, state] *= scale
        scale /= norm[place]
        for state in range(base, base + states):
            potential[state] *= scale
    return True


@callee
def _pairs(begin, end, states, step, shared, left, potential, double):
    """Marginals of pairs from what :func:`_combine` left: a table a token, or their sum (see :func:`marginals`).

    The sum, where steps share a table, still lacks the factor ``step``.
    """
    if double.shape[0] > 1:
        for state in range(states * states):
            double[begin, state // states, state % states] = 0.0
    for place in range(1, end - begin):
        base, row = place * states, 0 if shared else place * states * states
        for before in range(states):
            mass = left[base - states + before]
            if double.shape[0] == 1:
                for state in range(states):
                    double[0, before, state] += mass * potential[base + state]
            else:
                for state in range(states):
                    cell = mass * step[row + state] * potential[base + state]
                    double[begin + place, before, state] = cell
            row += states


@callee
def _log_sum(terms):
    highest, total = -np.inf, 0.0
    for place in range(len(terms)):
        highest = max(highest, terms[place])
    if highest == -np.inf:
        return highest
    for place in range(len(terms)):
        total += np.exp(terms[place] - highest)
    return highest + np.log(total)


@callee
def _with_logarithms(unary, pair, begin, end, left, right, single, double):
    """The same marginals for any range of potentials; log Z. ``double``: as for :func:`marginals`."""
    states, length, shared = unary.shape[1], end - begin, pair.shape[0] == 1
    terms, summed = np.empty(states), double.shape[0] == 1
    for place in range(length):
        table, mirror = 0 if shared else begin + place, length - 1 - place
        base, other_base = place * states, mirror * states
        for state in range(states):
            left[base + state] = unary[begin + place, state]
            right[other_base + state] = unary[begin + mirror, state]
        if place == 0:
            continue
        following = 0 if shared else begin + mirror + 1
        for state in range(states):
            for other in range(states):
                terms[other] = left[base - states + other] + pair[table, other, state]
            left[base + state] += _log_sum(terms)
            for other in range(states):
                terms[other] = pair[following, state, other] + right[other_base + states + other]
            right[other_base + state] += _log_sum(terms)
    for state in range(states):
        terms[state] = left[(length - 1) * states + state]
    total = _log_sum(terms)
    shares = np.empty(states * states)
    for place in range(
        length
    ):  # each token's shares are normalised: at scores of 1e30 rounding alone moves log Z by 1e14
        table, base, rows = 0 if shared else begin + place, place * states, states if place > 0 else 1
        for before in range(rows):
            for state in range(states):
                share = right[base + state]
                if place > 0:
                    share += left[base - states + before] + pair[table, before, state]
                shares[before * states + state] = share
        highest, mass = shares[: rows * states].max(), 0.0
        for at in range(rows * states):
            shares[at] = np.exp(shares[at] - highest)
            mass += shares[at]
        for state in range(states):
            single[begin + place, state] = 0.0
        for before in range(states):
            for state in range(states):
                share = shares[before * states + state] / mass if before < rows else 0.0
                single[begin + place, state] += share
                if not summed:
                    double[begin + place, before, state] = share if place > 0 else 0.0
                elif place > 0:
                    double[0, before, state] += share
    return total


@kernel
def marginals(unary, pair, start, first, last, single, double, log_z):
    r"""``single[t, k] = p(y_t = k)``, ``log_z[c]`` of chains ``first`` to ``last - 1``.

    ``double`` ``[tokens, K, K]``: ``p(y_{t-1} = j, y_t = k)``, zero at the first token of a chain; ``[1, K, K]``: their
    sum over tokens is added to it, the expected counts of a shared table (only where ``pair`` is one).
    """
    states, shared, longest = unary.shape[1], pair.shape[0] == 1, 1
    for chain in range(first, last):
        longest = max(longest, start[chain + 1] - start[chain])
    count = 1 if shared else longest
    step, turned, offset = np.empty(count * states * states), np.empty(count * states * states), np.empty(count)
    tables = StepTables(step, turned, offset)
    potential, left, right = np.empty(longest * states), np.empty(longest * states), np.empty(longest * states)
    norm, bound, sums = np.empty(longest), np.zeros(2), np.zeros((1, states, states))
    if shared:
        offset[0] = _pair_exponentials(pair, 0, 0, step, turned)
    for chain in range(first, last):
        begin, end = start[chain], start[chain + 1]
        if begin == end:
            log_z[chain] = 0.0
            continue
        total = _forward(unary, pair, begin, end, tables, potential, left, norm, bound)
        if (
            np.isfinite(total)
            and _backward(states, end - begin, turned, shared, potential, right, bound)
            and _combine(begin, end, states, left, right, potential, norm, bound, single)
        ):
            _pairs(begin, end, states, step, shared, left, potential, sums if double.shape[0] == 1 else double)
        else:
            total = _with_logarithms(unary, pair, begin, end, left, right, single, double)
        log_z[chain] = total  # -inf if no path is possible; there are no marginals then
    if double.shape[0] == 1:
        for one in range(states):
            for two in range(states):
                double[0, one, two] += sums[0, one, two] * step[one * states + two]


@kernel
def covariances(start, first, last, single, double, unary_slope, pair_slope, unary_adjoint, pair_adjoint):
    r"""Adjoints of the log-potentials, from slopes of a loss in the marginals: :math:`\mathrm{Cov}(\phi)\,g`.

    With :math:`G(y)=\sum_t g_t(y_t)+g_t(y_{t-1},y_t)` the adjoint of :math:`\theta_t(k)` is
    :math:`p(y_t=k)\,(E[G\mid y_t=k]-E[G])`, of :math:`\theta_t(j,k)` likewise. By the Markov property
    :math:`E[G\mid y_t]` is the sum of what lies left and right of ``t``, each a recursion over conditional
    distributions ``double / single``, which neither under- nor overflow. ``double`` and ``pair_slope`` have a table a
    token; ``pair_adjoint`` ``[1, K, K]`` takes the sum over tokens. O(K^2) a token.
    """
    states, longest = single.shape[1], 1
    for chain in range(first, last):
        longest = max(longest, start[chain + 1] - start[chain])
    left, right = np.empty((longest, states)), np.empty((longest, states))
    summed = pair_adjoint.shape[0] == 1
    for chain in range(first, last):
        begin, end = start[chain], start[chain + 1]
        if begin == end:
            continue
        for token in range(begin, end):  # left: everything up to and with this token
            for state in range(states):
                total = 0.0
                if token > begin and single[token, state] > 0.0:
                    for before in range(states):
                        inner = left[token - 1 - begin, before] + pair_slope[token, before, state]
                        total += double[token, before, state] * inner
                    total /= single[token, state]
                left[token - begin, state] = total + unary_slope[token, state]
        for state in range(states):
            right[end - 1 - begin, state] = 0.0
        for back in range(1, end - begin):  # right: everything after this token
            token = end - 1 - back
            for state in range(states):
                total = 0.0
                if single[token, state] > 0.0:
                    for after in range(states):
                        inner = right[token + 1 - begin, after] + unary_slope[token + 1, after]
                        total += double[token + 1, state, after] * (inner + pair_slope[token + 1, state, after])
                    total /= single[token, state]
                right[token - begin, state] = total
        mean = 0.0
        for state in range(states):
            mean += single[begin, state] * (left[0, state] + right[0, state])
        for token in range(begin, end):
            place = token - begin
            for state in range(states):
                given = left[place, state] + right[place, state]
                unary_adjoint[token, state] = single[token, state] * (given - mean)
        for token in range(begin + 1, end):
            place, _table = token - begin, 0 if summed else token
            for before in range(states):
                for state in range(states):
                    given = left[place - 1, before] + pair_slope[token, before, state]
                    given += unary_slope[token, state] + right[place, state]
                    value = double[token, before, state] * (given - mean)
                    if summed:
                        pair_adjoint[0, before, state] += value
                    else:
                        pair_adjoint[token, before, state] = value
