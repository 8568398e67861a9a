"""Inputs as learners see them: scaled, missing values filled in, a constant feature at the end.

In: arrays, dense or sparse, of anything numeric. Out: float64 matrices. Stage: use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.apps.estimator import as_array, column_names
from loopwise.formats.errors import quoted
from loopwise.learn.files.fields import Record
from loopwise.potentials.linear import is_sparse as is_sparse

Floats = NDArray[np.float64]


LEAST_SPREAD = 1e-200  # quotients by less might overflow
LARGEST_INPUT = 1e150  # squares of more would overflow
DENSE = 0.1  # a feature that fewer rows have is sparse


@dataclass(frozen=True, eq=False)
class Scaling:
    """``(x - centre) / spread``, of each feature; missing values (NaN) become ``centre``, so 0.

    Sparse inputs (CSR) are not centred, so that they stay sparse: their ``centre`` is 0 and ``spread`` the root mean
    square. Indicators (0 and 1) and features that are 0 in nine rows of ten are not spread: that would make much of
    rare words, of which little is known.
    """

    centre: Floats
    spread: Floats

    @staticmethod
    def of(inputs: Any, wanted: bool, weights: Floats | None = None) -> Scaling:
        """Means, and standard deviations of dense features, of training inputs; with ``wanted`` false only means, for
        missing values. ``weights``: what each row counts."""
        features = inputs.shape[1]
        if is_sparse(inputs):
            squared = np.nan_to_num(inputs.data) ** 2
            if weights is not None:
                squared = squared * np.repeat(weights, np.diff(inputs.indptr))
            squares = np.bincount(inputs.indices, squared, minlength=features)
            spread = np.sqrt(squares / (inputs.shape[0] if weights is None else weights.sum()))
            fixed = _sparse_features(inputs, weights)
            return Scaling(np.zeros(features), np.where(fixed, 1.0, _usable(spread)) if wanted else np.ones(features))
        seen = np.isfinite(inputs)
        counts = _total(seen, weights)
        counts = np.where(counts > 0, counts, 1)
        centre = _total(np.where(seen, inputs, 0.0), weights) / counts
        if not wanted:
            return Scaling(centre, np.ones(features))
        spread = np.sqrt(_total(np.where(seen, inputs - centre, 0.0) ** 2, weights) / counts)
        return Scaling(centre, np.where(_sparse_features(inputs, weights), 1.0, _usable(spread)))

    @property
    def scaled(self) -> NDArray[np.bool_]:
        """Which features are divided by their spread, ``[features]``."""
        return np.asarray(self.spread != 1.0)

    def __str__(self) -> str:
        return f"{int(self.scaled.sum())} of {len(self.spread)} features scaled to variance 1"

    @staticmethod
    def read(told: Record, features: int) -> Scaling:
        """Of a saved model: the tensors ``centre`` and ``spread``."""
        centre, spread = told.weights("centre", (features,)), told.weights("spread", (features,))
        if not (spread >= LEAST_SPREAD).all():
            raise ValueError(f"the tensor 'spread' holds {spread.min()}; spreads must be at least {LEAST_SPREAD:g}")
        return Scaling(centre, spread)

    def tensors(self) -> dict[str, Tensor]:
        """As files have them."""
        return {"centre": torch.from_numpy(self.centre), "spread": torch.from_numpy(self.spread)}

    def __call__(self, inputs: Any, centred: bool) -> Any:
        """Scaled inputs with a last column of ones. ``centred`` False: only missing values look at the centre."""
        from scipy import sparse

        if is_sparse(inputs):
            scaled = sparse.csr_array(inputs, copy=True)
            scaled.data = np.nan_to_num(scaled.data) / self.spread[scaled.indices]
            return sparse.csr_array(sparse.hstack([scaled, sparse.csr_array(np.ones((scaled.shape[0], 1)))]))
        filled = np.where(np.isnan(inputs), self.centre, inputs)
        scaled = (filled - self.centre) / self.spread if centred else filled
        return np.ascontiguousarray(np.column_stack([scaled, np.ones(len(scaled))]))


def _total(cells: NDArray[Any], weights: Floats | None) -> Any:
    """The sum of each column, rows counted by their weights."""
    return cells.sum(axis=0) if weights is None else weights @ cells


def _sparse_features(inputs: Any, weights: Floats | None = None) -> NDArray[np.bool_]:
    """Which features are indicators, or are other than 0 in few rows, ``[features]``."""
    rows, features = inputs.shape
    if weights is not None:
        rows = weights.sum()
    if is_sparse(inputs):
        present = inputs.data != 0
        each = None if weights is None else np.repeat(weights, np.diff(inputs.indptr))[present]
        filled = np.bincount(inputs.indices[present], each, minlength=features)
        odd = np.bincount(inputs.indices[present & (inputs.data != 1)], minlength=features)
    else:
        filled = _total(inputs != 0, weights)  # what is missing is none of 0 and 1, and is there
        odd = ((inputs != 0) & (inputs != 1) & ~np.isnan(inputs)).sum(axis=0)
    return np.asarray((odd == 0) | (filled < DENSE * rows))


def _usable(spread: Floats) -> Floats:
    """Features that never vary are left as they are."""
    return np.where(spread > max(1e-12 * float(spread.max(initial=0.0)), LEAST_SPREAD), spread, 1.0)


def as_inputs(given: Any, row_name: Callable[[int], str] = "row {}".format, largest: float = LARGEST_INPUT) -> Any:
    """Inputs as float64 ``[examples, features]``, dense (NaN: missing) or CSR, none beyond ``largest`` in size;
    ``row_name``: what messages call a row.

    >>> as_inputs([[1, 2], [3, float("inf")]])
    Traceback (most recent call last):
    ValueError: Input X contains infinity: row 1, column 1 holds inf; give finite numbers, or NaN where a value is
    missing
    """
    from scipy import sparse

    if is_sparse(given):
        matrix = sparse.csr_array(given)
        if np.iscomplexobj(matrix.data):
            raise ValueError("Complex data not supported: inputs must be real numbers")
        made: Any = matrix.astype(np.float64)
        _check_size(made.shape)
        _check_cells(made.data, lambda place: (_row_of(made, place), int(made.indices[place])), row_name, None, largest)
        return made
    array = as_array(given)
    if np.iscomplexobj(array):
        raise ValueError("Complex data not supported: inputs must be real numbers")
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead; Reshape your data to [examples, features]"
        )
    try:
        dense: NDArray[np.float64] = array.astype(np.float64)
    except ValueError as problem:
        raise ValueError(f"Input X must hold numbers: {problem}") from None
    _check_size(dense.shape)
    _check_cells(dense, lambda place: divmod(place, dense.shape[1]), row_name, column_names(given), largest)
    return dense


def _check_cells(
    cells: Floats,
    where: Callable[[int], tuple[int, int]],
    row_name: Callable[[int], str],
    columns: Sequence[str] | None,
    largest: float,
) -> None:
    """Names the first cell that is infinite, or too large to compute with."""
    bad = np.flatnonzero(np.abs(cells) > largest)
    if not bad.size:
        return
    value = cells.flat[bad[0]]
    row, column = where(int(bad[0]))
    what = "infinity" if np.isinf(value) else f"numbers beyond {largest:g}, too large to compute with"
    raise ValueError(
        f"Input X contains {what}: {row_name(row)}, column {column if columns is None else quoted(columns[column])} "
        f"holds {value:g}; give finite numbers, or NaN where a value is missing"
    )


def _row_of(matrix: Any, entry: int) -> int:
    return int(np.searchsorted(matrix.indptr, entry, side="right")) - 1


def _check_size(shape: Sequence[int]) -> None:
    for count, what in zip(shape, ("sample", "feature"), strict=True):
        if count < 1:
            raise ValueError(
                f"Found array with {count} {what}(s) (shape={tuple(shape)}) while a minimum of 1 is required."
            )
