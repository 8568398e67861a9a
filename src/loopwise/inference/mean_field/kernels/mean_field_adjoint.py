r"""Adjoint of compiled mean field: the sweeps of ``mean_field`` undone, variable by variable.

In: the factor graph, where each run started and ended, adjoints of beliefs. Out: adjoints of log-potentials, example by
example. Below the stages. A visit sets :math:`q_i \propto \exp(s_i)` with scores
:math:`s_i(x) = \theta_i(x) + \sum_\alpha E[\theta_\alpha(x, \cdot)]`; its adjoint is

.. math:: \bar s_i = q_i (\bar q_i - \langle q_i, \bar q_i\rangle), \quad
          \bar\theta_\alpha(x) \mathrel{+}= \bar s_i(x_i) \prod_{j \ne i} q_j(x_j), \quad
          \bar q_j(x_j) \mathrel{+}= \sum_{x_{\alpha \setminus j}} \bar s_i(x_i) \theta_\alpha(x)
          \prod_{k \ne i, j} q_k(x_k), \quad \bar q_i = 0.

A forbidden cell adds nothing to :math:`\bar q_j`: it is reached only through a belief that is 0, whose own score has
adjoint 0 whatever :math:`\bar q_j` is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loopwise.compiled.decorators import callee, kernel
from loopwise.inference.mean_field.kernels.mean_field import advance, copy_into, largest_arity, visit, weight_of


class AdjointArrays(NamedTuple):
    """Where adjoints are added up. What examples share has one copy a chunk, so that threads never write to one place;
    the caller adds the copies."""

    unary: np.ndarray  # float64 [examples, states], or [chunks, states] where examples share it
    tables: np.ndarray  # float64 [cells of all tables and of all copies]
    table_start: np.ndarray  # [factors]
    example_step: np.ndarray  # [factors]: cells from one example's table to the next one's, 0 where shared
    chunk_step: np.ndarray  # [factors]: cells from one chunk's copy to the next one's, 0 where not shared


class AdjointScratch(NamedTuple):
    """What one thread writes to."""

    beliefs: np.ndarray  # [states]
    belief_adjoints: np.ndarray  # [states]
    score_adjoints: np.ndarray  # [states]
    scores: np.ndarray  # [states]
    digits: np.ndarray  # [arity], zero between visits
    products: np.ndarray  # [arity + 1]


@callee
def _new_scratch(arrays, states):
    arity = largest_arity(arrays)
    return AdjointScratch(
        np.empty(states),
        np.empty(states),
        np.empty(states),
        np.empty(states),
        np.zeros(arity, dtype=np.int64),
        np.empty(arity + 1),
    )


@callee
def _score_adjoint(first, end, beliefs, belief_adjoints, score_adjoints):
    """Turns the belief adjoint of the variable of states ``first`` to ``end`` into that of its scores, and clears it;
    the largest of the latter."""
    mean = 0.0
    for state in range(first, end):
        mean += beliefs[state] * belief_adjoints[state]
    largest = 0.0
    for state in range(first, end):
        adjoint = beliefs[state] * (belief_adjoints[state] - mean)
        score_adjoints[state] = adjoint
        belief_adjoints[state] = 0.0
        largest = max(largest, abs(adjoint))
    return largest


@callee
def _axis(arrays, edge):
    """First state and end of the edge's variable, and the stride of its table axis."""
    variable = arrays.edge_variable[edge]
    return arrays.state_start[variable], arrays.state_start[variable + 1], arrays.edge_stride[edge]


@callee
def _spread_pair(table, own, other, tables, score_adjoints, belief_adjoints):
    """Adds to the belief adjoint of the pair's other variable. ``own``, ``other``: first state, end, stride."""
    # Pair routines take no named tuples: a call that is not inlined hands over every field, which costs more than
    # the loop.
    for state in range(own[0], own[1]):
        adjoint = score_adjoints[state]
        cell = table + (state - own[0]) * own[2]
        for neighbour in range(other[0], other[1]):
            value = tables[cell + (neighbour - other[0]) * other[2]]
            belief_adjoints[neighbour] += adjoint * (value if value > -np.inf else 0.0)


