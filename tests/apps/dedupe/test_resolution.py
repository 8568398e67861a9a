"""What a resolution tells: confidences, links, reasons."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.dedupe import Records, Resolution
from oracles.dedupe_cases import TEST


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


def test_reasons_add_up_to_the_logit(found: Resolution) -> None:
    one, two, _ = found.links()[0]
    model = found.trained.pairs
    total = sum(reason.weight for reason in found.explain(one, two, 1000))
    total += model.weights[0] + model.weights[1] * model.levels.prior
    logit = found.table.score(model, np.array([one]), np.array([two]))[0]
    assert np.clip(total, -12, 12) == pytest.approx(logit, abs=1e-4)
