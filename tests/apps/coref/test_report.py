"""The report of entities, by hand."""

from __future__ import annotations

import pytest

from loopwise.apps.coref import CorefReport
from loopwise.formats.coref import CorefDocument, MentionSpan


def test_report_by_hand() -> None:
    """Six mentions, two true entities; the classic example of Bagga and Baldwin's measure, worked by hand."""
    spans = tuple(MentionSpan(place, place, name) for place, name in enumerate("aaabbb"))
    document = CorefDocument("d", tuple("uvwxyz"), (0, 6), spans)
    report = CorefReport.of([document], [[0, 0, 1, 1, 1, 1]])
    precision, recall = (1 + 1 + 1 / 4 + 3 * 3 / 4) / 6, (2 * 2 / 3 + 1 / 3 + 3 * 1) / 6
    assert report.mean.precision == pytest.approx(precision) and report.mean.recall == pytest.approx(recall)
    assert report.mean.b_cubed == pytest.approx(2 * precision * recall / (precision + recall)) == report.pooled
    assert report.mean.pairwise_f1 == pytest.approx(2 * 4 / (7 + 6))
    assert report.mean.pairwise_accuracy == pytest.approx(10 / 15)
    assert CorefReport.of([document], [document.entities()]).mean.b_cubed == 1.0
