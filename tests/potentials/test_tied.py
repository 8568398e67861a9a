"""Tied tables: one parameter for many factors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loopwise.graph import FactorGraph, chain, grid
from loopwise.inference.messages.message_passing import BP
from loopwise.inference.messages.reference import Reference
from loopwise.potentials import TablePotentials, TiedTables

GRAPH = FactorGraph([2, 3, 2, 3], {"a pair.": [[0, 1], [2, 1], [2, 3]], "one": [[0], [2]]})
CLASSES = {"a pair.": [0, 1, 0]}


def test_factors_of_one_class_have_one_table() -> None:
    tied = TiedTables.random(GRAPH, CLASSES, seed=0)
    assert [tuple(parameter.shape) for parameter in tied.parameters()] == [(2, 2, 3), (1, 2)]
    tables = tied()
    assert torch.equal(tables["a pair."][0], tables["a pair."][2])
    assert not torch.equal(tables["a pair."][0], tables["a pair."][1])
    assert tables["one"].shape == (1, 2)


def test_a_tied_gradient_is_the_sum_of_free_ones() -> None:
    tied = TiedTables.random(GRAPH, CLASSES, seed=1)
    free = TablePotentials(GRAPH, tied())
    for potentials in (tied, free):
        BP(iterations=3, tolerance=0, engine=Reference())(GRAPH, potentials).states.square().sum().backward()
    whole = free.tables[0].grad
    assert whole is not None
    torch.testing.assert_close(tied.tables[0].grad, torch.stack([whole[0] + whole[2], whole[1]]))
    assert free.tables[1].grad is not None
    torch.testing.assert_close(tied.tables[1].grad, free.tables[1].grad.sum(0, keepdim=True))


def test_classes_of_their_own_are_free_tables() -> None:
    graph = grid(3, 3)
    given = TablePotentials.random(graph, seed=2)()
    tied = TiedTables(graph, {"pair": np.arange(12), "unary": np.arange(9)}, {n: t.detach() for n, t in given.items()})
    assert all(torch.equal(tied()[name], table) for name, table in given.items())


def test_given_tables_are_copied_and_a_single_one_fills_all_classes() -> None:
    table = torch.ones(2, 3)
    tied = TiedTables(GRAPH, CLASSES, {"a pair.": table}, dtype=torch.float32)
    table += 5
    assert tied.tables[0].tolist() == torch.ones(2, 2, 3).tolist()
    assert tied.tables[0].dtype == torch.float32
    assert bool((tied.tables[1] == 0).all())


def test_a_group_without_factors_and_a_round_trip_of_state() -> None:
    empty = TiedTables(chain(1, states=3))
    assert BP(engine=Reference())(chain(1, states=3), empty).states.shape == (3,)
    source, target = TiedTables.random(GRAPH, CLASSES, seed=3), TiedTables(GRAPH, CLASSES)
    assert set(source.state_dict()) == {"tables.0", "tables.1"}
    target.load_state_dict(source.state_dict())
    assert all(torch.equal(target()[name], table) for name, table in source().items())


@pytest.mark.parametrize(
    ("classes", "tables", "message"),
    [
        ({"a pair.": [0, 1]}, None, r"have shape \(2,\); give one for each of 3 factors"),
        ({"a pair.": [0, -1, 0]}, None, "factor 1 of group 'a pair.' has class -1"),
        ({"a pair.": [0.0, 1.0, 0.0]}, None, "must be integers, not float64"),
        ({"other": [0]}, None, "no factor group 'other'"),
        (CLASSES, {"a pair.": torch.zeros(3, 2, 3)}, r"must have \(2, 2, 3\)"),
    ],
)
def test_refuses_what_does_not_fit(classes: dict, tables: dict | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TiedTables(GRAPH, classes, tables)
