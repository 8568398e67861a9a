"""A table as the model sees it: columns as variables with few values, the columns of ``y`` as integers, and back.

In: tables of numbers and texts, labels of any kind, some of them missing. Out: :class:`TableColumns`, :class:`Answers`.
Stage: use. Numbers are cut into intervals, text has a value for each label; -1 is a missing value (NaN, None, empty
text). Messages use the words that scikit-learn's checks look for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.estimator import as_array, column_names
from loopwise.apps.inputs import as_inputs, is_sparse
from loopwise.formats.coding import (
    KINDS,
    Column,
    Numbers,
    Texts,
    as_text,
    as_texts,
    check_bins,
    check_finite,
    column_of,
    is_missing,
)
from loopwise.formats.errors import listed, quoted, shortened
from loopwise.graph.evidence import FREE
from loopwise.graph.factor_graph import Integers
from loopwise.learn.files.fields import FieldError, Record


@dataclass(frozen=True, eq=False)
class TableColumns:
    """The input columns, in order."""

    names: tuple[str, ...]
    columns: tuple[Column, ...]

    @staticmethod
    def of(table: NDArray[Any], names: Sequence[str], bins: int) -> TableColumns:
        """What the columns of a checked table (:func:`as_table`) look like."""
        check_bins(bins)
        found = [column_of(name, table[:, place].tolist(), bins) for place, name in enumerate(names)]
        return TableColumns(tuple(names), tuple(found))

    def codes(self, table: NDArray[Any]) -> Integers:
        """``[rows, columns]``, :data:`~loopwise.graph.FREE` where a value is missing."""
        return np.stack([self._codes(place, table[:, place]) for place in range(len(self.columns))], axis=1)

    @property
    def labels(self) -> tuple[tuple[str, ...], ...]:
        """What the values of each column are called."""
        return tuple(column.labels for column in self.columns)

    def _codes(self, place: int, cells: NDArray[Any]) -> Integers:
        column = self.columns[place]
        if isinstance(column, Texts):
            return column.codes(as_texts(cells.tolist()))
        numbers = column.numbers(cells.tolist())
        if numbers is None:
            text = next(cell for cell in cells.tolist() if column.numbers([cell]) is None)
            raise ValueError(
                f"column {quoted(self.names[place])} holds the text {quoted(as_text(text))}, in training it held "
                f"{column.kind}; give NaN if it is missing"
            )
        check_finite(self.names[place], cells.tolist(), numbers)
        return column.codes(numbers)


def described_column(column: Column) -> dict[str, Any]:
    """A column as JSON, as files keep it."""
    cuts = column.cuts.tolist() if isinstance(column, Numbers) else None
    return {"labels": list(column.labels), "kind": column.kind, "cuts": cuts, "cut": column.cut}


def column_of_file(told: Record) -> Column:
    """The column that :func:`described_column` told of; files of before kinds were kept have numbers and texts."""
    labels = told.texts("labels")
    if "cuts" not in told or told.raw("cuts") is None:
        return Texts(labels)
    cuts = np.array(told.items("cuts", Record.number), dtype=np.float64)
    if len(cuts) + 1 != len(labels) or (np.diff(cuts) < 0).any():
        raise FieldError(told.name("cuts"), f"must be {len(labels) - 1} rising numbers, for {len(labels)} intervals")
    kind = told.text("kind") if "kind" in told else Numbers.kind
    if kind not in KINDS:
        raise FieldError(told.name("kind"), f"must be one of {', '.join(KINDS)}, not {quoted(kind)}")
    return KINDS[kind](cuts, labels, told.flag("cut") if "cut" in told else False)


def as_table(given: Any) -> NDArray[Any]:
    """A table ``[rows, columns]``: float64 where all cells are numbers, else of objects."""
    if is_sparse(given):
        raise TypeError("Sparse data was passed, but a table of columns must be dense: call X.toarray()")
    array = as_array(given)
    if array.dtype.kind in "biufc":
        dense: NDArray[Any] = as_inputs(array, largest=np.finfo(np.float64).max)  # intervals take any number
        return dense
    cells = np.array(given, dtype=object) if array.dtype.kind in "US" else array.astype(object)
    as_inputs(np.zeros(cells.shape))  # its checks of the shape
    return cells


@dataclass(frozen=True, eq=False)
class Answers:
    """``classes[j][v]`` is what value ``v`` of output ``j`` stands for.

    ``flat``: labels came as one column without a second axis, and go back so.
    """

    names: tuple[str, ...]
    classes: tuple[NDArray[Any], ...]
    flat: bool

    @staticmethod
    def of(given: Any) -> tuple[Answers, Integers]:
        """The classes of training labels, and the labels as integers ``[rows, outputs]``."""
        array = as_labels(given)
        table = array[:, None] if array.ndim == 1 else array
        names = column_names(given) or _own_name(given) or tuple(f"y{place}" for place in range(table.shape[1]))
        classes = tuple(_classes(name, table[:, place]) for place, name in enumerate(names))
        answers = Answers(names, classes, array.ndim == 1)
        return answers, answers.encode(given)

    def encode(self, given: Any) -> Integers:
        """Labels as integers, :data:`~loopwise.graph.FREE` where there is none; one that is no class is an error."""
        array = as_labels(given)
        table = array[:, None] if array.ndim == 1 else array
        if table.shape[1] != len(self.classes):
            raise ValueError(f"y has {table.shape[1]} columns of labels; give {len(self.classes)}, as in training")
        return np.stack([self._encoded(place, table[:, place]) for place in range(len(self.classes))], axis=1)

    def _encoded(self, place: int, column: NDArray[Any]) -> Integers:
        known, classes = ~missing_labels(column), self.classes[place]
        found = np.full(len(column), FREE, dtype=np.int64)
        if column.dtype.kind != "O" and classes.dtype.kind in "biuf":
            nearest = np.minimum(np.searchsorted(classes, column[known]), len(classes) - 1)
            found[known] = np.where(classes[nearest] == column[known], nearest, FREE)
        else:
            number = {label: value for value, label in enumerate(classes.tolist())}
            found[known] = [number.get(label, FREE) for label in column[known].tolist()]
        strange = np.flatnonzero(known & (found == FREE))
        if strange.size:
            raise ValueError(
                f"row {strange[0]} of {quoted(self.names[place])} is {shortened(repr(column[strange[0]]))}, which was "
                f"not seen in training; its classes are {listed(classes.tolist())}: leave the row out, or train again"
            )
        return found

    def decode(self, codes: Integers) -> NDArray[Any]:
        """Integers ``[rows, outputs]`` as the labels they stand for, in the shape of ``y``."""
        columns = [known[codes[:, place]] for place, known in enumerate(self.classes)]
        if self.flat:
            return columns[0]
        if len({column.dtype.kind for column in columns}) > 1:  # stacked, numbers would become text
            columns = [column.astype(object) for column in columns]
        return np.stack(columns, axis=1)


def as_labels(given: Any) -> NDArray[Any]:
    """Labels ``[rows]`` or ``[rows, outputs]``; objects where some are missing or no numbers."""
    if given is None:
        raise ValueError("MRFClassifier requires y to be passed, but the target y is None; give labels")
    array = np.asarray(given.toarray() if is_sparse(given) else given)
    if array.ndim not in (1, 2) or not array.size:
        raise ValueError(f"y must be [rows] or [rows, outputs] with at least one label, not of shape {array.shape}")
    if array.dtype.kind in "US":
        return np.array(given, dtype=object).reshape(array.shape)
    if array.dtype.kind == "c":
        raise ValueError("Unknown label type: complex numbers; labels must be classes, such as 0, 1, 2")
    if array.dtype.kind == "f":
        if np.isinf(array).any():
            raise ValueError("Input y contains infinity; give classes, or NaN where an answer is missing")
        known = array[~np.isnan(array)]
        if (known != np.round(known)).any():
            raise ValueError("Unknown label type: continuous; labels must be classes, such as 0, 1, 2")
    return array


def missing_labels(array: NDArray[Any]) -> NDArray[np.bool_]:
    """Where no answer is known."""
    if array.dtype.kind == "f":
        flags: NDArray[np.bool_] = np.isnan(array)
        return flags
    if array.dtype.kind != "O":
        return np.zeros(array.shape, dtype=np.bool_)
    cells = [is_missing(cell) for cell in array.reshape(-1).tolist()]
    return np.array(cells, dtype=np.bool_).reshape(array.shape)


def _classes(name: str, column: NDArray[Any]) -> NDArray[Any]:
    known = column[~missing_labels(column)]
    if not len(known):
        raise ValueError(
            f"column {quoted(name)} of y has no label in any row, so there is nothing to learn; leave it out"
        )
    strange = next(
        (type(label) for label in known.tolist() if not isinstance(label, str | int | float | np.bool_ | np.number)),
        None,
    )
    if strange is not None:
        raise ValueError(
            f"Unknown label type: column {quoted(name)} of y holds {strange.__name__}; give texts, "
            "numbers or truth values"
        )
    if known.dtype.kind != "O":
        return np.unique(known)
    try:
        return np.unique(np.array(sorted(set(known.tolist()))))
    except TypeError:
        raise ValueError(
            f"Unknown label type: column {quoted(name)} of y has labels that cannot be ordered; use one kind of label"
        ) from None


def _own_name(given: Any) -> tuple[str, ...] | None:
    """The name of a series."""
    name = getattr(given, "name", None)
    return (name,) if isinstance(name, str) and getattr(given, "ndim", 2) == 1 else None


def distinct(names: Sequence[str], taken: Sequence[str]) -> tuple[str, ...]:
    """``names``, changed where they are among ``taken`` or come twice."""
    found: list[str] = []
    for name in names:
        while name in taken or name in found:
            name += "'"
        found.append(name)
    return tuple(found)


def share_right(said: NDArray[Any], y: Any) -> float:
    """The share of known labels of ``y`` that were said; NaN if none is known."""
    right = as_labels(y)
    if right.shape != said.shape:
        raise ValueError(f"y of shape {right.shape} does not fit answers of shape {said.shape}; give a label for each")
    known = ~missing_labels(right)
    return float((said[known] == right[known]).mean()) if known.any() else float("nan")
