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
from loopwise.formats.quoting import shortened
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
        """The classes of training labels, and the labels as 0 and 1."""
        array = _as_labels(given)
        flat = array.ndim == 1
        table = array[:, None] if flat else array
        pairs = []
        for place in range(table.shape[1]):
            found = np.unique(table[:, place])
            if len(found) > 2:
                raise ValueError(
                    "Only binary classification is supported. The type of the target is "
                    f"{'multiclass' if flat else 'multiclass-multioutput'}. (Column {place} has {len(found)} classes.)"
                )
            pairs.append(found)
        classes = Classes(tuple(_zero_first(pair) for pair in pairs), flat)
        return classes, classes.encode(given)

    def encode(self, given: Any) -> Integers:
        """Labels as 0 and 1, ``[examples, labels]``."""
        array = _as_labels(given)
        table = array[:, None] if array.ndim == 1 else array
        if table.shape[1] != len(self.pairs):
            raise ValueError(
                f"there are {table.shape[1]} columns of labels; the model has {len(self.pairs)}; give as many"
            )
        found = np.empty(table.shape, dtype=np.int64)
        for place, pair in enumerate(self.pairs):
            codes = np.full(len(table), -1)
            for code, value in enumerate(pair):
                codes[table[:, place] == value] = code
            if (codes < 0).any():
                row = int(np.flatnonzero(codes < 0)[0])
                raise ValueError(
                    f"label {place} of example {row} is {shortened(repr(table[row, place]))}, which was not seen in "
                    "training; leave the example out, or train again"
                )
            found[:, place] = codes
        return found

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


def _as_labels(given: Any) -> NDArray[Any]:
    if given is None:
        raise ValueError("requires y to be passed, but the target y is None")
    array = np.asarray(given.toarray() if is_sparse(given) else given)
    if array.ndim not in (1, 2) or not array.size:
        raise ValueError(f"labels must be [examples, labels], not of shape {array.shape}")
    if array.ndim == 2 and array.shape[1] == 1 and getattr(given, "ndim", 2) == 1:
        array = array[:, 0]
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise ValueError("Input y contains NaN or infinity; every label must be known")
        if (array != np.round(array)).any():
            raise ValueError("Unknown label type: continuous; labels must be classes, such as 0 and 1")
    return array
