"""A graphical model as files hold it: cardinalities, scopes, tables of potentials.

In: what a reader found, or a user's own tables. Out: a :class:`TableModel`, which every model format
reads and writes. Its :meth:`~TableModel.log_factors` are what ``FactorGraph.from_factors`` takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loopwise.formats.numbers import as_int64
from loopwise.formats.vocabulary import Vocabulary

# NumPy 1 arrays have at most 32. No loss: with two values an axis, such a table would have 2^32 entries.
MAXIMUM_AXES = 32
# What a file leaves out (entries that are 0, values of variables without a factor) still takes memory, at most 128 MiB
# in all: without a bound, a file of a few lines could ask for any amount.
MAXIMUM_OMITTED_ENTRIES = 2**24


class ModelKind(Enum):
    """What the tables of a UAI file are."""

    MARKOV = "MARKOV"  # any non-negative functions
    BAYES = "BAYES"  # one conditional distribution for each variable, which comes last in its scope


@dataclass(frozen=True, eq=False)
class TableModel:
    r"""The distribution :math:`p(x) \propto \prod_\alpha \psi_\alpha(x_\alpha)` as explicit tables.

    Factors are in the file's order. ``tables[f]`` holds potentials, not logarithms, in C order, one axis
    for each variable of ``scopes[f]`` in that order. ``labels[k]`` is what the file calls variable
    ``k`` (0, 1, ... if not given). The constructor stores; :meth:`of` checks.
    """

    cardinalities: NDArray[np.int64]  # [variables]
    scopes: tuple[tuple[int, ...], ...]
    tables: list[NDArray[np.float64]]
    kind: ModelKind = ModelKind.MARKOV
    labels: tuple[int, ...] = ()
    vocabulary: Vocabulary | None = None  # what variables and values are called, where the format says

    def __post_init__(self) -> None:
        if not self.labels:
            object.__setattr__(self, "labels", tuple(range(self.variables)))

    @staticmethod
    def of(
        cardinalities: ArrayLike,
        factors: Sequence[tuple[Sequence[int], ArrayLike]],
        *,
        kind: ModelKind = ModelKind.MARKOV,
        labels: Sequence[int] = (),
        vocabulary: Vocabulary | None = None,
    ) -> TableModel:
        """A checked model from a list of ``(scope, table of potentials)``; tables are copied."""
        model = TableModel(
            as_int64("cardinalities", cardinalities),
            tuple(
                tuple(as_int64(f"the scope of factor {number}", list(scope)).tolist())
                for number, (scope, _) in enumerate(factors)
            ),
            [np.array(table, dtype=np.float64, order="C") for _, table in factors],
            kind,
            tuple(as_int64("labels", list(labels)).tolist()),
            vocabulary,
        )
        check_model(model)
        return model

    @property
    def variables(self) -> int:
        return len(self.cardinalities)

    @property
    def factors(self) -> int:
        return len(self.scopes)

    @property
    def names(self) -> Vocabulary:
        """The vocabulary, or one that calls variables and values by their numbers."""
        return Vocabulary.numbered(self.cardinalities.tolist()) if self.vocabulary is None else self.vocabulary

    def log_factors(self) -> list[tuple[tuple[int, ...], NDArray[np.float64]]]:
        """``(scope, log table)`` of every factor, in order; the logarithm of 0 is -inf. O(cells)."""
        with np.errstate(divide="ignore"):
            # asarray, since the logarithm of a table without axes is a bare number
            return [(scope, np.asarray(np.log(table))) for scope, table in zip(self.scopes, self.tables, strict=True)]

    def __eq__(self, other: object) -> bool:
        """Same variables, scopes, kind, labels and names, and exactly the same numbers."""
        if not isinstance(other, TableModel):
            return NotImplemented
        return (
            np.array_equal(self.cardinalities, other.cardinalities)
            and (self.scopes, self.kind, self.labels) == (other.scopes, other.kind, other.labels)
            and self.vocabulary == other.vocabulary
            and all(np.array_equal(mine, theirs) for mine, theirs in zip(self.tables, other.tables, strict=True))
        )

    def __hash__(self) -> int:
        return hash((self.variables, self.scopes, self.kind, self.labels))

    def __repr__(self) -> str:
        return f"TableModel({self.kind.value}, {self.variables} variables, {self.factors} factors)"


def check_model(model: TableModel) -> None:
    """Raises a ValueError about the first thing in a model that no format could hold. O(cells)."""
    cardinalities = np.asarray(model.cardinalities)
    if cardinalities.ndim != 1:
        raise ValueError(f"cardinalities must be one-dimensional, not of shape {cardinalities.shape}")
    bad = np.flatnonzero(cardinalities < 1)
    if bad.size:
        raise ValueError(f"variable {bad[0]} has cardinality {cardinalities[bad[0]]}; it must be at least 1")
    if len(model.tables) != model.factors:
        raise ValueError(f"the model has {model.factors} scopes but {len(model.tables)} tables; they go in pairs")
    labels = model.labels
    if len(labels) != model.variables or any(a >= b for a, b in zip((-1, *labels), labels, strict=False)):
        raise ValueError(f"labels must be {model.variables} increasing numbers of at least 0, not {list(labels)[:10]}")
    if model.vocabulary is not None:
        model.vocabulary.check_sizes(cardinalities.tolist(), whole=True)
    for factor, (scope, table) in enumerate(zip(model.scopes, model.tables, strict=True)):
        _check_factor(factor, scope, np.asarray(table), cardinalities)


def _check_factor(
    factor: int, scope: tuple[int, ...], table: NDArray[np.float64], cardinalities: NDArray[np.int64]
) -> None:
    for variable in scope:
        if not 0 <= variable < len(cardinalities):
            raise ValueError(
                f"factor {factor} names variable {variable}; the model has variables 0 to {len(cardinalities) - 1}"
            )
    if len(set(scope)) < len(scope):
        raise ValueError(f"factor {factor} repeats a variable in its scope {list(scope)}")
    shape = tuple(int(cardinalities[variable]) for variable in scope)
    if table.shape != shape:
        raise ValueError(
            f"factor {factor} over variables {list(scope)} has a table of shape {table.shape}; "
            f"the variables' cardinalities ask for {shape}"
        )
    fine = (table >= 0) & (table < np.inf)
    if not fine.all():
        place = tuple(int(index) for index in np.argwhere(~fine)[0])
        raise ValueError(
            f"factor {factor} over variables {list(scope)} holds {table[place]} at {list(place)}; "
            "potentials must be finite and not negative"
        )
