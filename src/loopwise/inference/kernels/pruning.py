"""Compiled propagation of hard zeros: which values of which variables are possible at all.

In: the factors' scopes and which of their cells are possible. Out: possible values. Stage: below inference.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.decorators import kernel


@kernel
def possible_values(factor_start, factor_variables, cardinalities, state_start, possible, sweeps):
    """Generalised arc consistency: a value stays while every factor has a possible cell of possible values
    with it.

    ``possible`` is ``[cells]``, factor after factor. Stopping after ``sweeps`` is sound, only less thorough.
    O(cells) a sweep.
    """
    alive = np.ones(state_start[-1], dtype=np.bool_)
    arity = widest = 1
    for factor in range(len(factor_start) - 1):
        width = 0
        arity = max(arity, factor_start[factor + 1] - factor_start[factor])
        for place in range(factor_start[factor], factor_start[factor + 1]):
            width += cardinalities[factor_variables[place]]
        widest = max(widest, width)
    support, first, values = np.empty(widest, np.bool_), np.empty(arity, np.int64), np.empty(arity, np.int64)
    for _ in range(sweeps):
        changed, cell = False, 0
        for factor in range(len(factor_start) - 1):
            scope = factor_variables[factor_start[factor] : factor_start[factor + 1]]
            cells, width = 1, 0
            for axis in range(len(scope)):
                first[axis] = width
                values[axis] = 0
                width += cardinalities[scope[axis]]
                cells *= cardinalities[scope[axis]]
            support[:width] = False
            for _ in range(cells):
                live = possible[cell]
                for axis in range(len(scope)):
                    live = live and alive[state_start[scope[axis]] + values[axis]]
                if live:
                    for axis in range(len(scope)):
                        support[first[axis] + values[axis]] = True
                cell += 1
                for axis in range(len(scope) - 1, -1, -1):
                    values[axis] += 1
                    if values[axis] < cardinalities[scope[axis]]:
                        break
                    values[axis] = 0
            for axis in range(len(scope)):
                for value in range(cardinalities[scope[axis]]):
                    state = state_start[scope[axis]] + value
                    if alive[state] and not support[first[axis] + value]:
                        alive[state] = False
                        changed = True
        if not changed:
            break
    return alive
