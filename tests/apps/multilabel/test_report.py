"""Scores of label sets."""

from __future__ import annotations

import json

import numpy as np
import pytest

from loopwise.apps.multilabel import (
    MultiLabel,
)


def test_scores_are_those_of_scikit_learn(fitted: MultiLabel, data: tuple[np.ndarray, np.ndarray]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    x, y = data[0][150:], data[1][150:]
    said, report = fitted.predict(x), fitted.evaluate(x, y)
    assert report.hamming == pytest.approx(metrics.hamming_loss(y, said)) and report.hamming < 0.2
    assert fitted.score(x, y) == pytest.approx(1 - report.hamming)
    assert report.subset == pytest.approx(1 - metrics.accuracy_score(y, said))
    for average, mine in (("micro", report.micro_f1), ("macro", report.macro_f1), ("samples", report.examples_f1)):
        assert mine == pytest.approx(metrics.f1_score(y, said, average=average, zero_division=1))
    assert json.dumps(report.to_json()) and list(report.labels) == ["0", "1", "2", "3"]
