"""Paired comparisons over models and over examples.

In: losses of two trainings on the same models or examples. Out: wins, ties and losses; p-values of sign-flip tests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

TIE = 5e-6  # losses that agree in the five digits printed
MOST_EXACT = 20  # differences whose sign flips are all tried, a million
FLIPS = 9999  # drawn where all would be too many
_CHUNK = 500

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class WinLoss:
    """On how many models a training wins, ties and loses."""

    wins: int
    ties: int
    losses: int

    def __str__(self) -> str:
        return f"{self.wins}-{self.ties}-{self.losses}"


def record(ours: Sequence[float], theirs: Sequence[float]) -> WinLoss:
    """Wins (our loss is smaller), ties and losses.

    >>> str(record([0.1, 0.2, 0.3], [0.2, 0.2, 0.1]))
    '1-1-1'
    """
    gaps = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)
    wins, losses = int((gaps < -TIE).sum()), int((gaps > TIE).sum())
    return WinLoss(wins, len(gaps) - wins - losses, losses)


def sign_flip_p(differences: ArrayLike) -> float:
    """Two-sided p-value of "the mean difference is 0": the share of all sign flips with as large a mean or larger.

    Exact: all ``2^n`` flips are tried, 4096 for 12 models. Signs come in pairs, so the least p is ``2^(1-n)``.

    >>> sign_flip_p([1.0, 2.0, 3.0])
    0.25
    """
    values = np.asarray(differences, dtype=np.float64)
    if not 1 <= len(values) <= MOST_EXACT:
        raise ValueError(f"an exact sign-flip test takes 1 to {MOST_EXACT} differences, not {len(values)}")
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return float((np.abs(sums) >= _reach(values)).mean())


def example_flip_p(differences: Sequence[ArrayLike], seed: int = 0, flips: int = FLIPS) -> float:
    """The same over examples: each model's differences ``[examples]``, signs drawn for each example.

    The statistic is the mean over models of their means. p = (1 + flips at least as extreme) / (1 + flips).
    """
    weighted = [np.asarray(rows, dtype=np.float64) / len(np.asarray(rows)) for rows in differences]
    values = np.concatenate(weighted)
    rng, extreme, done = np.random.default_rng(seed), 0, 0
    while done < flips:
        count = min(_CHUNK, flips - done)
        bits = np.frombuffer(rng.bytes(count * (-(-len(values) // 8))), dtype=np.uint8).reshape(count, -1)
        signs = np.unpackbits(bits, axis=1)[:, : len(values)]
        sums = 2.0 * (signs @ values) - values.sum()
        extreme += int((np.abs(sums) >= _reach(values)).sum())
        done += count
    return (1 + extreme) / (1 + flips)


def mean(values: Sequence[float]) -> float:
    """The mean; NaN of nothing."""
    return sum(values) / len(values) if values else math.nan


def mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean, and its standard error if there is more than one value."""
    array = np.asarray(values, dtype=np.float64)
    return float(array.mean()), float(array.std(ddof=1) / np.sqrt(len(array))) if len(array) > 1 else None


def _reach(values: Floats) -> float:
    """The observed sum, less what rounding may take from an equal one."""
    return float(abs(values.sum()) - 1e-12 * np.abs(values).sum())
