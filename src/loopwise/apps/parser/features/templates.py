"""Compiled features of arcs and of pairs of arcs: integers in, places in a hashed table of weights out.

In: words, prefixes and tags of a sentence as small integers. Out: the place of each feature's weight. Stage: below
numbers. A feature is its template's number and the values of its fields, packed side by side into 64 bits (18 a word,
14 a tag), so that features of one template never share a key; the key is then mixed and reduced to the table's size.

Fields of ``tokens``: one row each, a column a token; every sentence has a border, the root, its words, a border.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.decorators import callee, kernel

WORD, PREFIX, FINE, COARSE, LONG = 0, 1, 2, 3, 4  # rows of `tokens`; LONG: the word is longer than its prefix
WORD_BITS, TAG_BITS = 18, 14

VERSION = 2  # of the templates: with others, weights and unfinished runs mean something else
# What is extracted, as bits of `flags`.
FULL, COARSE_COPIES, RICH = 1, 2, 4
PAIR_FEATURES, RICH_PAIR_FEATURES = 10, 20
FIXED = 80  # at least as many templates as an arc has, those of the tags between left out

_W, _T, _TWO_T, _BOTH = np.uint64(WORD_BITS), np.uint64(TAG_BITS), np.uint64(2 * TAG_BITS), np.uint64(32)
_THREE_T, _TWO_W = np.uint64(3 * TAG_BITS), np.uint64(2 * WORD_BITS)
_ONE, _TWO, _TURN = np.uint64(1), np.uint64(2), np.uint64(256)  # _TURN: more than there are templates
# SplitMix64 (Steele, Lea & Flood 2014) with the finaliser by Stafford: every bit of the key moves half of the others.
_STEP, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)


@callee
def place_of(packed, name, size):
    """Where the weight of a feature is in a table of ``size``, which is below 2^31; its key itself if that is 0."""
    key = (packed ^ (name * _STEP)) * _FIRST
    key = (key ^ (key >> _S30)) * _FIRST
    key = (key ^ (key >> _S27)) * _SECOND
    key = key ^ (key >> _S31)
    if size == 0:
        return np.int64(key)
    return np.int64(((key >> _BOTH) * np.uint64(size)) >> _BOTH)  # a scaled high half: no division


@callee
def distance_bin(distance):
    """Bins by lower bound 1, 2, 5, 10, 20, 30, 40: 0 to 6."""
    if distance < 5:
        return 0 if distance < 2 else 1
    if distance < 20:
        return 2 if distance < 10 else 3
    if distance < 30:
        return 4
    return 5 if distance < 40 else 6


@callee
def number_names(names, begin, end, first):
    """Templates of one group have numbers in a row."""
    for place in range(begin, end):
        names[place] = np.uint64(first + place - begin)
    return end


@callee
def add_words(packed, names, at, name, wh, wm):
    """Templates of words alone."""
    packed[at], packed[at + 1], packed[at + 2] = wh, wm, (wh << _BOTH) | wm
    return number_names(names, at, at + 3, name)


@callee
def add_tagged(packed, names, at, name, wh, th, wm, tm, tags_alone):
    """Templates A and B that have a tag (McDonald, Crammer & Pereira 2005)."""
    head, mod = (wh << _T) | th, (wm << _T) | tm
    packed[at], packed[at + 1], packed[at + 2] = head, mod, (head << _BOTH) | mod
    packed[at + 3], packed[at + 4] = (th << _BOTH) | mod, (wh << _BOTH) | mod
    packed[at + 5], packed[at + 6] = (head << _T) | tm, (head << _W) | wm
    packed[at + 7], packed[at + 8], packed[at + 9] = th, tm, (th << _T) | tm
    return number_names(names, at, at + (10 if tags_alone else 7), name)


@callee
def add_surrounding(packed, names, at, name, tags, h, m):
    """Templates D: tags beside head and modifier."""
    before_h, th, after_h = tags[h - 1], tags[h], tags[h + 1]
    before_m, tm, after_m = tags[m - 1], tags[m], tags[m + 1]
    right, left = (th << _T) | after_h, (before_h << _T) | th
    to_mod, from_mod = (before_m << _T) | tm, (tm << _T) | after_m
    packed[at], packed[at + 1] = (right << _TWO_T) | to_mod, (left << _TWO_T) | to_mod
    packed[at + 2], packed[at + 3] = (right << _TWO_T) | from_mod, (left << _TWO_T) | from_mod
    packed[at + 4], packed[at + 5] = (left << _T) | tm, (th << _TWO_T) | to_mod
    packed[at + 6], packed[at + 7] = (th << _TWO_T) | from_mod, (right << _T) | tm
    return number_names(names, at, at + 8, name)


@callee
def add_between(packed, names, at, name, tags, h, m, seen):
    """Template C: head's tag, each distinct tag strictly between, modifier's tag. ``seen[0]`` counts the calls."""
    seen[0] += 1  # tag 0 is the border, which is never between
    ends = (tags[h] << _TWO_T) | tags[m]
    for place in range(min(h, m) + 1, max(h, m)):
        tag = tags[place]
        if seen[tag] != seen[0]:
            seen[tag] = seen[0]
            packed[at], names[at] = ends | (tag << _T), np.uint64(name)
            at += 1
    return at


@callee
def add_neighbours(packed, names, at, name, words, tags, h, m):
    """Both tags with a word beside head or modifier: what a tag alone does not tell, such as which conjunction."""
    ends = (tags[h] << _T) | tags[m]
    packed[at], packed[at + 1] = (ends << _W) | words[h - 1], (ends << _W) | words[h + 1]
    packed[at + 2], packed[at + 3] = (ends << _W) | words[m - 1], (ends << _W) | words[m + 1]
    return number_names(names, at, at + 4, name)


@callee
def add_wider(packed, names, at, name, tags, h, m):
    """Both tags with two more before, after or around head or modifier. Beyond a sentence's border is a border."""
    ends, last = ((tags[h] << _T) | tags[m]) << _TWO_T, len(tags) - 1
    for end in range(2):
        place = m if end else h
        before, after = tags[place - 1], tags[place + 1]
        packed[at] = ends | (tags[max(place - 2, 0)] << _T) | before
        packed[at + 1] = ends | (tags[min(place + 2, last)] << _T) | after
        packed[at + 2] = ends | (before << _T) | after
        at = number_names(names, at, at + 3, name + 3 * end)
    return at


