"""Sweeps of chosen messages, message by message, in plain Python; and the cost of a run, added up one by one."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

import loopwise as lw


def chosen_beliefs(
    graph: lw.FactorGraph, tables: dict[str, NDArray[np.float64]], sent: NDArray[np.bool_]
) -> list[NDArray[np.float64]]:
    """Beliefs of each variable after sweeps in which only edges with ``sent[sweep, edge]`` send. One example."""
    unary = [np.zeros(size) for size in graph.cardinalities]
    factors = []
    for group in graph.groups:
        for row, scope in enumerate(group.scopes):
            table = tables[group.name][row]
            if group.arity == 1:
                unary[scope[0]] = unary[scope[0]] + table
            else:
                factors.append((scope, table))
    edges = [(factor, place) for factor, (scope, _) in enumerate(factors) for place in range(len(scope))]
    said = {edge: np.zeros(graph.cardinalities[factors[edge[0]][0][edge[1]]]) for edge in edges}

    def heard(factor: int, place: int) -> NDArray[np.float64]:
        variable, total = factors[factor][0][place], unary[factors[factor][0][place]].copy()
        for other, where in edges:
            if other != factor and factors[other][0][where] == variable:
                total += said[other, where]
        return total

    for chosen in sent:
        fresh = {}
        for number, (factor, place) in enumerate(edges):
            if not chosen[number]:
                continue
            scope, table = factors[factor]
            out = np.zeros(table.shape[place])
            for cell in itertools.product(*map(range, table.shape)):
                others = sum(heard(factor, p)[cell[p]] for p in range(len(scope)) if p != place)
                out[cell[place]] += math.exp(table[cell] + others)
            fresh[factor, place] = np.log(out / out.sum())
        said.update(fresh)
    found = []
    for variable, logs in enumerate(unary):
        total = logs + sum(said[edge] for edge in edges if factors[edge[0]][0][edge[1]] == variable)
        found.append(np.exp(total - total.max()) / np.exp(total - total.max()).sum())
    return found
