"""Walks in shards, mixed by steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwise as lw
from loopwise import walk
from loopwise.walk.learning.updates import WalkWeights
from oracles.walk_cases import chain_documents, chain_model


@pytest.mark.parametrize("kind", [walk.SampleRank, walk.PCD])
def test_one_shard_in_any_number_of_jobs_is_serial(kind: type[walk.Learner]) -> None:
    documents = chain_documents()
    found = [
        kind(chain_model(), walk.GibbsChange(), metric=lw.metric.Accuracy()).fit(documents, steps=50, epochs=3, **how)  # type: ignore[call-arg, arg-type]
        for how in ({}, {"shards": 1, "jobs": 2})
    ]
    assert np.array_equal(found[0].weights, found[1].weights)


def test_shards_are_mixed_by_steps() -> None:
    """Two shards by hand: each learns from the common weights, which become the mean weighted by steps."""
    documents = chain_documents((3, 4, 6, 5, 2))
    options: dict[str, Any] = {"metric": lw.metric.Accuracy(), "step": walk.AdaGrad(), "seed": 3}
    mixed = walk.SampleRank(chain_model(), walk.GibbsChange(), **options)
    mixed.fit(documents, steps=50, epochs=2, shards=2, jobs=2)
    again = walk.SampleRank(chain_model(), walk.GibbsChange(), **options).fit(documents, steps=50, epochs=2, shards=2)
    assert np.array_equal(mixed.weights, again.weights) and np.array_equal(mixed.raw, again.raw)

    from loopwise.walk.plan import WalkPlan
    from loopwise.walk.sessions import Visiting

    model = chain_model()
    plan = WalkPlan(model, documents, 50, walk.Start.TRUTH, 3, True)
    rule = mixed.rule
    state, means, lengths = WalkWeights.zeros(model.size, rule), [], []
    sessions = [
        walk.CompiledWalks().open(model, documents[part::2], walk.GibbsChange(), options["metric"]) for part in (0, 1)
    ]
    for epoch in (0, 1):
        parts = []
        for part in (0, 1):
            begin = WalkWeights(state.values, np.zeros(model.size), state.squares, state.time, state.time)
            visits = [
                Visiting(visit.document // 2, visit.steps, visit.start, visit.stream)
                for visit in plan.visits(epoch)
                if visit.document % 2 == part
            ]
            parts.append(sessions[part].learn(rule, begin, visits, 3)[0])
        steps = np.array([part.time - state.time for part in parts], dtype=float)
        assert steps.tolist() == [150.0, 100.0]
        share = steps / steps.sum()
        means.append(sum(part.average() * weight for part, weight in zip(parts, share, strict=True)))
        lengths.append(steps.max())
        values = sum(part.values * weight for part, weight in zip(parts, share, strict=True))
        squares = sum(part.squares * weight for part, weight in zip(parts, share, strict=True))
        state = WalkWeights(values, state.sums, squares, max(part.time for part in parts), 0)
    assert np.allclose(mixed.raw, state.values)
    assert np.allclose(mixed.weights, np.average(means, axis=0, weights=lengths))
