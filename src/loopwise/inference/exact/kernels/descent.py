"""Deciding a junction tree's variables from the roots down: a best configuration, or samples.

In: :class:`Ports`, log tables and the messages towards the roots. Out: configurations. Stage: below
inference."""

from __future__ import annotations

import numpy as np

from loopwise.compiled.decorators import callee, kernel


@callee
def _cell(ports, base, first, factors, own, theta, up):
    """Sum of a clique's tables at one cell."""
    total = 0.0
    for port in range(first, factors):
        total += theta[base[port - first]]
    for port in range(factors, own):
        total += up[base[port - first]]
    return total


@callee
def _enter(ports, clique, first, own, base, values):
    """Offsets of a clique's ports at the values its separator has, eliminated variables at 0; and the own
    cell.
    """
    begin, end = ports.clique_start[clique], ports.clique_start[clique + 1]
    for port in range(first, own + 1):
        offset = ports.offset[port]
        for axis in range(ports.eliminated[clique], end - begin):
            offset += values[axis] * ports.stride[ports.stride_start[port] + axis]
        base[port - first] = offset


@callee
def _step(ports, clique, first, own, base, values):
    """Moves the eliminated variables on to their next values, last axis fastest; False after the last."""
    begin = ports.clique_start[clique]
    axis = ports.eliminated[clique] - 1
    while axis >= 0:
        cells = ports.size[begin + axis]
        values[axis] += 1
        if values[axis] < cells:
            for port in range(first, own):
                base[port - first] += ports.stride[ports.stride_start[port] + axis]
            return True
        values[axis] = 0
        for port in range(first, own):
            base[port - first] -= (cells - 1) * ports.stride[ports.stride_start[port] + axis]
        axis -= 1
    return False


@kernel
def best_configuration(ports, sizes, members, theta, up, assignment):
    """A configuration of largest score, from max-product messages: each clique's best given its separator.

    Every clique is decided jointly and given what its parent decided, so ties cannot be mixed.
    """
    values, best = (
        np.zeros(len(assignment) + 1, dtype=np.int64),
        np.zeros(len(assignment) + 1, dtype=np.int64),
    )
    base = np.empty(sizes[2], dtype=np.int64)
    for clique in range(len(ports.eliminated) - 1, -1, -1):
        first, gone = ports.port_start[clique], ports.eliminated[clique]
        factors, own = first + ports.factors[clique], ports.port_start[clique + 1] - gone - 1
        begin, end = ports.clique_start[clique], ports.clique_start[clique + 1]
        for axis in range(end - begin):
            values[axis] = assignment[members[begin + axis]] if axis >= gone else 0
        _enter(ports, clique, first, own, base, values)
        top, more = -np.inf, True
        best[:gone] = 0
        while more:
            score = _cell(ports, base, first, factors, own, theta, up)
            if score > top:
                top = score
                best[:gone] = values[:gone]
            more = _step(ports, clique, first, own, base, values)
        for axis in range(gone):
            assignment[members[begin + axis]] = best[axis]


@callee
def _draw_clique(ports, members, clique, theta, up, norm, cells, samples, order, uniform):
    """Values of a clique's eliminated variables for the samples ``order``, which agree on its separator.

    ``uniform`` ascends along ``order``, so one walk over the cells serves all. ``cells``: where its ports stand at the
    values of its variables, these values, and room for them.
    """
    base, values, last = cells
    first, gone = ports.port_start[clique], ports.eliminated[clique]
    factors, own = first + ports.factors[clique], ports.port_start[clique + 1] - gone - 1
    begin = ports.clique_start[clique]
    running, more, number = 0.0, True, 0
    while more and number < len(order):
        mass = np.exp(_cell(ports, base, first, factors, own, theta, up) - norm)
        if mass > 0:
            running += mass
            last[:gone] = values[:gone]
            while number < len(order) and uniform[order[number]] < running:
                for axis in range(gone):
                    samples[order[number], members[begin + axis]] = values[axis]
                number += 1
        more = _step(ports, clique, first, own, base, values)
    for rest in range(number, len(order)):  # rounding left these beyond the end: the last possible cell
        for axis in range(gone):
            samples[order[rest], members[begin + axis]] = last[axis]


@kernel
def draw(ports, sizes, members, theta, up, shift, generator, samples):
    """Independent joint samples ``[count, variables]``: each clique given its separator, root first.

    O(count * cells eliminated from a clique * its ports); a root's cells are walked once for all samples.
    """
    count = len(samples)
    values, last = (
        np.zeros(samples.shape[1] + 1, dtype=np.int64),
        np.zeros(samples.shape[1] + 1, dtype=np.int64),
    )
    base = np.empty(sizes[2], dtype=np.int64)
    uniform = np.empty(count)
    for clique in range(len(ports.eliminated) - 1, -1, -1):
        first, gone = ports.port_start[clique], ports.eliminated[clique]
        own = ports.port_start[clique + 1] - gone - 1
        begin, end = ports.clique_start[clique], ports.clique_start[clique + 1]
        for number in range(count):
            uniform[number] = generator.random()
        root = end - begin == gone
        order = np.argsort(uniform) if root else np.arange(count)
        for number in range(min(1, count) if root else count):
            chosen = order if root else order[number : number + 1]
            for axis in range(end - begin):
                values[axis] = samples[chosen[0], members[begin + axis]] if axis >= gone else 0
            _enter(ports, clique, first, own, base, values)
            norm = shift[clique] + up[base[own - first]]
            _draw_clique(ports, members, clique, theta, up, norm, (base, values, last), samples, chosen, uniform)
