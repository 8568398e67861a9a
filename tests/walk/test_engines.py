"""Plain and compiled walks take the same steps, bit for bit, whatever the learner, the proposal and the metric."""

from __future__ import annotations

import pytest

import loopwise as lw
from loopwise import walk
from oracles.walk_cases import chain_documents, chain_model, cluster_model, mention_document
from oracles.walk_engines import assert_alike


def test_far_from_the_truth_and_back() -> None:
    for count in (2, 5):
        assert_alike(
            walk.CD, chain_model(), walk.UniformChange(), lw.metric.Accuracy(), chain_documents(), steps_away=count
        )


def test_fetching_ahead_changes_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents too large for a near cache, as all are said to be here."""
    from loopwise.walk.models import cluster_arrays, graph_arrays

    monkeypatch.setattr(cluster_arrays, "_NEAR", -1)
    monkeypatch.setattr(graph_arrays, "_NEAR", -1)
    mentions = [mention_document(size, setwise=True, values=True, links=True) for size in (1, 2, 5, 8)]
    model = cluster_model(setwise=True, links=True)
    assert_alike(walk.SampleRank, model, walk.MentionMover(), lw.metric.BCubed(), mentions)
    for proposal in (walk.GibbsChange(), walk.AllValues(), walk.ForcedFlip()):
        assert_alike(walk.SampleRank, chain_model(), proposal, lw.metric.Accuracy(), chain_documents())
