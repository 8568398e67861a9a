"""Compiled local search for a joint assignment of largest score.

In: a factor graph as flat arrays whose zeros are *softened* (a finite penalty that outweighs every difference of
scores, see ``method.softened``), an assignment. Out: a better one, in place. Below the stages.
With softened zeros one number orders assignments: fewer forbidden cells first, then the score.

Moves, from small to large: the best value of one variable (ICM, Besag 1986), the best values of two variables of one
factor, the best values of all variables of a random tree given the rest (Hamze and de Freitas 2004), and kicks: some
neighbouring variables set at random, repaired by trees, taken back if that leaves a worse assignment.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loopwise.compiled.decorators import callee, kernel
from loopwise.inference.gibbs.kernels.gibbs import first_cell, next_uniform, random_start, score_values, seed_stream

REPAIRS = 6  # trees at most after a kick
LARGEST_KICK = 24  # variables
ROUNDING = 1e-9  # gains and losses of less are none
PAIR_PASSES = 20  # over all pairs at most: each pass but the last improves the score


class MoveWorkspace(NamedTuple):
    """Memory of the moves: nothing in it outlives a move but the log of changes."""

    scores: np.ndarray  # [largest cardinality]
    others: np.ndarray  # [largest cardinality]
    queue: np.ndarray  # int64 [variables + 1]: variables to visit
    waiting: np.ndarray  # bool [variables]: whether it is in the queue
    place: np.ndarray  # int64 [variables]: number in the tree, -1 outside
    order: np.ndarray  # int64 [variables]: the tree's variables as they joined
    link: np.ndarray  # int64 [variables]: edge through which each joined, -1 for the root
    above: np.ndarray  # int64 [variables]: edge of the variable that it joined
    totals: np.ndarray  # [states]: what the branches of a variable add to its values
    back: np.ndarray  # int64 [variables, largest cardinality]: best value for each value above
    changed: np.ndarray  # int64 [log]: variables changed since the log was begun
    before: np.ndarray  # int64 [log]: their values before


@kernel
def workspace(arrays):
    """A :class:`MoveWorkspace` for one model."""
    variables = arrays.state_start.shape[0] - 1
    largest = 1
    for variable in range(variables):
        largest = max(largest, arrays.state_start[variable + 1] - arrays.state_start[variable])
    log = LARGEST_KICK + (REPAIRS + 1) * variables
    return MoveWorkspace(
        np.empty(largest), np.empty(largest), np.empty(variables + 1, dtype=np.int64),
        np.zeros(variables, dtype=np.bool_), np.full(variables, -1, dtype=np.int64),
        np.empty(variables, dtype=np.int64), np.empty(variables, dtype=np.int64), np.empty(variables, dtype=np.int64),
        np.zeros(arrays.state_start[variables]), np.empty((variables, largest), dtype=np.int64),
        np.empty(log, dtype=np.int64), np.empty(log, dtype=np.int64),
    )  # fmt: skip


@kernel
def total_score(arrays, example, values):
    """The score of an assignment: its cells in order, with the rounding errors carried along (Neumaier 1974)."""
    total, lost = 0.0, 0.0
    row = example if arrays.unary.shape[0] > 1 else 0
    variables = values.shape[0]
    for term in range(variables + arrays.table_start.shape[0]):
        if term < variables:
            cell = arrays.unary[row, arrays.state_start[term] + values[term]]
        else:
            factor = term - variables
            place = arrays.table_start[factor] + example * arrays.table_step[factor]
            for edge in range(arrays.factor_edge_start[factor], arrays.factor_edge_start[factor + 1]):
                place += arrays.edge_stride[edge] * values[arrays.edge_variable[edge]]
            cell = arrays.tables[place]
        if cell == -np.inf:
            return -np.inf
        larger = total + cell
        lost += (total - larger) + cell if abs(total) >= abs(cell) else (cell - larger) + total
        total = larger
    return total + lost


# ------------------------------------------------------------------------------------------------ one and two


@callee
def _better(new, old):
    """Better by more than rounding, so that no sequence of improvements can turn in a circle."""
    return new > old + 1e-12 * abs(old)


@kernel
def climb(arrays, example, values, work):
    """ICM to a local optimum: no single variable can be improved."""
    variables = values.shape[0]
    for variable in range(variables):
        work.queue[variable] = variable
        work.waiting[variable] = True
    head, filled, room = 0, variables, work.queue.shape[0]
    while filled:
        variable = work.queue[head]
        head = head + 1 if head + 1 < room else 0
        filled -= 1
        work.waiting[variable] = False
        score_values(arrays, example, variable, values, work.scores)
        best = values[variable]
        for value in range(arrays.state_start[variable + 1] - arrays.state_start[variable]):
            if _better(work.scores[value], work.scores[best]):
                best = value
        if best == values[variable]:
            continue
        values[variable] = best
        for place in range(arrays.variable_edge_start[variable], arrays.variable_edge_start[variable + 1]):
            factor = arrays.edge_factor[arrays.variable_edges[place]]
            for edge in range(arrays.factor_edge_start[factor], arrays.factor_edge_start[factor + 1]):
                other = arrays.edge_variable[edge]
                if not work.waiting[other] and other != variable:
                    work.waiting[other] = True
                    work.queue[(head + filled) % room] = other
                    filled += 1


@callee
def _apart(arrays, example, variable, other, values):
    """The score of ``variable``'s value over its factors without ``other``."""
    row = example if arrays.unary.shape[0] > 1 else 0
    total = arrays.unary[row, arrays.state_start[variable] + values[variable]]
    for place in range(arrays.variable_edge_start[variable], arrays.variable_edge_start[variable + 1]):
        edge = arrays.variable_edges[place]
        factor, shared = arrays.edge_factor[edge], False
        for neighbour in range(arrays.factor_edge_start[factor], arrays.factor_edge_start[factor + 1]):
            shared = shared or arrays.edge_variable[neighbour] == other
        if not shared:
            cell = first_cell(arrays, example, edge, values)
            total += arrays.tables[cell + arrays.edge_stride[edge] * values[variable]]
    return total


