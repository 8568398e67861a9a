"""Detailed balance by enumeration, and long chains against enumerated marginals."""

from __future__ import annotations

import numpy as np
import pytest

import loopwise as lw
from loopwise import walk
from oracles.balance_cases import found, weights_of
from oracles.walk_cases import mixed_graph


@pytest.mark.parametrize("temperature", [1.0, 0.3, 2.0])
@pytest.mark.parametrize("proposal", [walk.GibbsChange(), walk.AllValues(), walk.UniformChange(), walk.ForcedFlip()])
def test_labels(proposal: walk.Proposal, temperature: float) -> None:
    graph = mixed_graph()
    model = walk.GraphModel(lw.TablePotentials(graph))
    chain = found(model, proposal, walk.GraphDocument(graph, [0, 0, 0, 0]), weights_of(model), temperature=temperature)
    assert len(chain.keys) == 24
    chain.check(1e-12)
    assert np.allclose(chain.probabilities @ chain.matrix, chain.probabilities, atol=1e-12)


@pytest.mark.parametrize("proposal", [walk.GibbsChange(), walk.UniformChange(), walk.ForcedFlip()])
def test_six_binary_labels(proposal: walk.Proposal) -> None:
    graph = lw.graph.complete(6)
    model = walk.GraphModel(lw.TablePotentials(graph))
    chain = found(model, proposal, walk.GraphDocument(graph, [0] * 6), weights_of(model, 0.5))
    assert len(chain.keys) == 64
    chain.check(1e-12)
