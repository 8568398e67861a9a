r"""Where training of a table begins: a Bayesian network with closed-form weights.

In: rows as integers. Out: for each variable at most two parents, and log tables :math:`\log\hat p(v\mid
\mathrm{parents})`. Stage: use. With one output this is TAN (Friedman, Geiger & Goldszmidt 1997), or naive Bayes where
the data do not bear more; without any it is the tree of Chow & Liu (1968). Since tables of a variable given its parents
sum to one, a missing variable that nothing hangs on says nothing, exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.table.model import mutual_information
from loopwise.graph.evidence import FREE
from loopwise.graph.factor_graph import Integers

Floats = NDArray[np.float64]
Scope = tuple[int, ...]

CELLS = 20_000  # of a table with two parents at most
LOOKED_AT = 20_000  # rows are enough to choose parents by


@dataclass(frozen=True)
class CountSmoothing:
    r"""Rows' worth of prior in :math:`p(v\mid p_1)` (``first``) and in :math:`p(v\mid p_1, p_2)` (``second``;
    infinite: the second parent is not listened to)."""

    first: float = 1.0
    second: float = 8.0


def network(values: Integers, sizes: Sequence[int], outputs: Sequence[int]) -> list[Scope]:
    """For each variable ``(variable, *parents)``; outputs come first, and a variable after its parents."""
    inputs = [place for place in range(len(sizes)) if place not in set(outputs)]
    values = values[:: -(-len(values) // LOOKED_AT)]
    shared = corrected(mutual_information(values, sizes), values, sizes)
    if not outputs:
        return _rooted(shared, inputs)
    found = _rooted(shared, list(outputs))
    first = {place: outputs[int(shared[place, list(outputs)].argmax())] for place in inputs}
    second: dict[int, list[tuple[float, int]]] = {place: [] for place in inputs}
    for output in outputs:
        mine = [place for place in inputs if first[place] == output]
        given = conditional_information(values, sizes, output)
        for scope in _rooted(given, mine):
            if len(scope) > 1:
                second[scope[0]].append((float(given[scope[0], scope[1]]), scope[1]))
        for place in mine:
            second[place] += [(float(given[place, other]), other) for other in outputs if other != output]
    for place in _in_order(inputs, second):
        best = max(second[place], default=(0.0, -1))
        small = best[0] > 0 and sizes[place] * sizes[first[place]] * sizes[best[1]] <= CELLS
        found.append((place, first[place], best[1]) if small else (place, first[place]))
    return found


def corrected(shared: Floats, values: Integers, sizes: Sequence[int], states: int = 1) -> Floats:
    """Mutual information less what as many rows of independent variables have on average (Miller 1955)."""
    degrees = np.asarray(sizes, dtype=np.float64) - 1.0
    known = (values != FREE).astype(np.float64)
    rows = np.maximum(known.T @ known, 1.0)
    return np.asarray(shared - states * np.outer(degrees, degrees) / (2.0 * rows))


def conditional_information(values: Integers, sizes: Sequence[int], given: int) -> Floats:
    """Corrected mutual information of each pair given a variable, over the rows that know it."""
    total = np.zeros((len(sizes), len(sizes)))
    known = values[:, given] != FREE
    for value in range(sizes[given]):
        rows = values[known & (values[:, given] == value)]
        if len(rows):
            total += len(rows) / max(int(known.sum()), 1) * mutual_information(rows, sizes)
    return corrected(total, values[known], sizes, sizes[given])


def _rooted(weight: Floats, places: Sequence[int]) -> list[Scope]:
    """The forest of largest positive weight, each tree hung up at its best joined variable: parents before children."""
    tree = _forest(weight, places)
    found: list[Scope] = []
    left = set(places)
    while left:
        root = max(left, key=lambda place: (sum(weight[place, other] for other in tree[place]), -place))
        queue: list[Scope] = [(root,)]
        while queue:
            scope = queue.pop(0)
            if scope[0] not in left:
                continue
            left.discard(scope[0])
            found.append(scope)
            queue += [(other, scope[0]) for other in tree[scope[0]] if other in left]
    return found


def _forest(weight: Floats, places: Sequence[int]) -> dict[int, list[int]]:
    """Neighbours in the forest of largest total weight, edges of positive weight only."""
    from scipy.sparse.csgraph import minimum_spanning_tree

    neighbours: dict[int, list[int]] = {place: [] for place in places}
    inner = weight[np.ix_(places, places)]
    lengths = np.where(np.triu(inner, 1) > 0, inner.max(initial=0.0) + 1.0 - inner, 0.0)
    tree = minimum_spanning_tree(lengths).tocoo()
    for one, other in zip(tree.row.tolist(), tree.col.tolist(), strict=True):
        neighbours[places[one]].append(places[other])
        neighbours[places[other]].append(places[one])
    return neighbours


def _in_order(inputs: Sequence[int], second: dict[int, list[tuple[float, int]]]) -> list[int]:
    """Inputs, each after the input that is its parent."""
    done: list[int] = []
    seen: set[int] = set()

    def add(place: int) -> None:
        if place in seen:
            return
        seen.add(place)
        for _, parent in second[place]:
            if parent in second:
                add(parent)
        done.append(place)

    for place in inputs:
        add(place)
    return done


def log_tables(
    scopes: Sequence[Scope], values: Integers, sizes: Sequence[int], smoothing: CountSmoothing
) -> list[Floats]:
    """The logarithm of each variable's probability given its parents, shaped like its scope."""
    return [np.log(_conditional(scope, values, sizes, smoothing)) for scope in scopes]


def counts(scope: Scope, values: Integers, sizes: Sequence[int]) -> Floats:
    """How many rows have each configuration of a scope, of those that know all of it."""
    shape = tuple(sizes[place] for place in scope)
    known = (values[:, list(scope)] != FREE).all(axis=1)
    cells = np.ravel_multi_index(tuple(values[known][:, list(scope)].T), shape)
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape).astype(np.float64)


def _conditional(scope: Scope, values: Integers, sizes: Sequence[int], smoothing: CountSmoothing) -> Floats:
    """Each level leans on the one before, by as many rows as ``smoothing`` says; the first on equal shares."""
    size = sizes[scope[0]]
    alone = counts(scope[:1], values, sizes) + 1.0 / size
    found = alone / alone.sum()
    for depth, strength in zip(range(2, len(scope) + 1), (smoothing.first, smoothing.second), strict=False):
        seen = counts(scope[:depth], values, sizes)
        if np.isinf(strength):
            found = np.broadcast_to(found[..., None], seen.shape)
            continue
        found = (seen + strength * found[..., None]) / (seen.sum(axis=0) + strength)
    return np.asarray(found)