@callee
def _improve_pair(arrays, example, first, second, values, work):
    """The best joint values of two variables; whether they were better than before."""
    size = arrays.state_start[second + 1] - arrays.state_start[second]
    old_first, old_second = values[first], values[second]
    best_first, best_second = old_first, old_second
    score_values(arrays, example, second, values, work.others)
    best = _apart(arrays, example, first, second, values) + work.others[old_second]
    for value in range(arrays.state_start[first + 1] - arrays.state_start[first]):
        values[first] = value
        score_values(arrays, example, second, values, work.others)
        apart = _apart(arrays, example, first, second, values)
        for other in range(size):
            if _better(apart + work.others[other], best):
                best, best_first, best_second = apart + work.others[other], value, other
    values[first], values[second] = best_first, best_second
    return best_first != old_first or best_second != old_second


@kernel
def climb_pairs(arrays, example, values, work):
    """ICM and pair moves in turn, until neither improves (or for :data:`PAIR_PASSES` passes); ends with ICM."""
    climb(arrays, example, values, work)
    for _ in range(PAIR_PASSES):
        moved = False
        for factor in range(arrays.table_start.shape[0]):
            begin, end = arrays.factor_edge_start[factor], arrays.factor_edge_start[factor + 1]
            for one in range(begin, end):
                for two in range(one + 1, end):
                    first, second = arrays.edge_variable[one], arrays.edge_variable[two]
                    moved = _improve_pair(arrays, example, first, second, values, work) or moved
        if not moved:
            return
        climb(arrays, example, values, work)


# ------------------------------------------------------------------------------------------------------ trees


