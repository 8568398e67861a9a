"""The shipped check passes every walk of the library and one of a user's own, and catches what is broken."""

from __future__ import annotations

from typing import Any

import pytest

import loopwise as lw
from loopwise import walk
from loopwise.testing.walk import check_walk
from oracles.walk_cases import chain_documents, chain_model, cluster_model, mention_document


@pytest.mark.parametrize("proposal", [walk.GibbsChange(), walk.UniformChange(), walk.ForcedFlip(), walk.AllValues()])
def test_labels(proposal: walk.Proposal) -> None:
    check_walk(chain_model(), proposal, lw.metric.Accuracy(), chain_documents((1, 3, 6)), steps=40)


@pytest.mark.parametrize("metric", [lw.metric.PairwiseAccuracy(), lw.metric.PairwiseF1(), lw.metric.BCubed()])
def test_clusterings(metric: Any) -> None:
    documents = [mention_document(size, setwise=True, links=True) for size in (1, 4, 8)]
    for two_sided in (False, True):
        model = cluster_model(setwise=True, two_sided=two_sided, links=two_sided)
        check_walk(model, walk.MentionMover(), metric, documents, steps=40)


@pytest.mark.parametrize("metric", [lw.metric.PairwiseAccuracy(), lw.metric.PairwiseF1(), lw.metric.BCubed()])
def test_block_moves(metric: Any) -> None:
    mixture = walk.Mixture((walk.MentionMover(), walk.SplitMerge(), walk.BalancedMover()))
    model, document = cluster_model(setwise=True, links=True), mention_document(7, setwise=True, links=True)
    check_walk(model, mixture, metric, [document], steps=60)


def test_what_is_broken_is_caught() -> None:
    class Forgetful(walk.ClusterModel):
        """Leaves the entity that the mention joins out of the difference."""

        def touched(self, world: Any, move: walk.Move) -> Any:
            factors = list(super().touched(world, move))
            return [factor for factor in factors if factor[0] != ("entity", move.changes[0][2])]

        def compiled(self, *arguments: Any) -> None:
            return None

    documents = [mention_document(5)]
    with pytest.raises(AssertionError, match="feature"):
        check_walk(Forgetful(6, setwise=True), walk.MentionMover(), lw.metric.BCubed(), documents)

    class Sloppy(lw.metric.BCubed):
        def track(self, truth: Any, state: Any) -> Any:
            tracker = super().track(truth, state)
            honest = tracker.gain
            tracker.gain = lambda changes: honest(changes) + 1e-3  # type: ignore[method-assign]
            return tracker

    with pytest.raises(AssertionError, match="gain"):
        check_walk(cluster_model(), walk.MentionMover(), Sloppy(), documents)

    class WithCareless(walk.ClusterModel):
        def world_of(self, document: Any, labels: Any) -> Any:
            world = super().world_of(document, labels)
            world.restore = lambda token: (type(world).restore(world, token), world.active.reverse())  # type: ignore
            return world

    with pytest.raises(AssertionError, match="taken back leaves"):
        check_walk(WithCareless(6), walk.MentionMover(), lw.metric.BCubed(), documents)
