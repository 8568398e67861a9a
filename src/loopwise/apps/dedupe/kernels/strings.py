"""Compiled comparisons of strings: Jaro-Winkler, Levenshtein, words, character n-grams, phonetic codes.

In: strings as one array of letters (whole numbers), string s from ``start[s]`` to ``start[s + 1]``; pairs of strings by
number. Out: a similarity from 0 to 1 a pair; keys of the words and n-grams of each string. Below the stages.
"""

from __future__ import annotations

import numpy as np

from loopwise.compiled.decorators import fused_callee as callee
from loopwise.compiled.decorators import fused_kernel as kernel

WORD = 64  # letters that a machine word holds one bit for each
_SPACE = np.uint32(32)
# FNV-1a (Fowler, Noll, Vo): offset and prime for 64 bits.
_OFFSET = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
# Soundex groups of the letters a to z: 0 for vowels and y, 7 for h and w, which do not part equal groups.
_GROUPS = np.array([0, 1, 2, 3, 0, 1, 2, 7, 0, 2, 2, 4, 5, 5, 0, 1, 2, 6, 2, 3, 0, 1, 7, 2, 0, 2], dtype=np.int64)


@callee
def _matches(letters, first, length, second, other_length, used, order):
    """Letters of the first string that the second has within the window; ``order`` has where."""
    window = max(max(length, other_length) // 2 - 1, 0)
    found = 0
    for place in range(other_length):
        used[place] = 0
    for place in range(length):
        order[place] = -1
        for there in range(max(0, place - window), min(other_length, place + window + 1)):
            if used[there] == 0 and letters[first + place] == letters[second + there]:
                used[there] = 1
                order[place] = there
                found += 1
                break
    return found


@callee
def _transposed(letters, first, length, second, other_length, used, order):
    """Matched letters that stand at another place among those of the second string."""
    there, moved = 0, 0
    for place in range(length):
        if order[place] >= 0:
            while used[there] == 0:
                there += 1
            moved += letters[first + place] != letters[second + there]
            there += 1
    return moved


@kernel
def jaro_winkler(letters, start, one, other, out):
    """The similarity of Jaro (1989), raised for a common beginning of up to 4 letters (Winkler 1990).

    O(length times window) a pair. Two empty strings have 1, an empty one and another 0.
    """
    longest = 1
    for string in range(len(start) - 1):
        longest = max(longest, start[string + 1] - start[string])
    used, order = np.zeros(longest, np.int64), np.zeros(longest, np.int64)
    for pair in range(len(one)):
        first, second = start[one[pair]], start[other[pair]]
        length, other_length = start[one[pair] + 1] - first, start[other[pair] + 1] - second
        if length == 0 or other_length == 0:
            out[pair] = 1.0 if length == other_length else 0.0
            continue
        found = _matches(letters, first, length, second, other_length, used, order)
        if found == 0:
            out[pair] = 0.0
            continue
        moved = _transposed(letters, first, length, second, other_length, used, order) // 2
        jaro = (found / length + found / other_length + (found - moved) / found) / 3.0
        common, most = 0, min(4, min(length, other_length))
        while common < most and letters[first + common] == letters[second + common]:
            common += 1
        out[pair] = jaro + 0.1 * common * (1.0 - jaro)


@callee
def _bits_distance(letters, first, length, second, other_length, masks):
    """Edits by Myers (1999): a column of the table is one machine word; ``length`` at most WORD."""
    one = np.uint64(1)
    for place in range(length):
        masks[letters[first + place]] |= one << np.uint64(place)
    vertical, negative = ~np.uint64(0), np.uint64(0)
    last = one << np.uint64(length - 1)
    distance = length
    for there in range(other_length):
        equal = masks[letters[second + there]]
        diagonal = (((equal & vertical) + vertical) ^ vertical) | equal | negative
        rise = negative | ~(diagonal | vertical)
        fall = vertical & diagonal
        if rise & last:
            distance += 1
        if fall & last:
            distance -= 1
        rise = (rise << one) | one
        fall = fall << one
        vertical = fall | ~(diagonal | rise)
        negative = rise & diagonal
    for place in range(length):
        masks[letters[first + place]] = np.uint64(0)
    return distance


@callee
def _table_distance(letters, first, length, second, other_length, row):
    """Edits by the table of Wagner and Fischer, one row of it at a time."""
    for place in range(length + 1):
        row[place] = place
    for there in range(other_length):
        corner, row[0] = row[0], there + 1
        for place in range(length):
            above = row[place + 1]
            change = corner + (letters[first + place] != letters[second + there])
            row[place + 1] = min(change, min(above + 1, row[place] + 1))
            corner = above
    return row[length]


@kernel
def levenshtein(letters, start, alphabet, one, other, out):
    """1 less the number of edits over the length of the longer string; letters are 0 to ``alphabet`` - 1.

    O(length) a pair where the shorter has at most 64 letters, else O(length times length). Two empty strings have 1.
    """
    longest = 1
    for string in range(len(start) - 1):
        longest = max(longest, start[string + 1] - start[string])
    masks, row = np.zeros(max(alphabet, 1), np.uint64), np.zeros(longest + 1, np.int64)
    for pair in range(len(one)):
        first, second = start[one[pair]], start[other[pair]]
        length, other_length = start[one[pair] + 1] - first, start[other[pair] + 1] - second
        if length > other_length:
            first, second, length, other_length = second, first, other_length, length
        if other_length == 0:
            out[pair] = 1.0
        elif length == 0:
            out[pair] = 0.0
        elif length <= WORD:
            edits = _bits_distance(letters, first, length, second, other_length, masks)
            out[pair] = 1.0 - edits / other_length
        else:
            edits = _table_distance(letters, first, length, second, other_length, row)
            out[pair] = 1.0 - edits / other_length


@kernel
def word_bounds(letters, start):
    """Words, parted by spaces: how many each string has before it ``[strings + 1]``, and where each begins and ends."""
    words = 0
    for string in range(len(start) - 1):
        for place in range(start[string], start[string + 1]):
            words += letters[place] != _SPACE and (place == start[string] or letters[place - 1] == _SPACE)
    counts = np.zeros(len(start), np.int64)
    bounds = np.zeros((words, 2), np.int64)
    word = 0
    for string in range(len(start) - 1):
        for place in range(start[string], start[string + 1]):
            if letters[place] == _SPACE:
                continue
            if place == start[string] or letters[place - 1] == _SPACE:
                bounds[word, 0] = place
                word += 1
            bounds[word - 1, 1] = place + 1
        counts[string + 1] = word
    return counts, bounds


@kernel
def word_keys(letters, bounds):
    """A 64-bit key of the letters of each word; equal words have equal keys."""
    keys = np.zeros(len(bounds), np.uint64)
    for word in range(len(bounds)):
        key = _OFFSET
        for place in range(bounds[word, 0], bounds[word, 1]):
            key = (key ^ np.uint64(letters[place])) * _PRIME
        keys[word] = key
    return keys


@kernel
def digit_words(letters, bounds):
    """Whether each word has a digit."""
    found = np.zeros(len(bounds), np.bool_)
    for word in range(len(bounds)):
        for place in range(bounds[word, 0], bounds[word, 1]):
            if 48 <= letters[place] <= 57:
                found[word] = True
    return found


@kernel
def phonetic_keys(letters, bounds):
    """American Soundex of each word of letters a to z as a number; other words keep a key of their own letters.

    The first letter and the groups of the next three consonants; equal neighbours count once, also with h or w between.
    """
    keys = np.zeros(len(bounds), np.uint64)
    for word in range(len(bounds)):
        plain = True
        whole = _OFFSET
        for place in range(bounds[word, 0], bounds[word, 1]):
            plain = plain and 97 <= letters[place] <= 122
            whole = (whole ^ np.uint64(letters[place])) * _PRIME
        if not plain:
            keys[word] = whole
            continue
        code = np.int64(letters[bounds[word, 0]])
        last = _GROUPS[code - 97]
        digits = 0
        for place in range(bounds[word, 0] + 1, bounds[word, 1]):
            group = _GROUPS[np.int64(letters[place]) - 97]
            if group == 7:
                continue
            if group > 0 and group != last and digits < 3:
                code = code * 10 + group
                digits += 1
            last = group
        while digits < 3:
            code *= 10
            digits += 1
        keys[word] = np.uint64(code)
    return keys


@kernel
def gram_keys(letters, start, size):
    """Keys of the n-grams of ``size`` letters of each string, with a border before and after it.

    A string of n > 0 letters has n + 2 (size - 1) - size + 1 of them; an empty one none. Returns counts before each
    string ``[strings + 1]``, keys.
    """
    counts = np.zeros(len(start), np.int64)
    for string in range(len(start) - 1):
        length = start[string + 1] - start[string]
        counts[string + 1] = counts[string] + (length + size - 1 if length > 0 else 0)
    keys = np.zeros(counts[-1], np.uint64)
    for string in range(len(start) - 1):
        length = start[string + 1] - start[string]
        for number in range(counts[string + 1] - counts[string]):
            key = _OFFSET
            for offset in range(size):
                place = number + offset - (size - 1)
                letter = np.uint64(letters[start[string] + place]) if 0 <= place < length else np.uint64(0)
                key = (key ^ letter) * _PRIME
            keys[counts[string] + number] = key
    return counts, keys


# ----------------------------------------------------------------------------------------------- sparse vectors


@kernel
def sparse_cosines(start, index, value, one, other, out):
    """Dot products of rows of unit length; indices ascend within each row. O(entries of the two rows) a pair."""
    for pair in range(len(one)):
        place, end = start[one[pair]], start[one[pair] + 1]
        there, stop = start[other[pair]], start[other[pair] + 1]
        total = 0.0
        while place < end and there < stop:
            if index[place] == index[there]:
                total += value[place] * value[there]
                place += 1
                there += 1
            elif index[place] < index[there]:
                place += 1
            else:
                there += 1
        out[pair] = min(total, 1.0)


@kernel
def sparse_overlaps(start, index, weight, one, other, contained, shared):
    """Weights that two rows share: over those of the lighter row (how far it is contained), and over those of either
    (Jaccard). ``weight`` belongs to the indices."""
    for pair in range(len(one)):
        place, end = start[one[pair]], start[one[pair] + 1]
        there, stop = start[other[pair]], start[other[pair] + 1]
        mine, theirs, both = 0.0, 0.0, 0.0
        for entry in range(place, end):
            mine += weight[index[entry]]
        for entry in range(there, stop):
            theirs += weight[index[entry]]
        while place < end and there < stop:
            if index[place] == index[there]:
                both += weight[index[place]]
                place += 1
                there += 1
            elif index[place] < index[there]:
                place += 1
            else:
                there += 1
        least, most = min(mine, theirs), mine + theirs - both
        contained[pair] = min(both / least, 1.0) if least > 0.0 else 0.0
        shared[pair] = both / most if most > 0.0 else 0.0


@callee
def _sift(scores, items, count, score, item):
    """Puts an item among the best so far, which stand in falling order; ties by the lower number."""
    place = count
    while place > 0 and (scores[place - 1] < score or (scores[place - 1] == score and items[place - 1] > item)):
        if place < len(scores):
            scores[place], items[place] = scores[place - 1], items[place - 1]
        place -= 1
    if place < len(scores):
        scores[place], items[place] = score, item
    return min(count + 1, len(scores))


@kernel
def nearest_rows(start, index, value, column_start, column_row, column_value, most, side, found, scores):
    """The ``found.shape[1]`` rows with the largest dot product with each row, -1 where there are fewer.

    ``column_start``, ``column_row``, ``column_value``: the same matrix by columns; a column with more than ``most``
    rows is passed over. ``side``: only rows with another number there count, unless it is empty. O(entries times most)
    a row at most.
    """
    rows, wanted = len(start) - 1, found.shape[1]
    total, met = np.zeros(rows, np.float64), np.zeros(rows, np.int64)
    best, items = np.zeros(wanted, np.float64), np.zeros(wanted, np.int64)
    for row in range(rows):
        touched = 0
        for entry in range(start[row], start[row + 1]):
            column = index[entry]
            if column_start[column + 1] - column_start[column] > most:
                continue
            for place in range(column_start[column], column_start[column + 1]):
                other = column_row[place]
                if other == row or (len(side) > 0 and side[other] == side[row]):
                    continue
                if total[other] == 0.0:
                    met[touched] = other
                    touched += 1
                total[other] += value[entry] * column_value[place]
        count = 0
        for place in range(touched):
            count = _sift(best, items, count, total[met[place]], met[place])
            total[met[place]] = 0.0
        for place in range(wanted):
            found[row, place] = items[place] if place < count else -1
            scores[row, place] = best[place] if place < count else 0.0
