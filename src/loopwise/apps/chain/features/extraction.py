"""From words to features: the keys of everything that templates see, at the speed of arrays.

In: templates and a :class:`~loopwise.apps.chain.features.text.Text`. Out: :class:`KeyRows`, and the linear map they
make. Stage: use. Templates that look at one word see the same in all tokens of that word: they are worked out once a
distinct word, and tokens only say which word they have at which offset. The others (several words, places in the
sentence) get a row a distinct value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.chain.features.attributes import PLACES, attribute, is_question
from loopwise.apps.chain.features.index import FeatureIndex
from loopwise.apps.chain.features.templates import BIAS, FeatureTemplate, Part
from loopwise.apps.chain.features.text import Text
from loopwise.potentials.hashing import Keys, feature_keys, text_keys
from loopwise.potentials.linear import Design, Floats, Integers, Matrix

Flags = NDArray[np.bool_]

EDGES = ("\0<", "\0>")  # what stands before and after every sentence; no word of a text file


@dataclass(frozen=True, eq=False)
class KeyRows:
    """Token ``t`` has the rows ``token_row[t]``, row ``r`` the feature keys ``key[start[r]:start[r + 1]]``.

    ``value`` is empty where all features have the value 1.
    """

    token_row: NDArray[np.int32]  # [tokens, blocks]
    start: Integers  # [rows + 1]
    key: Keys  # [entries]
    value: Floats = field(default_factory=lambda: np.zeros(0))  # [entries]

    @property
    def counts(self) -> Integers:
        """How many tokens have each entry, ``[entries]``."""
        rows = np.bincount(self.token_row.reshape(-1), minlength=len(self.start) - 1)
        return np.repeat(rows, np.diff(self.start))


def extract(templates: Sequence[FeatureTemplate], text: Text) -> KeyRows:
    """The keys of all tokens. O(distinct words x attributes) in Python, O(tokens x templates) in arrays.

    Keys are hashes of 64 bits of a template and its values (:mod:`loopwise.potentials.hashing`): the same in every run.
    """
    viewer = _Viewer(text)
    blocks: list[Integers] = []
    starts: list[Integers] = [np.zeros(2, dtype=np.int64)]  # row 0 has no features
    keys: list[Keys] = []
    rows = entries = 0
    rows = 1
    offsets = sorted({t.offset for t in templates if t.offset is not None})
    pieces = [viewer.of_words([t for t in templates if t.offset == offset], offset) for offset in offsets]
    pieces += [viewer.of_tokens(template) for template in templates if template.offset is None]
    for token_row, lengths, key in pieces:
        blocks.append(np.where(token_row < 0, 0, token_row + rows))
        starts.append(entries + np.cumsum(lengths))
        keys.append(key)
        rows += len(lengths)
        entries += len(key)
    table = np.stack(blocks, axis=1) if blocks else np.zeros((text.tokens, 0), np.int64)
    joined = np.concatenate(keys) if keys else np.zeros(0, np.uint64)
    return KeyRows(np.ascontiguousarray(table, dtype=np.int32), np.concatenate(starts), joined)


def extract_items(text: Text) -> KeyRows:
    """The keys of features that tokens came with: a row a token."""
    items = text.items
    assert items is not None
    key = text_keys(items.names)[items.index] if items.names else np.zeros(0, np.uint64)
    value = np.zeros(0) if (items.value == 1.0).all() else items.value
    return KeyRows(np.arange(text.tokens, dtype=np.int32)[:, None], items.start, key, value)


def design_of(keys: KeyRows, index: FeatureIndex) -> Design:
    """The features of every token as a linear map; those that have no row in the index are left out."""
    found = index.find(keys.key)
    known = found >= 0
    lengths = np.add.reduceat(np.append(known, False).astype(np.int64), keys.start[:-1]) * (np.diff(keys.start) > 0)
    start = np.zeros(len(keys.start), dtype=np.int64)
    np.cumsum(lengths, out=start[1:])
    value = keys.value[known] if len(keys.value) else keys.value
    rows = Matrix(start, found[known].astype(np.int32), index.size, value)
    count, blocks = keys.token_row.shape
    every = Matrix(np.arange(count + 1) * blocks, keys.token_row.reshape(-1), rows.rows)
    return Design(every.only(lengths > 0), rows)  # rows without features need not be visited


class _Viewer:
    """A text as templates see it."""

    def __init__(self, text: Text) -> None:
        self.text = text
        lengths = np.diff(text.start)
        self.begin = np.repeat(text.start[:-1], lengths)
        self.end = np.repeat(text.start[1:], lengths)
        self._values: dict[str, tuple[Keys, Flags]] = {}

    def of_words(self, templates: Sequence[FeatureTemplate], offset: int) -> tuple[Integers, Integers, Keys]:
        """Rows, one a distinct word (and one for each edge): row of each token, lengths of rows, keys."""
        columns = [
            self._combined(template, [self._word_values(part.name) for part in template.parts])
            for template in templates
        ]
        keys = np.stack([key for key, _ in columns], axis=1)
        present = np.stack([flags for _, flags in columns], axis=1)
        return self._word_at(offset), present.sum(axis=1), keys[present]

    def of_tokens(self, template: FeatureTemplate) -> tuple[Integers, Integers, Keys]:
        """Rows, one a distinct value: row of each token (-1: none), lengths of rows, keys."""
        key, present = self._combined(template, [self._token_values(part) for part in template.parts])
        distinct, first, place = np.unique(key[present], return_index=True, return_inverse=True)
        order = np.argsort(first)  # as they appear in the text: what is read together lies together
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        row = np.full(self.text.tokens, -1, dtype=np.int64)
        row[present] = rank[place.reshape(-1)]
        return row, np.ones(len(distinct), dtype=np.int64), distinct[order]

    def _combined(self, template: FeatureTemplate, values: Sequence[tuple[Keys, Flags]]) -> tuple[Keys, Flags]:
        name = text_keys([str(template)])
        present = np.logical_and.reduce([flags for _, flags in values])
        return np.broadcast_to(feature_keys(name, *(key for key, _ in values)), present.shape), present

    def _word_values(self, name: str) -> tuple[Keys, Flags]:
        """Keys of an attribute of each distinct word and both edges, and where there is a value."""
        if name not in self._values:
            look = attribute(name)
            if look is None:  # the bias
                assert name == BIAS
                values: list[str | None] = ["" for _ in range(len(self.text.words) + 2)]
            else:
                values = [look(word) for word in self.text.words]
                values += [None if is_question(name) else edge for edge in EDGES]
            keys = text_keys(["" if value is None else value for value in values])
            self._values[name] = keys, np.array([value is not None for value in values], dtype=np.bool_)
        return self._values[name]

    def _token_values(self, part: Part) -> tuple[Keys, Flags]:
        if part.name in PLACES:
            return np.zeros(self.text.tokens, dtype=np.uint64), self._place(part.name)
        if part.column:
            column = self.text.columns[part.name]
            key = text_keys([*column.values, *EDGES, ""])
            value = self._at(part.offset, column.number, len(column.values))
            return key[value], value >= 0
        key, present = self._word_values(part.name)
        word = self._word_at(part.offset)
        return key[word], present[word]

    def _word_at(self, offset: int) -> Integers:
        """Which distinct word is ``offset`` places right of each token; the numbers after the last are the edges."""
        return self._at(offset, self.text.word, len(self.text.words))

    def _at(self, offset: int, number: NDArray[np.int32], distinct: int) -> Integers:
        """The number ``offset`` places right of each token; ``distinct`` and the one after are the edges."""
        place = np.arange(self.text.tokens) + offset
        before, after = place < self.begin, place >= self.end
        found: Integers = number[np.where(before | after, 0, place)].astype(np.int64)
        found[before] = distinct
        found[after] = distinct + 1
        return found

    def _place(self, name: str) -> Flags:
        """The answer to a question about each token's place in its sentence."""
        token = np.arange(self.text.tokens)
        if name == "first":
            return np.asarray(token == self.begin)
        if name == "last":
            return np.asarray(token == self.end - 1)
        case = str.lower if name == "all_lower" else str.upper
        fits = np.array([word == case(word) for word in self.text.words], dtype=np.bool_)[self.text.word]
        start = self.text.start
        filled = np.flatnonzero(np.diff(start) > 0)
        answers = np.zeros(len(self.text), dtype=np.bool_)
        if filled.size:
            answers[filled] = np.logical_and.reduceat(fits, start[filled])
        return np.repeat(answers, np.diff(start))
