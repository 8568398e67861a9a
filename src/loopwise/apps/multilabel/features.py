"""Labels that users give, as checked arrays of two classes each; inputs are :mod:`loopwise.apps.inputs`'.

In: arrays, sparse matrices, data frames, lists. Out: 0/1 labels with :class:`Classes`. Stage: use.
Messages use the words that scikit-learn's checks look for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.inputs import is_sparse
from loopwise.apps.partial import choices_of, is_unknown
from loopwise.formats.errors import shortened
from loopwise.learn.label_sets.weights import Integers


@dataclass(frozen=True, eq=False)
class Classes:
    """What 0 and 1 stand for, label by label; a label of one class in training is never anything else.

    ``flat``: labels came as one column without a second axis, and go back so.
    """

    pairs: tuple[NDArray[Any], ...]  # [1] or [2] each
    flat: bool = False

    @staticmethod
    def of(given: Any) -> tuple[Classes, Integers]:
        """The classes of training labels, and the labels as 0 and 1, -1 where they are not known."""
        array, unknown = _as_labels(given)
        flat = array.ndim == 1
        table, missing = (array[:, None], unknown[:, None]) if flat else (array, unknown)
        pairs = []
        for place in range(table.shape[1]):
            found = np.unique(table[~missing[:, place], place])
            if not len(found):
                raise ValueError(
                    f"Input y contains NaN, None or -1 only in column {place}: no label is known; leave it out"
                )
            if len(found) > 2:
                raise ValueError(
                    "Only binary classification is supported. The type of the target is "
                    f"{'multiclass' if flat else 'multiclass-multioutput'}. (Column {place} has {len(found)} classes.)"
                )
            pairs.append(found)
        classes = Classes(tuple(_zero_first(pair) for pair in pairs), flat)
        return classes, classes.encode(given, partial=True)

    def encode(self, given: Any, *, partial: bool = False) -> Integers:
        """Labels as 0 and 1, ``[examples, labels]``; ``partial``: -1 where they are not known, else they must be."""
        array, unknown = _as_labels(given)
        table, missing = (array[:, None], unknown[:, None]) if array.ndim == 1 else (array, unknown)
        if missing.any() and not partial:
            row, place = np.argwhere(missing)[0].tolist()
            raise ValueError(f"label {place} of example {row} is not known; every label must be, to be compared")
        if table.shape[1] != len(self.pairs):
            raise ValueError(
                f"there are {table.shape[1]} columns of labels; the model has {len(self.pairs)}; give as many"
            )
        found = np.empty(table.shape, dtype=np.int64)
        for place, pair in enumerate(self.pairs):
            codes = np.full(len(table), -1)
            for code, value in enumerate(pair):
                codes[(table[:, place] == value) & ~missing[:, place]] = code
            strange = np.flatnonzero((codes < 0) & ~missing[:, place])
            if strange.size:
                row = int(strange[0])
                raise ValueError(
                    f"label {place} of example {row} is {shortened(repr(table[row, place]))}, which was not seen in "
                    "training; leave the example out, or train again"
                )
            found[:, place] = codes
        return found

    def evidence(self, given: Any) -> Integers:
        """Labels that are given, -1 where none is; perhaps all are asked for."""
        array = np.asarray(given)
        if array.size and all(is_unknown(label) for label in array.reshape(-1).tolist()):
            return np.full(array[:, None].shape if array.ndim == 1 else array.shape, -1, dtype=np.int64)
        return self.encode(_as_objects(array), partial=True)

    def with_all(self, given: Any) -> Classes:
        """With all classes of each label: two that every label has, or a list of pairs."""
        lists = [np.asarray(pair) for pair in given] if np.ndim(given[0]) else [np.asarray(given)] * len(self.pairs)
        if len(lists) != len(self.pairs) or any(len(np.unique(pair)) > 2 for pair in lists):
            raise ValueError(f"classes must be two values, or a list of two for each of {len(self.pairs)} labels")
        return Classes(tuple(np.unique(pair) for pair in lists), self.flat)

    def decode(self, sets: Integers) -> NDArray[Any]:
        """0 and 1 as the classes they stand for."""
        columns = [pair[np.minimum(sets[:, place], len(pair) - 1)] for place, pair in enumerate(self.pairs)]
        return columns[0] if self.flat else np.stack(columns, axis=1)


def _zero_first(pair: NDArray[Any]) -> NDArray[Any]:
    """A label that is always 1 still has 0 for "off", and the other way round."""
    if len(pair) == 1 and pair.dtype.kind in "biu" and pair[0] in (0, 1):
        return np.array([0, 1], dtype=pair.dtype)
    return pair


def _as_labels(given: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Labels, and which of them are not known: None, NaN, a set of both, or -1 beside two classes from 0 on."""
    if given is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if isinstance(given, list | tuple) and any(isinstance(row, set | frozenset) for row in given):
        raise ValueError("labels are sets; give an array [examples, labels] of 0 and 1, a column for each label")
    try:
        array = np.asarray(given.toarray() if is_sparse(given) else given)
    except ValueError:
        raise ValueError(
            "labels have rows of different lengths; give an array [examples, labels] of 0 and 1, a column a label"
        ) from None
    if array.ndim not in (1, 2) or not array.size:
        raise ValueError(f"labels must be [examples, labels], not of shape {array.shape}")
    if array.ndim == 2 and array.shape[1] == 1 and getattr(given, "ndim", 2) == 1:
        array = array[:, 0]
    unknown = np.zeros(array.shape, dtype=np.bool_)
    if array.dtype.kind == "O":
        array, unknown = _without_unknown(array)
    if array.dtype.kind == "f":
        if np.isinf(array).any():
            raise ValueError("Input y contains infinity; give classes, NaN where a label is not known")
        unknown = unknown | np.isnan(array)
        if not unknown.all() and (array[~unknown] != np.round(array[~unknown])).any():
            raise ValueError("Unknown label type: continuous; labels must be classes, such as 0 and 1")
    if array.dtype.kind in "if":
        others = np.unique(array[~unknown & (array != -1)])
        if len(others) > 1 and others[0] >= 0:  # -1 and 1 are two classes
            unknown = unknown | (array == -1)
    if unknown.all():
        raise ValueError("Input y contains NaN, None or -1 only: no label is known; give some")
    return array, unknown


def _as_objects(array: NDArray[Any]) -> NDArray[Any]:
    """An array in which -1 is not known even beside a single class."""
    if array.dtype.kind not in "ifO":
        return array
    labels = [None if is_unknown(label) else label for label in array.reshape(-1).tolist()]
    found = np.empty(len(labels), dtype=object)
    found[:] = labels
    return found.reshape(array.shape)


def _without_unknown(array: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """An array of objects as one of classes: some class stands where a label is not known."""
    labels = [next(iter(label)) if choices_of(label) and len(label) == 1 else label for label in array.reshape(-1)]
    # -1 is judged beside the other classes.
    unknown = np.array([bool(choices_of(label)) or (is_unknown(label) and label != -1) for label in labels])
    if unknown.any() and not unknown.all():
        some = labels[int(np.flatnonzero(~unknown)[0])]
        labels = [some if missing else label for label, missing in zip(labels, unknown, strict=True)]
    elif unknown.all():
        labels = [0] * len(labels)
    return np.array(labels).reshape(array.shape), unknown.reshape(array.shape)
