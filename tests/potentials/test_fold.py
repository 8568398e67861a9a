"""Folding: sums of small factors, against a loop over factors."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given

from loopwise.graph import FactorGraph, chain
from loopwise.potentials.fold import fold_constants, fold_unary
from oracles.strategies import Model, models

LIKE = torch.empty(0, dtype=torch.float64)


@given(models(largest_arity=2, most_factors=12, zeros=True))
def test_sums_of_unary_factors_and_constants(model: Model) -> None:
    graph, tables = model
    layout = graph.layout
    states, constant = np.zeros(layout.states), 0.0
    for group in graph.groups:
        for row, scope in enumerate(group.scopes):
            if group.arity == 1:
                start = layout.state_start[scope[0]]
                states[start : start + group.shape[0]] += tables[group.name][row].numpy()
            elif group.arity == 0:
                constant += float(tables[group.name][row])
    assert np.allclose(fold_unary(layout, tables, LIKE).numpy(), states, rtol=1e-12, atol=1e-12)
    assert np.allclose(float(fold_constants(layout, tables, LIKE)), constant, rtol=1e-12, atol=1e-12)


def test_batches_broadcast_and_tied_tables_spread() -> None:
    graph = FactorGraph(
        [2, 2, 2],
        {
            "all": [[0], [1], [2]],
            "some": [[2], [0], [2]],
            "c": np.zeros((3, 0), int),
            "d": np.zeros((1, 0), int),
        },
    )
    rng = np.random.default_rng(0)
    tables = {
        "all": torch.tensor(rng.normal(size=(4, 1, 3, 2))),
        "some": torch.tensor(rng.normal(size=(5, 1, 2))),
        "c": torch.tensor(rng.normal(size=(5, 1))),
        "d": torch.tensor(rng.normal(size=(4, 1, 1))),
    }
    ours = fold_unary(graph.layout, tables, LIKE).reshape(4, 5, 3, 2)
    expected = tables["all"].expand(4, 5, 3, 2).clone()
    for variable in (2, 0, 2):
        expected[:, :, variable] += tables["some"][:, 0]
    torch.testing.assert_close(ours, expected)
    constants = 3 * tables["c"][:, 0] + tables["d"][:, :, 0]
    torch.testing.assert_close(fold_constants(graph.layout, tables, LIKE), constants)


def test_nothing_to_fold_gives_zeros_of_the_right_kind() -> None:
    layout = FactorGraph([2, 3], {}).layout
    like = torch.empty(0, dtype=torch.float32)
    assert fold_unary(layout, {}, like).tolist() == [0.0] * 5
    assert fold_unary(layout, {}, like).dtype == fold_constants(layout, {}, like).dtype == torch.float32
    assert fold_constants(layout, {}, like).shape == ()


def test_folding_is_differentiable() -> None:
    graph = FactorGraph([2, 3, 2], {"one": [[2], [0], [2]], "three": [[1]], "c": np.zeros((2, 0), int)})
    tables = [
        torch.randn(2, 3, 2, dtype=torch.float64),
        torch.randn(3, dtype=torch.float64)[None],
        torch.randn(2, 2, dtype=torch.float64),
    ]
    for table in tables:
        table.requires_grad_()

    def folded(one: torch.Tensor, three: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        given_tables = {"one": one, "three": three, "c": c}
        return fold_unary(graph.layout, given_tables, LIKE), fold_constants(graph.layout, given_tables, LIKE)

    assert torch.autograd.gradcheck(folded, tables)


def test_the_common_case_does_not_depend_on_order() -> None:
    graph = chain(4)
    shuffled = FactorGraph(graph.cardinalities, {"unary": [[2], [0], [3], [1]]})
    table = torch.randn(4, 2, dtype=torch.float64)
    plain = fold_unary(graph.layout, {"unary": table, "pair": torch.zeros(3, 2, 2)}, LIKE).reshape(4, 2)
    other = fold_unary(shuffled.layout, {"unary": table}, LIKE).reshape(4, 2)
    torch.testing.assert_close(other[[2, 0, 3, 1]], plain)
