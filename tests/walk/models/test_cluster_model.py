"""Models of clusterings: differences to the truth, bad mentions."""

from __future__ import annotations

import numpy as np
import pytest

import loopwise as lw
from loopwise import walk
from oracles.walk_cases import cluster_model, mention_document


def test_the_difference_to_the_truth_is_rebuilt_alike() -> None:
    from dataclasses import replace

    documents = [mention_document(6, values=True)]
    found = []
    for engine in (walk.Plain(), walk.CompiledWalks()):
        learner = walk.PCD(cluster_model(), walk.MentionMover(), metric=lw.metric.BCubed(), engine=engine)
        learner.rule = replace(learner.rule, rebuild=7)
        found.append(learner.fit(documents, steps=100).raw)
    assert np.array_equal(*found)


def test_bad_mentions() -> None:
    features, row = walk.shared_rows(np.ones((3, 2), dtype=bool))
    with pytest.raises(ValueError, match="4 mentions have 6 pairs; pair_row has shape"):
        walk.MentionDocument([0, 1, 0, 2], features, row)
    document = walk.MentionDocument([5, 9, 5], features, row)
    assert document.truth.tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="pair feature 1 is out of range"):
        walk.SampleRank(walk.ClusterModel(1), walk.MentionMover(), metric=lw.metric.BCubed()).fit([document], steps=1)
    wrong = walk.MentionDocument([0, 1, 0], features, row, attributes=np.array([[0], [7], [1]]))
    model = walk.ClusterModel(2, setwise=True, attribute_values=(2,))
    with pytest.raises(ValueError, match="mention 1 has the unknown value 7 of attribute 0"):
        walk.SampleRank(model, walk.MentionMover(), metric=lw.metric.BCubed()).fit([wrong], steps=1)
