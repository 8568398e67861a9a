"""Blocks of equal cardinality do what a loop over variables does."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from loopwise.graph import FactorGraph
from loopwise.inference.by_variable import (
    labels_mask,
    map_variables,
    point_masses,
    reduce_variables,
    spread,
    state_values,
)
from oracles.made_beliefs import random_logits, random_values, softmax_by_variable, split
from oracles.strategies import graphs

BATCHES = st.sampled_from([(), (3,), (2, 3), (0,)])


@given(graphs(variables=(0, 6)), BATCHES)
def test_blocks_do_what_a_loop_does(graph: FactorGraph, batch: tuple[int, ...]) -> None:
    numbers = random_logits(graph, batch)
    mapped = map_variables(graph, lambda block: block.softmax(-1), numbers)
    torch.testing.assert_close(mapped, softmax_by_variable(graph, numbers))
    reduced = reduce_variables(graph, lambda block: block.amax(-1), numbers)
    assert reduced.shape == (*batch, graph.variables)
    for variable, piece in enumerate(split(graph, numbers)):
        assert torch.equal(reduced[..., variable], piece.amax(-1))


@given(graphs(variables=(1, 6)), BATCHES)
def test_point_masses_and_labels(graph: FactorGraph, batch: tuple[int, ...]) -> None:
    values = random_values(graph, batch)
    masses = point_masses(graph, values, random_logits(graph))
    for variable, piece in enumerate(split(graph, masses)):
        expected = torch.nn.functional.one_hot(values[..., variable], piece.shape[-1])
        assert torch.equal(piece, expected.to(piece.dtype))
    same = spread(graph, values) == state_values(graph, values.device)
    assert torch.equal(same, masses.bool())
    mask = labels_mask(graph, 0, values.device)
    assert mask.sum() == graph.variables and mask[0]


def test_unknown_positive_labels_are_named() -> None:
    graph = FactorGraph([2, 3], {})
    assert labels_mask(graph, (1, 2), torch.device("cpu")).tolist() == [False, True, False, True, True]
    with pytest.raises(ValueError, match="positive label 3 is no value of any variable; values go from 0 to 2"):
        labels_mask(graph, [3], torch.device("cpu"))
    with pytest.raises(ValueError, match="at least one"):
        labels_mask(graph, [], torch.device("cpu"))
