"""Weighted and damped messages, memory of variables, and the adjoint of each, in the log domain.

In: log messages ``[examples, slots]`` and logs of beliefs ``[examples, states]`` in the order of the layout. Out: the
same, in place. Stage: below inference. ``rows`` are the examples to work on; arrays of edges are of one sweep.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.decorators import fused_callee, fused_kernel
from loopwise.compiled.elementary import normalise_log


class Mixing(NamedTuple):
    """How new messages enter, edge by edge; or the adjoints of that."""

    powers: Any  # [edges]
    shares: Any  # [edges], of the old message


@fused_kernel
def weigh(rows, edges, ranges, mixing, old, m):
    """New messages ``m`` of the edges ``ranges`` become the mix (1 - share) power m + share old, normalised again.

    Values that a new message rules out stay so; those that only the old one ruled out are not mixed."""
    for row in rows:
        fresh, before = m[row], old[row]
        for which in range(ranges.shape[0]):
            for edge in range(ranges[which, 0], ranges[which, 1]):
                power, share = mixing.powers[edge], mixing.shares[edge]
                for slot in range(edges.slot[edge], edges.slot[edge + 1]):
                    if fresh[slot] > -np.inf:
                        fresh[slot] *= power
                        if before[slot] > -np.inf:
                            fresh[slot] = (1.0 - share) * fresh[slot] + share * before[slot]
                normalise_log(fresh, edges.slot[edge], edges.slot[edge + 1])


@fused_kernel
def weigh_back(rows, edges, ranges, mixing, old, fresh, of_m, of_fresh, of_mixing):
    """Adjoint of :func:`weigh`: ``of_m``, those of its results, become those of ``old``; those of the new messages
    ``fresh`` that it was given are written, those of powers and shares added up."""
    for row in rows:
        back = of_m[row]
        for which in range(ranges.shape[0]):
            for edge in range(ranges[which, 0], ranges[which, 1]):
                power, share, total = mixing.powers[edge], mixing.shares[edge], 0.0
                first, last = edges.slot[edge], edges.slot[edge + 1]
                mixed = of_fresh[row, first:last]  # holds the results again before it gets adjoints
                for slot in range(first, last):
                    value, before = fresh[row, slot], old[row, slot]
                    if value > -np.inf:
                        value *= power
                        value = (1.0 - share) * value + share * before if before > -np.inf else value
                        total += back[slot]
                    mixed[slot - first] = value
                normalise_log(mixed, 0, last - first)
                for slot in range(first, last):
                    value, before = fresh[row, slot], old[row, slot]
                    if value == -np.inf:
                        mixed[slot - first], back[slot] = 0.0, 0.0
                        continue
                    due = back[slot] - total * np.exp(mixed[slot - first])
                    kept = 1.0 - share if before > -np.inf else 1.0
                    mixed[slot - first] = kept * power * due
                    back[slot] = share * due if before > -np.inf else 0.0
                    of_mixing.powers[edge] += kept * value * due
                    if before > -np.inf:
                        of_mixing.shares[edge] += (before - power * value) * due


@fused_callee
def _mean(values, first, last):
    """The mean of those above -inf, and how many they are."""
    total, count = 0.0, 0
    for place in range(first, last):
        if values[place] > -np.inf:
            total += values[place]
            count += 1
    return total / max(count, 1), count


@fused_kernel
def remember(rows, state_start, shares, own, logs, bias):
    """``bias``: the mix (1 - share) own + share (log belief) of each variable, log beliefs (``logs``, of any scale)
    being taken less their mean over the values that are possible, and 0 for those that are not: so what the values of a
    variable have in common makes no difference, ruled out or not."""
    for row in rows:
        mine, seen, out = own[row if own.shape[0] > 1 else 0], logs[row], bias[row]
        for variable in range(state_start.shape[0] - 1):
            first, last = state_start[variable], state_start[variable + 1]
            mean, _ = _mean(seen, first, last)
            for state in range(first, last):
                before = seen[state] - mean if seen[state] > -np.inf else 0.0
                out[state] = (1.0 - shares[variable]) * mine[state] + shares[variable] * before


@fused_kernel
def remember_back(rows, state_start, shares, own, logs, of_bias, of_shares, of_own, of_logs):
    """Adjoint of :func:`remember`: adds to the adjoints of shares, own potentials and logs of beliefs, and uses up
    ``of_bias``."""
    for row in rows:
        which = row if own.shape[0] > 1 else 0
        mine, seen, back = own[which], logs[row], of_bias[row]
        for variable in range(state_start.shape[0] - 1):
            first, last, share = state_start[variable], state_start[variable + 1], shares[variable]
            mean, count = _mean(seen, first, last)
            of_mean = 0.0
            for state in range(first, last):
                if mine[state] > -np.inf:
                    possible = seen[state] > -np.inf
                    of_own[which, state] += (1.0 - share) * back[state]
                    of_shares[variable] += ((seen[state] - mean if possible else 0.0) - mine[state]) * back[state]
                    if possible:
                        of_logs[row, state] += share * back[state]
                        of_mean -= share * back[state]
                back[state] = 0.0
            for state in range(first, last):
                if seen[state] > -np.inf:
                    of_logs[row, state] += of_mean / count
