"""Inputs as learners see them: scaled, missing values filled in, a constant feature at the end.

In: arrays, dense or sparse, of anything numeric. Out: float64 matrices. Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.learn.fields import Record

Floats = NDArray[np.float64]


LEAST_SPREAD = 1e-200  # quotients by less might overflow


@dataclass(frozen=True, eq=False)
class Scaling:
    """``(x - centre) / spread``, of each feature; missing values (NaN) become ``centre``, so 0.

    Sparse inputs (CSR) are not centred, so that they stay sparse: their ``centre`` is 0 and ``spread`` the root mean
    square.
    """

    centre: Floats
    spread: Floats

    @staticmethod
    def of(inputs: Any, wanted: bool) -> Scaling:
        """Means and standard deviations of training inputs; with ``wanted`` false only means, for missing values."""
        features = inputs.shape[1]
        if is_sparse(inputs):
            squares = np.bincount(inputs.indices, np.nan_to_num(inputs.data) ** 2, minlength=features)
            spread = np.sqrt(squares / inputs.shape[0])
            return Scaling(np.zeros(features), _usable(spread) if wanted else np.ones(features))
        seen = np.isfinite(inputs)
        counts = np.maximum(seen.sum(axis=0), 1)
        centre = np.where(seen, inputs, 0.0).sum(axis=0) / counts
        if not wanted:
            return Scaling(centre, np.ones(features))
        spread = np.sqrt((np.where(seen, inputs - centre, 0.0) ** 2).sum(axis=0) / counts)
        return Scaling(centre, _usable(spread))

    @staticmethod
    def read(told: Record, features: int) -> Scaling:
        """Of a saved model: the tensors ``centre`` and ``spread``."""
        centre, spread = told.weights("centre", (features,)), told.weights("spread", (features,))
        if not (spread >= LEAST_SPREAD).all():
            raise ValueError(f"the tensor 'spread' holds {spread.min()}; spreads must be at least {LEAST_SPREAD:g}")
        return Scaling(centre, spread)

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


def is_sparse(inputs: Any) -> bool:
    """Whether it is one of SciPy's sparse matrices or arrays."""
    from scipy import sparse

    return bool(sparse.issparse(inputs))


def compressed(inputs: Any) -> Any:
    """The rows as a SciPy CSR array, zeros of dense inputs included: a dense row stays one."""
    from scipy import sparse

    if is_sparse(inputs):
        made = sparse.csr_array(inputs)
        made.sum_duplicates()
        return made
    rows, features = inputs.shape
    start = np.arange(rows + 1) * features
    index = np.tile(np.arange(features), rows)
    return sparse.csr_array((inputs.reshape(-1), index, start), shape=inputs.shape)


def _usable(spread: Floats) -> Floats:
    """Features that never vary are left as they are."""
    return np.where(spread > max(1e-12 * float(spread.max(initial=0.0)), LEAST_SPREAD), spread, 1.0)
