"""What is given, looked at: one sentence for what cannot be used.

In: arguments, and what messages call them. Out: the same as numbers and arrays. Below the stages.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_KINDS = {"U": "text", "S": "bytes", "c": "complex numbers"}


def checked_whole(name: str, value: Any, least: int = 1) -> int:
    """A whole number.

    >>> checked_whole("sweeps", 0)
    Traceback (most recent call last):
    ValueError: sweeps must be a whole number of at least 1, not 0
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)


def checked_number(name: str, value: Any, above: bool = True) -> float:
    """A finite number above 0, or (``above`` False) of at least 0.

    >>> checked_number("the scale", "a")
    Traceback (most recent call last):
    ValueError: the scale must be a number above 0, not 'a'
    """
    fits = (
        isinstance(value, (int, float, np.integer, np.floating))
        and math.isfinite(value)
        and (value > 0 if above else value >= 0)
    )
    if not fits:
        raise ValueError(f"{name} must be a number {'above' if above else 'of at least'} 0, not {value!r}")
    return float(value)


def checked_kind(name: str, value: Any, kinds: type | tuple[type, ...], wanted: str) -> None:
    """Raises unless ``value`` is an object of one of ``kinds``, which ``wanted`` describes."""
    if not isinstance(value, kinds):
        given = f"the class {value.__name__} itself" if isinstance(value, type) else repr(value)
        raise ValueError(f"{name} must be {wanted}, not {given}")


def checked_part(name: str, value: Any, method: str, example: str) -> None:
    """Raises unless ``value`` is an object that has ``method``, as ``example`` has.

    >>> checked_part("decoder", "viterbi", "decide", "Viterbi()")
    Traceback (most recent call last):
    ValueError: decoder must be an object such as Viterbi(), not 'viterbi'
    """
    if isinstance(value, type) or not hasattr(value, method):
        given = f"the class {value.__name__} itself" if isinstance(value, type) else repr(value)
        raise ValueError(f"{name} must be an object such as {example}, not {given}")


def checked_array(name: str, given: ArrayLike) -> NDArray[Any]:
    """An array of numbers.

    >>> checked_array("the check matrix", [[1, 0], [1]])
    Traceback (most recent call last):
    ValueError: the check matrix has rows of different lengths
    """
    try:
        found: NDArray[Any] = np.asarray(given)
    except ValueError:
        raise ValueError(f"{name} has rows of different lengths") from None
    if found.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold numbers, not {_KINDS.get(found.dtype.kind, type(given).__name__)}")
    return found
