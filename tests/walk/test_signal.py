"""Metrics as signals of a walk."""

from __future__ import annotations

from typing import Any

import pytest

import loopwise as lw
from loopwise import walk
from oracles.walk_cases import chain_documents, chain_model
from oracles.walk_engines import assert_alike

TAGS = ("O", "B-X", "I-X")


LABEL_METRICS = (
    lw.metric.Accuracy(),
    lw.metric.HammingError(),
    lw.metric.Correct(),
    lw.metric.F1Score(positive=(1, 2)),
    lw.metric.ValueF1(values=(1, 2)),
    lw.metric.ValueF1(values=(0, 2), macro=False),
    lw.metric.VariableF1(variables=6),
    lw.metric.EntityF1Score(tags=TAGS),
)


@pytest.mark.parametrize("metric", LABEL_METRICS, ids=lambda metric: type(metric).__name__)
def test_metrics_of_labels(metric: Any) -> None:
    for proposal in (walk.GibbsChange(), walk.AllValues()):
        assert_alike(walk.SampleRank, chain_model(), proposal, metric, chain_documents(), step=walk.MIRA())


def test_an_unknown_metric_walks_plain() -> None:
    metric = walk.WholeWorld(lambda world: -float(sum(world.values)))
    learner = walk.SampleRank(chain_model(), walk.GibbsChange(), metric=metric)
    documents = [
        walk.GraphDocument(document.graph, document.truth * 0, document.features) for document in chain_documents()
    ]
    learner.fit(documents, steps=50)
    assert learner.tally.updates > 0
    with pytest.raises(ValueError, match=r"engine=lw\.walk\.Plain"):
        walk.SampleRank(chain_model(), walk.GibbsChange(), metric=metric, engine=walk.CompiledWalks()).fit(
            documents, steps=5
        )
