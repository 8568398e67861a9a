"""Words of two analyses of one text, matched as the CoNLL 2018 shared task matches them.

In: sentences. Out: pairs of words that stand for each other. Stage: use. Words are known by the characters they cover,
spaces left out; the words of a multiword token share its characters, and are matched by their forms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loopwise.formats.conllu import Sentence, check_tree
from loopwise.formats.errors import FormatError

Integers = NDArray[np.int64]
ROOT = -1


@dataclass(frozen=True, eq=False)
class Words:
    """All words of a file: the characters ``begin`` to ``end`` of ``text`` that each covers, its head (-1: the
    root).
    """

    text: str
    forms: list[str]
    relations: list[str]
    heads: Integers
    begin: Integers
    end: Integers
    multiword: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.forms)


def flatten(sentences: Sequence[Sentence], whose: str) -> Words:
    """The words of all sentences in a row; every sentence must have a tree."""
    pieces: list[str] = []
    forms: list[str] = []
    relations: list[str] = []
    heads: list[int] = []
    spans: list[tuple[int, int, bool]] = []
    at = 0
    for sentence in sentences:
        check_tree(sentence)
        first = len(forms)
        ranges = {word: span for span in sentence.spans for word in range(span[0], span[1] + 1)}
        for word, form in enumerate(sentence.forms, 1):
            span = ranges.get(word)
            if span is None or word == span[0]:
                letters = _without_spaces(form if span is None else span[2])
                if not letters:
                    line = sentence.line_of(word)
                    raise FormatError(sentence.where, line, f"a word of the {whose} file is nothing but spaces")
                pieces.append(letters)
                at += len(letters)
                last = (at - len(letters), at, span is not None)
            spans.append(last)
        forms += sentence.forms
        relations += sentence.relations
        heads += [first + head - 1 if head > 0 else ROOT for head in sentence.heads]
    begin, end, multiword = zip(*spans, strict=True) if spans else ((), (), ())
    return Words(
        "".join(pieces),
        forms,
        relations,
        np.array(heads, dtype=np.int64),
        np.array(begin, dtype=np.int64),
        np.array(end, dtype=np.int64),
        np.array(multiword, dtype=bool),
    )


def align(gold: Words, system: Words) -> Integers:
    """Pairs (gold word, system word), ``[pairs, 2]``, in order.

    Where no multiword token is near, words pair if they cover the same characters. Around one, the words of both sides
    that lie within the characters of the tokens that overlap pair by a longest common subsequence of their forms, case
    ignored. O(words) but for those subsequences.
    """
    if np.array_equal(gold.begin, system.begin) and np.array_equal(gold.end, system.end) and gold.forms == system.forms:
        same = np.arange(len(gold))
        return np.stack([same, same], axis=1)
    pairs: list[tuple[int, int]] = []
    g = s = 0
    while g < len(gold) and s < len(system):
        if gold.multiword[g] or system.multiword[s]:
            g, s, g_end, s_end = _overlap(gold, system, g, s)
            pairs += _common(gold, system, g, g_end, s, s_end)
            g, s = g_end, s_end
        elif (gold.begin[g], gold.end[g]) == (system.begin[s], system.end[s]):
            pairs.append((g, s))
            g, s = g + 1, s + 1
        elif gold.begin[g] <= system.begin[s]:
            g += 1
        else:
            s += 1
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _overlap(gold: Words, system: Words, g: int, s: int) -> tuple[int, int, int, int]:
    """The words around a multiword token: first and end of each side, grown while a token reaches over the end."""
    if gold.multiword[g]:
        reach = int(gold.end[g])
        if not system.multiword[s] and system.begin[s] < gold.begin[g]:
            s += 1
    else:
        reach = int(system.end[s])
        if not gold.multiword[g] and gold.begin[g] < system.begin[s]:
            g += 1
    first_g, first_s = g, s
    while not (_beyond(gold, g, reach) and _beyond(system, s, reach)):
        if g < len(gold) and (s >= len(system) or gold.begin[g] <= system.begin[s]):
            reach = max(reach, int(gold.end[g])) if gold.multiword[g] else reach
            g += 1
        else:
            reach = max(reach, int(system.end[s])) if system.multiword[s] else reach
            s += 1
    return first_g, first_s, g, s


def _beyond(words: Words, place: int, reach: int) -> bool:
    if place >= len(words):
        return True
    return bool(words.begin[place] >= reach if words.multiword[place] else words.end[place] > reach)


def _common(gold: Words, system: Words, g: int, g_end: int, s: int, s_end: int) -> list[tuple[int, int]]:
    """A longest common subsequence of forms."""
    one = [form.lower() for form in gold.forms[g:g_end]]
    two = [form.lower() for form in system.forms[s:s_end]]
    best = np.zeros((len(one) + 1, len(two) + 1), dtype=np.int64)
    for i in range(len(one) - 1, -1, -1):
        for j in range(len(two) - 1, -1, -1):
            skip = max(best[i + 1, j], best[i, j + 1])
            best[i, j] = max(skip, best[i + 1, j + 1] + 1) if one[i] == two[j] else skip
    pairs, i, j = [], 0, 0
    while i < len(one) and j < len(two):
        if one[i] == two[j] and best[i, j] == best[i + 1, j + 1] + 1:
            pairs.append((g + i, s + j))
            i, j = i + 1, j + 1
        elif best[i, j] == best[i + 1, j]:
            i += 1
        else:
            j += 1
    return pairs


def _without_spaces(form: str) -> str:
    return "".join(form.split())
