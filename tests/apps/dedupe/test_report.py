"""Reports of links and of clusters."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.dedupe import DedupeReport


def test_reports_of_links_and_of_clusters() -> None:
    truth = np.array([0, 0, 1, 1, -1])
    assert DedupeReport.of(np.array([5, 5, 6, 6, 7]), truth).b_cubed == 1.0
    report = DedupeReport.of(np.array([0, 0, 0, 0, 0]), truth)
    assert report.precision == pytest.approx(2 / 6) and report.recall == 1.0
    links = DedupeReport.of(np.array([0, 0, 0, 0, 0]), truth, np.array([0, 1, 0, 1, 0]))
    assert links.precision == pytest.approx(2 / 4)
