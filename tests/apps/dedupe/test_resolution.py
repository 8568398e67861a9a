"""What a resolution tells: confidences, links, reasons."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from loopwise.apps.dedupe import Dedupe, Records, Resolution
from loopwise.apps.dedupe.resolution import START, _of_links
from loopwise.decode.scored_pairs import Graph, parts_of
from oracles.dedupe_cases import IDS, RECORDS, TEST


def test_confidences_links_and_canonical_records(found: Resolution) -> None:
    assert ((found.confidence >= 0) & (found.confidence <= 1)).all()
    order = found.doubtful(1000)
    lowest = [found.confidence[found.members(cluster)].min() for cluster in order]
    assert lowest == sorted(lowest)
    for one, two, probability in found.links():
        assert found.clusters[one] == found.clusters[two] and 0 <= probability <= 1
    largest = found.largest(3)
    assert largest[0].size == np.bincount(found.clusters).max()
    table = Records.of({"name": ["Ann", "Anne", "Ann", "Bo"], "age": ["", "3", "31", "4"]})
    clusters = Resolution(
        *(getattr(found, name) for name in ("table", "trained", "graph", "parts")),
        np.zeros(4, int),
        found.probability,
        (),
    )
    object.__setattr__(clusters.table, "records", table)
    try:
        assert clusters.canonical(0) == {"name": "Ann", "age": "31"}
    finally:
        object.__setattr__(found.table, "records", TEST)


def linked() -> Resolution:
    sides = np.arange(len(IDS)) % 2
    left, right = (RECORDS.take(np.flatnonzero(sides == side)) for side in (0, 1))
    return Dedupe().fit(left, other=right).predict(left, other=right)


@pytest.mark.parametrize("linking", [False, True])
@pytest.mark.parametrize("by_column", [False, True])
def test_reasons_add_up_to_the_logit(found: Resolution, linking: bool, by_column: bool) -> None:
    found = linked() if linking else found
    one, two, _ = found.links()[0]
    reasons = found.explain(one, two, None, by_column=by_column)
    logit = found.table.score(found.trained.pairs, np.array([one]), np.array([two]))[0]
    assert np.clip(sum(reason.weight for reason in reasons), -12, 12) == pytest.approx(logit, abs=1e-4)
    weights = [abs(reason.weight) for reason in reasons]
    assert weights == sorted(weights, reverse=True) and found.explain(one, two, 2) == found.explain(one, two, None)[:2]
    if by_column:
        said = [*found.table.comparer.columns, START, *(["rivals"] if linking else [])]
        assert sorted(reason.comparison for reason in reasons) == sorted(said)


def test_links_at_their_threshold_are_as_likely_right_as_wrong() -> None:
    parts = parts_of(Graph(4, np.array([0, 1, 2]), np.array([1, 2, 3]), np.array([-2.0, -2.0, 0.0])))
    linked = np.array([0, 0, 2, 2])
    np.testing.assert_allclose(_of_links(parts, linked, -2.0), expit([0.0, -2.0, 2.0]))
    np.testing.assert_allclose(_of_links(parts, linked, 1.0), expit(parts.logit))
