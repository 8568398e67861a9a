"""Sentences by document: for models that look beyond a sentence.

In: documents as lists of sentences. Out: :class:`Documents`, which are sentences one after another wherever these are
taken. Stage: use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any, overload

import numpy as np

from loopwise.formats.errors import shortened
from loopwise.potentials.linear import Integers


class Documents(Sequence[Any]):
    """The sentences of documents, one after another; also their tags, or sequences of feature vectors.

    ``document`` ``[sentences]``: which of them each sentence belongs to.

    Parameters
    ----------
    documents:
        A list of sentences for each.

    >>> texts = Documents([[["Ann", "ran"], ["Ann", "fell"]], [["Bob", "sat"]]])
    >>> len(texts), texts.document.tolist()
    (3, [0, 0, 1])
    >>> texts.split(["first", "second", "third"])
    [['first', 'second'], ['third']]
    """

    document: Integers

    def __init__(self, documents: Iterable[Sequence[Any]]) -> None:
        listed = list(documents)
        for number, sentences in enumerate(listed):
            if isinstance(sentences, str) or not isinstance(sentences, Sequence):
                raise ValueError(
                    f"document {number} is {shortened(repr(sentences))}; give each document as a list of sentences"
                )
        self._lengths = [len(sentences) for sentences in listed]
        self._sentences = [sentence for sentences in listed for sentence in sentences]
        self.document = np.repeat(np.arange(len(listed)), self._lengths)

    def __len__(self) -> int:
        return len(self._sentences)

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> list[Any]: ...
    def __getitem__(self, place: int | slice) -> Any:
        return self._sentences[place]

    def split(self, answers: Sequence[Any]) -> list[list[Any]]:
        """What was said of each sentence, document by document."""
        if len(answers) != len(self):
            raise ValueError(f"there are {len(self)} sentences and {len(answers)} answers; give one for each")
        return [list(answers[begin:end]) for begin, end in pairwise(accumulate(self._lengths, initial=0))]