@callee
def _joins(arrays, variable, work):
    """How many variables of the tree ``variable`` shares a factor with (2: or more), and the edges of the last."""
    links, mine, theirs = 0, -1, -1
    for place in range(arrays.variable_edge_start[variable], arrays.variable_edge_start[variable + 1]):
        edge = arrays.variable_edges[place]
        factor = arrays.edge_factor[edge]
        for other in range(arrays.factor_edge_start[factor], arrays.factor_edge_start[factor + 1]):
            if other != edge and work.place[arrays.edge_variable[other]] >= 0:
                links, mine, theirs = links + 1, edge, other
                if links > 1:
                    return links, mine, theirs
    return links, mine, theirs


@callee
def _grow(arrays, root, limit, generator, work):
    """A random tree of at most ``limit`` variables: each shares one factor with one that joined before, no other.
    Returns its size; ``queue`` holds all that were looked at, so that marks can be taken back."""
    seen, open_, size = 1, 0, 0  # queue[open_:seen] is the frontier
    work.queue[0] = root
    work.waiting[root] = True
    while open_ < seen and size < limit:
        chosen = open_ + np.int64(next_uniform(generator) * (seen - open_))
        variable = work.queue[chosen]
        work.queue[chosen] = work.queue[open_]
        work.queue[open_] = variable
        open_ += 1
        links, mine, theirs = _joins(arrays, variable, work)
        if links > 1:
            continue
        work.order[size] = variable
        work.link[size] = mine
        work.above[size] = theirs
        work.place[variable] = size
        size += 1
        for place in range(arrays.variable_edge_start[variable], arrays.variable_edge_start[variable + 1]):
            factor = arrays.edge_factor[arrays.variable_edges[place]]
            for edge in range(arrays.factor_edge_start[factor], arrays.factor_edge_start[factor + 1]):
                other = arrays.edge_variable[edge]
                if not work.waiting[other]:
                    work.waiting[other] = True
                    work.queue[seen] = other
                    seen += 1
    for place in range(seen):
        work.waiting[work.queue[place]] = False
    return size


@callee
def _local_scores(arrays, example, variable, values, work):
    """Scores of a tree variable's values over the factors that no other variable of the tree is in."""
    start, row = arrays.state_start[variable], example if arrays.unary.shape[0] > 1 else 0
    size = arrays.state_start[variable + 1] - start
    for value in range(size):
        work.scores[value] = arrays.unary[row, start + value]
    for place in range(arrays.variable_edge_start[variable], arrays.variable_edge_start[variable + 1]):
        edge = arrays.variable_edges[place]
        factor, alone = arrays.edge_factor[edge], True
        for other in range(arrays.factor_edge_start[factor], arrays.factor_edge_start[factor + 1]):
            alone = alone and (other == edge or work.place[arrays.edge_variable[other]] < 0)
        if alone:
            cell, stride = first_cell(arrays, example, edge, values), arrays.edge_stride[edge]
            for value in range(size):
                work.scores[value] += arrays.tables[cell + value * stride]
    return size


@callee
def _assign(values, variable, value, work, logged):
    """Sets a variable and notes what it was; the new length of the log."""
    if values[variable] == value:
        return logged
    work.changed[logged] = variable
    work.before[logged] = values[variable]
    values[variable] = value
    return logged + 1


