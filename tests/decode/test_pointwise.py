"""Identity, maximum and soft maximum, against loops over variables and their limits."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import loopwise as lw
from loopwise import decode
from loopwise.decode.pointwise import soft_maximum
from loopwise.graph import FactorGraph
from oracles.enumeration import enumerate_model
from oracles.made_beliefs import (
    beliefs_of,
    by_hand,
    on_simplex,
    random_beliefs,
    random_logits,
    softmax_by_variable,
    split,
)
from oracles.strategies import graphs

MIXED = FactorGraph([2, 3, 1, 2], {"pair": [[0, 1]], "triple": [[1, 3, 0]], "alone": [[2]]})


@given(graphs(variables=(1, 6)), st.sampled_from([(), (3,)]), st.floats(0.1, 3.0))
def test_soft_maximum_is_the_formula(graph: FactorGraph, batch: tuple[int, ...], temperature: float) -> None:
    beliefs = random_beliefs(graph, batch)
    decision = decode.SoftArgmax(temperature)(beliefs)
    for b, d in zip(split(graph, beliefs.states), split(graph, decision.states), strict=True):
        power = b ** (1 / temperature)
        torch.testing.assert_close(d, power / power.sum(-1, keepdim=True))
    for group in graph.groups:
        cells = (
            beliefs.factor(group.name).flatten(-group.arity) if group.arity else beliefs.factor(group.name)[..., None]
        )
        power = cells ** (1 / temperature)
        expected = (power / power.sum(-1, keepdim=True)).reshape(*batch, group.count, *group.shape)
        torch.testing.assert_close(decision.factor(group.name), expected)


@given(graphs(variables=(1, 6)))
def test_limits_of_the_temperature(graph: FactorGraph) -> None:
    beliefs = random_beliefs(graph, (4,))
    identity, hard = decode.Identity()(beliefs), decode.Max()(beliefs)
    torch.testing.assert_close(decode.SoftArgmax(1.0)(beliefs).states, identity.states)
    cold = decode.SoftArgmax(1e-4)(beliefs)
    torch.testing.assert_close(cold.states, hard.states)
    assert torch.equal(cold.assignment, hard.assignment)
    for group in graph.groups:
        torch.testing.assert_close(cold.factor(group.name), hard.factor(group.name))
        assert torch.equal(identity.factor(group.name), beliefs.factor(group.name))


def test_ties_share() -> None:
    beliefs = by_hand(lw.chain(1, states=3), [[0.4, 0.4, 0.2]])
    torch.testing.assert_close(
        decode.SoftArgmax(1e-3)(beliefs).states, torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64)
    )


def test_maximum_is_the_joint_one_after_max_product() -> None:
    graph = lw.chain(5, states=3)
    tables = {name: table.detach() for name, table in lw.TablePotentials.random(graph, seed=4)().items()}
    beliefs = lw.BP(temperature=0, engine=lw.inference.Reference())(graph, tables)
    decision = decode.Max()(beliefs)
    assert decision.hard
    assert decision.assignment.tolist() == enumerate_model(graph, tables).best.tolist()


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
def test_gradients_to_second_order(temperature: float) -> None:
    logits = random_logits(MIXED).requires_grad_()
    weights = random_logits(MIXED, seed=7)
    function = on_simplex(MIXED, lambda beliefs: (decode.SoftArgmax(temperature)(beliefs).states * weights).sum(-1))
    assert torch.autograd.gradcheck(function, logits)
    assert torch.autograd.gradgradcheck(function, logits)


def test_zero_beliefs_give_no_nan() -> None:
    states = torch.tensor([0.0, 1.0, 0.25, 0.75, 0.0], dtype=torch.float64, requires_grad=True)
    trained = decode.Trained(0.5)
    decoder = decode.SoftArgmax(trained)
    decision = decoder(beliefs_of(FactorGraph([2, 3], {}), states))
    torch.testing.assert_close(decision.states.detach(), torch.tensor([0, 1, 0.1, 0.9, 0], dtype=torch.float64))
    first = torch.autograd.grad((decision.states**2).sum(), [states, trained.log_temperature], create_graph=True)
    assert all(bool(part.isfinite().all()) for part in first)
    second = torch.autograd.grad(first[0].square().sum() + first[1], [states, trained.log_temperature])
    assert all(bool(part.isfinite().all()) for part in second)
    assert first[0][0] == first[0][4] == 0  # impossible values pass nothing


def test_soft_maximum_among_no_possible_values() -> None:
    block = torch.tensor([[0.0, 0.0, 1.0], [0.2, 0.3, 0.5]], dtype=torch.float64, requires_grad=True)
    among = torch.tensor([[True, True, False], [False, False, False]])
    chosen = soft_maximum(block, 0.5, among)
    assert chosen.tolist() == [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]
    chosen.square().sum().backward()
    assert bool(block.grad.isfinite().all())


@pytest.mark.parametrize("make", [lambda start: decode.Trained(start), lambda start: nn.Parameter(torch.tensor(start))])
def test_a_trained_temperature_has_its_gradient(make: object) -> None:
    graph = lw.chain(4, states=3)
    beliefs = random_beliefs(graph, (5,))
    decoder = decode.SoftArgmax(make(0.7))
    (parameter,) = decoder.parameters()  # found by whatever module holds the decoder

    def value(temperature: float) -> float:
        return float(decode.SoftArgmax(temperature)(beliefs).states[..., ::3].sum())

    decoder(beliefs).states[..., ::3].sum().backward()
    slope = (value(0.7 + 1e-5) - value(0.7 - 1e-5)) / 2e-5
    inner = 0.7 if isinstance(decoder.temperature, decode.Trained) else 1.0  # its parameter is the logarithm
    torch.testing.assert_close(float(parameter.grad), slope * inner, rtol=1e-5, atol=1e-7)


def test_forms() -> None:
    assert isinstance(decode.Max().soft(), decode.SoftArgmax)
    soft = decode.SoftArgmax(0.2)
    assert isinstance(soft.hard(), decode.Max)
    assert soft.soft() is soft and soft.hard().soft() is soft
    assert isinstance(decode.Identity().soft(), decode.Identity) and isinstance(
        decode.Identity().hard(), decode.Identity
    )


def test_float32_stays_float32() -> None:
    states = softmax_by_variable(MIXED, random_logits(MIXED, (2,))).float()
    beliefs = beliefs_of(MIXED, states)
    for decoder in (decode.Identity(), decode.Max(), decode.SoftArgmax(0.3), decode.SoftArgmax(decode.Trained())):
        assert decoder(beliefs).states.dtype == torch.float32


def test_a_decision_reads_like_beliefs() -> None:
    beliefs = random_beliefs(MIXED, (3,))
    decision = decode.SoftArgmax(0.5)(beliefs)
    assert decision.marginal(1).shape == (3, 3) and decision.batch_shape == (3,)
    assert "soft" in repr(decision)
    with pytest.raises(ValueError, match="no variable 4"):
        decision.marginal(4)
    with pytest.raises(ValueError, match="no factor group 'nonsense'"):
        decision.factor("nonsense")


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_temperatures(temperature: float) -> None:
    with pytest.raises(ValueError, match=r"temperature must be a positive number, not .*; for temperature 0 use Max"):
        decode.SoftArgmax(temperature)


def test_a_parameter_that_left_its_range_is_named() -> None:
    parameter = nn.Parameter(torch.tensor(0.5))
    decoder = decode.SoftArgmax(parameter)
    with torch.no_grad():
        parameter.fill_(-0.1)
    with pytest.raises(ValueError, match=r"not -0\.1.*lw.decode.Trained"):
        decoder(random_beliefs(MIXED))
    with pytest.raises(ValueError, match=r"one number, not a tensor of shape \(2,\)"):
        decode.SoftArgmax(nn.Parameter(torch.ones(2)))


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ([1, 0, 1, 1], "True or False"),
        ([True, False], r"shape \(2,\) do not fit the graph: .* each of 4 variables"),
        ([[True] * 4] * 2, r"outputs for \(2,\) examples do not fit beliefs for \(3,\)"),
    ],
)
def test_bad_outputs(outputs: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode.Identity()(random_beliefs(MIXED, (3,)), outputs)
