"""Messages of grammars that stand in a larger graph, and their adjoint: inside-outside between sums over fired values.

In: log messages ``[examples, slots]``, log-potentials of hyperedges. Out: normalised log messages; adjoints. Below the
stages. The mathematics is that of :class:`loopwise.graph.structured.hypergraph.Hypergraph`: messages are taken relative
to the default value of their variable, and the weight of a default value is what the others leave of Z, or, where that
is little, a pass of its own.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.arithmetic import log_add
from loopwise.compiled.decorators import fused_callee, fused_kernel
from loopwise.compiled.elementary import normalise_log
from loopwise.graph.structured.kernels.hypergraph import HypergraphArrays, _backward_one, _inside, _outside
from loopwise.graph.structured.kernels.limits import BEYOND, HARD, LEAST, MOSTLY


class Grammars(NamedTuple):
    """Several hypergraphs; numbers of nodes, hyperedges, variables and slots are counted within each."""

    slot_start: Any  # [factors]
    own_start: Any  # -1 if hyperedges have no potentials
    root: Any
    node_start: Any  # [factors + 1] into axiom
    edge_start: Any  # [factors + 1] into head and order; tail_start has one more number for each factor
    tail_begin: Any  # [factors + 1] into tails
    pair_start: Any  # [factors + 1] into pair_edge and pair_slot
    variable_start: Any  # [factors + 1] into default; first_slot has one more number for each factor
    axiom: Any
    head: Any
    order: Any  # which of the user's hyperedges each is
    tail_start: Any
    tails: Any
    pair_edge: Any  # what hyperedges fire
    pair_slot: Any
    default: Any  # the slot of a variable's default value, -1: none
    first_slot: Any


class GrammarWorkspace(NamedTuple):
    """Working space for one factor."""

    relative: Any  # [slots]
    message: Any
    weights: Any  # [hyperedges]
    known: Any  # the same without -inf
    never: Any
    gradient: Any
    beta: Any  # [nodes]
    alpha: Any


@fused_callee
def _arrays(grammars, factor):
    """The structure of one of them, as the kernels of a single hypergraph read it."""
    e0, e1 = grammars.edge_start[factor], grammars.edge_start[factor + 1]
    n0, n1 = grammars.node_start[factor], grammars.node_start[factor + 1]
    return HypergraphArrays(
        grammars.head[e0:e1],
        grammars.tail_start[e0 + factor : e1 + factor + 1],
        grammars.tails[grammars.tail_begin[factor] : grammars.tail_begin[factor + 1]],
        grammars.axiom[n0:n1],
        grammars.head[:0],
        grammars.head[:0],
        grammars.root[factor],
    )


@fused_callee
def _workspace(grammars):
    slots, edges, nodes = 1, 1, 1
    for factor in range(grammars.root.shape[0]):
        edges = max(edges, grammars.edge_start[factor + 1] - grammars.edge_start[factor])
        nodes = max(nodes, grammars.node_start[factor + 1] - grammars.node_start[factor])
        slots = max(slots, grammars.first_slot[grammars.variable_start[factor + 1] + factor])
    return GrammarWorkspace(
        np.empty(slots), np.empty(slots), np.empty(edges), np.empty(edges), np.empty(edges, np.int64), np.empty(edges),
        np.empty(nodes), np.empty(nodes),
    )  # fmt: skip


@fused_callee
def _never(grammars, factor, arrays, own, incoming, work):
    """Nats below any score that stand for a default value which is ruled out."""
    slots, e0, edges = grammars.slot_start[factor], grammars.edge_start[factor], arrays.head.shape[0]
    sizes, ruled_out = 0.0, False
    for variable in range(grammars.variable_start[factor], grammars.variable_start[factor + 1]):
        default, base = grammars.default[variable], 0.0
        if default >= 0 and incoming[slots + default] == -np.inf:
            ruled_out = True
        elif default >= 0:
            base = incoming[slots + default]
        sizes += abs(base)
        for slot in range(grammars.first_slot[variable + factor], grammars.first_slot[variable + factor + 1]):
            work.relative[slot] = incoming[slots + slot] - base
    if not ruled_out:
        return HARD
    for edge in range(edges):
        work.known[edge] = 0.0
        if grammars.own_start[factor] >= 0:
            number = own[grammars.own_start[factor] + grammars.order[e0 + edge]]
            work.known[edge] = abs(number) if number > -np.inf else -np.inf
    for pair in range(grammars.pair_start[factor], grammars.pair_start[factor + 1]):
        value = work.relative[grammars.pair_slot[pair]]
        if value > -np.inf:
            work.known[grammars.pair_edge[pair]] += abs(value)
    beta = work.beta[: arrays.axiom.shape[0]]
    _inside(arrays, work.known[:edges], beta, False)
    return min(HARD, LEAST + BEYOND * (sizes + max(beta[arrays.root], 0.0)))


@fused_callee
def _weigh(grammars, factor, arrays, own, incoming, work):
    """Log weights of hyperedges from relative messages; what all assignments have in common; the nats of "never"."""
    slots, v0 = grammars.slot_start[factor], grammars.variable_start[factor]
    e0, edges = grammars.edge_start[factor], grammars.edge_start[factor + 1] - grammars.edge_start[factor]
    common, hard = 0.0, _never(grammars, factor, arrays, own, incoming, work)
    for variable in range(v0, grammars.variable_start[factor + 1]):
        first, last = grammars.first_slot[variable + factor], grammars.first_slot[variable + factor + 1]
        default = grammars.default[variable]
        base = max(incoming[slots + default], -hard) if default >= 0 else 0.0
        common += base
        for slot in range(first, last):
            work.relative[slot] = incoming[slots + slot] - base
    for edge in range(edges):
        work.known[edge] = 0.0
        if grammars.own_start[factor] >= 0:
            work.known[edge] = own[grammars.own_start[factor] + grammars.order[e0 + edge]]
        work.never[edge] = 0
    for pair in range(grammars.pair_start[factor], grammars.pair_start[factor + 1]):
        edge, value = grammars.pair_edge[pair], work.relative[grammars.pair_slot[pair]]
        if value == -np.inf:
            work.never[edge] += 1
        else:
            work.known[edge] += value
    for edge in range(edges):
        work.weights[edge] = -np.inf if work.never[edge] > 0 else work.known[edge]
    return common, hard


@fused_callee
def _rest(grammars, pair, work):
    """The weight of a hyperedge without one of the values that it fires."""
    edge, value = grammars.pair_edge[pair], work.relative[grammars.pair_slot[pair]]
    if value == -np.inf:
        return work.known[edge] if work.never[edge] == 1 else -np.inf
    return work.known[edge] - value if work.never[edge] == 0 else -np.inf


@fused_callee
def _hold(grammars, factor, variable, work):
    """Weights of hyperedges that do not fire a variable, into ``weights``; which others are called from within."""
    first, last = grammars.first_slot[variable + factor], grammars.first_slot[variable + factor + 1]
    for pair in range(grammars.pair_start[factor], grammars.pair_start[factor + 1]):
        if first <= grammars.pair_slot[pair] < last:
            work.weights[grammars.pair_edge[pair]] = -np.inf


@fused_callee
def _release(edges, work):
    for edge in range(edges):
        work.weights[edge] = -np.inf if work.never[edge] > 0 else work.known[edge]


@fused_callee
def _share(grammars, factor, variable, work, total):
    """The probability that some value other than its default is fired."""
    first, last = grammars.first_slot[variable + factor], grammars.first_slot[variable + factor + 1]
    others = -np.inf
    for slot in range(first, last):
        if slot != grammars.default[variable]:
            others = log_add(others, work.message[slot] + work.relative[slot])
    return math.exp(others - total)


@fused_callee
def _messages(grammars, factor, arrays, work):
    """Unnormalised log messages, given weights; log Z."""
    edges = arrays.head.shape[0]
    nodes = arrays.axiom.shape[0]
    beta, alpha, gradient = work.beta[:nodes], work.alpha[:nodes], work.gradient[:edges]
    weights = work.weights[:edges]
    _inside(arrays, weights, beta, False)
    _outside(arrays, weights, beta, alpha, gradient)
    total = beta[arrays.root]
    for slot in range(grammars.first_slot[grammars.variable_start[factor + 1] + factor]):
        work.message[slot] = -np.inf
    for pair in range(grammars.pair_start[factor], grammars.pair_start[factor + 1]):
        slot = grammars.pair_slot[pair]
        value = gradient[grammars.pair_edge[pair]] + _rest(grammars, pair, work)
        work.message[slot] = log_add(work.message[slot], value)
    for variable in range(grammars.variable_start[factor], grammars.variable_start[factor + 1]):
        default = grammars.default[variable]
        if default < 0:
            continue
        share = _share(grammars, factor, variable, work, total)
        if share > MOSTLY:
            _hold(grammars, factor, variable, work)
            _inside(arrays, weights, beta, False)
            work.message[default] = beta[arrays.root]
            _release(edges, work)
        else:
            work.message[default] = total + math.log1p(-share)
    return total


@fused_kernel
def grammars_send(rows, grammars, own, incoming, outgoing, possible):
    """Messages of all grammars; ``possible[row, factor]`` is False where no derivation is."""
    work = _workspace(grammars)
    for row in rows:
        numbers = own[row if own.shape[0] > 1 else 0]
        for factor in range(grammars.root.shape[0]):
            arrays, slots = _arrays(grammars, factor), grammars.slot_start[factor]
            common, hard = _weigh(grammars, factor, arrays, numbers, incoming[row], work)
            total = _messages(grammars, factor, arrays, work)
            possible[row, factor] = total + common > -hard / 2
            for variable in range(grammars.variable_start[factor], grammars.variable_start[factor + 1]):
                first, last = grammars.first_slot[variable + factor], grammars.first_slot[variable + factor + 1]
                normalise_log(work.message, first, last)
                for slot in range(first, last):
                    value = work.message[slot]
                    outgoing[row, slots + slot] = -np.inf if value < -hard / 2 else value


@fused_kernel
def grammars_back(rows, grammars, own, incoming, of_outgoing, of_incoming, of_own):
    """Adjoint of :func:`grammars_send`, which is made again: adds to ``of_incoming`` and ``of_own``."""
    work = _workspace(grammars)
    of_message, of_relative = np.empty(work.message.shape[0]), np.empty(work.message.shape[0])
    of_known, seeds, of_weights = (
        np.empty(work.weights.shape[0]), np.empty(work.weights.shape[0]), np.empty(work.weights.shape[0]),
    )  # fmt: skip
    to_beta, to_alpha = np.empty(work.beta.shape[0]), np.empty(work.beta.shape[0])
    raw = np.empty(work.message.shape[0])
    for row in rows:
        which = row if own.shape[0] > 1 else 0
        for factor in range(grammars.root.shape[0]):
            arrays, slots = _arrays(grammars, factor), grammars.slot_start[factor]
            edges, nodes = arrays.head.shape[0], arrays.axiom.shape[0]
            e0, v0 = grammars.edge_start[factor], grammars.variable_start[factor]
            v1 = grammars.variable_start[factor + 1]
            weights, beta, alpha = work.weights[:edges], work.beta[:nodes], work.alpha[:nodes]
            _, hard = _weigh(grammars, factor, arrays, own[which], incoming[row], work)
            total = _messages(grammars, factor, arrays, work)
            width = grammars.first_slot[v1 + factor]
            for edge in range(edges):
                of_known[edge] = seeds[edge] = 0.0
            of_total = 0.0
            for slot in range(width):
                of_relative[slot] = 0.0
                raw[slot] = work.message[slot]
            for variable in range(v0, v1):  # normalisation undone
                first, last = grammars.first_slot[variable + factor], grammars.first_slot[variable + factor + 1]
                normalise_log(work.message, first, last)
                both = 0.0
                for slot in range(first, last):
                    both += of_outgoing[row, slots + slot]
                for slot in range(first, last):
                    fine = work.message[slot] >= -hard / 2
                    back = of_outgoing[row, slots + slot] - both * math.exp(work.message[slot])
                    of_message[slot] = back if fine else 0.0
                    work.message[slot] = raw[slot]
            for variable in range(v0, v1):  # default values
                default = grammars.default[variable]
                if default < 0 or of_message[default] == 0.0:
                    continue
                back, share = of_message[default], _share(grammars, factor, variable, work, total)
                if share > MOSTLY:
                    _hold(grammars, factor, variable, work)
                    _inside(arrays, weights, beta, False)
                    _outside(arrays, weights, beta, alpha, of_weights[:edges])
                    for edge in range(edges):
                        of_weights[edge] = 0.0
                    nothing = np.zeros(edges)
                    _backward_one(
                        arrays, weights, beta, alpha, back, nothing, to_beta[:nodes], to_alpha[:nodes],
                        of_weights[:edges],
                    )  # fmt: skip
                    for edge in range(edges):
                        of_known[edge] += of_weights[edge] if weights[edge] > -np.inf else 0.0
                    _release(edges, work)
                else:
                    of_total += back / (1.0 - share)
                    first, last = grammars.first_slot[variable + factor], grammars.first_slot[variable + factor + 1]
                    for slot in range(first, last):
                        value = work.message[slot] + work.relative[slot]
                        if slot != default and value > -np.inf:
                            less = back * math.exp(value - total) / (1.0 - share)
                            of_message[slot] -= less
                            of_relative[slot] -= less
            for pair in range(grammars.pair_start[factor], grammars.pair_start[factor + 1]):
                edge, slot = grammars.pair_edge[pair], grammars.pair_slot[pair]
                value = work.gradient[edge] + _rest(grammars, pair, work)
                if value == -np.inf:
                    continue
                back = of_message[slot] * math.exp(value - work.message[slot])
                seeds[edge] += back
                of_known[edge] += back
                if work.relative[slot] > -np.inf:
                    of_relative[slot] -= back
            _inside(arrays, weights, beta, False)
            _outside(arrays, weights, beta, alpha, work.gradient[:edges])
            _backward_one(
                arrays, weights, beta, alpha, of_total, seeds[:edges], to_beta[:nodes], to_alpha[:nodes],
                of_weights[:edges],
            )  # fmt: skip
            for edge in range(edges):
                of_known[edge] += of_weights[edge] if weights[edge] > -np.inf else 0.0
                if grammars.own_start[factor] >= 0:
                    of_own[which, grammars.own_start[factor] + grammars.order[e0 + edge]] += of_known[edge]
            for pair in range(grammars.pair_start[factor], grammars.pair_start[factor + 1]):
                slot = grammars.pair_slot[pair]
                if work.relative[slot] > -np.inf:
                    of_relative[slot] += of_known[grammars.pair_edge[pair]]
            for variable in range(v0, v1):
                first, last = grammars.first_slot[variable + factor], grammars.first_slot[variable + factor + 1]
                default, moved = grammars.default[variable], 0.0
                for slot in range(first, last):
                    of_incoming[row, slots + slot] += of_relative[slot]
                    moved += of_relative[slot]
                if default >= 0 and incoming[row, slots + default] > -hard:
                    of_incoming[row, slots + default] -= moved
