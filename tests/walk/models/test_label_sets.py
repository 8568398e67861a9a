"""The engine for label sets walks as the engines for any graph do: move for move, weight for weight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loopwise import walk
from loopwise.loss.labels import Correct
from loopwise.loss.metric import Accuracy
from loopwise.walk.models.label_sets import LabelSets, label_documents, label_model
from oracles.label_cases import make_problem, random_weights

CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "samplerank": (walk.SampleRank, {"step": walk.MIRA(0.3)}),
    "samplerank, unit": (walk.SampleRank, {"step": walk.Unit(0.5), "margin": walk.ConstantMargin(2.0)}),
    "samplerank, stale": (walk.SampleRank, {"accept_with": walk.Accept.STALE, "temperature": 2.0}),
    "svm": (walk.SampleRankSVM, {"step": walk.MIRA(0.2), "start": walk.Start.RANDOM}),
    "svm-1": (walk.SampleRankSVM1, {"step": walk.MIRA()}),
    "cd": (walk.CD, {"steps_away": 3, "step": walk.Decaying(0.4)}),
    "pcd": (walk.PCD, {"step": walk.Decaying(0.4), "start": walk.Start.PREVIOUS}),
    "hybrid": (walk.Hybrid, {"step": walk.MIRA(0.5), "start": walk.Start.MIXED}),
    "hybrid on ties": (walk.Hybrid, {"step": walk.Decaying(0.5), "on_ties": True, "temperature": 0.5}),
}
PROPOSALS = [walk.GibbsChange(), walk.GibbsChange(scan=True), walk.AllValues(), walk.ForcedFlip(), walk.UniformChange()]


def trained(case: str, proposal: walk.Proposal, engine: walk.WalkEngine, metric: Any, scant: bool) -> Any:
    kind, options = CASES[case]
    problem = make_problem(5, labels=4, features=3, scant=scant)
    model, documents = label_model(problem), label_documents(problem)
    learner = kind(model, proposal, metric=metric, engine=engine, seed=7, **options)
    learner.set_weights(random_weights(4, 4, scale=0.1).vector)
    learner.fit(documents, steps=walk.Sweeps(4), epochs=3)
    # One more round by hand, for its trace.
    session = engine.open(model, documents, proposal, metric)
    session.trace = []
    visits = [walk.plan.Visiting(number, 30, walk.Start.TRUTH, number) for number in range(len(documents))]
    session.learn(learner.rule, learner.state, visits, 3)
    return learner, session.trace


@pytest.mark.parametrize("proposal", PROPOSALS, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_the_same_walk_as_over_any_graph(case: str, proposal: walk.Proposal) -> None:
    scant = isinstance(proposal, walk.AllValues)
    metric = Correct() if case != "hybrid" else Accuracy()
    fast, fast_trace = trained(case, proposal, LabelSets(), metric, scant)
    slow, slow_trace = trained(case, proposal, walk.Plain(), metric, scant)
    assert fast_trace == slow_trace
    np.testing.assert_allclose(fast.raw, slow.raw, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fast.weights, slow.weights, rtol=1e-9, atol=1e-12)
    assert fast.tally.numbers[:4] == slow.tally.numbers[:4] and fast.tally.updates > 0
    if not isinstance(CASES[case][1].get("step"), walk.MIRA):  # MIRA meets margins exactly, where rounding decides
        assert fast.tally == slow.tally


def test_labels_without_a_truth_are_walked_but_not_ranked() -> None:
    problem = make_problem(4, labels=3)
    problem.gold[:, 1] = -1
    found = []
    for engine in (LabelSets(), walk.Plain()):
        learner = walk.SampleRank(label_model(problem), walk.AllValues(), metric=Accuracy(), engine=engine, seed=1)
        learner.fit(label_documents(problem), steps=40)
        found.append(learner)
    np.testing.assert_allclose(found[0].raw, found[1].raw, atol=1e-12)
    assert found[0].tally == found[1].tally
