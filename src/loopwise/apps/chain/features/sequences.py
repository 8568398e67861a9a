"""Sequences of feature vectors and of labels, one after another in flat arrays.

In: a list of arrays ``[length, features]``, dense or sparse, and a list of label sequences; or an array ``[rows,
features]`` whose rows are sequences of one element. Out: :class:`Sequences`, labels as integers. Stage: use.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.chain.features.documents import Documents
from loopwise.apps.chain.features.items import Items
from loopwise.apps.chain.features.text import Known
from loopwise.apps.estimator import as_array
from loopwise.apps.inputs import as_inputs, is_sparse
from loopwise.apps.partial import choices_of, is_unknown
from loopwise.formats.errors import listed, shortened
from loopwise.graph.factor_graph import Integers


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequence ``s`` has the rows ``start[s]`` to ``start[s + 1] - 1`` of ``inputs``, float64, dense or CSR.

    ``flat``: the rows came as one array, each a sequence of its own.
    """

    inputs: Any  # [elements, features]
    start: Integers  # [sequences + 1]
    flat: bool
    names: tuple[str, ...] | None = None  # of the features, where these came by name

    @staticmethod
    def of(given: Any, names: Sequence[str] | None = None, width: int | None = None) -> Sequences:
        """Checked; NaN is a missing value. ``names``: the features of a model, where elements are dicts or lists of
        them; others are left out. ``width``: how many features a model has, so that no sequence need show it."""
        if isinstance(given, Documents):
            given = list(given)
        if holds_items(given) or (names is not None and _all_empty(given)):
            return _of_items(given, names)
        if names is not None:
            raise ValueError(
                "this ChainCRF was trained on dicts or lists of features; give it sequences of such, not of numbers"
            )
        parts = _parts(given)
        if parts is None:
            inputs = as_inputs(given)
            return Sequences(inputs, np.arange(inputs.shape[0] + 1), True)
        if not parts and width is None:
            raise ValueError("there are no sequences; give a list of arrays [length, features]")
        arrays = [_one(number, part) for number, part in enumerate(parts)]
        first = next((number for number, array in enumerate(arrays) if array is not None), None)
        width = (width or 0) if first is None else arrays[first].shape[1]
        nothing = np.zeros((0, width))
        arrays = [nothing if array is None else array for array in arrays]
        for number, array in enumerate(arrays):
            if array.shape[1] != width:
                raise ValueError(
                    f"sequence {number} has {array.shape[1]} features, sequence {first} has {width}; give all the "
                    "same ones"
                )
        start = np.zeros(len(arrays) + 1, dtype=np.int64)
        np.cumsum([array.shape[0] for array in arrays], out=start[1:])
        return Sequences(_inputs(_joined(arrays or [nothing]), start), start, False)

    @property
    def width(self) -> int:
        """How many features there are."""
        return int(self.inputs.shape[1])

    def split(self, rows: NDArray[Any]) -> Any:
        """An array with a row for each element, in the form in which the sequences came."""
        return rows if self.flat else by_sequence(rows, self.start)


def by_sequence(rows: NDArray[Any], start: Integers) -> list[NDArray[Any]]:
    """The rows of each sequence; of no sequences there are none."""
    return np.split(rows, start[1:-1])[: len(start) - 1]


