"""Feature hashing: any tuple of integers becomes one of a fixed number of weights (Weinberger et al. 2009).

In: integer arrays, one a field of the tuple. Out: 64-bit keys, and their places in a table of a chosen size. Stage:
numbers. Keys depend on the numbers alone: the same in every run, on every machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loopwise.arguments import checked_whole
from loopwise.graph.factor_graph import Integers

Keys = NDArray[np.uint64]

# Steele, Lea & Flood 2014 (SplitMix64): the increment, and the two multipliers of the finaliser by Stafford.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def feature_keys(*fields: ArrayLike, count: int | None = None) -> Keys:
    """One 64-bit key for each tuple ``(fields[0][i], fields[1][i], ...)``; fields broadcast against each other.

    Give the template's number as first field, so that templates with equal values differ. Each field is mixed in by a
    one-to-one map of 64-bit numbers: tuples that differ in one field never share a key, others with probability
    2^-64 a pair. ``count``: how many fields there will be, if others are still to be mixed in. O(fields) vectorised
    passes.

    >>> keys = feature_keys(3, [10, 11, 10], [7, 7, 7])
    >>> bool(keys[0] == keys[2]), bool(keys[0] == keys[1])
    (True, False)
    """
    if not fields:
        raise ValueError("a feature needs at least one field; give it one or more arrays of integers")
    key: Keys = np.full((), len(fields) if count is None else count, dtype=np.uint64)
    for number, field in enumerate(fields):
        with np.errstate(over="ignore"):  # arithmetic modulo 2^64 is meant
            key = _mixed(key + _STEP + _unsigned(number, field))
    return key


def text_key(text: str) -> int:
    """A 64-bit key for one text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def text_keys(texts: Sequence[str]) -> Keys:
    """A 64-bit key for each text, to be used as a field of :func:`feature_keys`; each distinct text is hashed once."""
    known: dict[str, int] = {}
    for text in texts:
        if text not in known:
            known[text] = text_key(text)
    return np.fromiter((known[text] for text in texts), dtype=np.uint64, count=len(texts))


def hashed(keys: ArrayLike, size: int) -> Integers:
    """Places of ``keys`` in a table of ``size`` weights: the key modulo the size. Collisions simply add up."""
    checked_whole("the size of a hashed table", size)
    places: Integers = (_unsigned(0, keys) % np.uint64(size)).astype(np.int64)
    return places


def _mixed(key: Keys) -> Keys:
    """A one-to-one map of 64-bit numbers in which every bit of the input moves about half the bits of the output."""
    key = (key ^ (key >> np.uint64(30))) * _FIRST
    key = (key ^ (key >> np.uint64(27))) * _SECOND
    return key ^ (key >> np.uint64(31))


def _unsigned(number: int, field: ArrayLike) -> Keys:
    array = np.asarray(field)
    if array.dtype == np.bool_:
        array = array.astype(np.uint64)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"field {number} of a feature must hold integers, not {array.dtype}")
    return array.astype(np.int64).view(np.uint64) if array.dtype != np.uint64 else array