@callee
def list_arc(tokens, h, m, flags, seen, packed, names):
    """Keys of the arc from column ``h`` to column ``m``, without direction and distance; how many."""
    words, prefix = tokens[WORD], tokens[PREFIX]
    long = tokens[LONG, h] | tokens[LONG, m]
    packed[0], names[0], at = _ONE, np.uint64(0), 1
    # In loops, so that each group has one call: a kernel is compiled anew for every constant that it is given.
    for level in range(2 if flags & FULL and long else 1):  # words, prefixes
        at = add_words(packed, names, at, 1 + 41 * level, tokens[level, h], tokens[level, m])
    for level in range(2 if flags & COARSE_COPIES else 1):  # fine tags, coarse ones
        tags = tokens[FINE + level]
        for step in range(2 if flags & FULL and long else 1):
            wh, wm = (prefix[h], prefix[m]) if step else (words[h], words[m])
            name = 45 + 7 * level if step else 4 + 10 * level
            at = add_tagged(packed, names, at, name, wh, tags[h], wm, tags[m], step == 0)
        if flags & FULL:
            at = add_surrounding(packed, names, at, 24 + 9 * level, tags, h, m)
            at = add_between(packed, names, at, 32 + 9 * level, tags, h, m, seen[level])
        if flags & RICH:
            at = add_neighbours(packed, names, at, 60 + 10 * level, words, tags, h, m)
            at = add_wider(packed, names, at, 64 + 10 * level, tags, h, m)
    return at


@kernel
def arc_features(tokens, h, m, flags, size, seen, packed, names, out):
    """Places of the features of an arc: each template alone, and with direction and distance. O(templates + length).

    McDonald, Crammer & Pereira (2005); ``RICH`` adds words beside head and modifier, and tags further off.
    """
    count = list_arc(tokens, h, m, flags, seen, packed, names)
    turn = np.uint64(1 + distance_bin(abs(h - m)) + (7 if h < m else 0)) * _TURN
    for number in range(count):
        out[2 * number] = place_of(packed[number], names[number], size)
        out[2 * number + 1] = place_of(packed[number], names[number] + turn, size)
    return 2 * count


@callee
def pair_turn(grandparent, a, b, c):
    """How a pair of arcs lies: siblings by the sides of both, grandparents by where the modifier is."""
    if not grandparent:
        return (2 if b < a else 0) + (1 if c < a else 0)
    if (a < b) == (b < c):
        where = 0  # further in the same direction
    else:
        where = 1 if min(a, b) < c < max(a, b) else 2
    return 4 + 2 * where + (1 if b < c else 0)


@kernel
def pair_features(tokens, grandparent, a, b, c, flags, size, packed, names, out):
    """Places of the features of head, modifier and sibling, or of grandparent, head and modifier (columns a, b, c).

    The first ten are Carreras (2007); ``RICH`` adds trigrams of words and fine tags, and distances.
    """
    wa, wb, wc = tokens[WORD, a], tokens[WORD, b], tokens[WORD, c]
    ca, cb, cc = tokens[COARSE, a], tokens[COARSE, b], tokens[COARSE, c]
    all_coarse = (((ca << _T) | cb) << _T) | cc
    packed[0], packed[1] = _ONE, all_coarse
    packed[2], packed[3] = (ca << _T) | cc, (cb << _T) | cc
    packed[4], packed[5] = (wa << _W) | wc, (wb << _W) | wc
    packed[6], packed[7] = (ca << _W) | wc, (cb << _W) | wc
    packed[8], packed[9] = (wa << _T) | cc, (wb << _T) | cc
    if flags & RICH:
        pa, pb, pc = tokens[FINE, a], tokens[FINE, b], tokens[FINE, c]
        apart = np.uint64(distance_bin(abs(b - c) if not grandparent else abs(a - c)))
        packed[10], packed[11] = (((pa << _T) | pb) << _T) | pc, (wa << _TWO_T) | (pb << _T) | pc
        packed[12], packed[13] = (wb << _TWO_T) | (pa << _T) | pc, (wc << _TWO_T) | (pa << _T) | pb
        packed[14], packed[15] = (pa << _T) | pc, (pb << _T) | pc
        packed[16] = (apart << _THREE_T) | all_coarse
        packed[17] = (apart << _TWO_T) | ((ca if grandparent else cb) << _T) | cc
        packed[18], packed[19] = (wa << _TWO_W) | (cb << _W) | wc, (wb << _TWO_W) | (ca << _W) | wc
    at = number_names(names, 0, RICH_PAIR_FEATURES if flags & RICH else PAIR_FEATURES, 128)
    turn = np.uint64(1 + pair_turn(grandparent, a, b, c)) * _TURN
    for number in range(at):
        out[number] = place_of(packed[number], names[number] + turn, size)
    return at
