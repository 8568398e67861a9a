"""A walk over clusters."""

from __future__ import annotations

import numpy as np

from loopwise.apps.dedupe import DedupeReport, Resolution
from loopwise.apps.dedupe.entities import EntityModel, first_weights
from oracles.dedupe_cases import TEST, TEST_IDS


def test_a_walk_undoes_wrong_clusters(found: Resolution) -> None:
    model = EntityModel.untrained(len(found.table.comparer.columns))
    assert model.weights.tolist() == first_weights(model.columns).tolist()
    alone = np.arange(len(TEST))
    better = model.improved(found.parts, alone, found.table.agreement)
    assert DedupeReport.of(better, TEST_IDS).b_cubed > DedupeReport.of(alone, TEST_IDS).b_cubed + 0.1
    blank = EntityModel(np.zeros_like(model.weights), model.columns)
    taught = blank.trained(found.parts, TEST_IDS, found.table.agreement)  # SampleRank, from nothing
    learned = taught.improved(found.parts, alone, found.table.agreement)
    assert DedupeReport.of(learned, TEST_IDS).b_cubed >= DedupeReport.of(better, TEST_IDS).b_cubed - 0.01
