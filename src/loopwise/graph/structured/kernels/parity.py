r"""Messages of parity factors in closed form, and their adjoint.

In: log messages ``[examples, slots]`` of binary variables, log weights of an even and of an odd number. Out: normalised
log messages; adjoints. Below the stages. With :math:`\tau=\tanh(L/2)` of each log-likelihood ratio L = log OFF / ON,

.. math:: P_i=\prod_{j\ne i}\tau_j,\qquad m_i(\mathrm{OFF})=\tfrac{1+P_i}{2},\quad m_i(\mathrm{ON})=\tfrac{1-P_i}{2}

where the weights of the end count as one more variable. Of each product :math:`1-|P|` is kept beside :math:`|P|`, from
:math:`1-ab=(1-a)+a(1-b)`: sums of positive terms, so sure messages keep their digits. Ratios of hundreds of nats are
beyond that, and left to the automaton that reads the factor in logarithms.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.decorators import fused_callee, fused_inlined, fused_kernel
from loopwise.compiled.elementary import exp_all, log_all

LARGEST = 600.0  # nats of a ratio; beyond, 1 - tanh would not be a normal number


@fused_inlined
def _ratio(off, on):
    """log OFF / ON; NaN if both are -inf."""
    return off - on if on > -np.inf or off == -np.inf else np.inf


@fused_callee
def _read_ratios(automata, final, incoming, ratios, small):
    """L of every variable and, last of each factor, of the end; and exp(-|L|)."""
    at = 0
    for factor in range(automata.variables.shape[0]):
        slots = automata.slot_start[factor]
        for variable in range(automata.variables[factor]):
            ratios[at] = _ratio(incoming[slots + 2 * variable], incoming[slots + 2 * variable + 1])
            at += 1
        end = automata.final_start[factor]
        ratios[at] = _ratio(final[end], final[end + 1])
        at += 1
    for place in range(at):
        small[place] = -abs(ratios[place])
    exp_all(small[:at])


@fused_callee
def _strays(ratios, first, count):
    """Whether some ratio is finite but too large, or is none at all (then nothing is possible)."""
    for place in range(first, first + count):
        size = abs(ratios[place])
        if not (size <= LARGEST or size == np.inf):
            return True
    return False


@fused_callee
def _products(ratios, small, first, count, whole, gap, negative):
    """|tau| and 1 - |tau| of each variable (rows 0) and of all from it on (rows 1); returns whether the sign of the
    product of all is negative."""
    minus = False
    whole[1, count], gap[1, count] = 1.0, 0.0
    for place in range(count - 1, -1, -1):
        e = small[first + place]
        whole[0, place], gap[0, place] = (1.0 - e) / (1.0 + e), 2.0 * e / (1.0 + e)
        negative[place] = ratios[first + place] < 0.0
        minus ^= negative[place]
        whole[1, place] = whole[0, place] * whole[1, place + 1]
        gap[1, place] = gap[0, place] + whole[0, place] * gap[1, place + 1]
    return minus


@fused_callee
def _room(automata):
    """Variables and ends of all factors, and the most that one factor has."""
    size, most = 0, 0
    for factor in range(automata.variables.shape[0]):
        size += automata.variables[factor] + 1
        most = max(most, automata.variables[factor] + 1)
    return size, most


@fused_kernel
def parities_send(rows, automata, final, incoming, outgoing, possible, done):
    """Messages of all factors but those that stray from the range of probabilities; ``done[row, factor]`` says which
    were sent, ``possible`` whether any assignment of theirs is."""
    size, most = _room(automata)
    ratios, small, sent = np.empty(size), np.empty(size), np.ones(2 * size)
    whole, gap, negative = np.empty((2, most + 1)), np.empty((2, most + 1)), np.empty(most + 1, np.bool_)
    for row in rows:
        _read_ratios(automata, final[row if final.shape[0] > 1 else 0], incoming[row], ratios, small)
        first = 0
        for factor in range(automata.variables.shape[0]):
            count = automata.variables[factor] + 1
            done[row, factor] = not _strays(ratios, first, count)
            if done[row, factor]:
                minus = _products(ratios, small, first, count, whole, gap, negative)
                possible[row, factor] = not (minus and gap[1, 0] == 0.0)
                product, rest = 1.0, 0.0  # of the variables to the left, and what is short of 1
                for place in range(count - 1):
                    p = product * whole[1, place + 1]
                    u = rest + product * gap[1, place + 1]
                    high, low = 0.5 * (1.0 + p), 0.5 * u
                    turned = minus ^ negative[place]
                    sent[2 * (first + place)] = low if turned else high
                    sent[2 * (first + place) + 1] = high if turned else low
                    rest += product * gap[0, place]
                    product *= whole[0, place]
            first += count
        log_all(sent)
        first = 0
        for factor in range(automata.variables.shape[0]):
            slots = automata.slot_start[factor]
            if done[row, factor]:
                for slot in range(2 * automata.variables[factor]):
                    outgoing[row, slots + slot] = sent[2 * first + slot]
            first += automata.variables[factor] + 1


@fused_kernel
def parities_back(rows, automata, final, incoming, of_outgoing, of_incoming, of_final, done):
    """Adjoint of :func:`parities_send`: adds to ``of_incoming`` and ``of_final``. What a ratio L gets of another's
    message is the product of all other tau times (1 - tau^2) / (1 - P^2), at most 1."""
    size, most = _room(automata)
    ratios, small = np.empty(size), np.empty(size)
    whole, gap, negative = np.empty((2, most + 1)), np.empty((2, most + 1)), np.empty(most + 1, np.bool_)
    left, rates, to_left, to_right = np.empty(most + 1), np.empty(most + 1), np.empty(most + 1), np.empty(most + 1)
    for row in rows:
        which = row if final.shape[0] > 1 else 0
        _read_ratios(automata, final[which], incoming[row], ratios, small)
        first = 0
        for factor in range(automata.variables.shape[0]):
            count, slots = automata.variables[factor] + 1, automata.slot_start[factor]
            done[row, factor] = not _strays(ratios, first, count)
            if not done[row, factor]:
                first += count
                continue
            minus = _products(ratios, small, first, count, whole, gap, negative)
            product, rest = 1.0, 0.0
            for place in range(count):  # adjoints of the absolute products P, whose sign is put on at once
                left[place] = product
                p, u = product * whole[1, place + 1], rest + product * gap[1, place + 1]
                rates[place] = 0.0
                if place < count - 1 and u > 0.0:
                    off, on = of_outgoing[row, slots + 2 * place], of_outgoing[row, slots + 2 * place + 1]
                    turned = -1.0 if minus ^ negative[place] else 1.0
                    high, low = (on, off) if turned < 0.0 else (off, on)
                    rates[place] = high / (1.0 + p) - low / u
                rest += product * gap[0, place]
                product *= whole[0, place]
            carried = 0.0  # adjoint of the product of all to the left, the place included
            for place in range(count - 1, -1, -1):
                to_left[place] = left[place] * carried
                carried = carried * whole[0, place] + rates[place] * whole[1, place + 1]
            carried = 0.0
            for place in range(count):
                to_right[place] = whole[1, place + 1] * carried
                carried = carried * whole[0, place] + rates[place] * left[place]
            for place in range(count):
                if small[first + place] == 0.0:  # a value that is ruled out has no slope
                    continue
                slope = 0.5 * gap[0, place] * (1.0 + whole[0, place])
                back = (to_left[place] + to_right[place]) * slope * (-1.0 if negative[place] else 1.0)
                if place < count - 1:
                    of_incoming[row, slots + 2 * place] += back
                    of_incoming[row, slots + 2 * place + 1] -= back
                else:
                    end = automata.final_start[factor]
                    of_final[which, end] += back
                    of_final[which, end + 1] -= back
            first += count
