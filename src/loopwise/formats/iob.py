"""Entities written as tags, one a token: IO, IOB1 and IOB2, and how one becomes another.

In: tags of the tokens of all sentences, one after another, and where sentences start. Out: spans, tags of another
coding, the places where a sequence is broken. Shared by readers, taggers and metrics of entities.

A tag is ``O`` (outside) or ``B-type`` / ``I-type``. In IOB2 every entity begins with ``B``; in IOB1 (the CoNLL-2003
files) ``B`` is used only where an entity directly follows another of its type; in IO not even there, so such entities
run together (Ramshaw & Marcus 1995; Tjong Kim Sang & Veenstra 1999).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from loopwise.formats.errors import quoted

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

OUTSIDE = "O"
_OUT, _BEGIN, _INSIDE = 0, 1, 2
_LETTERS = {"B": _BEGIN, "I": _INSIDE}


class Coding(Enum):
    """How tags say where an entity is; ``PLAIN``: tags that are no entities (parts of speech, say)."""

    IO = "io"
    IOB1 = "iob1"
    IOB2 = "iob2"
    PLAIN = "plain"


class TagError(ValueError):
    """A tag that its coding does not allow; ``place``: which token."""

    def __init__(self, place: int, problem: str) -> None:
        super().__init__(place, problem)
        self.place = place
        self.problem = problem

    def __str__(self) -> str:
        return f"token {self.place}: {self.problem}"


@dataclass(frozen=True)
class TagSet:
    """Tags by number: ``kind[k]`` is 0 outside, 1 begin, 2 inside; ``type[k]`` numbers ``types``, -1 outside."""

    tags: tuple[str, ...]
    types: tuple[str, ...]
    kind: Integers
    type: Integers

    @staticmethod
    def of(tags: Sequence[str]) -> TagSet:
        """Reads each tag; a :class:`TagError` (its ``place`` the number of the tag) where one is none."""
        kinds, named = [], []
        for place, tag in enumerate(tags):
            letter, dash, name = tag.partition("-")
            if tag == OUTSIDE:
                kinds.append(_OUT)
                named.append("")
            elif dash and name and letter in _LETTERS:
                kinds.append(_LETTERS[letter])
                named.append(name)
            else:
                raise TagError(place, f"the tag {quoted(tag)} is not O, B-type or I-type")
        types = tuple(sorted(set(named) - {""}))
        number = {name: place for place, name in enumerate(types)}
        return TagSet(
            tuple(tags),
            types,
            np.array(kinds, dtype=np.int64),
            np.array([number.get(name, -1) for name in named], dtype=np.int64),
        )


@dataclass(frozen=True, eq=False)
class Spans:
    """Entities: tokens ``start[e]`` to ``end[e] - 1``, counted over all sentences, of ``types[type[e]]``."""

    start: Integers
    end: Integers
    type: Integers
    types: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.start)

    def named(self) -> list[tuple[int, int, str]]:
        """``(start, end, type)`` of each entity, in order."""
        rows = zip(self.start.tolist(), self.end.tolist(), self.type.tolist(), strict=True)
        return [(start, end, self.types[number]) for start, end, number in rows]


def find_spans(tag: Integers, tags: TagSet, sentence_start: Integers) -> Spans:
    """The entities of tokens with tags number ``tag`` ``[tokens]``; sentences begin at ``sentence_start[:-1]``.

    An entity begins at ``B``, and at ``I`` where the token before is outside, of another type or of another sentence:
    one rule for IO, IOB1, IOB2 and what is broken in them, that of the CoNLL evaluation. O(tokens), vectorised.
    """
    begins = entity_begins(tag, tags, sentence_start)
    inside = tags.kind[tag] != _OUT
    start = np.flatnonzero(begins)
    stops = np.ones(len(tag), dtype=np.bool_)  # the token is the last of its entity
    stops[:-1] = ~inside[1:] | begins[1:]
    end = np.flatnonzero(inside & stops) + 1
    return Spans(start, end, tags.type[tag][start], tags.types)


def entity_begins(tag: Integers, tags: TagSet, sentence_start: Integers) -> Flags:
    """Which tokens are the first of an entity, bool ``[tokens]``."""
    kind, follows = tags.kind[tag], _follows_own_type(tag, tags, sentence_start)
    begins: Flags = (kind == _BEGIN) | ((kind == _INSIDE) & ~follows)
    return begins


def broken_places(tag: Integers, tags: TagSet, sentence_start: Integers) -> Integers:
    """Tokens that break IOB2: inside an entity that nothing began."""
    return np.flatnonzero((tags.kind[tag] == _INSIDE) & ~_follows_own_type(tag, tags, sentence_start))


def guess_coding(tag: Integers, tags: TagSet, sentence_start: Integers) -> Coding:
    """IOB2 if some ``B`` does not follow its own type, or nothing begins with ``I``; else IOB1 with ``B``, IO without.

    IOB1 has ``B`` only after its own type, so one elsewhere tells IOB2 (with, perhaps, broken places).
    """
    kind, follows = tags.kind[tag], _follows_own_type(tag, tags, sentence_start)
    begins = kind == _BEGIN
    if (begins & ~follows).any() or not ((kind == _INSIDE) & ~follows).any():
        return Coding.IOB2
    return Coding.IOB1 if begins.any() else Coding.IO


def recode(tags: Sequence[str], sentence_start: Integers, coding: Coding) -> list[str]:
    """The same entities in another coding.

    >>> recode(["I-PER", "B-PER", "O", "I-LOC", "I-LOC"], np.array([0, 5]), Coding.IOB2)
    ['B-PER', 'B-PER', 'O', 'B-LOC', 'I-LOC']
    >>> recode(["B-PER", "B-PER", "O", "B-LOC", "I-LOC"], np.array([0, 5]), Coding.IOB1)
    ['I-PER', 'B-PER', 'O', 'I-LOC', 'I-LOC']
    """
    if coding is Coding.PLAIN:
        return list(tags)
    known, tag = numbered(tags)
    kinds = TagSet.of(known) if known else TagSet.of((OUTSIDE,))
    begins = entity_begins(tag, kinds, sentence_start)
    if coding is Coding.IO:
        begins = np.zeros_like(begins)
    elif coding is Coding.IOB1:
        begins &= _follows_own_type(tag, kinds, sentence_start)
    letter = {False: "I-", True: "B-"}
    types = kinds.type[tag].tolist()
    return [
        OUTSIDE if number < 0 else letter[begin] + kinds.types[number]
        for number, begin in zip(types, begins.tolist(), strict=True)
    ]


def numbered(tags: Sequence[str]) -> tuple[tuple[str, ...], Integers]:
    """The distinct tags, in order of appearance, and the number of each token's."""
    number: dict[str, int] = {}
    places = [number.setdefault(tag, len(number)) for tag in tags]
    return tuple(number), np.array(places, dtype=np.int64)


def allowed_steps(tags: TagSet) -> tuple[Flags, Flags]:
    """Which tags may come first ``[K]``, and which may follow which ``[K, K]`` (row: the earlier), in IOB2."""
    inside = tags.kind == _INSIDE
    same = (tags.type[:, None] == tags.type[None, :]) & (tags.type >= 0)[:, None]
    return ~inside, ~inside[None, :] | same


def _follows_own_type(tag: Integers, tags: TagSet, sentence_start: Integers) -> Flags:
    """Which tokens are of a type that the token before them, in the same sentence, has too."""
    types = tags.type[tag]
    follows = np.zeros(len(tag), dtype=np.bool_)
    follows[1:] = (types[1:] == types[:-1]) & (types[1:] >= 0)
    first = sentence_start[:-1]
    follows[first[first < len(tag)]] = False
    return follows
