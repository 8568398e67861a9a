"""Inside-outside on any acyclic hypergraph, its adjoint, its best derivation and samples, in the log domain.

In: hyperedges in bottom-up order (all hyperedges into a node before any that has it as a tail) and their log weights
``[examples, hyperedges]``. Out: log Z, and log G = log dZ/dw of every hyperedge (head's outside times tails' insides).
Below the stages. Equations: spec of the parser, section 4. A node without a hyperedge into it is an axiom of weight 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loopwise.compiled.decorators import callee, kernel
from loopwise.graph.structured.kernels.eisner_log import log_add


class HypergraphArrays(NamedTuple):
    """The structure, hyperedges in bottom-up order."""

    head: np.ndarray  # [hyperedges]
    tail_start: np.ndarray  # [hyperedges + 1]
    tails: np.ndarray
    axiom: np.ndarray  # bool [nodes]: no hyperedge leads into it
    incoming_start: np.ndarray  # [nodes + 1], into incoming
    incoming: np.ndarray  # the hyperedges into each node
    root: int


@callee
def _inside(arrays, weights, beta, maximise):
    for node in range(beta.shape[0]):
        beta[node] = 0.0 if arrays.axiom[node] else -np.inf
    for edge in range(weights.shape[0]):
        value = weights[edge]
        for place in range(arrays.tail_start[edge], arrays.tail_start[edge + 1]):
            value += beta[arrays.tails[place]]
        head = arrays.head[edge]
        beta[head] = max(beta[head], value) if maximise else log_add(beta[head], value)


@callee
def _without(arrays, edge, place, beta):
    """Insides of all tails of a hyperedge but the one at ``place``, added up."""
    total = 0.0
    for other in range(arrays.tail_start[edge], arrays.tail_start[edge + 1]):
        if other != place:
            total += beta[arrays.tails[other]]
    return total


@callee
def _outside(arrays, weights, beta, alpha, gradient):
    for node in range(alpha.shape[0]):
        alpha[node] = -np.inf
    alpha[arrays.root] = 0.0
    for edge in range(weights.shape[0] - 1, -1, -1):
        above = alpha[arrays.head[edge]]
        gradient[edge] = above + _without(arrays, edge, -1, beta)
        for place in range(arrays.tail_start[edge], arrays.tail_start[edge + 1]):
            tail = arrays.tails[place]
            alpha[tail] = log_add(alpha[tail], above + weights[edge] + _without(arrays, edge, place, beta))


@kernel
def hypergraph_forward(arrays, weights, log_partition, gradient):
    """Fills ``log_partition`` ``[examples]`` and ``gradient`` ``[examples, hyperedges]``."""
    nodes = arrays.axiom.shape[0]
    beta, alpha = np.empty(nodes), np.empty(nodes)
    for example in range(weights.shape[0]):
        _inside(arrays, weights[example], beta, False)
        _outside(arrays, weights[example], beta, alpha, gradient[example])
        log_partition[example] = beta[arrays.root]


@callee
def _backward_one(arrays, weights, beta, alpha, total_adjoint, seeds, to_beta, to_alpha, adjoint):
    for node in range(beta.shape[0]):
        to_beta[node] = to_alpha[node] = 0.0
    to_beta[arrays.root] = total_adjoint
    for edge in range(weights.shape[0]):
        adjoint[edge] = 0.0
        to_alpha[arrays.head[edge]] += seeds[edge]
        for place in range(arrays.tail_start[edge], arrays.tail_start[edge + 1]):
            to_beta[arrays.tails[place]] += seeds[edge]
    for edge in range(weights.shape[0]):  # bottom-up: the outsides are undone
        head = arrays.head[edge]
        for place in range(arrays.tail_start[edge], arrays.tail_start[edge + 1]):
            tail = arrays.tails[place]
            value = alpha[head] + weights[edge] + _without(arrays, edge, place, beta)
            if value == -np.inf:
                continue
            share = np.exp(value - alpha[tail]) * to_alpha[tail]
            to_alpha[head] += share
            adjoint[edge] += share
            for other in range(arrays.tail_start[edge], arrays.tail_start[edge + 1]):
                if other != place:
                    to_beta[arrays.tails[other]] += share
    for edge in range(weights.shape[0] - 1, -1, -1):  # top-down: the insides are undone
        head = arrays.head[edge]
        value = weights[edge] + _without(arrays, edge, -1, beta)
        if value == -np.inf:
            continue
        share = np.exp(value - beta[head]) * to_beta[head]
        adjoint[edge] += share
        for place in range(arrays.tail_start[edge], arrays.tail_start[edge + 1]):
            to_beta[arrays.tails[place]] += share


@kernel
def hypergraph_backward(arrays, weights, total_adjoint, gradient_adjoint, adjoint):
    """Adjoints of the log weights from those of log Z ``[examples]`` and of log G ``[examples, hyperedges]``.

    Adjoints of logs are multiplied by probabilities only: nothing overflows. Two to three times the forward."""
    nodes = arrays.axiom.shape[0]
    beta, alpha, to_beta, to_alpha = np.empty(nodes), np.empty(nodes), np.empty(nodes), np.empty(nodes)
    gradient = np.empty(weights.shape[1])
    for example in range(weights.shape[0]):
        _inside(arrays, weights[example], beta, False)
        _outside(arrays, weights[example], beta, alpha, gradient)
        _backward_one(
            arrays, weights[example], beta, alpha, total_adjoint[example], gradient_adjoint[example], to_beta,
            to_alpha, adjoint[example],
        )  # fmt: skip


@kernel
def hypergraph_derive(arrays, weights, uniforms, used, scores):
    """Derivations of one example: ``used[samples, hyperedges]`` from ``uniforms[samples, nodes]``, or the best one.

    With no columns in ``uniforms``, the best. ``scores[samples]``: log Z or the best score. Each node is met at most
    once in a derivation that uses no item twice; one that does may need more draws than there are, and reuses them."""
    nodes, draw = arrays.axiom.shape[0], uniforms.shape[1] > 0
    beta, stack = np.empty(nodes), np.empty(arrays.tails.shape[0] + 2, dtype=np.int64)
    _inside(arrays, weights, beta, not draw)
    for sample in range(used.shape[0]):
        scores[sample] = beta[arrays.root]
        if beta[arrays.root] == -np.inf:
            continue
        depth, drawn = 1, 0
        stack[0] = arrays.root
        while depth > 0:
            depth -= 1
            node = stack[depth]
            if arrays.axiom[node]:
                continue
            left = uniforms[sample, drawn % nodes] if draw else 0.0
            drawn += 1
            chosen, top = -1, -np.inf
            for place in range(arrays.incoming_start[node], arrays.incoming_start[node + 1]):
                edge = arrays.incoming[place]
                value = weights[edge] + _without(arrays, edge, -1, beta)
                if draw:
                    share = np.exp(value - beta[node])
                    if share > 0.0 and left >= 0.0:
                        chosen = edge
                    left -= share
                elif value > top:
                    chosen, top = edge, value
            used[sample, chosen] = True
            for place in range(arrays.tail_start[chosen], arrays.tail_start[chosen + 1]):
                stack[depth] = arrays.tails[place]
                depth += 1
