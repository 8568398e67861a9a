"""Where walks start."""

from __future__ import annotations

import pytest

import loopwise as lw
from loopwise import walk
from oracles.walk_cases import chain_documents, chain_model, cluster_model, mention_document
from oracles.walk_engines import assert_alike


@pytest.mark.parametrize("start", [walk.Start.RANDOM, walk.Start.PREVIOUS, walk.Start.MIXED])
def test_starts(start: walk.Start) -> None:
    labels, mentions = chain_documents(), [mention_document(size) for size in (1, 2, 7)]
    for kind in (walk.SampleRank, walk.PCD):
        assert_alike(kind, chain_model(), walk.UniformChange(), lw.metric.Accuracy(), labels, start=start)
        assert_alike(kind, cluster_model(), walk.MentionMover(), lw.metric.PairwiseAccuracy(), mentions, start=start)
