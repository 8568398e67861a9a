"""One request, fast: all that depends on a fitted model alone is worked out once, words are remembered.

In: the templates, index and weights of a fitted tagger; a few sentences. Out: their scores. Stage: use. The general way
(:mod:`loopwise.apps.chain.features.extraction`) is made for whole texts and takes a millisecond to begin; this one
takes a hash table look-up for each word, one for each template of several words, and one call of a kernel. Both give
the same scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.chain.features.attributes import PLACES, attribute, is_question
from loopwise.apps.chain.features.extraction import EDGES
from loopwise.apps.chain.features.index import FeatureIndex, Indexed
from loopwise.apps.chain.features.templates import FeatureTemplate
from loopwise.apps.chain.kernels import lookup
from loopwise.potentials.hashing import Keys, feature_keys, text_key
from loopwise.potentials.linear import Floats, Integers

REMEMBERED = 1 << 25  # bytes of words that are remembered at a time
FEW = 256  # tokens of a request that takes this way
_PLACES = {"first": lookup.FIRST, "last": lookup.LAST, "all_lower": lookup.ALL_LOWER, "all_upper": lookup.ALL_UPPER}


class Reader:
    """Scores of tags for a few sentences of a fitted model: ``weights`` ``[features, K]`` of an ``index``."""

    def __init__(self, templates: Sequence[FeatureTemplate], index: FeatureIndex, weights: Floats) -> None:
        names = sorted({part.name for t in templates for part in t.parts if part.name not in PLACES})
        self._looks = [(name, attribute(name)) for name in names]
        number = {name: place for place, name in enumerate(names)}
        self._offsets: list[int] = sorted({t.offset for t in templates if t.offset is not None})
        alone = [t for offset in self._offsets for t in templates if t.offset == offset]
        self._alone = _programme(alone, number)
        self._block = np.array([self._offsets.index(t.offset or 0) for t in alone], dtype=np.int64)
        self._joint = _programme([t for t in templates if t.offset is None], number)
        self._places = np.array(self._offsets, dtype=np.int64)
        self._table = lookup.RowTable(*_slots(index), weights)
        row = 8 * len(self._offsets) * weights.shape[1] + 9 * len(names)
        self._capacity = int(np.clip(REMEMBERED // max(row, 1), 2 * FEW, 1 << 16))
        self._lock = Lock()
        self._known = self._forgotten()

    def scores(self, sentences: Sequence[Sequence[str]]) -> tuple[Integers, Floats] | None:
        """Where sentences start, and scores ``[tokens, K]``; None if something is no word, or there are too many."""
        starts = [0, *accumulate(map(len, sentences))]
        if starts[-1] > FEW:
            return None
        known = self._known
        numbers = known.number
        try:
            found = [numbers[word] for sentence in sentences for word in sentence]
        except (KeyError, TypeError):
            tokens = [word for sentence in sentences for word in sentence]
            if not all(type(word) is str for word in tokens):
                return None
            known, found = self._learn(tokens)
        start, unary = np.array(starts), np.zeros((starts[-1], self._table.weights.shape[1]))
        lookup.score_tokens(
            np.array(found, dtype=np.int64), start, known.words, self._places, self._joint, self._table, unary
        )
        return start, unary

    def _learn(self, tokens: Sequence[str]) -> tuple[_WordCache, list[int]]:
        """Remembers new words; where there is no more room, the old ones are forgotten (and calls that still read
        them keep them)."""
        with self._lock:
            known = self._known
            new = [word for word in dict.fromkeys(tokens) if word not in known.number]
            if len(known.number) + 2 + len(new) > self._capacity:
                known, new = self._forgotten(), list(dict.fromkeys(tokens))
            for word in new:
                self._enter(known, len(known.number) + 2, word, None)
                known.number[word] = len(known.number) + 2  # only now can other threads find it
            self._known = known
            return known, [known.number[word] for word in tokens]

    def _forgotten(self) -> _WordCache:
        shape = len(self._offsets), int(self._table.weights.shape[1])
        known = _WordCache(self._capacity, len(self._looks), shape)
        for place, edge in enumerate(EDGES):
            self._enter(known, place, "", edge)
        return known

    def _enter(self, known: _WordCache, place: int, word: str, edge: str | None) -> None:
        value, present = known.words.value[place], known.words.present[place]
        for number, (name, look) in enumerate(self._looks):
            if look is None:  # the bias
                text: str | None = ""
            elif edge is not None:
                text = None if is_question(name) else edge
            else:
                text = look(word)
            present[number] = text is not None
            value[number] = text_key(text or "")
        present[-2], present[-1] = word == word.lower(), word == word.upper()
        lookup.score_word(value, present, self._alone, self._block, self._table, known.words.single[place])


class _WordCache:
    """Words that are remembered: keys of their attributes, and what they add to scores at each offset."""

    def __init__(self, capacity: int, attributes: int, shape: tuple[int, int]) -> None:
        self.number: dict[Any, int] = {}
        self.words = lookup.KnownWords(
            np.zeros((capacity, attributes), dtype=np.uint64),
            np.zeros((capacity, attributes + 2), dtype=np.bool_),
            np.zeros((capacity, *shape)),
        )


def _programme(templates: Sequence[FeatureTemplate], number: dict[str, int]) -> lookup.TemplateParts:
    """Templates as integers."""
    parts = [part for template in templates for part in template.parts]
    return lookup.TemplateParts(
        np.array([0, *accumulate(len(template.parts) for template in templates)], dtype=np.int64),
        np.array([_PLACES.get(part.name, number.get(part.name, 0)) for part in parts], dtype=np.int64),
        np.array([part.offset for part in parts], dtype=np.int64),
        np.array([_opening(template) for template in templates], dtype=np.uint64),
    )


def _opening(template: FeatureTemplate) -> int:
    """The key of a template before its parts are mixed in: that of its name, among so many fields."""
    return int(feature_keys(np.uint64(text_key(str(template))), count=len(template.parts) + 1))


def _slots(index: FeatureIndex) -> tuple[Keys, NDArray[np.int32]]:
    if not isinstance(index, Indexed):
        return np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int32)
    slots = np.full(1 << max(1, (2 * len(index.keys)).bit_length()), -1, dtype=np.int32)
    lookup.fill_slots(index.keys, slots)
    return index.keys, slots
