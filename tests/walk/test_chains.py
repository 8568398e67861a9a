"""SampleRank walks on the scores of a chain."""

from __future__ import annotations

import numpy as np
import pytest

import loopwise as lw
from loopwise.apps.chain import (
    ChainSampleRank,
)
from loopwise.walk.chains import chain_documents
from loopwise.walk.models.graph_model import GraphModel
from oracles.chain_cases import (
    learnt,
    make_problem,
    random_weights,
)


@pytest.mark.parametrize("steps", ["", "is_title[0]"])
def test_sample_rank_walks_on_the_same_scores(steps: str) -> None:
    """The documents of the walk have, under any weights, the scores of the problem; training meets its margins."""
    problem = make_problem(12, steps)
    weights = random_weights(problem)
    unary, pair = problem.scores(weights)
    groups = {
        "unary": lw.potentials.SparseGroup((problem.states,), len(weights.unary)),
        "pair": lw.potentials.SparseGroup((problem.states,) * 2, len(weights.pair)),
    }
    model = GraphModel(lw.SparsePotentials(groups))
    model.write(weights.vector)
    begin = 0
    for document in chain_documents(problem):
        tables, end = model.tables(document), begin + document.graph.variables
        np.testing.assert_allclose(tables["unary"].numpy(), unary[begin:end], atol=1e-12)
        mine = pair[begin + 1 : end] if steps else np.broadcast_to(pair, (end - begin - 1, *pair.shape[1:]))
        np.testing.assert_allclose(tables["pair"].numpy(), mine, atol=1e-12)
        begin = end
    assert begin == problem.tokens
    _, history = learnt(ChainSampleRank(epochs=30), problem)
    assert history.losses[-1] < 0.2 * history.losses[0]
