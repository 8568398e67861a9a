"""Compiled walks over worlds that a user describes by compiled functions of their own.

In: seven functions compiled by Numba, and the data they read. Out: the same contract as for labellings and clusterings.
Below the stages. The state of a document is a slice of one array of integers; what it means is the functions' affair.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class UserArrays(NamedTuple):
    """Functions of ``(data, document, state, ...)``, and where the state of each document lies."""

    start: Callable[..., Any]  # (data, document, state, kind, generator): fills the state
    propose: Callable[..., Any]  # (data, document, state, generator, move): (changes anything, log ratio)
    difference: Callable[..., Any]  # (data, document, state, move, delta): adds features after less before
    gain: Callable[..., Any]  # (data, document, state, move): what the signal rises by
    apply: Callable[..., Any]  # (data, document, state, move)
    undo: Callable[..., Any]  # (data, document, state, move)
    features: Callable[..., Any]  # (data, document, state, sign, delta): adds sign times the features of the state
    gap: Callable[..., Any]  # (data, document, state): the signal of the truth less that of the state
    data: Any
    state_start: np.ndarray  # [documents + 1]
    number: np.ndarray  # [documents], what the functions call each


class UserWorld(NamedTuple):
    """The states of all documents."""

    states: np.ndarray  # int64