@kernel
def improve_tree(arrays, example, root, limit, values, generator, work, logged):
    """The best values of a random tree around ``root`` given the rest, by dynamic programming; equally good values are
    chosen between at random. Returns what was gained (never negative but for rounding) and the length of the log."""
    size = _grow(arrays, root, limit, generator, work)
    for place in range(size):
        start = arrays.state_start[work.order[place]]
        for state in range(start, arrays.state_start[work.order[place] + 1]):
            work.totals[state] = 0.0
    before = after = 0.0
    for place in range(size - 1, -1, -1):
        variable = work.order[place]
        start, states = arrays.state_start[variable], _local_scores(arrays, example, variable, values, work)
        before += work.scores[values[variable]]
        offset = np.int64(next_uniform(generator) * states)
        for value in range(states):
            work.scores[value] += work.totals[start + value]
        edge, upper = work.link[place], work.above[place]
        parents, base, stride, step = 1, 0, 0, 0
        if edge >= 0:
            parent = arrays.edge_variable[upper]
            parents = arrays.state_start[parent + 1] - arrays.state_start[parent]
            stride, step = arrays.edge_stride[edge], arrays.edge_stride[upper]
            base = first_cell(arrays, example, edge, values) - step * values[parent]
            before += arrays.tables[base + stride * values[variable] + step * values[parent]]
        for above in range(parents):
            best, top = 0, -np.inf
            for turn in range(states):
                value = turn + offset if turn + offset < states else turn + offset - states
                score = work.scores[value]
                if edge >= 0:
                    score += arrays.tables[base + stride * value + step * above]
                if score > top:
                    best, top = value, score
            work.back[place, above] = best
            if edge >= 0:
                work.totals[arrays.state_start[parent] + above] += top
            else:
                after = top
    for place in range(size):
        above = values[arrays.edge_variable[work.above[place]]] if work.link[place] >= 0 else 0
        logged = _assign(values, work.order[place], work.back[place, above], work, logged)
    for place in range(size):
        work.place[work.order[place]] = -1
    return after - before, logged


# ----------------------------------------------------------------------------------------------- from many starts


@callee
def _kick(arrays, example, root, count, values, generator, work):
    """Sets ``count`` variables along a walk from ``root`` to random values; what was gained, the length of the log."""
    gained, logged, variable = 0.0, 0, root
    for _ in range(count):
        size = arrays.state_start[variable + 1] - arrays.state_start[variable]
        score_values(arrays, example, variable, values, work.scores)
        value = np.int64(next_uniform(generator) * size)
        gained += work.scores[value] - work.scores[values[variable]]
        logged = _assign(values, variable, value, work, logged)
        begin, end = arrays.variable_edge_start[variable], arrays.variable_edge_start[variable + 1]
        if begin == end:
            break
        factor = arrays.edge_factor[arrays.variable_edges[begin + np.int64(next_uniform(generator) * (end - begin))]]
        begin, end = arrays.factor_edge_start[factor], arrays.factor_edge_start[factor + 1]
        variable = arrays.edge_variable[begin + np.int64(next_uniform(generator) * (end - begin))]
    return gained, logged


@callee
def _kicked(arrays, example, values, generator, work):
    """One kick and its repair; what was gained, the length of the log."""
    variables = values.shape[0]
    root = np.int64(next_uniform(generator) * variables)
    count = np.int64(np.exp(next_uniform(generator) * np.log(LARGEST_KICK)))
    gained, logged = _kick(arrays, example, root, count, values, generator, work)
    idle = 0
    for _ in range(REPAIRS):
        limit = np.int64(np.exp(next_uniform(generator) * np.log(variables + 1.0))) + 2 * count
        gain, logged = improve_tree(arrays, example, root, limit, values, generator, work, logged)
        gained += gain
        idle = 0 if gain > ROUNDING else idle + 1
        if idle == 2 and gained >= 0:
            break
    return gained, logged


@kernel
def kick_and_repair(arrays, example, steps, tolerance, values, best, generator, work):
    """``steps`` kicks (iterated local search) from ``values``; the best assignment met goes into ``best``.

    A kick that loses is taken back, unless it loses less than ``tolerance`` times a random number of mean 1: so the
    walk leaves optima that no kick leaves uphill (Martin, Otto and Felten 1991).
    """
    best[:] = values
    if values.shape[0] == 0:
        return
    below = 0.0  # how much less than ``best`` the current assignment has
    for _ in range(steps):
        gained, logged = _kicked(arrays, example, values, generator, work)
        if gained < -ROUNDING and gained <= tolerance * np.log(1.0 - next_uniform(generator)):
            for place in range(logged - 1, -1, -1):
                values[work.changed[place]] = work.before[place]
            continue
        if gained < -ROUNDING and below == 0.0:  # leaves the best: it is what the log leads back to
            best[:] = values
            for place in range(logged - 1, -1, -1):
                best[work.changed[place]] = work.before[place]
        below -= gained
        if below <= ROUNDING:
            below = 0.0
    if below == 0.0:
        best[:] = values


