"""Slopes of arrays by central differences, for kernels and their adjoints."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def slopes(function: Callable[[np.ndarray], float], point: np.ndarray, width: float = 1e-6) -> np.ndarray:
    """The derivative of ``function`` in every coordinate of ``point``."""
    found = np.zeros(point.shape)
    for place in np.ndindex(point.shape):
        moved = np.zeros(point.shape)
        moved[place] = width
        found[place] = (function(point + moved) - function(point - moved)) / (2 * width)
    return found
