"""Walks over clusterings, both engines."""

from __future__ import annotations

from typing import Any

import pytest

import loopwise as lw
from loopwise import walk
from oracles.walk_cases import cluster_model, mention_document
from oracles.walk_engines import LEARNERS, assert_alike

CLUSTER_METRICS = (lw.metric.PairwiseAccuracy(), lw.metric.PairwiseF1(), lw.metric.BCubed())


@pytest.mark.parametrize("setwise", [False, True])
@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("metric", CLUSTER_METRICS, ids=lambda metric: type(metric).__name__)
def test_clusterings(metric: Any, two_sided: bool, setwise: bool) -> None:
    model = cluster_model(setwise=setwise, two_sided=two_sided, links=setwise)
    documents = [mention_document(size, setwise=setwise, values=True, links=setwise) for size in (1, 2, 5, 8)]
    for kind in LEARNERS if setwise else LEARNERS[:1]:
        assert_alike(kind, model, walk.MentionMover(), metric, documents)