@dataclass(frozen=True, eq=False)
class SequenceLabels:
    """Labels of all elements, one after another; those that are not known, or known in part, are in ``partial``.

    ``values`` has some label there. ``partial``: by element the labels that it may have, None for any.
    """

    values: NDArray[Any]  # [elements]
    partial: dict[int, Collection[Any] | None]

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which elements have one label."""
        flags = np.ones(len(self.values), dtype=np.bool_)
        flags[list(self.partial)] = False
        return flags

    def classes(self) -> NDArray[Any]:
        """The distinct labels, in order."""
        named = [label for choices in self.partial.values() for label in choices or ()]
        return np.unique(np.concatenate([self.values, np.array(named)]) if named else self.values)

    def coded(self, classes: NDArray[Any]) -> Known:
        """Labels as places in ``classes``, which are in order."""
        gold = encoded(self.values, classes)
        if not self.partial:
            return Known(gold)
        allowed = gold[:, None] == np.arange(len(classes))
        for element, choices in self.partial.items():
            gold[element] = -1
            allowed[element] = True if choices is None else np.isin(np.arange(len(classes)), _places(choices, classes))
        return Known(gold, allowed)


def as_labels(given: Any, sequences: Sequences) -> SequenceLabels:
    """The labels of all elements. None, NaN, and -1 beside labels from 0 on, are not known; a set allows several."""
    if given is None:
        raise ValueError("ChainCRF requires y to be passed, but the target y is None; give labels")
    if not sequences.inputs.shape[0]:
        raise ValueError("all sequences are empty; give at least one that has an element")
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
    partial = _partial(labels)
    if partial:
        known = np.array([place for place in range(len(labels)) if place not in partial], dtype=np.int64)
        named = [label for choices in partial.values() for label in choices or ()]
        if not len(known) and not named:
            raise ValueError("Input y contains NaN, None or -1 only: no label is known; give some")
        labels = labels.copy()
        labels[list(partial)] = labels[known[0]] if len(known) else named[0]
    if labels.dtype.kind == "O":
        labels = np.array(labels.tolist())
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise ValueError("Input y contains infinity; give labels, NaN where one is not known")
        if (labels != np.round(labels)).any():
            raise ValueError("Unknown label type: continuous; labels must be classes, such as 0, 1, 2")
    if labels.dtype.kind not in "biufUS":
        raise ValueError(f"Unknown label type: {labels.dtype}; labels must be numbers or text")
    return SequenceLabels(labels, partial)


def as_evidence(given: Any, sequences: Sequences, classes: NDArray[Any]) -> Known:
    """Labels that are given, perhaps none of them: as :func:`as_labels`, with the classes of a model."""
    rows = [given] if sequences.flat else list(given)
    if not sequences.inputs.shape[0]:
        return no_labels(rows, sequences, len(classes))
    flat = [label for row in rows for label in (row.tolist() if isinstance(row, np.ndarray) else row)]
    if all(is_unknown(label) for label in flat):
        free = [[classes[0]] * len(row) for row in rows]
        mask = as_labels(free[0] if sequences.flat else free, sequences).coded(classes)
        return Known(np.full_like(mask.gold, -1), np.ones((len(mask.gold), len(classes)), dtype=np.bool_))
    return as_labels(given, sequences).coded(classes)


def no_labels(given: Sequence[Any], sequences: Sequences, states: int) -> Known:
    """What is known of sequences that are all empty: of each nothing, and nothing else."""
    _check_lengths(given, sequences.start)
    return Known(np.zeros(0, dtype=np.int64), np.ones((0, states), dtype=np.bool_))


def _partial(labels: NDArray[Any]) -> dict[int, Collection[Any] | None]:
    """Elements that are not known, or only in part."""
    if labels.dtype.kind == "O":
        rows = labels.tolist()
        minus = _means_unknown([label for label in rows if isinstance(label, int | float)])
        return {
            place: choices_of(label)
            for place, label in enumerate(rows)
            if choices_of(label) or (is_unknown(label) and (minus or not _is_minus(label)))
        }
    unknown = np.isnan(labels) if labels.dtype.kind == "f" else np.zeros(len(labels), dtype=np.bool_)
    if labels.dtype.kind in "if" and _means_unknown(labels[~unknown]):
        unknown = unknown | (labels == -1)
    return dict.fromkeys(np.flatnonzero(unknown).tolist())


def _is_minus(label: Any) -> bool:
    return isinstance(label, int | float) and label == -1


def _means_unknown(labels: Any) -> bool:
    """Whether -1 is no class: there are two or more classes, all at least 0 (-1 and 1 are two classes)."""
    others = {label for label in np.unique(np.array(labels, dtype=np.float64)).tolist() if label == label} - {-1.0}
    return len(others) > 1 and min(others) >= 0


def _places(choices: Collection[Any], classes: NDArray[Any]) -> Integers:
    return encoded(np.array(list(choices)), classes)


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


def holds_items(given: Any) -> bool:
    """Whether elements are dicts or lists of texts: features by name."""
    if not isinstance(given, list | tuple):
        return False
    if given and isinstance(given[0], Mapping):
        raise ValueError(
            f"sequence 0 is the dict {shortened(repr(given[0]))}; give each sequence as a list of dicts: [X] for one"
        )
    first = next((sequence[0] for sequence in given if isinstance(sequence, list | tuple) and len(sequence)), None)
    if isinstance(first, Mapping):
        return True
    return isinstance(first, list | tuple | set | frozenset) and all(isinstance(name, str) for name in first)


def _of_items(given: Sequence[Any], names: Sequence[str] | None) -> Sequences:
    from scipy import sparse

    start = np.zeros(len(given) + 1, dtype=np.int64)
    np.cumsum([len(sequence) for sequence in given], out=start[1:])
    items = Items.of(given)
    own = tuple(sorted(items.names)) if names is None else tuple(names)
    place = {name: number for number, name in enumerate(own)}
    column = np.array([place.get(name, -1) for name in items.names], dtype=np.int64)[items.index]
    row = np.repeat(np.arange(int(start[-1])), np.diff(items.start))
    kept = column >= 0
    shape = int(start[-1]), max(len(own), 1)
    matrix = sparse.csr_array((items.value[kept], (row[kept], column[kept])), shape=shape)
    return Sequences(_inputs(matrix, start), start, False, own)


def _inputs(joined: Any, start: Integers) -> Any:
    """The elements of all sequences; there may be none."""
    if not joined.shape[0]:
        return joined.astype(np.float64)

    def name(row: int) -> str:
        sequence = int(np.searchsorted(start, row, side="right")) - 1
        return f"element {row - start[sequence]} of sequence {sequence}"

    return as_inputs(joined, name)


def _parts(given: Any) -> Sequence[Any] | None:
    """The sequences; None where there is one array of rows."""
    if is_sparse(given) or getattr(given, "columns", None) is not None:
        return None
    if isinstance(given, np.ndarray):
        return list(given) if given.ndim == 3 or (given.ndim == 1 and given.dtype.kind == "O") else None
    if isinstance(given, list | tuple):
        first = next((part for part in given if not _all_empty([part])), None)
        if first is None or is_sparse(first) or np.ndim(first) == 2:
            return given
    return None


def _all_empty(given: Any) -> bool:
    """Whether these are empty lists, so that nothing shows what is in them."""
    return isinstance(given, list | tuple) and all(isinstance(part, list | tuple) and not part for part in given)


def _one(number: int, part: Any) -> Any:
    """A sequence as an array; None for one that does not even show how many features there are."""
    array = part if is_sparse(part) else as_array(part)
    if array.shape == (0,):
        return None
    if array.ndim != 2:
        raise ValueError(f"sequence {number} is of shape {array.shape}; it must be an array [length, features]")
    return array


def _joined(arrays: Sequence[Any]) -> Any:
    from scipy import sparse

    if any(is_sparse(array) for array in arrays):
        return sparse.vstack([sparse.csr_array(array) for array in arrays], format="csr")
    return np.concatenate(arrays)


def _as_array(labels: Any) -> NDArray[Any]:
    whole = _of_objects(labels)
    if whole is not None:
        return whole
    try:
        return np.asarray(labels)
    except ValueError:
        raise ValueError(
            "y should be a 1d array of one label a row, since X is one array: for sequences give X as a list of arrays"
        ) from None


def _of_objects(labels: Any) -> NDArray[Any] | None:
    """Labels that NumPy would make texts or nothing of, as they are: among them are None, NaN beside text, or sets."""
    if isinstance(labels, list | tuple):
        _check_one_kind(labels)
    if not isinstance(labels, list | tuple) or not any(
        label is None or isinstance(label, set | frozenset) or (isinstance(label, float) and label != label)
        for label in labels
    ):
        return None
    found = np.empty(len(labels), dtype=object)
    found[:] = labels
    return found


def _check_one_kind(labels: Sequence[Any]) -> None:
    """Texts beside numbers are refused: NumPy would make texts of all."""
    texts = next((label for label in labels if isinstance(label, str)), None)
    number = next((label for label in labels if isinstance(label, int | np.number)), None)
    if texts is not None and number is not None:
        raise ValueError(f"labels such as {texts!r} and {number!r} are not of one kind; give texts or numbers")


def _joined_labels(given: Any, start: Integers) -> NDArray[Any]:
    rows = [np.asarray(row) if (whole := _of_objects(row)) is None else whole for row in given]
    _check_lengths(rows, start)
    return np.concatenate([row for row in rows if len(row)])  # an empty one may be of any type


def _check_lengths(rows: Sequence[Any], start: Integers) -> None:
    if len(rows) != len(start) - 1:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: {len(start) - 1} sequences, labels of "
            f"{len(rows)}; give as many"
        )
    for number, (row, length) in enumerate(zip(rows, np.diff(start).tolist(), strict=True)):
        if np.shape(row) != (length,):
            raise ValueError(
                f"sequence {number} has {length} elements, its labels are of shape {np.shape(row)}; give one each"
            )


def _warn_of_column() -> None:
    """scikit-learn's own warning, where it is installed."""
    try:
        from sklearn.exceptions import DataConversionWarning  # type: ignore[import-untyped]
    except ImportError:
        return

    from loopwise.notices import warn

    warn("A column-vector y was passed when a 1d array was expected: its only column is used", DataConversionWarning)
