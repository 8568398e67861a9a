"""Where pieces of given sizes stand when they are put one after another.

In: sizes. Out: integers that kernels and slices take. Stage: structure.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def starts_of(sizes: Sequence[int] | NDArray[np.integer | np.bool_]) -> NDArray[np.int64]:
    """Where consecutive pieces of these sizes begin, and where the last ends, ``[pieces + 1]``.

    >>> starts_of([2, 3]).tolist(), starts_of([]).tolist()
    ([0, 2, 5], [0])
    """
    starts = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts
