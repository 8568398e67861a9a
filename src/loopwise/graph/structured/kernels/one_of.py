r"""Messages of exactly-one and at-most-one factors in closed form, and their adjoint.

In: log messages ``[examples, slots]`` of binary variables. Out: normalised log messages; adjoints. Below the stages.
With :math:`x=e^{a}` of the log-odds a of ON, the log-odds sent are :math:`-\log S_i`, :math:`S_i=c+\sum_{j\ne i}x_j`,
where c is the weight of none, 0 or 1. Sums over the others are sums from both sides, without a subtraction, of x over
the largest of them and c. Where little would be left of such a sum, or a value is ruled out, the automaton that reads
the factor takes over.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.decorators import fused_callee, fused_kernel
from loopwise.compiled.elementary import exp_all, log_all

LEAST = 1e-250  # of a sum over the others


@fused_callee
def _read(automata, factor, none, incoming, x, after):
    """x of each variable over the largest of all and of ``none``; sums from the right, ``none`` included. The log of
    what x was divided by, NaN if some value is ruled out."""
    count, slots = automata.variables[factor], automata.slot_start[factor]
    top, fine = 0.0 if none > -np.inf else -np.inf, True
    for variable in range(count):
        off, on = incoming[slots + 2 * variable], incoming[slots + 2 * variable + 1]
        fine &= min(off, on) > -np.inf
        x[variable] = on - off
        top = max(top, x[variable])
    if not fine:
        return np.nan
    for variable in range(count):
        x[variable] -= top
    x[count] = none - top
    exp_all(x[: count + 1])
    after[count] = x[count]
    for variable in range(count - 1, -1, -1):
        after[variable] = after[variable + 1] + x[variable]
    return top


@fused_kernel
def one_of_send(rows, automata, final, incoming, outgoing, possible, done):
    """Messages of all factors but those left to the automaton; ``done[row, factor]`` says which were sent."""
    most = 0
    for factor in range(automata.variables.shape[0]):
        most = max(most, automata.variables[factor])
    x, after, sent = np.empty(most + 1), np.empty(most + 1), np.empty(2 * most)
    for row in rows:
        weights = final[row if final.shape[0] > 1 else 0]
        for factor in range(automata.variables.shape[0]):
            count, slots = automata.variables[factor], automata.slot_start[factor]
            top = _read(automata, factor, weights[automata.final_start[factor]], incoming[row], x, after)
            unit, before, fine = np.exp(-top), 0.0, top == top
            fine = fine and unit > LEAST and unit < 1.0 / LEAST
            if fine:
                for variable in range(count):
                    others = before + after[variable + 1]  # over e^top, as is the weight of this variable being ON
                    fine &= others > LEAST
                    share = 1.0 / (others + unit)
                    sent[2 * variable], sent[2 * variable + 1] = others * share, unit * share
                    before += x[variable]
            done[row, factor] = fine
            if fine:
                log_all(sent[: 2 * count])
                for slot in range(2 * count):
                    outgoing[row, slots + slot] = sent[slot]


@fused_kernel
def one_of_back(rows, automata, final, incoming, of_outgoing, of_incoming, of_final, done):
    """Adjoint of :func:`one_of_send`: with g the adjoint of a message's log-odds, a_j gets -x_j times the sum of g_i /
    S_i over all others i, added up from both sides."""
    most = 0
    for factor in range(automata.variables.shape[0]):
        most = max(most, automata.variables[factor])
    x, after, rates, ahead = np.empty(most + 1), np.empty(most + 1), np.empty(most + 1), np.empty(most + 1)
    for row in rows:
        weights = final[row if final.shape[0] > 1 else 0]
        for factor in range(automata.variables.shape[0]):
            count, slots = automata.variables[factor], automata.slot_start[factor]
            top = _read(automata, factor, weights[automata.final_start[factor]], incoming[row], x, after)
            unit, before, fine = np.exp(-top), 0.0, top == top
            fine = fine and unit > LEAST and unit < 1.0 / LEAST
            if fine:
                for variable in range(count):
                    others = before + after[variable + 1]
                    fine &= others > LEAST
                    off, on = of_outgoing[row, slots + 2 * variable], of_outgoing[row, slots + 2 * variable + 1]
                    back = (on * others - off * unit) / (others + unit)  # of the log-odds
                    rates[variable] = back / others
                    before += x[variable]
            done[row, factor] = fine
            if not fine:
                continue
            ahead[count] = 0.0
            for variable in range(count - 1, -1, -1):
                ahead[variable] = ahead[variable + 1] + rates[variable]
            behind = 0.0
            for variable in range(count):
                back = -x[variable] * (behind + ahead[variable + 1])
                of_incoming[row, slots + 2 * variable] -= back
                of_incoming[row, slots + 2 * variable + 1] += back
                behind += rates[variable]
