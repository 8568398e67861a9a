"""Answers and measures of images of different sizes."""

from __future__ import annotations

import numpy as np
import pytest

import loopwise as lw
from loopwise.apps.grid_crf import GridCRF
from oracles.grid_cases import pictures, started


def test_images_of_different_sizes_are_as_if_alone() -> None:
    images, labels = pictures([(4, 5), (6, 3), (4, 5), (1, 1), (1, 7)])
    model = started(GridCRF(), channels=1)
    together = model.predict_marginals(images)
    assert [answer.shape for answer in together] == [(*label.shape, 2) for label in labels]
    for image, answer in zip(images, together, strict=True):
        np.testing.assert_allclose(answer, model.predict_marginals([image])[0], atol=1e-12)
    rows = model.statistics(images, labels, [lw.metric.HammingError()])[0]
    wrong = [float((answer.argmax(-1) != label).sum()) for answer, label in zip(together, labels, strict=True)]
    assert rows[:, 1].tolist() == wrong
    assert model.score(images, labels) == pytest.approx(1 - sum(wrong) / sum(label.size for label in labels))
