"""Compiled naive mean field by coordinate ascent.

In: a factor graph as flat arrays (``FactorArrays``). Out: one distribution a
variable and its evidence lower bound, example by example. Below the stages.

Zero times minus infinity is zero throughout: a forbidden cell counts only if it has positive probability.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.decorators import callee, kernel
from loopwise.inference.gibbs.kernels.gibbs import in_support, next_uniform, random_start, seed_stream, sweep_chain

PERTURBATION = 1e-2  # relative noise of the first, else uniform start: enough to leave a saddle point
WALK_SWEEPS = 200  # of the search for a possible configuration; one that needs more hardly ever succeeds

SOFT, FROM_CONFIGURATION, FAILED = 0, 1, 2  # where the start of an example's result came from


@callee
def _add_pair(arrays, table, edge, other, beliefs, scores):
    """Adds the expectation of a pair table over its other variable to the score of each value."""
    own_start, own_end = _states(arrays, edge)
    first, end = _states(arrays, other)
    for state in range(first, end):
        weight = beliefs[state]
        if weight > 0.0:
            cell = table + (state - first) * arrays.edge_stride[other]
            for value in range(own_end - own_start):
                scores[value] += weight * arrays.tables[cell + value * arrays.edge_stride[edge]]


@callee
def _states(arrays, edge):
    variable = arrays.edge_variable[edge]
    return arrays.state_start[variable], arrays.state_start[variable + 1]


@callee
def advance(arrays, first, end, digits):
    """Next cell in table order (last axis fastest); False after the last one."""
    for edge in range(end - 1, first - 1, -1):
        start, stop = _states(arrays, edge)
        digits[edge - first] += 1
        if digits[edge - first] < stop - start:
            return True
        digits[edge - first] = 0
    return False


@callee
def weight_of(arrays, first, end, skip, beliefs, digits):
    """Probability of the current cell under the beliefs of all members but ``skip``."""
    weight = 1.0
    for edge in range(first, end):
        if edge != skip:
            weight *= beliefs[arrays.state_start[arrays.edge_variable[edge]] + digits[edge - first]]
    return weight


@callee
def _add_any(arrays, table, edge, first, end, beliefs, digits, scores):
    """:func:`_add_pair` for a factor of any arity."""
    cell = table  # digits are all zero, and are so again after the last cell
    while True:
        weight = weight_of(arrays, first, end, edge, beliefs, digits)
        if weight > 0.0:
            scores[digits[edge - first]] += weight * arrays.tables[cell]
        cell += 1
        if not advance(arrays, first, end, digits):
            return


@callee
def visit(arrays, example, variable, beliefs, scores, digits):
    """Sets the belief of ``variable`` to its optimum; the largest change, or -1 if no value is possible."""
    start = arrays.state_start[variable]
    size = arrays.state_start[variable + 1] - start
    row = example if arrays.unary.shape[0] > 1 else 0
    for value in range(size):
        scores[value] = arrays.unary[row, start + value]
    for place in range(arrays.variable_edge_start[variable], arrays.variable_edge_start[variable + 1]):
        edge = arrays.variable_edges[place]
        factor = arrays.edge_factor[edge]
        table = arrays.table_start[factor] + example * arrays.table_step[factor]
        first, end = arrays.factor_edge_start[factor], arrays.factor_edge_start[factor + 1]
        if end - first == 2:
            _add_pair(arrays, table, edge, first + end - 1 - edge, beliefs, scores)
        else:
            _add_any(arrays, table, edge, first, end, beliefs, digits, scores)
    top = -np.inf
    for value in range(size):
        top = max(top, scores[value])
    if top == -np.inf:
        return -1.0
    total = 0.0
    for value in range(size):
        scores[value] = np.exp(scores[value] - top)
        total += scores[value]
    change = 0.0
    for value in range(size):
        belief = scores[value] / total
        change = max(change, abs(belief - beliefs[start + value]))
        beliefs[start + value] = belief
    return change


@callee
def _ascend(arrays, example, beliefs, iterations, tolerance, scores, digits):
    """Sweeps until no change exceeds ``tolerance``; sweeps made (-1: no value possible), last change."""
    residual = np.inf
    for sweep in range(iterations):
        residual = 0.0
        for variable in range(arrays.state_start.shape[0] - 1):
            change = visit(arrays, example, variable, beliefs, scores, digits)
            if change < 0.0:
                return -1, np.inf
            residual = max(residual, change)
        if residual <= tolerance:
            return sweep + 1, residual
    return iterations, residual


@callee
def _lower_bound(arrays, example, beliefs, digits):
    """Expected log-potential plus entropy; minus infinity where a forbidden cell has positive probability."""
    total = 0.0
    row = example if arrays.unary.shape[0] > 1 else 0
    for state in range(beliefs.shape[0]):
        if beliefs[state] > 0.0:
            total += beliefs[state] * (arrays.unary[row, state] - np.log(beliefs[state]))
    for factor in range(arrays.table_start.shape[0]):
        first, end = arrays.factor_edge_start[factor], arrays.factor_edge_start[factor + 1]
        cell = arrays.table_start[factor] + example * arrays.table_step[factor]
        more = True
        while more:
            weight = weight_of(arrays, first, end, -1, beliefs, digits)
            if weight > 0.0:
                total += weight * arrays.tables[cell]
            cell += 1
            more = advance(arrays, first, end, digits)
    return total


@callee
def _soft_start(arrays, example, start, beliefs, generator):
    """Over the values that unaries allow: nearly uniform (start 0), uniform on the simplex (others)."""
    row = example if arrays.unary.shape[0] > 1 else 0
    for variable in range(arrays.state_start.shape[0] - 1):
        first, end = arrays.state_start[variable], arrays.state_start[variable + 1]
        total = 0.0
        for state in range(first, end):
            noise = next_uniform(generator)
            beliefs[state] = 0.0
            if arrays.unary[row, state] > -np.inf:
                beliefs[state] = 1.0 + PERTURBATION * (noise - 0.5) if start == 0 else 1e-300 - np.log1p(-noise)
            total += beliefs[state]
        for state in range(first, end):
            beliefs[state] /= total


@callee
def _configuration_start(arrays, example, beliefs, generator):
    """A point mass on a possible configuration, found by a Gibbs walk; False if the walk found none."""
    variables = arrays.state_start.shape[0] - 1
    values = np.zeros(variables, dtype=np.int64)
    scores, nothing = np.empty(beliefs.shape[0]), np.empty(0)
    random_start(arrays, example, values, generator)
    sweep = 0
    while not in_support(arrays, example, values):
        if sweep == WALK_SWEEPS:
            return False
        sweep_chain(arrays, example, values, generator, scores, nothing, False)
        sweep += 1
    for state in range(beliefs.shape[0]):
        beliefs[state] = 0.0
    for variable in range(variables):
        beliefs[arrays.state_start[variable] + values[variable]] = 1.0
    return True


@callee
def copy_into(source, target):
    for place in range(source.shape[0]):  # a slice assignment would take Numba longer to compile than the rest
        target[place] = source[place]


@callee
def _run_example(arrays, example, options, best, best_start, beliefs, first, generator, scores, digits):
    """Best of the starts in ``best``, where it began in ``best_start``; its bound, sweeps, residual and origin."""
    iterations, tolerance, restarts, seed = options
    bound, sweeps, residual, origin = -np.inf, 0, np.inf, FAILED
    for start in range(restarts):
        seed_stream(generator, seed, (start << 32) + example)  # more restarts leave the first ones as they are
        _soft_start(arrays, example, start, beliefs, generator)
        if start == 0:
            copy_into(beliefs, best)  # what is returned if every start fails, after no sweep
            copy_into(beliefs, best_start)
        for where in range(FAILED):  # a soft start first, and if it fails, one from a configuration
            if where == FROM_CONFIGURATION and not _configuration_start(arrays, example, beliefs, generator):
                break
            copy_into(beliefs, first)
            made, change = _ascend(arrays, example, beliefs, iterations, tolerance, scores, digits)
            if made < 0:
                continue
            value = _lower_bound(arrays, example, beliefs, digits)
            if value > bound:
                bound, sweeps, residual, origin = value, made, change, where
                copy_into(beliefs, best)
                copy_into(first, best_start)
            break
    return bound, sweeps, residual, origin


@callee
def largest_arity(arrays):
    """Of all factors, at least 1."""
    arity = 1
    for factor in range(arrays.table_start.shape[0]):
        arity = max(arity, arrays.factor_edge_start[factor + 1] - arrays.factor_edge_start[factor])
    return arity


@kernel
def run_mean_field(arrays, options, chunk, chunks, beliefs, starts, bounds, sweeps, residuals, origins):
    """Fills ``beliefs`` and the ``starts`` they were reached from, both [examples, states], and, for each example,
    bound, sweeps, residual and origin.

    ``options``: (iterations, tolerance, restarts, seed). Chunk k takes every ``chunks``-th example. Time of a
    sweep: sum over factors of arity^2 x cells (arity x cells for pairs).
    """
    states = beliefs.shape[1]
    scores, digits = np.empty(states), np.zeros(largest_arity(arrays), dtype=np.int64)
    current, first, generator = np.empty(states), np.empty(states), np.empty(4, dtype=np.uint64)
    for example in range(chunk, beliefs.shape[0], chunks):
        best, best_start = beliefs[example], starts[example]
        bounds[example], sweeps[example], residuals[example], origins[example] = _run_example(
            arrays, example, options, best, best_start, current, first, generator, scores, digits
        )
