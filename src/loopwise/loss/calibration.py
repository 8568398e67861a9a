r"""Whether beliefs mean what they say: of all events believed with probability .8, do 80 % happen?

In: probabilities of events, and whether each happened. Out: :class:`Reliability`, what a reliability diagram draws,
with the Brier score and the expected calibration error. Stage: loss.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loopwise.arguments import checked_whole

BINS = 10


@dataclass(frozen=True, eq=False)
class Reliability:
    r"""Events in bins of equal width by their probability.

    ``confidence``: the mean probability in each bin, ``frequency``: the share that happened, ``count``: how many; NaN
    in empty bins. ``error``: the expected calibration error :math:`\sum_k\frac{n_k}{n}|\bar p_k-\bar y_k|`;
    ``brier``: the mean of :math:`(p-y)^2`, which punishes vagueness as well.
    """

    confidence: NDArray[np.float64]  # [bins]
    frequency: NDArray[np.float64]  # [bins]
    count: NDArray[np.int64]  # [bins]
    brier: float

    @property
    def error(self) -> float:
        gaps = np.abs(self.confidence - self.frequency)[self.count > 0]
        return float(gaps @ self.count[self.count > 0] / self.count.sum())


def reliability(probabilities: ArrayLike, happened: ArrayLike, bins: int = BINS) -> Reliability:
    """The reliability of ``probabilities`` (any shape) of events that ``happened`` or not (same shape). O(events).

    >>> found = reliability([0.1, 0.1, 0.9, 0.9], [0, 0, 1, 1], bins=2)
    >>> found.confidence.tolist(), found.frequency.tolist(), round(found.error, 9)
    ([0.1, 0.9], [0.0, 1.0], 0.1)
    """
    p, y = np.asarray(probabilities, dtype=np.float64), np.asarray(happened, dtype=np.float64)
    if p.shape != y.shape:
        raise ValueError(
            f"probabilities of shape {p.shape} do not fit outcomes of shape {y.shape}; give one outcome for each"
        )
    if not p.size:
        raise ValueError("there are no events: give at least one probability")
    p, y = p.ravel(), y.ravel()
    wrong = np.flatnonzero(~((p >= 0) & (p <= 1)))
    if wrong.size:
        raise ValueError(f"probability {p[wrong[0]]:g} of event {wrong[0]} is not between 0 and 1; give probabilities")
    checked_whole("bins", bins)
    place = np.minimum((p * bins).astype(np.int64), bins - 1)
    count = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        confidence, frequency = (np.bincount(place, weights=v, minlength=bins) / count for v in (p, y))
    return Reliability(confidence, frequency, count, float(np.mean((p - y) ** 2)))
