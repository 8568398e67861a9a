"""Free tables as parameters."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loopwise.graph import FactorGraph, grid
from loopwise.potentials import TablePotentials

GRAPH = FactorGraph([2, 3, 2], {"a pair.": [[0, 1], [2, 1]], "one": [[0]], "constant": np.zeros((2, 0), int)})


def test_zero_unless_given_and_one_parameter_a_cell() -> None:
    potentials = TablePotentials(GRAPH)
    tables = potentials()
    assert {name: tuple(table.shape) for name, table in tables.items()} == {
        "a pair.": (2, 2, 3),
        "one": (1, 2),
        "constant": (2,),
    }
    assert all(bool((table == 0).all()) for table in tables.values())
    assert sum(parameter.numel() for parameter in potentials.parameters()) == 12 + 2 + 2


def test_given_tables_are_copied_and_tied_ones_become_free() -> None:
    pair = np.arange(6.0).reshape(2, 3)
    given = {"a pair.": pair, "one": np.array([[1.0, 2.0]]), "constant": np.ones(1)}
    potentials = TablePotentials(GRAPH, given)
    pair[0, 0] = 99
    tables = potentials()
    assert tables["a pair."].tolist() == [np.arange(6.0).reshape(2, 3).tolist()] * 2
    with torch.no_grad():
        potentials.tables[0][0, 0, 0] = 7.0
    assert potentials()["a pair."][1, 0, 0] == 0
    assert potentials()["constant"].tolist() == [1.0, 1.0]


def test_dtype_is_as_asked() -> None:
    assert all(table.dtype == torch.float64 for table in TablePotentials(GRAPH)().values())
    small = TablePotentials(GRAPH, TablePotentials.random(GRAPH, seed=0)(), dtype=torch.float32)
    assert all(table.dtype == torch.float32 for table in small().values())


def test_gradients_reach_the_parameters() -> None:
    potentials = TablePotentials(GRAPH)
    (potentials()["one"] * torch.tensor([2.0, 3.0])).sum().backward()
    gradients = [parameter.grad for parameter in potentials.parameters()]
    assert gradients[0] is None
    assert gradients[1] is not None
    assert gradients[1].tolist() == [[2.0, 3.0]]


def test_random_tables_repeat_with_their_seed_and_have_the_scale_asked_for() -> None:
    graph = grid(40, 40)
    first, again = (
        TablePotentials.random(graph, seed=5, scale=3.0),
        TablePotentials.random(graph, seed=5, scale=3.0),
    )
    other = TablePotentials.random(graph, seed=6, scale=3.0)
    for name, table in first().items():
        assert torch.equal(table, again()[name])
        assert not torch.equal(table, other()[name])
        # Standard error of a standard deviation: scale / sqrt(2 n).
        assert abs(float(table.detach().std()) - 3.0) < 5 * 3.0 / (2 * table.numel()) ** 0.5
        assert abs(float(table.detach().mean())) < 5 * 3.0 / table.numel() ** 0.5


def test_state_survives_a_round_trip() -> None:
    source, target = TablePotentials.random(GRAPH, seed=1), TablePotentials(GRAPH)
    target.load_state_dict(source.state_dict())
    assert all(torch.equal(target()[name], table) for name, table in source().items())


def test_refuses_batches_and_wrong_shapes() -> None:
    batched = {"a pair.": torch.zeros(5, 2, 2, 3), "one": torch.zeros(1, 2), "constant": torch.zeros(2)}
    with pytest.raises(ValueError, match=r"parameters have no batch dimensions, but the tables given have \(5,\)"):
        TablePotentials(GRAPH, batched)
    with pytest.raises(ValueError, match="'one' have shape"):
        TablePotentials(GRAPH, batched | {"a pair.": torch.zeros(2, 2, 3), "one": torch.zeros(1, 3)})
