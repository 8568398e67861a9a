"""Compiled elimination orders: greedy elimination with incremental fill counts, and the cliques it makes.

In: the graph of variables that share a factor, as flat adjacency lists. Out: an order, the neighbours each
variable had when it was eliminated, and the junction tree of the maximal cliques. Stage: below structure."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.arrays import copied, copy_into, counted, fill, filled
from loopwise.compiled.decorators import callee, kernel

# What the next variable to eliminate should have least of.
FILL, CLIQUE = 0, 1
# What is counted meanwhile.
FREE, MARKED, TOUCHED, LOOKED = 0, 1, 2, 3


class Costs(NamedTuple):
    """Of each variable, were it eliminated next, and what these are made of."""

    fill: Any  # [variables]: weight of the edges that would be added
    bulk: Any  # [variables]: log of the cells of its clique
    weight: Any  # [variables]: an edge weighs the product of those of its ends
    log_size: Any  # [variables]: log cardinality


class Lists(NamedTuple):
    """Where the neighbours of each variable stand in one long array, which is handed on beside: it may have to grow."""

    first: Any  # [variables]
    size: Any  # [variables]
    room: Any  # [variables]


class Marks(NamedTuple):
    """Memory of one elimination."""

    stamp: Any  # [variables]: the number of the mark that was set last
    touched: Any  # [variables]: those whose costs changed
    touch: Any  # [variables]: the elimination that touched it last
    counts: Any  # [4]: room taken in the long array, marks set, variables touched, entries looked at


class Heap(NamedTuple):
    """Variables by their keys, equal ones by ``tie``, the least first."""

    heap: Any  # [variables]
    where: Any  # [variables + 1]: place of each in the heap; last the heap's length
    key: Any  # [variables]
    tie: Any  # [variables]


@kernel
def adjacency(variables, scope_start, scope_variables):
    """Distinct neighbours of each variable: ``start [variables + 1]``, ``neighbours``."""
    factors_of = np.zeros(variables + 1, dtype=np.int64)
    for variable in scope_variables:
        factors_of[variable + 1] += 1
    for variable in range(variables):
        factors_of[variable + 1] += factors_of[variable]
    cursor = copied(factors_of, variables)
    members = np.empty(len(scope_variables), dtype=np.int64)
    for factor in range(len(scope_start) - 1):
        for place in range(scope_start[factor], scope_start[factor + 1]):
            variable = scope_variables[place]
            members[cursor[variable]] = factor
            cursor[variable] += 1
    start = np.zeros(variables + 1, dtype=np.int64)
    stamp = filled(variables, -1)
    neighbours = np.empty(0, dtype=np.int64)
    for write in range(2):  # first count, then write
        position = 0
        fill(stamp, -1)
        for variable in range(variables):
            stamp[variable] = variable
            for place in range(factors_of[variable], factors_of[variable + 1]):
                factor = members[place]
                for inner in range(scope_start[factor], scope_start[factor + 1]):
                    other = scope_variables[inner]
                    if stamp[other] != variable:
                        stamp[other] = variable
                        if write:
                            neighbours[position] = other
                        position += 1
            start[variable + 1] = position
        if not write:
            neighbours = np.empty(position, dtype=np.int64)
    return start, neighbours


@kernel
def initial_fill(start, neighbours, weight):
    """Weight of the pairs of neighbours of each variable that are not adjacent; O(edges^1.5)."""
    variables = len(start) - 1
    fill = np.zeros(variables)
    for v in range(variables):
        total = squares = 0.0
        for place in range(start[v], start[v + 1]):
            w = weight[neighbours[place]]
            total += w
            squares += w * w
        fill[v] = (total * total - squares) / 2
    stamp = filled(variables, -1)
    for v in range(variables):  # each triangle is found once, from its corner of least (degree, number)
        degree = start[v + 1] - start[v]
        for place in range(start[v], start[v + 1]):
            stamp[neighbours[place]] = v
        for place in range(start[v], start[v + 1]):
            a = neighbours[place]
            degree_a = start[a + 1] - start[a]
            if degree_a < degree or (degree_a == degree and a < v):
                continue
            for inner in range(start[a], start[a + 1]):
                b = neighbours[inner]
                degree_b = start[b + 1] - start[b]
                if stamp[b] != v or degree_b < degree_a or (degree_b == degree_a and b < a):
                    continue
                fill[v] -= weight[a] * weight[b]
                fill[a] -= weight[v] * weight[b]
                fill[b] -= weight[v] * weight[a]
    return fill


@callee
def _sift_down(queue, place):
    """Moves the variable at ``place`` down the heap to where it belongs."""
    heap, where, key, tie = queue
    count = where[len(where) - 1]
    vertex = heap[place]
    while True:
        below = 2 * place + 1
        if below >= count:
            break
        child = heap[below]
        if below + 1 < count:
            right = heap[below + 1]
            if key[right] < key[child] or (key[right] == key[child] and tie[right] < tie[child]):
                below += 1
                child = right
        if key[child] < key[vertex] or (key[child] == key[vertex] and tie[child] < tie[vertex]):
            heap[place] = child
            where[child] = place
            place = below
        else:
            break
    heap[place] = vertex
    where[vertex] = place


@callee
def _sift(queue, place):
    """Restores the heap order around ``place`` after its key changed."""
    heap, where, key, tie = queue
    vertex = heap[place]
    while place > 0:
        above = (place - 1) // 2
        other = heap[above]
        if key[vertex] < key[other] or (key[vertex] == key[other] and tie[vertex] < tie[other]):
            heap[place] = other
            where[other] = place
            place = above
        else:
            break
    heap[place] = vertex
    where[vertex] = place
    _sift_down(queue, place)


@callee
def _append(lists, placed, counts, vertex, value):
    """Adds ``value`` to the list of ``vertex``, moving the list to fresh room when it is full; the long array."""
    first, size, room = placed
    if size[vertex] == room[vertex]:
        free, wider = counts[FREE], 2 * room[vertex] + 4
        if free + wider > len(lists):
            longer = np.empty(2 * len(lists) + wider, dtype=lists.dtype)
            copy_into(longer, lists)
            lists = longer
        for place in range(size[vertex]):
            lists[free + place] = lists[first[vertex] + place]
        first[vertex] = free
        room[vertex] = wider
        counts[FREE] += wider
    lists[first[vertex] + size[vertex]] = value
    size[vertex] += 1
    return lists


@callee
def _score(rule, noise, generator, costs, queue, v):
    """Sets the key of a variable from its costs."""
    primary, secondary = (costs.fill[v], costs.bulk[v]) if rule == FILL else (costs.bulk[v], costs.fill[v])
    if noise > 0:
        primary *= 1 + noise * generator.random()
    queue.key[v] = primary
    queue.tie[v] = secondary + 1e-6 * generator.random()


@callee
def _take_out(v, bucket, position, lists, placed, costs, marks):
    """Removes ``v`` from its neighbours' lists: pairs (v, x) that a neighbour was missing are missing no
    longer.
    """
    first, size, _ = placed
    counts = marks.counts
    counts[MARKED] += 1
    counts[TOUCHED] = counts[LOOKED] = 0
    for a in bucket:
        marks.stamp[a] = counts[MARKED]
    for a in bucket:
        missing, found = 0.0, -1
        for place in range(first[a], first[a] + size[a]):
            x = lists[place]
            if x == v:
                found = place
            elif marks.stamp[x] != counts[MARKED]:
                missing += costs.weight[x]
        counts[LOOKED] += size[a]
        size[a] -= 1
        lists[found] = lists[first[a] + size[a]]
        costs.fill[a] -= costs.weight[v] * missing
        costs.bulk[a] -= costs.log_size[v]
        marks.touched[counts[TOUCHED]] = a
        marks.touch[a] = position
        counts[TOUCHED] += 1


@callee
def _join(bucket, position, lists, placed, costs, marks):
    """Joins the variables of ``bucket`` pairwise; the long array of lists.

    A new edge (a, b) is missing no longer among their common neighbours; a now misses the edges from b to
    those of its neighbours that are not b's, and the other way round."""
    fill, bulk, weight, log_size = costs
    first, size, _ = placed
    stamp, touched, touch, counts = marks
    for i in range(len(bucket)):
        a = bucket[i]
        counts[MARKED] += 1
        marked = counts[MARKED]
        sum_a = 0.0
        for place in range(first[a], first[a] + size[a]):
            x = lists[place]
            stamp[x] = marked
            sum_a += weight[x]
        counts[LOOKED] += size[a]
        for b in bucket[i + 1 :]:
            if stamp[b] == marked:
                continue
            product = weight[a] * weight[b]
            common, sum_b = 0.0, 0.0
            for place in range(first[b], first[b] + size[b]):
                x = lists[place]
                sum_b += weight[x]
                if stamp[x] == marked:
                    common += weight[x]
                    fill[x] -= product
                    if touch[x] != position:
                        touch[x] = position
                        touched[counts[TOUCHED]] = x
                        counts[TOUCHED] += 1
            counts[LOOKED] += size[b]
            fill[a] += weight[b] * (sum_a - common)
            fill[b] += weight[a] * (sum_b - common)
            lists = _append(lists, placed, counts, a, b)
            lists = _append(lists, placed, counts, b, a)
            bulk[a] += log_size[b]
            bulk[b] += log_size[a]
            stamp[b] = marked
            sum_a += weight[b]
    return lists


