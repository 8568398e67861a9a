"""Scores of a few tokens: keys of templates mixed, looked up and summed in one pass. Numba.

In: keys of the words' attributes, templates as integers, a table from keys to rows, weights. Out: scores of tags.
Stage: use. The arithmetic of keys is that of :func:`loopwise.potentials.hashing.feature_keys`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from loopwise.compiled.decorators import callee, kernel

FIRST, LAST, ALL_LOWER, ALL_UPPER = -1, -2, -3, -4  # parts that look at the place of a token
_STEP, _ONE, _TWO = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_A, _B, _C = np.uint64(30), np.uint64(27), np.uint64(31)


class TemplateParts(NamedTuple):
    """Templates, the parts of all one after another: attribute ``part`` (or a place, negative) of the word ``shift`` to
    the right."""

    start: Any  # [templates + 1]
    part: Any  # [parts]
    shift: Any  # [parts]
    name: Any  # uint64 [templates] the key that each begins with


class RowTable(NamedTuple):
    """Weights, and how keys find their rows."""

    keys: Any  # uint64 [rows], none where a key says its row
    slots: Any  # int32, see :func:`fill_slots`
    weights: Any  # [rows, K]


class KnownWords(NamedTuple):
    """Words that were met."""

    value: Any  # uint64 [words, attributes] keys
    present: Any  # bool [words, attributes + 2]
    single: Any  # [words, offsets, K], see :func:`score_word`


@callee
def _mixed(key, field):
    key = key + _STEP + field
    key = (key ^ (key >> _A)) * _ONE
    key = (key ^ (key >> _B)) * _TWO
    return key ^ (key >> _C)


@kernel
def fill_slots(keys, slots):
    """A hash table of the places of distinct ``keys``: ``slots``, a power of 2 of them, -1 where empty."""
    mask = np.uint64(len(slots) - 1)
    for place in range(len(keys)):
        at = keys[place] & mask
        while slots[at] >= 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = place


@callee
def _row(key, keys, slots, size):
    """The row of a feature's weights; -1 if it has none. Without ``slots``, rows are keys modulo ``size``."""
    if len(slots) == 0:
        return np.int64(key % np.uint64(size))
    mask = np.uint64(len(slots) - 1)
    at = key & mask
    while slots[at] >= 0:
        if keys[slots[at]] == key:
            return np.int64(slots[at])
        at = (at + np.uint64(1)) & mask
    return np.int64(-1)


@callee
def _add(weights, row, out):
    if row >= 0:
        for state in range(len(out)):
            out[state] += weights[row, state]


@kernel
def score_word(value, present, templates, block, table, out):
    """What one word adds to the scores of tags: ``out`` ``[offsets, K]``, for templates that look at it alone.

    ``value``, ``present`` ``[attributes]``. Template ``t`` belongs to the offset ``block[t]``.
    """
    out[:] = 0.0
    for template in range(len(templates.name)):
        key, there = templates.name[template], True
        for place in range(templates.start[template], templates.start[template + 1]):
            part = templates.part[place]
            there &= present[part]
            key = _mixed(key, value[part])
        if there:
            _add(table.weights, _row(key, table.keys, table.slots, len(table.weights)), out[block[template]])


@callee
def _place(kind, token, begin, end, word, present):
    """The answer to a question about a token's place; the last two attributes say whether a word has one case."""
    if kind == FIRST:
        return token == begin
    if kind == LAST:
        return token == end - 1
    column = present.shape[1] - (2 if kind == ALL_LOWER else 1)
    answer = True
    for other in range(begin, end):
        answer &= present[word[other], column]
    return answer


@kernel
def score_tokens(word, start, known, offsets, templates, table, out):
    """Scores of tags ``out`` ``[tokens, K]``: what words at ``offsets`` add, and templates of several words or places.

    Words 0 and 1 of those that are ``known`` stand before and after every sentence.
    """
    empty = np.uint64(0)
    value, present, single = known.value, known.present, known.single
    part, shift, name, template_start = templates.part, templates.shift, templates.name, templates.start
    for sentence in range(len(start) - 1):
        begin, end = start[sentence], start[sentence + 1]
        for token in range(begin, end):
            row = out[token]
            for block in range(len(offsets)):
                at = token + offsets[block]
                which = 0 if at < begin else 1 if at >= end else word[at]
                for state in range(len(row)):
                    row[state] += single[which, block, state]
            for template in range(len(name)):
                key, there = name[template], True
                for place in range(template_start[template], template_start[template + 1]):
                    if part[place] < 0:
                        there &= _place(part[place], token, begin, end, word, present)
                        key = _mixed(key, empty)
                    else:
                        at = token + shift[place]
                        which = 0 if at < begin else 1 if at >= end else word[at]
                        there &= present[which, part[place]]
                        key = _mixed(key, value[which, part[place]])
                if there:
                    _add(table.weights, _row(key, table.keys, table.slots, len(table.weights)), row)