@kernel
def combine(arrays, example, values, other, work):
    """Takes over from ``other`` what is better there, part by part; returns what was gained.

    Variables in which two assignments differ fall into connected parts that no factor joins, so each part can be
    chosen for itself (Houdayer 2001): the result is at least as good as both.
    """
    gained = 0.0
    for root in range(values.shape[0]):
        if values[root] == other[root] or work.place[root] >= 0:
            continue
        work.queue[0], work.place[root], size, done, gain = root, 0, 1, 0, 0.0
        while done < size:
            variable = work.queue[done]
            done += 1
            for place in range(arrays.variable_edge_start[variable], arrays.variable_edge_start[variable + 1]):
                factor = arrays.edge_factor[arrays.variable_edges[place]]
                for edge in range(arrays.factor_edge_start[factor], arrays.factor_edge_start[factor + 1]):
                    near = arrays.edge_variable[edge]
                    if values[near] != other[near] and work.place[near] < 0:
                        work.place[near] = 0
                        work.queue[size] = near
                        size += 1
        for place in range(size):
            variable = work.queue[place]
            score_values(arrays, example, variable, values, work.scores)
            gain += work.scores[other[variable]] - work.scores[values[variable]]
            work.before[place] = values[variable]
            values[variable] = other[variable]
        if gain > ROUNDING:
            gained += gain
        else:
            for place in range(size):
                values[work.queue[place]] = work.before[place]
    for variable in range(values.shape[0]):
        work.place[variable] = -1
    return gained


@kernel
def random_restarts(hard, soft, example, first, count, seed, best, work):
    """ICM from ``count`` random starts (streams ``first`` and up of ``seed``); improves ``best`` and returns its
    softened score. ``hard`` has the zeros, of which starts keep to those of single variables."""
    generator, values = np.empty(4, dtype=np.uint64), np.empty_like(best)
    top = total_score(soft, example, best)
    for stream in range(first, first + count):
        seed_stream(generator, seed, stream)
        random_start(hard, example, values, generator)
        climb(soft, example, values, work)
        score = total_score(soft, example, values)
        if score > top:
            top = score
            best[:] = values
    return top


@kernel
def finish_decodings(hard, soft, starts, restarts, seed, first, step, best):
    """Every ``step``-th example from ``first``: ICM and pairs from each of ``starts`` [starts, examples, variables],
    the best into ``best``; where that breaks a zero, as many random restarts and kicks as ``restarts``."""
    work, generator = workspace(soft), np.empty(4, dtype=np.uint64)
    values = np.empty(best.shape[1], dtype=np.int64)
    for example in range(first, best.shape[0], step):
        top = -np.inf
        for start in range(starts.shape[0]):
            values[:] = starts[start, example]
            climb_pairs(soft, example, values, work)
            score = total_score(soft, example, values)
            if start == 0 or score > top:
                top = score
                best[example] = values
        if total_score(hard, example, best[example]) > -np.inf:
            continue
        random_restarts(hard, soft, example, example * restarts, restarts, seed, best[example], work)
        seed_stream(generator, seed, -1 - example)
        for _ in range(restarts):
            if total_score(hard, example, best[example]) > -np.inf:
                break
            values[:] = best[example]
            kick_and_repair(soft, example, 100, 0.0, values, best[example], generator, work)
        climb_pairs(soft, example, best[example], work)
