"""How well entities were found.

In: answers and documents. Out: :class:`CorefReport`. Stage: use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from loopwise.formats.coref import CorefDocument
from loopwise.loss.clustering import BCubed, PairwiseAccuracy, PairwiseF1
from loopwise.loss.coreference import BLANC, MUC, CEAFEntities, CEAFMentions


@dataclass(frozen=True)
class Scores:
    """Of one document, or means over documents."""

    b_cubed: float
    precision: float
    recall: float
    pairwise_f1: float
    pairwise_accuracy: float

    def to_json(self) -> dict[str, float]:
        return {name: round(value, 6) for name, value in vars(self).items()}


@dataclass(frozen=True)
class CorefReport:
    """Scores of each document and their means: F1 is taken a document and then averaged, as published.

    ``pooled``: B-cubed F1 of all mentions together. ``reference``: F1 by name as the reference scorer of the CoNLL
    shared tasks pools them over documents (``muc``, ``b_cubed``, ``ceaf_e``, ``ceaf_m``, ``blanc``, and ``conll``, the
    mean of the first three). Documents without mentions are not counted.
    """

    documents: tuple[tuple[str, Scores], ...]
    mentions: int
    mean: Scores
    pooled: float
    reference: dict[str, float] = field(default_factory=dict)

    @staticmethod
    def of(documents: Sequence[CorefDocument], answers: Sequence[ArrayLike]) -> CorefReport:
        """Compares ``answers``, the entity of each mention, with what the documents say. O(mentions)."""
        rows, statistics = [], []
        for document, answer in zip(documents, answers, strict=True):
            if len(document.mentions):
                row = _statistics(document.entities(), answer)
                rows.append((document.name, _scores(*row)))
                statistics.append(row[0])
        if not rows:
            raise ValueError("there is nothing to compare: the documents have no mentions; give documents with some")
        columns = np.array([list(vars(scores).values()) for _, scores in rows])
        pooled = BCubed().value(torch.stack(statistics).sum(0))
        count = sum(len(document.mentions) for document in documents)
        known = [(document, answer) for document, answer in zip(documents, answers, strict=True) if document.mentions]
        return CorefReport(tuple(rows), count, Scores(*columns.mean(axis=0).tolist()), float(pooled), _reference(known))

    def to_json(self) -> dict[str, Any]:
        return {
            "mentions": self.mentions,
            "mean": self.mean.to_json(),
            "pooled_b_cubed": round(self.pooled, 6),
            "reference": {name: round(value, 6) for name, value in self.reference.items()},
            "documents": {name: scores.to_json() for name, scores in self.documents},
        }


_REFERENCE = {"muc": MUC(), "b_cubed": BCubed(), "ceaf_e": CEAFEntities(), "ceaf_m": CEAFMentions(), "blanc": BLANC()}


def _reference(known: Sequence[tuple[CorefDocument, ArrayLike]]) -> dict[str, float]:
    """Each metric with its numerators and denominators added up over documents."""
    found = {}
    for name, metric in _REFERENCE.items():
        rows = [
            metric.statistics(torch.as_tensor(np.array(answer, dtype=np.int64)), torch.as_tensor(document.entities()))
            for document, answer in known
        ]
        found[name] = float(metric.value(torch.stack(rows).sum(0)))
    return found | {"conll": (found["muc"] + found["b_cubed"] + found["ceaf_e"]) / 3}


def _statistics(truth: Sequence[int], answer: ArrayLike) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    mine, gold = torch.as_tensor(np.array(answer, dtype=np.int64)), torch.as_tensor(truth)
    one, two, three = (metric.statistics(mine, gold) for metric in (BCubed(), PairwiseF1(), PairwiseAccuracy()))
    return one, two, three


def _scores(cubed: torch.Tensor, pairs: torch.Tensor, accuracy: torch.Tensor) -> Scores:
    metric = BCubed()
    return Scores(
        float(metric.value(cubed)),
        float(metric.precision(cubed)),
        float(metric.recall(cubed)),
        float(PairwiseF1().value(pairs)),
        float(PairwiseAccuracy().value(accuracy)),
    )
