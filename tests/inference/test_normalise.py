"""Log sums against torch's own where those are defined, and right at minus infinity, gradients included."""

from __future__ import annotations

import torch
from hypothesis import given

from loopwise.graph import FactorGraph
from loopwise.inference.normalise import (
    divided,
    log_sum,
    log_sum_by,
    normalised,
    normalised_messages,
    rescaled,
    variable_softmax,
)
from oracles.made_beliefs import random_logits, softmax_by_variable, split
from oracles.strategies import graphs


@given(graphs(variables=(1, 6)))
def test_beliefs_of_each_variable_sum_to_one(graph: FactorGraph) -> None:
    logits = random_logits(graph, (2,))
    torch.testing.assert_close(variable_softmax(graph.layout, logits), softmax_by_variable(graph, logits))
    scaled = rescaled(graph.layout, logits.exp())
    torch.testing.assert_close(scaled, softmax_by_variable(graph, logits))
    for piece in split(graph, scaled):
        torch.testing.assert_close(piece.sum(-1), torch.ones(2, dtype=piece.dtype))


@given(graphs(variables=(1, 5)))
def test_messages_are_normalised_edge_by_edge(graph: FactorGraph) -> None:
    layout = graph.layout
    messages = torch.randn(3, layout.slots, dtype=torch.float64)
    found = normalised_messages(layout, messages).exp()
    sizes = graph.cardinalities[layout.edge_variable].tolist()
    for piece in torch.split(found, sizes, dim=-1):
        torch.testing.assert_close(piece.sum(-1), torch.ones(3, dtype=torch.float64))


def test_log_sums_are_right_at_minus_infinity() -> None:
    values = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(log_sum(values, [-1]), values.logsumexp(-1))
    assert log_sum(values, []) is values
    dead = torch.full((2, 3), -torch.inf, dtype=torch.float64, requires_grad=True)
    total = log_sum(dead, [-1])
    assert torch.isneginf(total).all()
    (gradient,) = torch.autograd.grad(torch.where(torch.isneginf(total), 0.0, total).sum(), dead)
    assert (gradient == 0).all()
    torch.testing.assert_close(normalised(values).exp().sum(-1), torch.ones(4, dtype=torch.float64))
    assert torch.isneginf(normalised(dead)).all()


def test_log_sums_by_owner() -> None:
    values = torch.tensor([0.5, -torch.inf, 2.0, -torch.inf, 1.0], dtype=torch.float64)
    owner = torch.tensor([0, 1, 0, 2, 2])
    expected = torch.stack([values[owner == k].logsumexp(-1) for k in range(3)])
    torch.testing.assert_close(log_sum_by(values, owner, 3), expected)


def test_a_divisor_does_not_see_what_is_forbidden() -> None:
    values = torch.tensor([1.0, -torch.inf], dtype=torch.float64)
    divisor = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    found = divided(values, divisor)
    assert found.tolist() == [0.5, -torch.inf]
    (gradient,) = torch.autograd.grad(found[0] + torch.where(torch.isneginf(found[1]), 0.0, found[1]), divisor)
    assert float(gradient) == -0.25
    assert divided(values, 2.0).tolist() == [0.5, -torch.inf]
