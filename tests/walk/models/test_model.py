"""Decoding finds the best state, keeps an honest score, and takes plug-in decoders; mixing and bad input."""

from __future__ import annotations

import numpy as np
import pytest

import loopwise as lw
from loopwise import walk
from loopwise.walk.models.model import dot
from oracles.walk_cases import chain_documents, chain_model, cluster_model, learner_of, mention_document, mixed_graph


def test_the_best_score_is_a_fresh_one() -> None:
    model, documents = (
        cluster_model(setwise=True),
        [mention_document(size, setwise=True, values=True) for size in (9, 12)],
    )
    for engine in (walk.Plain(), walk.CompiledWalks()):
        learner = learner_of(model, walk.MentionMover(), lw.metric.BCubed(), engine=engine)
        for found, document in zip(learner.search(documents, steps=1500), documents, strict=True):
            fresh = dot(model.features(model.world_of(document, found.labels)), learner.weights.tolist())
            assert found.score == pytest.approx(fresh, abs=1e-10)


def test_evidence_stays() -> None:
    graph = mixed_graph()
    free = np.array([True, False, True, False])
    document = walk.GraphDocument(graph, [-1, 2, -1, 1], free=free)
    learner = learner_of(walk.GraphModel(lw.TablePotentials(graph)), walk.GibbsChange(), lw.metric.Accuracy())
    answer = learner.decode(document, steps=200)
    assert answer[[1, 3]].tolist() == [2, 1]
    assert answer.tolist() == learner.decode(document, decoder=walk.ExactDecoder()).tolist()


def test_walks_do_not_depend_on_their_neighbours() -> None:
    """A document's walk under fixed weights is the same alone and in company."""
    model, documents = cluster_model(), [mention_document(size) for size in (4, 7, 5)]
    learner = learner_of(model, walk.MentionMover(), lw.metric.BCubed())
    together = learner.search(documents, steps=300)
    assert learner.search(documents[:1], steps=300)[0].labels == together[0].labels


# ------------------------------------------------------------------------------------------------ bad input


class Stubborn(walk.Proposal):
    def propose(self, walker: walk.Walker) -> walk.Proposed:
        return walk.Proposed(None)


def test_bad_input_is_one_sentence() -> None:
    model, documents = chain_model(), chain_documents()
    with pytest.raises(ValueError, match="Stubborn changed nothing in 15 steps over 3 documents"):
        walk.SampleRank(model, Stubborn(), metric=lw.metric.Accuracy()).fit(documents, steps=5)
    nan = walk.WholeWorld(lambda world: float("nan"))
    with pytest.raises(ValueError, match=r"WholeWorld gave NaN for Move.*\(document \d\)"):
        walk.SampleRank(model, walk.UniformChange(), metric=nan).fit(documents, steps=5)
    with pytest.raises(ValueError, match="variable 1 has the unknown label 3; its labels are 0 to 2"):
        walk.GraphDocument(lw.chain(3, states=3), [0, 3, 1])
    with pytest.raises(ValueError, match="no documents"):
        walk.SampleRank(model, walk.GibbsChange(), metric=lw.metric.Accuracy()).fit([], steps=5)
    with pytest.raises(ValueError, match="steps must be a whole number of at least 1"):
        walk.SampleRank(model, walk.GibbsChange(), metric=lw.metric.Accuracy()).fit(documents, steps=0)
    with pytest.raises(ValueError, match="no start SINGLETONS"):
        walk.SampleRank(model, walk.GibbsChange(), metric=lw.metric.Accuracy(), start=walk.Start.SINGLETONS).fit(
            documents, steps=1
        )
    with pytest.raises(ValueError, match=r"begins? there, not at RANDOM"):
        walk.SampleRankSVM1(model, walk.GibbsChange(), metric=lw.metric.Accuracy(), start=walk.Start.RANDOM)
    with pytest.raises(ValueError, match="MIRA needs a margin"):
        walk.CD(model, walk.GibbsChange(), metric=lw.metric.Accuracy(), step=walk.MIRA())
    with pytest.raises(ValueError, match="cannot be followed"):
        walk.SampleRank(model, walk.GibbsChange(), metric=lw.metric.MSE(), engine=walk.Plain()).fit(documents, steps=1)
    with pytest.raises(ValueError, match="items without one"):
        unscored = walk.GraphDocument(lw.chain(3, states=3), [0, -1, 1], documents[1].features)
        walk.PCD(model, walk.GibbsChange(), metric=lw.metric.Accuracy()).fit([unscored], steps=1)
    with pytest.raises(ValueError, match="feature 12 of group 'unary' is out of range"):
        odd = walk.GraphDocument.of_chain(3, [0], lw.potentials.Features.of_rows([[12]]))
        walk.SampleRank(model, walk.GibbsChange(), metric=lw.metric.Accuracy()).fit([odd], steps=1)
    with pytest.raises(ValueError, match="changes variables of a Labelling"):
        walk.SampleRank(cluster_model(), walk.GibbsChange(), metric=lw.metric.BCubed()).fit(
            [mention_document(3)], steps=1
        )
