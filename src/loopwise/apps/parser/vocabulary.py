"""Words, prefixes, tags and relations as small integers.

In: sentences. Out: :class:`ParserVocabulary`, learnt once from training data, and :class:`SentenceArrays`, the
sentences as flat arrays that kernels read. Stage: use.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.formats.conllu import NO_HEAD, Sentence
from loopwise.graph.offsets import starts_of

Integers = NDArray[np.int64]

BORDER, ROOT, UNKNOWN = 0, 1, 2  # numbers every vocabulary has
RESERVED = 3
PREFIX_LETTERS = 5
WORD_LIMIT, TAG_LIMIT = 1 << 18, 1 << 14  # what a feature's fields can hold (features/templates.py)


def normalise(form: str) -> str:
    """How a form is looked up: digits are alike, so that a number is known by its shape.

    >>> normalise("1,024"), normalise("Budapest")
    ('0,000', 'Budapest')
    """
    return form if form.isalpha() else "".join("0" if letter.isdigit() else letter for letter in form)


@dataclass(frozen=True)
class ParserVocabulary:
    """What the parser knows by name. Number k + 3 stands for entry k; 0 is a border, 1 the root, 2 anything unknown."""

    words: tuple[str, ...]
    prefixes: tuple[str, ...]
    fine: tuple[str, ...]
    coarse: tuple[str, ...]
    relations: tuple[str, ...]  # numbered from 0

    @staticmethod
    def learn(sentences: Iterable[Sentence], cutoff: int = 3) -> ParserVocabulary:
        """From training sentences; words and prefixes seen fewer than ``cutoff`` times are unknown. O(words)."""
        words: Counter[str] = Counter()
        prefixes: Counter[str] = Counter()
        fine: Counter[str] = Counter()
        coarse: Counter[str] = Counter()
        relations: Counter[str] = Counter()
        for sentence in sentences:
            forms = [normalise(form) for form in sentence.forms]
            words.update(forms)
            prefixes.update(form[:PREFIX_LETTERS] for form in forms)
            fine.update(sentence.fine_tags)
            coarse.update(sentence.coarse_tags)
            relations.update(sentence.relations)
        return ParserVocabulary(
            _common(words, cutoff, WORD_LIMIT),
            _common(prefixes, cutoff, WORD_LIMIT),
            _common(fine, 1, TAG_LIMIT),
            _common(coarse, 1, TAG_LIMIT),
            tuple(sorted(relations)),
        )

    @property
    def tags(self) -> int:
        """One more than the largest number of a tag."""
        return RESERVED + max(len(self.fine), len(self.coarse))

    @property
    def coarse_tags(self) -> int:
        """The same of coarse ones alone."""
        return RESERVED + len(self.coarse)

    @cached_property
    def numbers(self) -> dict[str, dict[str, int]]:
        """Numbers by name, for each kind of name."""
        found = {
            kind: {name: place + RESERVED for place, name in enumerate(getattr(self, kind))}
            for kind in ("words", "prefixes", "fine", "coarse")
        }
        found["relations"] = {name: place for place, name in enumerate(self.relations)}
        return found

    def to_json(self) -> dict[str, list[str]]:
        """Lists of names."""
        return {kind: list(getattr(self, kind)) for kind in ("words", "prefixes", "fine", "coarse", "relations")}

    @staticmethod
    def from_json(json: Mapping[str, Any]) -> ParserVocabulary:
        """What :meth:`to_json` wrote."""
        kinds = ("words", "prefixes", "fine", "coarse", "relations")
        for kind in kinds:
            if not (isinstance(json[kind], list) and all(isinstance(name, str) for name in json[kind])):
                raise ValueError(f"the {kind} of the vocabulary are no list of names")
        return ParserVocabulary(*(tuple(json[kind]) for kind in kinds))


@dataclass(frozen=True, eq=False)
class SentenceArrays:
    """Sentences as flat arrays. Sentence s has the columns ``start[s]`` to ``start[s + 1]``: border, root, words,
    border.

    ``tokens``: word, prefix, fine tag, coarse tag, whether the word is longer than its prefix, ``[5, columns]``.
    ``heads`` and ``relations`` ``[columns]`` are -1 where there is none.
    """

    tokens: NDArray[np.uint64]
    start: Integers
    heads: NDArray[np.int32]
    relations: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.start) - 1

    @cached_property
    def lengths(self) -> Integers:
        """Words of each sentence."""
        lengths: Integers = self.start[1:] - self.start[:-1] - 3
        return lengths

    @property
    def words(self) -> int:
        """Words of all sentences."""
        return int(self.start[-1] - 3 * len(self))

    @cached_property
    def word_columns(self) -> Integers:
        """The columns that hold words, in order."""
        inside = np.ones(int(self.start[-1]), dtype=bool)
        inside[self.start[:-1]] = inside[self.start[:-1] + 1] = inside[self.start[1:] - 1] = False
        columns: Integers = np.flatnonzero(inside)
        return columns

    @cached_property
    def known_words(self) -> Integers:
        """Words of each sentence that have a head."""
        before = starts_of(self.heads >= 0)
        known: Integers = before[self.start[1:]] - before[self.start[:-1]]
        return known

    def only_known(self, heads: NDArray[np.int32]) -> NDArray[np.int32]:
        """``heads`` ``[columns]``, -1 where this corpus has none."""
        return np.where(self.heads >= 0, heads, np.int32(NO_HEAD))

    def columns_of(self, chosen: Integers) -> Integers:
        """The columns that hold the words of some sentences in order, sentence after sentence."""
        if len(chosen) == len(self):  # all, in order
            return self.word_columns
        lengths = self.lengths[chosen]
        before = np.cumsum(lengths) - lengths
        columns: Integers = np.arange(int(lengths.sum())) + np.repeat(self.start[chosen] + 2 - before, lengths)
        return columns

    def select(self, chosen: Integers) -> SentenceArrays:
        """Some of the sentences, as a corpus of their own."""
        counts = np.diff(self.start)[chosen]
        start = starts_of(counts)
        columns = np.arange(start[-1]) + np.repeat(self.start[chosen] - start[:-1], counts)
        tokens = np.take(self.tokens, columns, axis=1)  # row after row, as kernels are compiled for
        return SentenceArrays(tokens, start, self.heads[columns], self.relations[columns])

    def split(self, flat: NDArray[Any]) -> list[NDArray[Any]]:
        """Values of columns ``[columns]`` as one array a sentence, its words alone."""
        start = self.start.tolist()
        return [flat[first + 2 : end - 1] for first, end in itertools.pairwise(start)]


def encode(sentences: Sequence[Sentence], vocabulary: ParserVocabulary) -> SentenceArrays:
    """Sentences as arrays; what the vocabulary does not have becomes unknown. O(words)."""
    numbers = vocabulary.numbers
    words, prefixes, fine, coarse = (numbers[kind] for kind in ("words", "prefixes", "fine", "coarse"))
    relations = numbers["relations"]
    columns: list[list[int]] = [[], [], [], [], []]
    heads: list[int] = []
    labels: list[int] = []
    start = [0]
    for sentence in sentences:
        for field in columns[:4]:
            field += (BORDER, ROOT)
        columns[4] += (0, 0)
        forms = [normalise(form) for form in sentence.forms]
        columns[0] += [words.get(form, UNKNOWN) for form in forms]
        columns[1] += [prefixes.get(form[:PREFIX_LETTERS], UNKNOWN) for form in forms]
        columns[2] += [fine.get(tag, UNKNOWN) for tag in sentence.fine_tags]
        columns[3] += [coarse.get(tag, UNKNOWN) for tag in sentence.coarse_tags]
        columns[4] += [len(form) > PREFIX_LETTERS for form in forms]
        for field in columns:
            field.append(BORDER)
        heads += (NO_HEAD, NO_HEAD, *sentence.heads, NO_HEAD)
        labels += (-1, -1, *(relations.get(name, -1) for name in sentence.relations), -1)
        start.append(len(heads))
    return SentenceArrays(
        np.array(columns, dtype=np.uint64).reshape(5, -1),
        np.array(start, dtype=np.int64),
        np.array(heads, dtype=np.int32),
        np.array(labels, dtype=np.int32),
    )


def _common(counts: Counter[str], cutoff: int, limit: int) -> tuple[str, ...]:
    """Names seen often enough, at most as many as fit, in an order that depends on the counts alone."""
    enough = sorted(((-count, name) for name, count in counts.items() if count >= cutoff))
    return tuple(name for _, name in enough[: limit - RESERVED])
