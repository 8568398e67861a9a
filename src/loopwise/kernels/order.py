"""Traversals of the factor graph in compiled code. In: edge lists. Out: an order of variables."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def breadth_first(variable_edge_start, variable_edges, edge_factor, factor_edge_start, edge_variable):  # type: ignore[no-untyped-def]
    """Variables in breadth-first order, component after component, each from its lowest-numbered variable."""
    variables = variable_edge_start.shape[0] - 1
    order = np.empty(variables, dtype=np.int64)
    seen = np.zeros(variables, dtype=np.bool_)
    factor_seen = np.zeros(factor_edge_start.shape[0] - 1, dtype=np.bool_)
    tail = 0
    for root in range(variables):
        if seen[root]:
            continue
        seen[root] = True
        order[tail] = root
        head = tail
        tail += 1
        while head < tail:
            variable = order[head]
            head += 1
            for place in range(variable_edge_start[variable], variable_edge_start[variable + 1]):
                factor = edge_factor[variable_edges[place]]
                if factor_seen[factor]:
                    continue
                factor_seen[factor] = True
                for edge in range(factor_edge_start[factor], factor_edge_start[factor + 1]):
                    other = edge_variable[edge]
                    if not seen[other]:
                        seen[other] = True
                        order[tail] = other
                        tail += 1
    return order
