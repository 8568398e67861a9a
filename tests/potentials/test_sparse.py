"""Sparse log-linear potentials against the dense matrix product that they are; hashing against dictionaries."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from loopwise.gradient.hvp import gradient_and_hvp
from loopwise.graph import chain
from loopwise.inference.messages.message_passing import BP
from loopwise.inference.messages.reference import Reference
from loopwise.potentials import Features, SparseGroup, SparsePotentials, feature_keys, hashed
from loopwise.potentials.sparse import plain_scores
from oracles.sparse_cases import random_features, random_weights


def dense_matrix(features: Features, size: int) -> torch.Tensor:
    """``[rows, size]``, entry by entry."""
    matrix = torch.zeros(features.rows, size, dtype=torch.float64)
    for row in range(features.rows):
        for place in range(features.start[row], features.start[row + 1]):
            matrix[row, features.index[place]] += 1.0 if features.value is None else features.value[place]
    return matrix


@given(st.integers(0, 10_000), st.integers(0, 8), st.integers(1, 30), st.booleans())
def test_scores_and_gradients_are_those_of_the_matrix_product(seed: int, rows: int, size: int, values: bool) -> None:
    model = random_weights(SparsePotentials({"g": SparseGroup((2, 3), size)}), seed)
    features = random_features(seed, rows, size, values=values)
    matrix, weight = dense_matrix(features, size), model.weight("g")
    tables = model({"g": features})["g"]
    torch.testing.assert_close(tables, (matrix @ weight).reshape(rows, 2, 3))
    adjoint = torch.randn(rows, 2, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    tables.backward(adjoint)
    assert weight.grad is not None
    assert weight.grad.is_sparse
    assert weight.grad._indices()[0].tolist() == sorted(set(features.index.tolist()))
    torch.testing.assert_close(weight.grad.to_dense(), matrix.T @ adjoint.reshape(rows, 6))


def test_columns_may_be_missing_and_tied() -> None:
    columns = (-1, 0, 0, 1)
    model = random_weights(SparsePotentials({"g": SparseGroup((2, 2), 9, columns)}))
    features = random_features(3, 6, 9)
    tables, weight = model({"g": features})["g"].reshape(6, 4), model.weight("g")
    scores = dense_matrix(features, 9) @ weight
    assert weight.shape == (9, 2)
    torch.testing.assert_close(tables, torch.stack([0 * scores[:, 0], scores[:, 0], scores[:, 0], scores[:, 1]], 1))
    torch.testing.assert_close(tables, plain_scores(weight, features, np.array(columns), torch.float64))
    adjoint = torch.arange(24, dtype=torch.float64).reshape(6, 4)
    (sparse,) = torch.autograd.grad((tables * adjoint).sum(), [weight], retain_graph=True)
    plain = plain_scores(weight, features, np.array(columns), torch.float64)
    torch.testing.assert_close(sparse.to_dense(), torch.autograd.grad((plain * adjoint).sum(), [weight])[0])


def test_second_derivatives_are_those_of_the_matrix_product() -> None:
    graph = chain(4, states=3)
    features = {"unary": random_features(1, 4, 10), "pair": random_features(2, 3, 5)}
    model = random_weights(SparsePotentials.of(graph, {"unary": 10, "pair": 5}))
    params = list(model.parameters())
    vector = [torch.ones_like(param) for param in params]
    inference = BP(iterations=3, tolerance=0, engine=Reference())

    def sparse() -> torch.Tensor:
        return inference(graph, model(features)).states.square().sum()

    def dense() -> torch.Tensor:
        tables = {
            "unary": (dense_matrix(features["unary"], 10) @ params[0]),
            "pair": (dense_matrix(features["pair"], 5) @ params[1]).reshape(3, 3, 3),
        }
        return inference(graph, tables).states.square().sum()

    _, gradient, product = gradient_and_hvp(sparse, params, vector)
    assert not any(piece.is_sparse for piece in gradient)
    _, expected, expected_product = gradient_and_hvp(dense, params, vector)
    for mine, theirs in zip([*gradient, *product], [*expected, *expected_product], strict=True):
        torch.testing.assert_close(mine.to_dense(), theirs, rtol=1e-9, atol=1e-12)


def test_gradients_can_be_asked_to_be_dense() -> None:
    features = random_features(5, 6, 9)
    for sparse in (True, False):
        model = SparsePotentials({"g": SparseGroup((3,), 9)}, sparse_gradient=sparse)
        model({"g": features})["g"].sum().backward()
        assert model.weight("g").grad is not None
        assert model.weight("g").grad.is_sparse is sparse
        torch.testing.assert_close(
            model.weight("g").grad.to_dense(), dense_matrix(features, 9).sum(0)[:, None].expand(9, 3)
        )


def test_groups_share_a_table_and_its_gradient() -> None:
    edge, pair = SparseGroup((2,), 50, (-1, 0), "all"), SparseGroup((2, 2), 50, (-1, -1, -1, 0), "all")
    model = random_weights(SparsePotentials({"edge": edge, "pair": pair}))
    assert [tuple(weight.shape) for weight in model.parameters()] == [(50, 1)]
    features = {"edge": random_features(1, 4, 50), "pair": random_features(2, 3, 50)}
    tables = model(features)
    (tables["edge"].sum() + 2 * tables["pair"].sum()).backward()
    expected = dense_matrix(features["edge"], 50).sum(0) + 2 * dense_matrix(features["pair"], 50).sum(0)
    gradient = model.weight("pair").grad
    assert gradient is not None
    torch.testing.assert_close(gradient.to_dense()[:, 0], expected)
    with pytest.raises(ValueError, match="share table 'all' give it 50 and 60 features"):
        SparsePotentials({"edge": edge, "pair": SparseGroup((2, 2), 60, None, "all")})


def test_precisions_of_weights_and_tables_are_apart() -> None:
    model = SparsePotentials({"g": SparseGroup((3,), 9)}, dtype=torch.float32, table_dtype=torch.float64)
    tables = model({"g": random_features(5, 6, 9)})["g"]
    tables.sum().backward()
    assert tables.dtype == torch.float64
    assert model.weight("g").grad is not None
    assert model.weight("g").grad.dtype == torch.float32


def test_a_group_with_one_feature_is_a_tied_table() -> None:
    graph = chain(4, states=3)
    model = random_weights(SparsePotentials.of(graph, {"unary": 10, "pair": 1}))
    tables = model({"unary": random_features(1, 4, 10)})
    assert torch.equal(tables["pair"], model.weight("pair").reshape(1, 3, 3))
    with pytest.raises(ValueError, match="no features for group 'unary'"):
        model({})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Features.of([0, 2], [1]), "row starts end at 2"),
        (lambda: Features.of([0, 2, 1], [1, 2]), "never falls"),
        (lambda: Features.of([0, 1], [0.5]), "must be integers, not float64"),
        (lambda: Features.of([0, 1], [1], [np.nan]), "value 0 of the features is nan"),
        (lambda: Features.of([0, 1], [1], [1.0, 2.0]), "do not fit"),
        (lambda: Features.of([0, 1, 1], [1], batch=(3,)), "no whole number of factors"),
        (lambda: Features.of_rows([[1]]).take([0]), "stack them first"),
        (lambda: Features.stack([Features.of_rows([[1]]), Features.of_rows([[1], [2]])]), "part 1 has 2 rows"),
        (lambda: SparseGroup((2, 2), 5, (0, 1)), "2 columns do not fit"),
        (lambda: SparsePotentials({"g": SparseGroup((2,), 5)})({"g": Features.of_rows([[5]])}), "feature 5 of group"),
        (lambda: SparsePotentials({"g": SparseGroup((2,), 5)})({"g": Features.of_rows([[-1]])}), "feature -1 of"),
        (lambda: SparsePotentials({"g": SparseGroup((2,), 5)})({"h": Features.of_rows([[1]])}), "unknown group 'h'"),
        (lambda: SparsePotentials.of(chain(2), {"unary": 3}), "no number of features for group 'pair'"),
        (lambda: feature_keys(), "at least one field"),
        (lambda: feature_keys([0.5]), "field 0 of a feature must hold integers"),
        (lambda: hashed([1], 0), "must be a whole number of at least 1"),
    ],
)
def test_refuses_what_does_not_fit(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
