"""Sequences of feature vectors and of labels, one after another in flat arrays.

In: a list of arrays ``[length, features]``, dense or sparse, and a list of label sequences; or an array ``[rows,
features]`` whose rows are sequences of one element. Out: :class:`Sequences`, labels as integers. Stage: use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.estimator import as_array
from loopwise.apps.inputs import as_inputs, is_sparse
from loopwise.formats.quoting import listed, shortened
from loopwise.graph.factor_graph import Integers


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequence ``s`` has the rows ``start[s]`` to ``start[s + 1] - 1`` of ``inputs``, float64, dense or CSR.

    ``flat``: the rows came as one array, each a sequence of its own.
    """

    inputs: Any  # [elements, features]
    start: Integers  # [sequences + 1]
    flat: bool

    @staticmethod
    def of(given: Any) -> Sequences:
        """Checked; NaN is a missing value."""
        parts = _parts(given)
        if parts is None:
            inputs = as_inputs(given)
            return Sequences(inputs, np.arange(inputs.shape[0] + 1), True)
        arrays = [_one(number, part) for number, part in enumerate(parts)]
        if not arrays:
            raise ValueError("there are no sequences; give a list of arrays [length, features]")
        width = arrays[0].shape[1]
        for number, array in enumerate(arrays):
            if array.shape[1] != width:
                raise ValueError(
                    f"sequence {number} has {array.shape[1]} features, sequence 0 has {width}; give all the same ones"
                )
        start = np.zeros(len(arrays) + 1, dtype=np.int64)
        np.cumsum([array.shape[0] for array in arrays], out=start[1:])
        if not start[-1]:
            raise ValueError("all sequences are empty; give at least one that has an element")
        return Sequences(as_inputs(_joined(arrays)), start, False)

    @property
    def width(self) -> int:
        """How many features there are."""
        return int(self.inputs.shape[1])

    def split(self, rows: NDArray[Any]) -> Any:
        """An array with a row for each element, in the form in which the sequences came."""
        return rows if self.flat else np.split(rows, self.start[1:-1])


def as_labels(given: Any, sequences: Sequences) -> NDArray[Any]:
    """The labels of all elements, one after another."""
    if given is None:
        raise ValueError("ChainCRF requires y to be passed, but the target y is None; give labels")
    if sequences.flat:
        labels = _as_array(given)
        if labels.ndim == 2 and labels.shape[1] == 1:
            _warn_of_column()
            labels = labels[:, 0]
        if labels.ndim != 1:
            raise ValueError(f"y should be a 1d array of one label a row, got an array of shape {labels.shape} instead")
        if len(labels) != len(sequences.start) - 1:
            raise ValueError(
                "Found input variables with inconsistent numbers of samples: "
                f"{len(sequences.start) - 1} rows of X, {len(labels)} labels; give as many"
            )
    else:
        labels = _joined_labels(given, sequences.start)
    if labels.dtype.kind == "O":
        labels = np.array(labels.tolist())
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise ValueError("Input y contains NaN or infinity; every element needs a label")
        if (labels != np.round(labels)).any():
            raise ValueError("Unknown label type: continuous; labels must be classes, such as 0, 1, 2")
    if labels.dtype.kind not in "biufUS":
        raise ValueError(f"Unknown label type: {labels.dtype}; labels must be numbers or text")
    return labels


def encoded(labels: NDArray[Any], classes: NDArray[Any]) -> Integers:
    """Labels as places in ``classes``, which are in order."""
    if labels.dtype.kind != classes.dtype.kind and "U" in (labels.dtype.kind, classes.dtype.kind):
        raise ValueError(
            f"labels such as {shortened(repr(labels[0]))} are not of the kind of the classes; use "
            f"{listed(classes.tolist())}"
        )
    place = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    strange = np.flatnonzero(classes[place] != labels)
    if strange.size:
        raise ValueError(
            f"element {strange[0]} has the label {shortened(repr(labels[strange[0]].item()))}, which was not seen in "
            f"training; the classes are {listed(classes.tolist())}: leave the sequence out, or train again"
        )
    return place.astype(np.int64)


def _parts(given: Any) -> Sequence[Any] | None:
    """The sequences; None where there is one array of rows."""
    if is_sparse(given) or getattr(given, "columns", None) is not None:
        return None
    if isinstance(given, np.ndarray):
        return list(given) if given.ndim == 3 or (given.ndim == 1 and given.dtype.kind == "O") else None
    if isinstance(given, list | tuple) and (not given or is_sparse(given[0]) or np.ndim(given[0]) == 2):
        return given
    return None


def _one(number: int, part: Any) -> Any:
    array = part if is_sparse(part) else as_array(part)
    if array.ndim != 2:
        raise ValueError(f"sequence {number} is of shape {array.shape}; it must be an array [length, features]")
    return array


def _joined(arrays: Sequence[Any]) -> Any:
    from scipy import sparse

    if any(is_sparse(array) for array in arrays):
        return sparse.vstack([sparse.csr_array(array) for array in arrays], format="csr")
    return np.concatenate(arrays)


def _as_array(labels: Any) -> NDArray[Any]:
    try:
        return np.asarray(labels)
    except ValueError:
        raise ValueError(
            "y should be a 1d array of one label a row, since X is one array: for sequences give X as a list of arrays"
        ) from None


def _joined_labels(given: Any, start: Integers) -> NDArray[Any]:
    rows = [np.asarray(row) for row in given]
    if len(rows) != len(start) - 1:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: {len(start) - 1} sequences, labels of "
            f"{len(rows)}; give as many"
        )
    for number, (row, length) in enumerate(zip(rows, np.diff(start).tolist(), strict=True)):
        if row.shape != (length,):
            raise ValueError(
                f"sequence {number} has {length} elements, its labels are of shape {row.shape}; give one each"
            )
    return np.concatenate([row for row in rows if len(row)])  # an empty one may be of any type


def _warn_of_column() -> None:
    """scikit-learn's own warning, where it is installed."""
    try:
        from sklearn.exceptions import DataConversionWarning  # type: ignore[import-untyped]
    except ImportError:
        return
    import warnings

    from loopwise.notices import callers_level

    warnings.warn(
        "A column-vector y was passed when a 1d array was expected: its only column is used",
        DataConversionWarning,
        stacklevel=callers_level(),
    )
