"""Every configuration of many small models at once, in plain NumPy: what answers are compared with.

In: cardinalities, scopes, tables for a batch of models on one graph. Out: their log-partition functions, marginals and
maxima, in extended precision. Nothing of the library is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

Array = np.ndarray
FREE = -1


@dataclass(frozen=True)
class Shape:
    """A graph: the cardinality of each variable, and groups of factors of one shape, each a list of scopes."""

    name: str
    cardinalities: tuple[int, ...]
    groups: Mapping[str, Sequence[tuple[int, ...]]]

    def table_shape(self, group: str) -> tuple[int, ...]:
        return tuple(self.cardinalities[variable] for variable in self.groups[group][0])

    @property
    def factors(self) -> int:
        return sum(len(scopes) for scopes in self.groups.values())

    @cached_property
    def configurations(self) -> Array:
        """``[configurations, variables]``."""
        return np.stack([axis.reshape(-1) for axis in np.indices(self.cardinalities)], axis=1)

    @cached_property
    def indicators(self) -> Array:
        """Which states a configuration has, ``[configurations, states]``."""
        columns = [
            self.configurations[:, [variable]] == np.arange(size) for variable, size in enumerate(self.cardinalities)
        ]
        return np.concatenate(columns, axis=1).astype(np.float64)

    @cached_property
    def cells(self) -> dict[str, Array]:
        """For each group, the cell of each factor that a configuration chooses, ``[factors, configurations]``."""
        found = {}
        for name, scopes in self.groups.items():
            sizes = self.table_shape(name)
            rows = [
                np.ravel_multi_index(tuple(self.configurations[:, scope].T), sizes)
                if scope
                else np.zeros(len(self.configurations), dtype=np.int64)
                for scope in (list(each) for each in scopes)
            ]
            found[name] = np.stack(rows)
        return found

    @cached_property
    def is_forest(self) -> bool:
        """Whether no two ways lead from one variable to another through factors of two variables and more."""
        parent = list(range(len(self.cardinalities)))

        def root(variable: int) -> int:
            while parent[variable] != variable:
                variable = parent[variable]
            return variable

        for scopes in self.groups.values():
            for scope in scopes:
                if len(scope) > 1:
                    roots = [root(variable) for variable in scope]
                    if len(set(roots)) < len(roots):
                        return False
                    for other in roots[1:]:
                        parent[other] = roots[0]
        return True


class Truth:
    """All configurations of a batch of models: ``tables[group]`` is ``[batch, factors, *shape]``, log-potentials.

    ``evidence`` is ``[batch, variables]``, FREE where nothing is observed.
    """

    def __init__(self, shape: Shape, tables: Mapping[str, Array], evidence: Array) -> None:
        self.shape, self.tables = shape, tables
        batch = len(evidence)
        scores = np.zeros((batch, len(shape.configurations)), dtype=np.longdouble)
        for name, cells in shape.cells.items():
            flat = tables[name].astype(np.longdouble).reshape(batch, len(cells), -1)
            for row, chosen in enumerate(cells):
                scores += flat[:, row][:, chosen]
        self.unclamped = scores
        known = evidence[:, None, :]
        agrees = ((known == FREE) | (known == shape.configurations[None])).all(-1)
        self.scores = np.where(agrees, scores, -np.inf)
        self.best = self.scores.max(1)
        self.possible = np.isfinite(self.best)
        self.scale = np.array([_scale(tables, example) for example in range(batch)])

    def at(self, temperature: float = 1.0) -> tuple[Array, Array]:
        """``t log Z(theta / t)`` ``[batch]`` and the marginals of all variables ``[batch, states]``."""
        powers = np.exp((self.scores - self.best[:, None]) / temperature)
        total = powers.sum(1)
        log_z = self.best + temperature * np.log(total)
        return log_z, (powers / total[:, None]).astype(np.float64) @ self.shape.indicators

    def factor(self, name: str, temperature: float = 1.0) -> Array:
        """Marginals of the factors of a group, ``[batch, factors, cells]``."""
        powers = np.exp((self.scores - self.best[:, None]) / temperature)
        shares = (powers / powers.sum(1)[:, None]).astype(np.float64)
        size = int(np.prod(self.shape.table_shape(name)))
        rows = [shares @ (chosen[:, None] == np.arange(size)) for chosen in self.shape.cells[name]]
        return np.stack(rows, axis=1)

    def score_of(self, assignment: Array) -> Array:
        """The score of one configuration a model, ``[batch]``."""
        place = np.ravel_multi_index(tuple(assignment.T), self.shape.cardinalities)
        return self.unclamped[np.arange(len(place)), place]


def _scale(tables: Mapping[str, Array], example: int) -> float:
    """The largest finite number in the tables of a model."""
    largest = 0.0
    for table in tables.values():
        finite = table[example][np.isfinite(table[example])]
        largest = max(largest, float(np.abs(finite).max(initial=0.0)))
    return largest


def _chain(name: str, size: int, length: int) -> Shape:
    pairs = [(place, place + 1) for place in range(length - 1)]
    return Shape(name, (size,) * length, {"unary": [(place,) for place in range(length)], "pair": pairs})


def _ring(name: str, size: int, length: int) -> Shape:
    pairs = [(place, (place + 1) % length) for place in range(length)]
    return Shape(name, (size,) * length, {"unary": [(place,) for place in range(length)], "pair": pairs})


# Few graphs, so that few kernels are compiled: every cardinality 1 to 7, every arity 0 to 5, forests and loops.
SHAPES: tuple[Shape, ...] = (
    _chain("chain of 2", 2, 7),
    _chain("chain of 3", 3, 6),
    _chain("chain of 4", 4, 5),
    _chain("chain of 5", 5, 4),
    _chain("chain of 7", 7, 3),
    Shape(
        "mixed tree",
        (2, 3, 1, 4, 2, 3, 6),
        {
            "constant": [()],
            "one": [(0,), (4,)],
            "three": [(1,)],
            "ab": [(0, 1), (4, 5)],
            "single": [(1, 2)],
            "bd": [(1, 3)],
            "de": [(3, 4)],
            "cg": [(2, 6)],
        },
    ),
    Shape("triples", (2, 3, 2, 2, 3), {"triple": [(0, 1, 2)], "other": [(2, 3, 4)], "one": [(0,), (3,)]}),
    Shape("four at once", (2, 2, 3, 2, 2), {"four": [(0, 1, 2, 3)], "pair": [(3, 4)], "one": [(4,)]}),
    Shape("five at once", (2, 2, 2, 2, 2, 3), {"five": [(0, 1, 2, 3, 4)], "pair": [(4, 5)], "one": [(0,), (2,)]}),
    Shape("apart", (2, 2, 3, 3, 5, 1), {"pair": [(0, 1)], "pairs": [(2, 3)], "one": [(0,), (1,)]}),
    Shape(
        "complete of 2",
        (2,) * 5,
        {"unary": [(v,) for v in range(5)], "pair": [(a, b) for a in range(5) for b in range(a + 1, 5)]},
    ),
    Shape(
        "grid of 3",
        (3,) * 6,
        {"unary": [(v,) for v in range(6)], "pair": [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]},
    ),
    _ring("ring of 4", 4, 4),
    _ring("ring of 5", 5, 3),
    _ring("ring of 7", 7, 3),
    Shape("twice", (3, 3, 2), {"pair": [(0, 1), (0, 1), (1, 0)], "other": [(1, 2)], "one": [(2,)]}),
    Shape(
        "tangle",
        (2, 3, 2, 4, 1, 2),
        {
            "ab": [(0, 1)],
            "pair": [(0, 2), (2, 5), (0, 5)],
            "abc": [(0, 1, 2)],
            "cd": [(2, 3)],
            "df": [(3, 5)],
            "four": [(0, 1, 2, 5)],
            "single": [(4, 5)],
            "one": [(0,)],
        },
    ),
    Shape(
        "five in a loop", (2,) * 6, {"five": [(0, 1, 2, 3, 4)], "triple": [(1, 2, 5)], "pair": [(0, 5)], "one": [(5,)]}
    ),
)
