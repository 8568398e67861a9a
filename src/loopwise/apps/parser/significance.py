"""Whether one parser is better than another: the paired bootstrap over sentences.

In: right heads of each sentence by two parsers (:func:`~loopwise.apps.parser.report.sentence_counts`). Out: the
difference of their scores with its standard error and p-value. Stage: use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

DRAWS = 2000
AT_ONCE = 200  # draws held in memory


@dataclass(frozen=True)
class ParserComparison:
    """``gap``: our share of right heads less theirs; ``error``: its standard error; ``p``: of no difference."""

    gap: float
    error: float
    p: float
    sentences: int


def paired_bootstrap(
    ours: ArrayLike, theirs: ArrayLike, scored: ArrayLike, *, draws: int = DRAWS, seed: int = 0
) -> ParserComparison:
    """Compares two parsers on the same sentences: right heads of each by either, and the words that count.

    Sentences are drawn anew with replacement; p is two-sided, the share of draws whose gap is as far from the gap of
    the sentences themselves as that is from 0 (Efron & Tibshirani 1993, section 16). O(draws * sentences).

    >>> paired_bootstrap([3, 4, 2], [3, 4, 2], [4, 5, 3])
    ParserComparison(gap=0.0, error=0.0, p=1.0, sentences=3)
    """
    gap, gaps = _gap(ours, theirs, scored), resampled_gaps(ours, theirs, scored, draws=draws, seed=seed)
    return ParserComparison(gap, float(gaps.std(ddof=1)), bootstrap_p(gap, gaps), len(np.asarray(scored)))


def bootstrap_p(gap: float, gaps: NDArray[np.float64]) -> float:
    """The p-value of a ``gap`` from those of resampled data, ``[draws]``."""
    reach = abs(gap) - 1e-12  # less what rounding may take from an equal one
    return float((1 + (np.abs(gaps - gap) >= reach).sum()) / (1 + len(gaps)))


def resampled_gaps(
    ours: ArrayLike, theirs: ArrayLike, scored: ArrayLike, *, draws: int = DRAWS, seed: int = 0
) -> NDArray[np.float64]:
    """The gap of each draw of as many sentences as there are, ``[draws]``."""
    lead, counts = _checked(ours, theirs, scored)
    rng, found = np.random.default_rng(seed), []
    for begin in range(0, draws, AT_ONCE):
        chosen = rng.integers(len(counts), size=(min(AT_ONCE, draws - begin), len(counts)))
        found.append(lead[chosen].sum(1) / np.maximum(1, counts[chosen].sum(1)))
    gaps: NDArray[np.float64] = np.concatenate(found)
    return gaps


def _gap(ours: ArrayLike, theirs: ArrayLike, scored: ArrayLike) -> float:
    lead, counts = _checked(ours, theirs, scored)
    return float(lead.sum() / max(1, counts.sum()))


def _checked(ours: ArrayLike, theirs: ArrayLike, scored: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """By how many heads we lead in each sentence, and how many words count."""
    mine, other, counts = (np.asarray(values, dtype=np.int64) for values in (ours, theirs, scored))
    if not mine.shape == other.shape == counts.shape or counts.ndim != 1 or not len(counts):
        raise ValueError(
            f"a paired test needs one number a sentence from each, not {mine.shape}, {other.shape} and {counts.shape}"
        )
    return mine - other, counts
