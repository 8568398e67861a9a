r"""Which examples deserve the dearer of two systems: those where it is expected to pay.

In: what the cheap system's answers look like, and on held-out examples how much the dear one gained. Out:
:class:`Escalation`, a rule for new examples. Stage: budget (cost-aware spec, section 6: policies over which
approximation an example gets). It asks nothing of the systems, so it serves parsers and taggers as well as graphs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Doubles = NDArray[np.float64]
CONSTANT = 1e-9  # a feature that varies less says nothing


@dataclass(frozen=True, eq=False)
class Escalation:
    r"""The dear system is asked where :math:`w\cdot\phi(x)>\lambda\,c(x)`: expected gain above the price of its run.

    Stopping with the cheap answer costs :math:`\ell_1+\lambda c_1`, going on :math:`\ell_2+\lambda(c_1+c_2)`; the
    difference of the losses is predicted from features of the cheap answer by ridge regression.

    >>> rule = Escalation.fit([[0.1], [0.2], [2.0], [3.0]], [0.0, 0.1, 1.1, 1.4], strength=0.01)
    >>> rule.chosen([[0.1], [2.5]], [1.0, 1.0], price=0.5).tolist()
    [False, True]
    """

    weights: Doubles  # [features]
    centre: Doubles
    scale: Doubles
    mean: float  # gain where features are at their centre

    @staticmethod
    def fit(features: ArrayLike, gains: ArrayLike, *, strength: float = 1.0) -> Escalation:
        """``features``: ``[examples, features]`` of cheap answers; ``gains``: by how much the dear one's losses were
        less.

        Use examples that trained neither system. ``strength``: of the ridge penalty, in examples. O(examples
        features^2).
        """
        rows, values = _checked(features), np.asarray(gains, dtype=np.float64)
        if values.shape != (len(rows),):
            raise ValueError(f"gains are of shape {values.shape}; there must be one for each of {len(rows)} examples")
        if not len(rows):
            raise ValueError("there are no examples to learn from when a dearer system pays; give at least one")
        if not strength >= 0:
            raise ValueError(f"strength must be at least 0, not {strength}")
        centre, spread = rows.mean(0), rows.std(0)
        scale = np.where(spread < CONSTANT, 1.0, spread)
        scaled = (rows - centre) / scale
        mean = float(values.mean())
        grams = scaled.T @ scaled + max(strength, CONSTANT) * np.eye(rows.shape[1])
        return Escalation(np.linalg.solve(grams, scaled.T @ (values - mean)), centre, scale, mean)

    def gain(self, features: ArrayLike) -> Doubles:
        """By how much the dear system's loss is expected to be less, ``[examples]``."""
        rows = _checked(features)
        if rows.shape[1] != len(self.weights):
            raise ValueError(f"the rule knows {len(self.weights)} features, but {rows.shape[1]} are given")
        found: Doubles = ((rows - self.centre) / self.scale) @ self.weights + self.mean
        return found

    def chosen(self, features: ArrayLike, costs: ArrayLike, price: float) -> NDArray[np.bool_]:
        """Which examples to hand to the dear system, at ``costs`` ``[examples]`` and a price each."""
        if not price >= 0:
            raise ValueError(f"a price must be at least 0, not {price}")
        dear: NDArray[np.bool_] = self.gain(features) > price * np.asarray(costs, dtype=np.float64)
        return dear


def _checked(features: ArrayLike) -> Doubles:
    rows = np.asarray(features, dtype=np.float64)
    if rows.ndim != 2:
        raise ValueError(f"features must be a table with a row an example, not of shape {rows.shape}")
    return rows
