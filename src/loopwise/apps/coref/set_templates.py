"""What is looked at in a whole entity: predicates of its pairs, attributes of its members.

In: :class:`~loopwise.apps.coref.pair_templates.MentionPairs`. Out: whole numbers to be summed over an entity. Stage:
use. Of each predicate a walk's model asks whether it holds of all, some, most or no pairs and of which share of them
(of the cosine: what its mean is); of each attribute how many members have each value, whether all have it, and whether
two differ; and how many members there are (spec: Culotta et al. 2007).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.coref.mentions import KINDS, ROLES, Mentions
from loopwise.apps.coref.pair_templates import DISJOINT, EMPTY, LESS, MISMATCH, MORE, SAME, MentionPairs

COSINE_STEPS = 10
PERSONS, NUMBERS, GENDERS = 3, 2, 3


@dataclass(frozen=True)
class SetPredicate:
    """A truth value of pairs, or with a ``scale`` above 1 a similarity from 0 to it."""

    name: str
    compute: Callable[[MentionPairs], NDArray[np.generic]]
    scale: int = 1


PREDICATES = (
    SetPredicate("exact match", lambda pairs: pairs.nominal & pairs.equal(pairs.mentions.text)),
    SetPredicate("relaxed match", lambda pairs: pairs.nominal & pairs.equal(pairs.mentions.core)),
    SetPredicate("head match", lambda pairs: pairs.head_match),
    SetPredicate("heads differ", lambda pairs: pairs.nominal & ~pairs.head_match),
    SetPredicate("names overlap", lambda pairs: pairs.proper & np.isin(pairs.names, (SAME, LESS, MORE))),
    SetPredicate("names differ", lambda pairs: pairs.proper & (pairs.names == DISJOINT)),
    SetPredicate("modifiers differ", lambda pairs: pairs.head_match & np.isin(pairs.modifiers, (DISJOINT,))),
    SetPredicate("bare head match", lambda pairs: pairs.head_match & (pairs.modifiers == EMPTY)),
    SetPredicate("types differ", lambda pairs: pairs.agreement(pairs.mentions.type) == MISMATCH),
    SetPredicate("genders differ", lambda pairs: pairs.agreement(pairs.mentions.gender) == MISMATCH),
    SetPredicate("numbers differ", lambda pairs: pairs.agreement(pairs.mentions.number) == MISMATCH),
    SetPredicate("nested", lambda pairs: pairs.nested),
    SetPredicate("near", lambda pairs: pairs.sentences_apart <= 2),
    SetPredicate("cosine", lambda pairs: np.rint(pairs.cosine.clip(0, 1) * COSINE_STEPS), COSINE_STEPS),
)


def predicate_table(pairs: MentionPairs) -> NDArray[np.int32]:
    """``[pairs, predicates]``."""
    columns = [np.asarray(predicate.compute(pairs)).astype(np.int32) for predicate in PREDICATES]
    return np.stack(columns, axis=1)


def attribute_values(types: int) -> tuple[int, ...]:
    """How many values each attribute has, in the order of :func:`attribute_table`."""
    return KINDS, PERSONS, NUMBERS, GENDERS, ROLES, max(types, 1)


def attribute_table(mentions: Mentions) -> NDArray[np.int32]:
    """``[mentions, attributes]``: kind, person, number, gender, role, type; -1 where unknown."""
    columns = [mentions.kind, mentions.person, mentions.number, mentions.gender, mentions.role, mentions.type]
    return np.stack(columns, axis=1).astype(np.int32)
