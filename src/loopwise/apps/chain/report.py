"""How good tags are: precision, recall and F1 of entities, of each type and of all, and the share of right tokens.

In: gold and predicted tags by number. Out: :class:`TaggingReport`. Stage: use. An entity is right if its first and last
token and its type are; what is an entity is the rule of the CoNLL evaluation (:func:`loopwise.formats.iob.find_spans`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from loopwise.formats.iob import OUTSIDE, Spans, TagError, TagSet, find_spans
from loopwise.potentials.linear import Integers


@dataclass(frozen=True)
class SpanCounts:
    """Entities: ``right`` of ``decided`` and of ``gold``. Without any, precision, recall and F1 are 0."""

    right: int
    decided: int
    gold: int

    @property
    def precision(self) -> float:
        return self.right / self.decided if self.decided else 0.0

    @property
    def recall(self) -> float:
        return self.right / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        total = self.decided + self.gold
        return 2 * self.right / total if total else 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "right": self.right,
            "decided": self.decided,
            "gold": self.gold,
        }


@dataclass(frozen=True)
class TaggingReport:
    """``entities``: all together (micro); ``types``: each by itself; None where tags are no entities."""

    accuracy: float
    tokens: int
    sentences: int
    entities: SpanCounts | None
    types: dict[str, SpanCounts]

    @property
    def score(self) -> float:
        """Entity F1, or accuracy where tags are no entities."""
        return self.accuracy if self.entities is None else self.entities.f1

    def to_json(self) -> dict[str, Any]:
        return {
            "sentences": self.sentences,
            "tokens": self.tokens,
            "accuracy": self.accuracy,
            "entities": None if self.entities is None else self.entities.to_json(),
            "types": {name: counts.to_json() for name, counts in self.types.items()},
        }


def compare(gold: Integers, said: Integers, start: Integers, labels: tuple[str, ...]) -> TaggingReport:
    """The report on ``said`` beside ``gold``, both ``[tokens]``. O(tokens + entities log entities).

    Tokens whose gold tag is not known (-1) do not count, and are outside of entities.
    """
    known = gold >= 0
    count = int(known.sum())
    accuracy = float((gold == said)[known].mean()) if count else 0.0
    try:
        tags = TagSet.of(labels if count == len(gold) else (*labels, OUTSIDE))
    except TagError:
        return TaggingReport(accuracy, count, len(start) - 1, None, {})
    if count < len(gold):
        gold, said = np.where(known, gold, len(labels)), np.where(known, said, len(labels))
    true, found = find_spans(gold, tags, start), find_spans(said, tags, start)
    right = _common(true, found).type
    tables = [np.bincount(types, minlength=len(tags.types)) for types in (right, found.type, true.type)]
    types = {name: SpanCounts(*(int(table[number]) for table in tables)) for number, name in enumerate(tags.types)}
    return TaggingReport(accuracy, count, len(start) - 1, SpanCounts(len(right), len(found), len(true)), types)


def sentence_counts(gold: Integers, said: Integers, start: Integers, labels: tuple[str, ...]) -> Integers:
    """Of each sentence how many entities are right, decided and gold, ``[sentences, 3]``, for tests over sentences.

    Their sums are the counts of :func:`compare`.
    """
    tags = TagSet.of(labels)
    true, found = find_spans(gold, tags, start), find_spans(said, tags, start)
    columns = []
    for spans in (_common(true, found), found, true):
        sentence = np.searchsorted(start, spans.start, side="right") - 1
        columns.append(np.bincount(sentence, minlength=len(start) - 1))
    return np.stack(columns, axis=1).astype(np.int64)


def _common(one: Spans, two: Spans) -> Spans:
    """The entities that both have."""
    theirs = set(zip(two.start.tolist(), two.end.tolist(), two.type.tolist(), strict=True))
    mine = zip(one.start.tolist(), one.end.tolist(), one.type.tolist(), strict=True)
    shared = np.array([span in theirs for span in mine], dtype=np.bool_)
    return Spans(one.start[shared], one.end[shared], one.type[shared], one.types)