@callee
def _spread_any(arrays, table, edge, first, end, scratch):
    """:func:`_spread_pair` for a factor of any arity: products without one member are prefix times suffix."""
    digits, products = scratch.digits, scratch.products
    own_start = arrays.state_start[arrays.edge_variable[edge]]
    cell = table
    more = True
    while more:
        adjoint = scratch.score_adjoints[own_start + digits[edge - first]]
        if adjoint != 0.0 and arrays.tables[cell] > -np.inf:
            products[0] = 1.0
            for other in range(first, end):
                state = arrays.state_start[arrays.edge_variable[other]] + digits[other - first]
                belief = 1.0 if other == edge else scratch.beliefs[state]
                products[other - first + 1] = products[other - first] * belief
            after = adjoint * arrays.tables[cell]
            for other in range(end - 1, first - 1, -1):
                if other != edge:
                    state = arrays.state_start[arrays.edge_variable[other]] + digits[other - first]
                    scratch.belief_adjoints[state] += products[other - first] * after
                    after *= scratch.beliefs[state]
        cell += 1
        more = advance(arrays, first, end, digits)


@callee
def _spread(arrays, example, variable, scratch):
    """Adds to the belief adjoints of all neighbours what the score adjoints of ``variable`` say of them."""
    for place in range(arrays.variable_edge_start[variable], arrays.variable_edge_start[variable + 1]):
        edge = arrays.variable_edges[place]
        factor = arrays.edge_factor[edge]
        table = arrays.table_start[factor] + example * arrays.table_step[factor]
        first, end = arrays.factor_edge_start[factor], arrays.factor_edge_start[factor + 1]
        if end - first == 2:
            own, other = _axis(arrays, edge), _axis(arrays, first + end - 1 - edge)
            _spread_pair(table, own, other, arrays.tables, scratch.score_adjoints, scratch.belief_adjoints)
        else:
            _spread_any(arrays, table, edge, first, end, scratch)


@callee
def _deposit_pair(table, own, other, beliefs, score_adjoints, table_adjoints):
    """Adds to the adjoint of a pair table, which begins at ``table``. ``own``, ``other``: first state, end, stride."""
    for neighbour in range(other[0], other[1]):
        belief = beliefs[neighbour]
        cell = table + (neighbour - other[0]) * other[2]
        for state in range(own[0], own[1]):
            table_adjoints[cell + (state - own[0]) * own[2]] += score_adjoints[state] * belief


@callee
def _deposit_any(arrays, adjoints, cell, edge, first, end, scratch):
    """:func:`_deposit_pair` for a factor of any arity."""
    own_start = arrays.state_start[arrays.edge_variable[edge]]
    more = True
    while more:
        adjoint = scratch.score_adjoints[own_start + scratch.digits[edge - first]]
        if adjoint != 0.0:
            adjoints.tables[cell] += adjoint * weight_of(arrays, first, end, edge, scratch.beliefs, scratch.digits)
        cell += 1
        more = advance(arrays, first, end, scratch.digits)


@callee
def _deposit(arrays, adjoints, chunk, example, variable, scratch):
    """Adds to the adjoints of all tables around ``variable`` what its score adjoints say of them."""
    row = example if arrays.unary.shape[0] > 1 else chunk
    for own in range(arrays.state_start[variable], arrays.state_start[variable + 1]):
        adjoints.unary[row, own] += scratch.score_adjoints[own]
    for place in range(arrays.variable_edge_start[variable], arrays.variable_edge_start[variable + 1]):
        edge = arrays.variable_edges[place]
        factor = arrays.edge_factor[edge]
        cell = adjoints.table_start[factor]
        cell += example * adjoints.example_step[factor] + chunk * adjoints.chunk_step[factor]
        first, end = arrays.factor_edge_start[factor], arrays.factor_edge_start[factor + 1]
        if end - first == 2:
            own, other = _axis(arrays, edge), _axis(arrays, first + end - 1 - edge)
            _deposit_pair(cell, own, other, scratch.beliefs, scratch.score_adjoints, adjoints.tables)
        else:
            _deposit_any(arrays, adjoints, cell, edge, first, end, scratch)


# ----------------------------------------------------------------------------------- the run that happened, undone


@callee
def _undo_sweep(arrays, adjoints, chunk, example, before, scratch):
    """Undoes one sweep, last variable first. Those already undone hold their value of ``before`` again, which is what
    an earlier variable saw of them."""
    for variable in range(arrays.state_start.shape[0] - 2, -1, -1):
        first, end = arrays.state_start[variable], arrays.state_start[variable + 1]
        if _score_adjoint(first, end, scratch.beliefs, scratch.belief_adjoints, scratch.score_adjoints) > 0.0:
            _spread(arrays, example, variable, scratch)
            _deposit(arrays, adjoints, chunk, example, variable, scratch)
        for state in range(first, end):
            scratch.beliefs[state] = before[state]


@callee
def _sweep(arrays, example, beliefs, scratch):
    for variable in range(arrays.state_start.shape[0] - 1):
        visit(arrays, example, variable, beliefs, scratch.scores, scratch.digits)


