r"""Texts as arrays: letters one after another, words and n-grams as sparse vectors.

In: texts of a column. Out: :class:`Packed`, :class:`Vectors`. Stage: use. A vector has for each word or n-gram
:math:`\mathrm{tf}\,\big(\log\frac{1+N}{1+\mathrm{df}}+1\big)` and length 1. Frequencies are those of the table at hand.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.dedupe.kernels import strings
from loopwise.graph.offsets import starts_of

Integers = NDArray[np.int64]
Keys = NDArray[np.uint64]

_PARTED = "\x1f"  # between texts while they are one
_MARKS = re.compile(r"[^\w\x1f]+|_+")


def normalised(texts: Sequence[str]) -> list[str]:
    """Small letters without accents, words parted by one space, no punctuation; at the speed of one long text.

    >>> normalised(["Ærø-Café,  No. 5", "O'Neil"])
    ['ærø cafe no 5', 'oneil']
    """
    if not texts:
        return []
    whole = _PARTED.join(text.replace(_PARTED, " ") for text in texts).replace("'", "").replace("’", "")
    if not whole.isascii():
        whole = "".join(letter for letter in unicodedata.normalize("NFKD", whole) if not unicodedata.combining(letter))
    whole = _MARKS.sub(" ", whole.casefold())
    return [text.strip() for text in whole.split(_PARTED)]


@dataclass(frozen=True, eq=False)
class Packed:
    """Distinct texts as letters in one array; ``place[r]`` is the text of row r. The empty text is a missing value."""

    letters: NDArray[np.uint32]
    start: Integers
    place: Integers
    empty: NDArray[np.bool_]  # of each row

    @staticmethod
    def of(texts: Sequence[str]) -> Packed:
        """Each distinct text once."""
        known: dict[str, int] = {}
        place = np.fromiter((known.setdefault(text, len(known)) for text in texts), np.int64, len(texts))
        distinct = list(known)
        letters = np.frombuffer("".join(distinct).encode("utf-32-le", "surrogatepass"), dtype=np.uint32).copy()
        start = np.zeros(len(distinct) + 1, dtype=np.int64)
        np.cumsum([len(text) for text in distinct], out=start[1:])
        blank = np.diff(start) == 0
        return Packed(letters, start, place, blank[place] if len(place) else np.zeros(0, np.bool_))

    @cached_property
    def dense(self) -> tuple[Integers, int]:
        """Letters numbered from 0, and how many there are."""
        alphabet, numbers = np.unique(self.letters, return_inverse=True)
        return numbers.astype(np.int64).reshape(-1), len(alphabet)

    @cached_property
    def words(self) -> tuple[Integers, Integers]:
        counts, bounds = strings.word_bounds(self.letters, self.start)
        return counts, bounds

    def keys(self, what: str) -> tuple[Integers, Keys]:
        """Keys of each distinct text (how many come before it, and the keys): its words, their sounds, those of them
        with digits, or n-grams of three letters."""
        if what == "grams":
            counts, keys = strings.gram_keys(self.letters, self.start, 3)
            return counts, keys
        counts, bounds = self.words
        if what == "sounds":
            return counts, strings.phonetic_keys(self.letters, bounds)
        keys = strings.word_keys(self.letters, bounds)
        if what == "numbers":
            chosen = strings.digit_words(self.letters, bounds)
            return starts_of(chosen)[counts], keys[chosen]
        return counts, keys


@dataclass(frozen=True, eq=False)
class Vectors:
    """A sparse matrix of texts by words: unit rows, and the weight of each word."""

    start: Integers
    index: NDArray[np.int32]
    value: NDArray[np.float32]
    weight: NDArray[np.float64]  # of each word: its inverse document frequency
    place: Integers  # the row of the matrix of each record

    @staticmethod
    def of(counts: Integers, keys: Keys, place: Integers) -> Vectors:
        """From keys of distinct texts and the text of each record; frequencies count records. O(keys log keys)."""
        known, index = np.unique(keys, return_inverse=True)
        rows = np.repeat(np.arange(len(counts) - 1), np.diff(counts))
        width = max(len(known), 1)
        cells, times = np.unique(rows * width + index.reshape(-1), return_counts=True)
        row, column = np.divmod(cells, width)
        uses = np.bincount(place, minlength=len(counts) - 1)
        frequency = np.bincount(column, weights=uses[row], minlength=width)
        weight = np.log((1.0 + len(place)) / (1.0 + frequency)) + 1.0
        value = times * weight[column]
        length = np.sqrt(np.bincount(row, weights=value * value, minlength=len(counts) - 1))
        start = starts_of(np.bincount(row, minlength=len(counts) - 1))
        unit = (value / np.maximum(length[row], 1e-300)).astype(np.float32)
        return Vectors(start, column.astype(np.int32), unit, weight, place)

    def cosines(self, one: Integers, other: Integers) -> NDArray[np.float32]:
        """Of pairs of records."""
        out = np.zeros(len(one), dtype=np.float32)
        strings.sparse_cosines(self.start, self.index, self.value, self.place[one], self.place[other], out)
        return out

    def overlaps(self, one: Integers, other: Integers) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """How far the lighter of two records is contained in the other, and what they share of both; by weight."""
        contained, shared = np.zeros(len(one), dtype=np.float32), np.zeros(len(one), dtype=np.float32)
        strings.sparse_overlaps(
            self.start, self.index, self.weight, self.place[one], self.place[other], contained, shared
        )
        return contained, shared

    def nearest(self, count: int, most: int, side: Any = None) -> tuple[Integers, NDArray[np.float64]]:
        """The ``count`` nearest texts of each distinct text, by words that at most ``most`` of them have."""
        by_column = np.argsort(self.index, kind="stable")
        rows = np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))
        column_start = starts_of(np.bincount(self.index, minlength=len(self.weight)))
        found = np.full((len(self.start) - 1, count), -1, dtype=np.int64)
        scores = np.zeros(found.shape)
        strings.nearest_rows(
            self.start,
            self.index,
            self.value,
            column_start.astype(np.int64),
            rows[by_column].astype(np.int64),
            self.value[by_column],
            most,
            np.zeros(0, dtype=np.int64) if side is None else side,
            found,
            scores,
        )
        return found, scores
