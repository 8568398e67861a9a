"""Plain and compiled walks take the same steps, bit for bit, whatever the learner, the proposal and the metric."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwise as lw
from loopwise import walk
from oracles.walk_cases import chain_documents, chain_model, cluster_model, mention_document, mixed_graph
from oracles.walk_engines import assert_alike

CLUSTER_METRICS = (lw.metric.PairwiseAccuracy(), lw.metric.PairwiseF1(), lw.metric.BCubed())
LEARNERS = (
    walk.SampleRank,
    walk.SampleRankSVM,
    walk.SampleRankSVM1,
    walk.CD,
    walk.PCD,
    walk.Hybrid,
)


@pytest.mark.parametrize("kind", LEARNERS, ids=lambda kind: kind.__name__)
def test_learners_of_labels(kind: type[walk.Learner]) -> None:
    for proposal in (walk.UniformChange(), walk.ForcedFlip(), walk.Gibbs(scan=True)):
        assert_alike(kind, chain_model(), proposal, lw.metric.Accuracy(), chain_documents())


def test_far_from_the_truth_and_back() -> None:
    for count in (2, 5):
        assert_alike(
            walk.CD, chain_model(), walk.UniformChange(), lw.metric.Accuracy(), chain_documents(), steps_away=count
        )


def test_tables_tied_tables_columns_and_evidence() -> None:
    graph = mixed_graph()
    free = np.array([True, True, False, True])
    documents = [walk.GraphDocument(graph, [0, 2, 1, 1], free=free), walk.GraphDocument(graph, [1, 0, -1, 0])]
    for potentials in (lw.TablePotentials(graph), lw.potentials.TiedTables(graph)):
        model = walk.GraphModel(potentials)
        assert_alike(walk.SampleRank, model, walk.Gibbs(), lw.metric.Accuracy(), documents)
        assert_alike(walk.SampleRankSVM, model, walk.Gibbs(), lw.metric.Accuracy(), documents[:1])
    tied = lw.SparsePotentials(
        {
            "unary": lw.potentials.SparseGroup((3,), 12, columns=(-1, 0, 1), table="shared"),
            "pair": lw.potentials.SparseGroup((3, 3), 12, columns=(0, 1, 1, 1, 0, 1, 1, 1, -1), table="shared"),
        }
    )
    chains = chain_documents(pair_features=12)
    assert_alike(walk.SampleRank, walk.GraphModel(tied), walk.AllValues(), lw.metric.Accuracy(), chains)


@pytest.mark.parametrize("setwise", [False, True])
@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("metric", CLUSTER_METRICS, ids=lambda metric: type(metric).__name__)
def test_clusterings(metric: Any, two_sided: bool, setwise: bool) -> None:
    model = cluster_model(setwise=setwise, two_sided=two_sided)
    documents = [mention_document(size, setwise=setwise, values=True) for size in (1, 2, 5, 8)]
    for kind in LEARNERS if setwise else LEARNERS[:1]:
        assert_alike(kind, model, walk.MentionMover(), metric, documents)


def test_the_difference_to_the_truth_is_rebuilt_alike() -> None:
    from dataclasses import replace

    documents = [mention_document(6, values=True)]
    found = []
    for engine in (walk.Plain(), walk.Compiled()):
        learner = walk.PCD(cluster_model(), walk.MentionMover(), metric=lw.metric.BCubed(), engine=engine)
        learner.rule = replace(learner.rule, rebuild=7)
        found.append(learner.fit(documents, steps=100).raw)
    assert np.array_equal(*found)
