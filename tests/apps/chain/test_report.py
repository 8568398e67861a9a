"""Reports of tags and entities."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loopwise.apps.chain import Tagger
from loopwise.apps.chain.report import compare
from loopwise.loss.entity import EntityF1Score as EntityMetric
from loopwise.loss.reduction import Pooled
from oracles.tagger_text import names


def test_reports_by_hand() -> None:
    labels = ("O", "B-LOC", "B-PER", "I-PER")
    gold = np.array([2, 3, 0, 1, 0, 2])
    said = np.array([2, 3, 0, 2, 1, 2])
    report = compare(gold, said, np.array([0, 4, 6]), labels)
    assert report.accuracy == pytest.approx(4 / 6)
    assert report.entities is not None
    assert (report.entities.right, report.entities.decided, report.entities.gold) == (2, 4, 3)
    assert report.entities.f1 == pytest.approx(2 * 2 / 7) and report.types["LOC"].f1 == 0.0
    assert report.types["PER"].precision == pytest.approx(2 / 3) and report.types["PER"].recall == 1.0
    plain = compare(gold, said, np.array([0, 4, 6]), ("DET", "NOUN", "VERB", "ADJ"))
    assert plain.entities is None and plain.score == plain.accuracy


def test_reports_agree_with_the_metric_of_entities(fitted: Tagger) -> None:
    report = fitted.evaluate(*names(60, seed=9))
    text, problem = fitted.prepared(names(60, seed=9)[0])
    said, gold = fitted.predict(names(60, seed=9)[0]), names(60, seed=9)[1]
    number = {label: place for place, label in enumerate(fitted.labels_)}
    metric = EntityMetric(tags=fitted.labels_, reduction=Pooled())
    rows = [
        metric.statistics(torch.tensor([number[t] for t in one]), torch.tensor([number[t] for t in two]))
        for one, two in zip(said, gold, strict=True)
    ]
    assert report.entities is not None and len(text) == problem.sentences
    assert report.entities.f1 == pytest.approx(float(metric.combine(torch.stack(rows))))
