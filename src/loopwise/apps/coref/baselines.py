"""Answers that need no training: every mention alone, nominal mentions with equal heads together, a rule of thumb.

In: documents. Out: the entity of each mention. Stage: use.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loopwise.apps.coref.mentions import PRONOUN, describe
from loopwise.apps.coref.rule import rule_entities
from loopwise.formats.coref import CorefDocument

Integers = NDArray[np.int64]


def singletons(document: CorefDocument) -> Integers:
    """Every mention is an entity of its own."""
    return np.arange(len(document.mentions), dtype=np.int64)


def head_match(document: CorefDocument) -> Integers:
    """Mentions with the same head word are one entity; pronouns are alone."""
    mentions = describe(document, {})
    alone = len(mentions.head_texts) + np.arange(len(mentions), dtype=np.int64)
    _, entities = np.unique(np.where(mentions.kind == PRONOUN, alone, mentions.head_word), return_inverse=True)
    return entities.reshape(-1).astype(np.int64)


def by_rule(document: CorefDocument) -> Integers:
    """As :func:`head_match`, and pronouns go to the last entity of their gender, else to the last one named."""
    return rule_entities(describe(document, {}))
