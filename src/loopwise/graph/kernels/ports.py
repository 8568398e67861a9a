"""A junction tree as kernels read it: which tables each clique reads and writes, and where.

In: cliques and the scopes of factors. Out: :class:`Ports`. Stage: below inference.

A *port* is a table that a clique reads or writes (a factor, a child's separator, its own separator, one
variable): it has an offset and a stride for each axis of the clique."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.arrays import copied, filled
from loopwise.compiled.decorators import kernel


class Ports(NamedTuple):
    """A junction tree as kernels read it; cliques come children first, and so do their separators' cells.

    The ports of a clique come in this order: its factors, its children's separators, its own separator, the
    variables it eliminates."""

    size: Any  # [members]: cardinality of each axis of each clique
    clique_start: Any  # [cliques + 1], into size
    eliminated: Any  # [cliques]: leading axes that the clique eliminates
    port_start: Any  # [cliques + 1]
    factors: Any  # [cliques]: ports that are factors
    offset: Any  # [ports]: first cell of the port's table, in the flat array of its kind
    child: Any  # [ports]: the clique whose separator it is (also its own), -1 for factors, else the variable
    stride_start: Any  # [ports + 1]
    stride: Any  # [sum of axes over ports]
    separator_start: Any  # [cliques + 1]: where each separator's cells begin


@kernel
def connect(members, clique_start, eliminated, parent, clique_of, position, cardinalities, state_start, placed):
    """Assigns each factor to the clique that eliminates its first variable and lists all :class:`Ports`.

    ``placed``: where the variables of each factor begin, those variables, and its first cell."""
    factor_start, factor_variables, factor_offset = placed
    cliques, factors = len(parent), len(factor_start) - 1
    home = np.empty(factors, dtype=np.int64)
    count = np.zeros((cliques, 2), dtype=np.int64)  # factors, children
    for factor in range(factors):
        first = factor_variables[factor_start[factor]]
        for place in range(factor_start[factor] + 1, factor_start[factor + 1]):
            other = factor_variables[place]
            if cardinalities[other] > 1 and (cardinalities[first] == 1 or position[other] < position[first]):
                first = other
        home[factor] = clique_of[first]
        count[home[factor], 0] += 1
    for clique in range(cliques):
        if parent[clique] >= 0:
            count[parent[clique], 1] += 1
    port_start = np.zeros(cliques + 1, dtype=np.int64)
    separator_start = np.zeros(cliques + 1, dtype=np.int64)
    for clique in range(cliques):
        port_start[clique + 1] = port_start[clique] + count[clique, 0] + count[clique, 1] + 1 + eliminated[clique]
        cells = 1
        for axis in range(clique_start[clique] + eliminated[clique], clique_start[clique + 1]):
            cells *= cardinalities[members[axis]]
        separator_start[clique + 1] = separator_start[clique] + cells
    ports = port_start[cliques]
    child, offset = filled(ports, -1), np.empty(ports, dtype=np.int64)
    source = filled(ports, -1)
    cursor = copied(port_start, cliques)
    for factor in range(factors):
        source[cursor[home[factor]]] = factor
        offset[cursor[home[factor]]] = factor_offset[factor]
        cursor[home[factor]] += 1
    for clique in range(cliques):
        above = parent[clique]
        if above >= 0:
            child[cursor[above]] = clique
            offset[cursor[above]] = separator_start[clique]
            cursor[above] += 1
    stride_start = np.zeros(ports + 1, dtype=np.int64)
    for clique in range(cliques):
        for port in range(port_start[clique], port_start[clique + 1]):
            stride_start[port + 1] = stride_start[port] + clique_start[clique + 1] - clique_start[clique]
    stride = np.zeros(stride_start[ports], dtype=np.int64)
    axis_of = filled(len(cardinalities), -1)
    size = np.empty(len(members), dtype=np.int64)
    for clique in range(cliques):
        begin = clique_start[clique]
        for axis in range(begin, clique_start[clique + 1]):
            axis_of[members[axis]] = axis - begin
            size[axis] = cardinalities[members[axis]]
        own = port_start[clique + 1] - eliminated[clique] - 1
        child[own] = clique
        offset[own] = separator_start[clique]
        for port in range(port_start[clique], own + 1):
            factor, step = source[port], 1
            if factor >= 0:
                for place in range(factor_start[factor + 1] - 1, factor_start[factor] - 1, -1):
                    variable = factor_variables[place]
                    if cardinalities[variable] > 1:  # variables of one value join nothing and are not in the clique
                        stride[stride_start[port] + axis_of[variable]] = step
                    step *= cardinalities[variable]
            else:
                other = child[port]
                for place in range(clique_start[other + 1] - 1, clique_start[other] + eliminated[other] - 1, -1):
                    variable = members[place]
                    stride[stride_start[port] + axis_of[variable]] = step
                    step *= cardinalities[variable]
        for index in range(eliminated[clique]):
            port = own + 1 + index
            child[port] = members[begin + index]
            offset[port] = state_start[members[begin + index]]
            stride[stride_start[port] + index] = 1
    return Ports(size, clique_start, eliminated, port_start, copied(count[:, 0], cliques), offset, child, stride_start,
                 stride, separator_start)  # fmt: skip
