"""Traversals of the factor graph in compiled code. In: edge lists. Out: an order of variables, a forest's depth."""

from __future__ import annotations

import numpy as np

from loopwise.compiled.decorators import kernel


@kernel
def breadth_first(variable_edge_start, variable_edges, edge_factor, factor_edge_start, edge_variable):
    """Variables in breadth-first order, component after component, each from its lowest-numbered variable; and the
    number of each variable's component."""
    variables = variable_edge_start.shape[0] - 1
    order = np.empty(variables, dtype=np.int64)
    component = np.full(variables, -1, dtype=np.int64)
    factor_seen = np.zeros(factor_edge_start.shape[0] - 1, dtype=np.bool_)
    tail, found = 0, -1
    for root in range(variables):
        if component[root] >= 0:
            continue
        found += 1
        component[root] = found
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
                    if component[other] < 0:
                        component[other] = found
                        order[tail] = other
                        tail += 1
    return order, component


@kernel
def longest_paths(order, variable_edge_start, variable_edges, edge_factor, factor_edge_start):
    """Factors on the longest path of a forest whose topmost variable is each one, ``[variables]``; these are
    visited in ``order``, parents before children.

    From the leaves to the roots: the longest arm below each variable, and the two longest that each factor joins.
    """
    variables, factors = variable_edge_start.shape[0] - 1, factor_edge_start.shape[0] - 1
    arm = np.zeros(variables, dtype=np.int64)
    first, second = np.full(factors, -1, dtype=np.int64), np.full(factors, -1, dtype=np.int64)
    members = np.zeros(factors, dtype=np.int64)  # that were seen: the last one to come is the parent
    longest = np.zeros(variables, dtype=np.int64)
    for at in range(variables - 1, -1, -1):
        variable, begin, end = order[at], variable_edge_start[order[at]], variable_edge_start[order[at] + 1]
        for place in range(begin, end):
            factor = edge_factor[variable_edges[place]]
            arity = factor_edge_start[factor + 1] - factor_edge_start[factor]
            if arity == 1:  # structured: it has something to say, which others hear a sweep later
                first[factor] = 0
            if members[factor] == arity - 1:
                joined = max(arm[variable] + first[factor] + 1, first[factor] + second[factor] + 1)
                longest[variable] = max(longest[variable], joined)
                arm[variable] = max(arm[variable], first[factor] + 1)
        for place in range(begin, end):
            factor = edge_factor[variable_edges[place]]
            members[factor] += 1
            if arm[variable] > first[factor]:
                first[factor], second[factor] = arm[variable], first[factor]
            elif arm[variable] > second[factor]:
                second[factor] = arm[variable]
    return longest


@kernel
def decode_in_order(
    order, state_start, variable_edge_start, variable_edges, edge_variable, edge_group, groups, cell_values, tables,
    marginals,
):  # fmt: skip
    """Fixes variables in ``order``: the value of the highest product of max-marginals given those fixed before.

    ``groups``: arity, cells, first edge, first table cell, first row of ``cell_values`` of each group;
    ``cell_values[cell * arity + position]`` is the value of that member in that cell.
    """
    examples, variables = marginals.shape[0], state_start.shape[0] - 1
    result = np.empty((examples, variables), dtype=np.int64)
    largest = 1
    for variable in range(variables):
        largest = max(largest, state_start[variable + 1] - state_start[variable])
    scores, given = np.empty(largest), np.empty(largest)
    for example in range(examples):
        chosen = np.full(variables, -1, dtype=np.int64)
        for variable in order:
            first = state_start[variable]
            states = state_start[variable + 1] - first
            for value in range(states):
                scores[value] = 0.0
            anchored = False
            for place in range(variable_edge_start[variable], variable_edge_start[variable + 1]):
                edge = variable_edges[place]
                arity, cells, edge_start, table_start, slots = groups[edge_group[edge]]
                member, mine = (edge - edge_start) // arity, (edge - edge_start) % arity
                members = edge - mine
                known = False
                for position in range(arity):
                    known = known or chosen[edge_variable[members + position]] >= 0
                if not known:
                    continue
                anchored = True
                for value in range(states):
                    given[value] = 0.0
                for cell in range(cells):
                    fits = True
                    for position in range(arity):
                        fixed = chosen[edge_variable[members + position]]
                        fits = fits and (fixed < 0 or fixed == cell_values[slots + cell * arity + position])
                    if fits:
                        value = cell_values[slots + cell * arity + mine]
                        given[value] = max(given[value], tables[example, table_start + member * cells + cell])
                for value in range(states):
                    scores[value] += np.log(given[value]) if given[value] > 0 else -np.inf
            best = 0
            for value in range(states):
                if not anchored:
                    scores[value] = marginals[example, first + value]
                if scores[value] > scores[best]:
                    best = value
            chosen[variable] = best
        result[example] = chosen
    return result
