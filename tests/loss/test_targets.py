"""Targets from integers, evidence and sets agree; bad ones are named."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import loopwise as lw
from loopwise import loss
from loopwise.graph import FactorGraph
from loopwise.loss import Targets
from oracles.made_beliefs import random_beliefs, random_values
from oracles.strategies import graphs

MIXED = FactorGraph([2, 3, 1], {})


@given(graphs(variables=(1, 5)), st.sampled_from([(), (3,), (2, 2)]), st.integers(0, 99))
def test_all_ways_say_the_same(graph: FactorGraph, batch: tuple[int, ...], seed: int) -> None:
    values = random_values(graph, batch, seed, hidden=0.4)
    targets = Targets.of(graph, values)
    assert torch.equal(targets.values, values)
    assert torch.equal(targets.scored, values != lw.graph.FREE)
    expected = np.concatenate(
        [values[..., [v]].numpy() == np.arange(size) for v, size in enumerate(graph.cardinalities)], -1
    )
    assert np.array_equal(targets.allowed.numpy(), expected)
    roles = np.where(values == lw.graph.FREE, lw.Role.HIDDEN, lw.Role.OUTPUT)
    for same in (
        Targets.of(graph, values.numpy()),
        Targets.of(graph, lw.Evidence.of(values.numpy(), roles)),
        Targets.of(graph, targets.allowed),
        Targets.of(graph, targets),
    ):
        assert torch.equal(same.allowed, targets.allowed)
        assert torch.equal(same.values, values)
    if len(batch) == 1:
        sets = [{v: int(x) for v, x in enumerate(row) if x != lw.graph.FREE} for row in values]
        assert torch.equal(Targets.of(graph, sets).allowed, targets.allowed)
        assert torch.equal(targets[[2, 0]].values, values[[2, 0]]) and len(targets) == 3


def test_only_outputs_of_evidence_are_scored() -> None:
    evidence = lw.Evidence.of([[1, 2, 0], [0, 1, -1]], [[0, 1, 1], [1, 2, 3]])
    assert Targets.of(MIXED, evidence).values.tolist() == [[-1, 2, 0], [0, -1, -1]]


def test_sets() -> None:
    targets = Targets.from_sets(MIXED, {1: {0, 2}, 2: 0})
    assert targets.allowed.tolist() == [False, False, True, False, True, True]
    assert targets.scored.tolist() == [False, True, True]
    assert targets.values is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([[0, 0, 0], [0, 3, 0]], r"target of variable 1 \(example 1\) is 3; it has values 0 to 2"),
        ([0, -2, 0], r"target of variable 1 is -2"),
        ([0, 1], r"shape \(2,\) do not fit the graph: .* each of 3 variables"),
        ([0.0, 1.0, 0.0], "must be integers"),
        ([-1, -1, -1], "nothing is scored"),
        ([[True] * 5], r"each of 6 states"),
        (["a", "b", "c"], "no array of integers"),
        ({7: 1}, "variable 7; the graph has variables 0 to 2"),
        ({1: {0, 5}}, "target of variable 1 is 5; it has values 0 to 2"),
        ([{0: 1}, {1: -1}], r"target of variable 1 \(example 1\) is -1; .* leave the variable out"),
        ([{0: 1}, [1]], "targets of example 1 must map variables to values, not list"),
        ({0: {"yes"}}, "target of variable 0 must be an integer, not 'yes'"),
        ({}, "nothing is scored"),
    ],
)
def test_bad_targets(given: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        loss.MSE()(random_beliefs(MIXED), given)


def test_batches_must_fit() -> None:
    with pytest.raises(ValueError, match=r"targets for \(3,\) examples do not fit a prediction for \(2,\)"):
        loss.L1()(random_beliefs(MIXED, (2,)), [[0, 0, 0]] * 3)
    with pytest.raises(ValueError, match="the targets are for"):
        loss.L1()(random_beliefs(lw.chain(3)), Targets.of(MIXED, [0, 0, 0]))
    with pytest.raises(TypeError, match="one example"):
        len(Targets.of(MIXED, [0, 0, 0]))