@kernel
def eliminate(start, neighbours, weighed, rule, noise, generator, prefix, limits):
    """Greedy elimination (Kjaerulff 1990): repeatedly removes the variable of least score and joins its
    neighbours.

    ``rule`` FILL scores by the weight of the edges to be added (ties: smallest clique), CLIQUE by the log of
    the clique's cells (ties: fewest edges); equal variables are taken in random order, and ``noise`` scales
    scores by up to 1 + noise. ``weighed``: the fill of each variable, weights and log cardinalities. The
    variables of ``prefix`` go first, in that order. Gives up once a clique has more than ``exp(limits[0])`` cells
    or all have more than ``limits[1]``.

    Returns done, order, bucket start, buckets (the neighbours of each at its elimination), cells, steps of
    work. One step is one adjacency entry looked at: O(sum of squared clique sizes) and more where little fill
    is shared."""
    variables, (fill, weight, log_size) = len(start) - 1, weighed
    size = np.empty(variables, dtype=np.int64)
    for v in range(variables):
        size[v] = start[v + 1] - start[v]
    placed = Lists(copied(start, variables), size, copied(size, variables))
    lists = np.empty(2 * start[variables] + 16, dtype=np.int64)
    copy_into(lists, neighbours)
    costs = Costs(copied(fill, variables), copied(log_size, variables), weight, log_size)
    for v in range(variables):
        for place in range(start[v], start[v + 1]):
            costs.bulk[v] += log_size[neighbours[place]]
    queue = Heap(counted(variables), counted(variables + 1), np.empty(variables), np.empty(variables))
    heap, where = queue.heap, queue.where
    for v in range(variables):
        _score(rule, noise, generator, costs, queue, v)
    for place in range(variables // 2 - 1, -1, -1):
        _sift_down(queue, place)
    marks = Marks(filled(variables, -1), np.empty(variables, dtype=np.int64), filled(variables, -1), filled(4, 0))
    marks.counts[FREE] = start[variables]
    order = np.empty(variables, dtype=np.int64)
    bucket_start = np.zeros(variables + 1, dtype=np.int64)
    buckets = np.empty(len(neighbours) + 16, dtype=np.int64)
    total, work = 0.0, 0
    for position in range(variables):
        if position < len(prefix):
            queue.key[prefix[position]] = -np.inf
            _sift(queue, where[prefix[position]])
        v = heap[0]
        where[variables] -= 1
        last = heap[where[variables]]
        if last != v:
            heap[0] = last
            where[last] = 0
            _sift(queue, 0)
        order[position] = v
        degree = size[v]
        if costs.bulk[v] > limits[0]:
            return False, order, bucket_start, buckets, total, work
        if log_size[v] > 0:
            total += np.exp(costs.bulk[v])
            if total > limits[1]:
                return False, order, bucket_start, buckets, total, work
        begin = bucket_start[position]
        if begin + degree > len(buckets):
            longer = np.empty(2 * len(buckets) + degree, dtype=np.int64)
            copy_into(longer, buckets[:begin])
            buckets = longer
        bucket_start[position + 1] = begin + degree
        for place in range(degree):
            buckets[begin + place] = lists[placed.first[v] + place]
        bucket = buckets[begin : begin + degree]
        _take_out(v, bucket, position, lists, placed, costs, marks)
        lists = _join(bucket, position, lists, placed, costs, marks)
        work += marks.counts[LOOKED]
        for place in range(marks.counts[TOUCHED]):
            x = marks.touched[place]
            _score(rule, noise, generator, costs, queue, x)
            _sift(queue, where[x])
    return True, order, bucket_start, copied(buckets, bucket_start[variables]), total, work


@kernel
def maximal_cliques(order, bucket_start, buckets):
    """The junction tree of an elimination: cliques, children before parents, their axes in elimination order.

    Returns clique of each variable (the one that eliminates it), parent of each clique (-1: root), clique
    start, members (eliminated ones first, then the separator), and how many each clique eliminates."""
    variables = len(order)
    position = np.empty(variables, dtype=np.int64)
    for place in range(variables):
        position[order[place]] = place
    up = filled(variables, -1)  # by position: the neighbour eliminated next
    for place in range(variables):
        nearest = variables
        for inner in range(bucket_start[place], bucket_start[place + 1]):
            nearest = min(nearest, position[buckets[inner]])
        if nearest < variables:
            up[place] = nearest
    head = filled(variables, -1)  # by position: where its clique was begun
    final = np.empty(variables, dtype=np.int64)  # by position of the head: the last variable the clique eliminates
    for place in range(variables):
        if head[place] < 0:
            head[place] = place
        final[head[place]] = place
        above = up[place]
        if above >= 0 and head[above] < 0:
            degree = bucket_start[place + 1] - bucket_start[place]
            if degree == bucket_start[above + 1] - bucket_start[above] + 1:
                head[above] = head[place]  # the clique of `above` lies within this one
    number = filled(variables, -1)  # by position of the head
    cliques = 0
    for place in range(variables):
        if final[head[place]] == place:
            number[head[place]] = cliques
            cliques += 1
    clique_of = np.empty(variables, dtype=np.int64)
    parent = filled(cliques, -1)
    clique_start = np.zeros(cliques + 1, dtype=np.int64)
    eliminated = np.zeros(cliques, dtype=np.int64)
    for place in range(variables):
        clique = number[head[place]]
        clique_of[order[place]] = clique
        eliminated[clique] += 1
        if final[head[place]] == place:
            clique_start[clique + 1] = bucket_start[place + 1] - bucket_start[place]
            if up[place] >= 0:
                parent[clique] = number[head[up[place]]]
    for clique in range(cliques):
        clique_start[clique + 1] += clique_start[clique] + eliminated[clique]
    members = np.empty(clique_start[cliques], dtype=np.int64)
    cursor = copied(clique_start, cliques)
    for place in range(variables):
        clique = number[head[place]]
        members[cursor[clique]] = order[place]
        cursor[clique] += 1
        if final[head[place]] == place:
            # Insertion sort: separators are small.
            for inner in range(bucket_start[place + 1] - bucket_start[place]):
                variable, slot = buckets[bucket_start[place] + inner], cursor[clique] + inner
                while slot > cursor[clique] and position[members[slot - 1]] > position[variable]:
                    members[slot] = members[slot - 1]
                    slot -= 1
                members[slot] = variable
    return clique_of, parent, clique_start, members, eliminated
