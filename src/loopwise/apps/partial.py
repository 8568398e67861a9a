"""Answers that are not known, or known in part, as users write them; and answers with their probabilities.

In: labels among which are ``None``, NaN, -1 or sets. Out: which labels each may be. Stage: use.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple


class RankedAnswer(NamedTuple):
    """One of several answers, and its probability."""

    answer: Any
    probability: float


def is_unknown(label: object) -> bool:
    """Whether a label says that it is not known: ``None``, NaN, pandas' NA, or the number -1.

    >>> [is_unknown(label) for label in (None, float("nan"), -1, 0, "O", "-1", True)]
    [True, True, True, False, False, False, False]
    """
    if label is None:
        return True
    if isinstance(label, str | bytes | bool | set | frozenset):
        return False
    if isinstance(label, float) or hasattr(label, "dtype"):
        return bool(label == -1 or label != label)  # NaN is not equal to itself
    return type(label).__name__ in ("NAType", "NaTType") or (isinstance(label, int) and label == -1)


def choices_of(label: object) -> Collection[Any] | None:
    """The labels that a set allows; None if it is no set.

    >>> sorted(choices_of({"B-PER", "O"})), choices_of("O")
    (['B-PER', 'O'], None)
    """
    return label if isinstance(label, set | frozenset) else None
