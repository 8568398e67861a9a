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
from loopwise.apps.table.rows import CountedRows
from loopwise.graph.evidence import FREE

Floats = NDArray[np.float64]
Scope = tuple[int, ...]

CELLS = 20_000  # of a table with two parents at most
LOOKED_AT = 20_000  # rows are enough to choose parents by
NEWTON, STEEPEST = 12, 5.0  # steps to the slope of an ordered variable, and its bound


@dataclass(frozen=True)
class CountSmoothing:
    r"""How far counts are believed: :math:`p(v\mid c)\propto p(v)\,\frac{n_{vc}+k}{n_c\,p(v)+k}`.

    :math:`k` rows are added to what was seen and to what chance would show, so that neither a rare value nor a rare
    class makes a strong case out of a row or two (DuMouchel 1999). ``first``: :math:`k` for a variable given its first
    parent; ``second``: for two parents, with :math:`p(v\mid p_1)` in place of :math:`p(v)`; infinite: there is
    no second parent.

    ``power``: :math:`p(v\mid p)^{a}\,p(v)^{1-a}`, with a sum of 1, is used instead of :math:`p(v\mid p)`. Columns that
    say the same are counted twice by naive Bayes; a power below 1 takes that back, while a missing variable that
    nothing hangs on still says nothing.
    """

    first: float = 1.0
    second: float = 8.0
    power: float = 1.0

    def scopes(self, parents: Sequence[Scope]) -> list[Scope]:
        """The factors of a network as far as it is listened to."""
        return [scope[:2] for scope in parents] if np.isinf(self.second) else list(parents)


def network(rows: CountedRows, sizes: Sequence[int], outputs: Sequence[int]) -> list[Scope]:
    """For each variable ``(variable, *parents)``; outputs come first, and a variable after its parents."""
    inputs = [place for place in range(len(sizes)) if place not in set(outputs)]
    rows = some(rows)
    shared = corrected(mutual_information(rows.values, sizes, rows.counts), rows, sizes)
    if not outputs:
        return _rooted(shared, inputs)
    found = _rooted(shared, list(outputs))
    first = {place: outputs[int(shared[place, list(outputs)].argmax())] for place in inputs}
    second: dict[int, list[tuple[float, int]]] = {place: [] for place in inputs}
    for output in outputs:
        mine = [place for place in inputs if first[place] == output]
        given = conditional_information(rows, sizes, output)
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


def some(rows: CountedRows) -> CountedRows:
    """Enough rows to choose factors by, from all parts of a table."""
    return rows[:: -(-len(rows) // LOOKED_AT)]


def corrected(shared: Floats, rows: CountedRows, sizes: Sequence[int], states: int = 1) -> Floats:
    """Mutual information less what as many rows of independent variables have on average (Miller 1955)."""
    degrees = np.asarray(sizes, dtype=np.float64) - 1.0
    known = (rows.values != FREE).astype(np.float64)
    seen = np.maximum(known.T @ (rows.counts[:, None] * known), 1.0)
    return np.asarray(shared - states * np.outer(degrees, degrees) / (2.0 * seen))


def conditional_information(rows: CountedRows, sizes: Sequence[int], given: int) -> Floats:
    """Corrected mutual information of each pair given a variable, over the rows that know it."""
    total = np.zeros((len(sizes), len(sizes)))
    known = rows[rows.values[:, given] != FREE]
    for value in range(sizes[given]):
        own = known[known.values[:, given] == value]
        if len(own):
            total += own.total / known.total * mutual_information(own.values, sizes, own.counts)
    return corrected(total, known, sizes, sizes[given])


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
    scopes: Sequence[Scope],
    rows: CountedRows,
    sizes: Sequence[int],
    smoothing: CountSmoothing,
    ordered: Sequence[bool] = (),
) -> list[Floats]:
    """The logarithm of each variable's probability given its parents, shaped like its scope.

    ``ordered``: of each variable, whether its values are in an order, as those of numbers are.
    """
    whole = list(ordered) or [False] * len(sizes)
    return [np.log(_conditional(scope, rows, sizes, smoothing, whole[scope[0]])) for scope in scopes]


def counts(scope: Scope, rows: CountedRows, sizes: Sequence[int]) -> Floats:
    """How many rows have each configuration of a scope, of those that know all of it."""
    shape = tuple(sizes[place] for place in scope)
    own = rows.values[:, list(scope)]
    known = (own != FREE).all(axis=1)
    cells = np.ravel_multi_index(tuple(own[known].T), shape)
    found: Floats = np.bincount(cells, rows.counts[known], int(np.prod(shape))).astype(np.float64)
    return found.reshape(shape)


def positions(size: int) -> Floats:
    """Where the values of an ordered variable stand: equal steps, with mean 0 and variance 1."""
    place: Floats = np.linspace(-1.0, 1.0, size) if size > 1 else np.zeros(size)
    spread = float(np.sqrt(np.mean(place**2)))
    found: Floats = place / (spread or 1.0)
    return found


def tilted(shares: Floats, seen: Floats) -> Floats:
    r""":math:`p(v\mid c)\propto p(v)\,e^{w_c z_v}` of an ordered variable, ``[values, classes]``.

    ``shares`` are :math:`p(v)`, ``seen`` counts of values in each class, :math:`z` the positions of values; :math:`w_c`
    has most posterior probability under a normal prior (Newton's method).

    >>> tilted(np.full(3, 1 / 3), np.array([[9.0, 0.0], [1.0, 1.0], [0.0, 9.0]])).round(2).tolist()
    [[0.82, 0.03], [0.15, 0.15], [0.03, 0.82]]
    """
    place = positions(len(shares))[:, None]
    weight, wanted, rows = np.zeros(seen.shape[1]), (place * seen).sum(axis=0), seen.sum(axis=0)
    for _ in range(NEWTON):
        found = shares[:, None] * np.exp(place * weight)
        found = found / found.sum(axis=0)
        mean = (place * found).sum(axis=0)
        variance = ((place - mean) ** 2 * found).sum(axis=0)
        step = (wanted - rows * mean - weight) / (rows * variance + 1.0)
        weight = np.clip(weight + np.clip(step, -1.0, 1.0), -STEEPEST, STEEPEST)
    found = shares[:, None] * np.exp(place * weight)
    return np.asarray(found / found.sum(axis=0))


def _conditional(
    scope: Scope, rows: CountedRows, sizes: Sequence[int], smoothing: CountSmoothing, ordered: bool
) -> Floats:
    """Each level leans on the one before, by as many rows as ``smoothing`` says; the first on equal shares, and that of
    an ordered variable and its first parent on :func:`tilted` shares."""
    size = sizes[scope[0]]
    alone = counts(scope[:1], rows, sizes) + 1.0 / size
    found = alone = alone / alone.sum()
    for depth, rows_worth in zip(range(2, len(scope) + 1), (smoothing.first, smoothing.second), strict=False):
        seen = counts(scope[:depth], rows, sizes)
        leaning = tilted(alone, seen) if depth == 2 and ordered else found[..., None]
        lift = (seen + rows_worth) / (seen.sum(axis=0) * leaning + rows_worth)
        found = leaning * lift
        found = found / found.sum(axis=0)
    if smoothing.power != 1.0 and len(scope) > 1:
        found = found**smoothing.power * alone.reshape(size, *[1] * (len(scope) - 1)) ** (1.0 - smoothing.power)
        found = found / found.sum(axis=0)
    return np.asarray(found)
