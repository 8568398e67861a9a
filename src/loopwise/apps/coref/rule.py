"""Entities by a rule of thumb, whose decisions a model may weigh: heads, titles, the nearest for a pronoun.

In: :class:`~loopwise.apps.coref.mentions.Mentions`. Out: the entity of each. Stage: use. Names and nouns with the same
head are one entity, *I* is one and *you* is one. *He* and *she* go to the entity that last had a word of that gender,
else to the last one named, as do *it* and relative pronouns; other pronouns are one entity. O(mentions).
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.coref import lexicon
from loopwise.apps.coref.mentions import PRONOUN, Mentions

_NEAREST = (lexicon.IT, lexicon.WHO, lexicon.THIS)


def rule_entities(mentions: Mentions) -> NDArray[np.int64]:
    """The entity of each mention, numbered in order of appearance.

    >>> from loopwise.apps.coref import made_documents
    >>> from loopwise.apps.coref.mentions import describe
    >>> document = made_documents(1, seed=0)[0]
    >>> len(rule_entities(describe(document, {}))) == len(document.mentions)
    True
    """
    numbers: dict[Hashable, int] = {}
    last: dict[int, Hashable] = {}  # the entity last named, by gender; UNKNOWN: of any
    found = []
    columns = (mentions.kind, mentions.pronoun, mentions.gender, mentions.head_word)
    for place, (kind, group, gender, head) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        if kind != PRONOUN:
            entity: Hashable = ("head", head)
            last[lexicon.UNKNOWN] = last[gender] = entity
        else:
            entity = _referent(group, gender, place, last)
        found.append(numbers.setdefault(entity, len(numbers)))
    return np.array(found, dtype=np.int64)


def _referent(group: int, gender: int, place: int, last: dict[int, Hashable]) -> Hashable:
    """What a pronoun stands for; its gender then belongs to that entity."""
    if group in (lexicon.HE, lexicon.SHE):
        return last.setdefault(gender, last.get(lexicon.UNKNOWN, ("pronoun", group)))
    if group in _NEAREST:
        return last.get(lexicon.UNKNOWN, ("mention", place))
    return ("pronoun", group if group in (lexicon.I, lexicon.YOU) else lexicon.UNKNOWN)
