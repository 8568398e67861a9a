r"""How alike the words of two mentions are: TF-IDF cosines, and sets of words that overlap.

In: words of mentions. Out: tables ``[mentions, mentions]``. Stage: use. Document frequencies are kept by hashed word,
so that a trained model has a table of fixed size and no vocabulary. O(words + mentions²).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from loopwise.graph.offsets import starts_of
from loopwise.potentials.hashing import hashed, text_keys

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Lists = Sequence[Sequence[str]]

TABLE = 1 << 15  # hashed words; twenty thousand distinct ones rarely meet


@dataclass(frozen=True, eq=False)
class Frequencies:
    """In how many of ``documents`` documents the words of each place of the table occur."""

    counts: Floats
    documents: int

    @staticmethod
    def of(documents: Iterable[Sequence[str]]) -> Frequencies:
        """Counted over documents, each the words it has."""
        counts, number = np.zeros(TABLE), 0
        for words in documents:
            counts[np.unique(_places([word.lower() for word in words]))] += 1
            number += 1
        return Frequencies(counts, number)

    def weights(self, words: Sequence[str]) -> Floats:
        r""":math:`\log\frac{1+N}{1+n_w}+1`, never 0, so that frequent words count a little."""
        weights: Floats = np.log((1.0 + self.documents) / (1.0 + self.counts[_places(words)])) + 1.0
        return weights


def _places(words: Sequence[str]) -> Integers:
    return hashed(text_keys(words), TABLE) if len(words) else np.zeros(0, dtype=np.int64)


def cosines(lists: Lists, frequencies: Frequencies) -> Floats:
    """TF-IDF cosine of each two mentions; 0 where one has no words."""
    counts, words = _counts(lists)
    weighted = counts.multiply(frequencies.weights(words)[None, :]).tocsr() if words else counts
    squares = np.asarray(weighted.multiply(weighted).sum(axis=1)).reshape(-1)
    dots = (weighted @ weighted.T).toarray()
    scale = np.sqrt(np.where(squares > 0, squares, 1.0))
    found: Floats = dots / scale[:, None] / scale[None, :]
    return found


def overlaps(lists: Lists) -> tuple[Integers, Integers]:
    """How many distinct words each two mentions share, and how many each has."""
    counts, _ = _counts(lists)
    present = (counts > 0).astype(np.int64)
    shared = (present @ present.T).toarray().astype(np.int64)
    return shared, np.asarray(present.sum(axis=1)).reshape(-1).astype(np.int64)


def _counts(lists: Lists) -> tuple[csr_matrix, list[str]]:
    known: dict[str, int] = {}
    columns = [known.setdefault(word, len(known)) for words in lists for word in words]
    starts = starts_of([len(words) for words in lists])
    shape = (len(lists), max(len(known), 1))
    matrix = csr_matrix((np.ones(len(columns)), np.array(columns, dtype=np.int64), starts), shape=shape)
    matrix.sum_duplicates()
    return matrix, list(known)