@callee
def _undo_run(arrays, adjoints, chunk, example, every, sweeps, marks, stretch, scratch):
    """Undoes all sweeps; ``marks[0]`` holds the start and ``scratch`` the end with its adjoint.

    One pass from the start keeps the beliefs before every ``every``-th sweep in ``marks``; then each stretch between
    two of them is run again into ``stretch`` and undone.
    """
    stretches = (sweeps + every - 1) // every
    for number in range(1, stretches):
        copy_into(marks[number - 1], marks[number])
        for _ in range(every):
            _sweep(arrays, example, marks[number], scratch)
    for number in range(stretches - 1, -1, -1):
        length = min(every, sweeps - number * every)
        copy_into(marks[number], stretch[0])
        for step in range(1, length):
            copy_into(stretch[step - 1], stretch[step])
            _sweep(arrays, example, stretch[step], scratch)
        for step in range(length - 1, -1, -1):
            _undo_sweep(arrays, adjoints, chunk, example, stretch[step], scratch)


@kernel
def undo_mean_field(arrays, adjoints, chunk, chunks, every, starts, beliefs, sweeps, belief_adjoints):
    """Adds to ``adjoints`` those of the runs that led from ``starts`` to ``beliefs`` (both [examples, states]), of
    every ``chunks``-th example, beginning with number ``chunk``.

    Time: at most one more run (nearly two where 1 < ``every`` < sweeps) and about two for undoing it. Memory of a
    chunk: (sweeps / ``every`` + ``every``) x states.
    """
    examples, states = beliefs.shape
    most = 0
    for example in range(chunk, examples, chunks):
        most = max(most, sweeps[example])
    scratch = _new_scratch(arrays, states)
    marks, stretch = np.empty(((most + every - 1) // every, states)), np.empty((min(every, most), states))
    for example in range(chunk, examples, chunks):
        if sweeps[example] > 0:
            copy_into(beliefs[example], scratch.beliefs)
            copy_into(belief_adjoints[example], scratch.belief_adjoints)
            copy_into(starts[example], marks[0])
            _undo_run(arrays, adjoints, chunk, example, every, sweeps[example], marks, stretch, scratch)


# ------------------------------------------------------------------------------------------------- a fixed point


@callee
def _solve_example(arrays, example, limits, totals, scratch):
    """Adjoint sweeps at unchanging beliefs, their score adjoints added up in ``totals``; sweeps made, last addition.

    Additions are measured against the largest belief adjoint given: a loss and a thousandth of it are solved alike.
    """
    iterations, tolerance = limits
    scale, change = 0.0, 0.0
    for state in range(totals.shape[0]):
        scale = max(scale, abs(scratch.belief_adjoints[state]))
    if scale == 0.0:
        return 0, 0.0
    for sweep in range(iterations):
        change = 0.0
        for variable in range(arrays.state_start.shape[0] - 2, -1, -1):
            first, end = arrays.state_start[variable], arrays.state_start[variable + 1]
            largest = _score_adjoint(first, end, scratch.beliefs, scratch.belief_adjoints, scratch.score_adjoints)
            if largest > 0.0:
                change = max(change, largest)
                _spread(arrays, example, variable, scratch)
                for state in range(first, end):
                    totals[state] += scratch.score_adjoints[state]
        if change <= tolerance * scale:
            return sweep + 1, change / scale
    return iterations, change / scale


@kernel
def solve_mean_field(arrays, adjoints, chunk, chunks, limits, beliefs, belief_adjoints, sweeps, residuals):
    """Adds to ``adjoints`` those of the fixed points ``beliefs``; fills ``sweeps`` and ``residuals`` for each example
    (of every ``chunks``-th one, beginning with number ``chunk``).

    ``limits``: (adjoint sweeps at most, what the last one may add, relative to the largest belief adjoint). Where
    beliefs stay put, table adjoints are linear in the score adjoints: they are worked out once, from the sum.
    """
    examples, states = beliefs.shape
    scratch, totals = _new_scratch(arrays, states), np.empty(states)
    for example in range(chunk, examples, chunks):
        copy_into(beliefs[example], scratch.beliefs)
        copy_into(belief_adjoints[example], scratch.belief_adjoints)
        for state in range(states):
            totals[state] = 0.0
        sweeps[example], residuals[example] = _solve_example(arrays, example, limits, totals, scratch)
        copy_into(totals, scratch.score_adjoints)
        for variable in range(arrays.state_start.shape[0] - 1):
            _deposit(arrays, adjoints, chunk, example, variable, scratch)
