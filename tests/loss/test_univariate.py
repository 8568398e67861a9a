"""Losses on variables: hand-worked values, loops over variables as oracles, gradients, limits, sets."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import loopwise as lw
from loopwise import decode, loss
from loopwise.graph import FactorGraph
from oracles.made_beliefs import beliefs_of, by_hand, on_simplex, random_beliefs, random_logits, random_values
from oracles.univariate_cases import LOSSES

MIXED = FactorGraph([2, 3, 1, 2], {})


def test_hand_worked_binary() -> None:
    beliefs = by_hand(lw.chain(3), [[0.8, 0.2], [0.3, 0.7], [0.5, 0.5]])
    y = torch.tensor([0, 1, -1])
    assert float(loss.MSE()(beliefs, y)) == pytest.approx((0.2**2 + 0.3**2) / 2)
    assert float(loss.L1()(beliefs, y)) == pytest.approx((0.2 + 0.3) / 2)
    assert float(loss.Hamming(weights=[3, 1, 9])(beliefs, y)) == pytest.approx((3 * 0.2 + 0.3) / 4)
    by_label = [3.0, 0.0, 0.0, 2.0, 9.0, 9.0]
    assert float(loss.Hamming(weights=by_label)(beliefs, y)) == pytest.approx((3 * 0.2 + 2 * 0.3) / 5)
    assert float(loss.UnivariateLikelihood()(beliefs, y)) == pytest.approx(-(math.log(0.8) + math.log(0.7)) / 2)


def test_slopes_of_the_table_in_the_spec() -> None:
    ones = torch.tensor([0.2, 0.7, 0.9], dtype=torch.float64, requires_grad=True)
    beliefs = beliefs_of(lw.chain(3), torch.stack([1 - ones, ones], -1).flatten())
    y = torch.tensor([0, 1, 0])
    (slope,) = torch.autograd.grad(loss.MSE()(beliefs, y), ones, retain_graph=True)
    torch.testing.assert_close(slope, 2 / 3 * (ones.detach() - y))
    (slope,) = torch.autograd.grad(loss.L1()(beliefs, y), ones, retain_graph=True)
    torch.testing.assert_close(slope, torch.where(y == 1, -1.0, 1.0).double() / 3)


@pytest.mark.parametrize("measure", LOSSES, ids=lambda measure: type(measure).__name__)
@pytest.mark.parametrize("decoder", [decode.Identity(), decode.SoftArgmax(0.6)], ids=["identity", "soft"])
def test_gradients_to_second_order(measure: loss.Loss, decoder: decode.BeliefDecoder) -> None:
    logits = random_logits(MIXED, (2,), scale=1.0).requires_grad_()
    targets = loss.Targets.of(MIXED, [[0, 2, 0, -1], [-1, 1, 0, 1]])
    function = on_simplex(MIXED, lambda beliefs: measure(decoder(beliefs), targets))
    assert torch.autograd.gradcheck(function, logits)
    assert torch.autograd.gradgradcheck(function, logits)
    sets = loss.Targets.from_sets(MIXED, [{0: 0, 1: {1, 2}}, {1: {0, 1}, 2: 0, 3: {0, 1}}])
    assert torch.autograd.gradcheck(on_simplex(MIXED, lambda beliefs: measure(decoder(beliefs), sets)), logits)


@given(st.integers(0, 99))
def test_label_permutation_changes_nothing(seed: int) -> None:
    graph = lw.chain(4, states=3)
    beliefs = random_beliefs(graph, (2,), seed)
    values = random_values(graph, (2,), seed, hidden=0.3)
    order = torch.randperm(3, generator=torch.Generator().manual_seed(seed))
    moved = beliefs_of(graph, beliefs.states.reshape(2, 4, 3)[..., order].flatten(-2))
    renamed = torch.where(values >= 0, torch.argsort(order)[values], values)
    for measure in LOSSES[:2] + LOSSES[3:6]:
        torch.testing.assert_close(measure(moved, renamed), measure(beliefs, values))
    positive = [1, 2]
    there = [int(torch.argsort(order)[label]) for label in positive]
    before = loss.FBeta(beta=2, positive=positive)(beliefs, values)
    torch.testing.assert_close(loss.FBeta(beta=2, positive=there)(moved, renamed), before)


def test_smooth_error_becomes_the_number_of_errors() -> None:
    graph = lw.chain(30, states=4)
    beliefs, values = random_beliefs(graph, (5,)), random_values(graph, (5,), hidden=0.2)
    wrong = ((beliefs.assignment != values) & (values >= 0)).sum(-1)
    smooth = loss.SmoothError(1e7, normalise=False, reduction=loss.Each())
    torch.testing.assert_close(smooth(beliefs, values), wrong.double())
    gaps = [
        float((loss.SmoothError(s, normalise=False)(beliefs, values) - wrong.double().mean()).abs()) for s in (50, 1e3)
    ]
    assert gaps[1] < gaps[0]


def test_soft_losses_become_hard_ones() -> None:
    graph = lw.chain(6, states=3)
    beliefs, values = random_beliefs(graph, (3,)), random_values(graph, (3,))
    for measure in [*LOSSES[:2], loss.F1(positive=(1, 2))]:
        cold = measure(decode.SoftArgmax(1e-4)(beliefs), values)
        torch.testing.assert_close(cold, measure(decode.Max()(beliefs), values))
    error = (decode.Max()(beliefs).assignment != values).double().mean()
    torch.testing.assert_close(loss.L1()(decode.Max()(beliefs), values), error)
    torch.testing.assert_close(loss.MSE()(decode.Max()(beliefs), values), error)  # integer MSE is L1


def test_sets_by_hand() -> None:
    beliefs = by_hand(lw.chain(1, states=3), [[0.2, 0.3, 0.5]])
    sets = {0: {0, 1}}
    assert float(loss.L1()(beliefs, sets)) == pytest.approx(0.5)
    assert float(loss.UnivariateLikelihood()(beliefs, sets)) == pytest.approx(-math.log(0.5))
    smooth = 1 / (1 + math.exp(-50 * (0.5 - 0.3)))
    assert float(loss.SmoothError()(beliefs, sets)) == pytest.approx(smooth)
    grid = torch.linspace(0, 1, 2001, dtype=torch.float64)
    nearest = ((0.2 - grid) ** 2 + (0.3 - (1 - grid)) ** 2 + 0.5**2).min()  # over all distributions on the set
    assert float(loss.MSE()(beliefs, sets)) == pytest.approx(float(nearest) / 2, abs=1e-6)
    everything = {0: {0, 1, 2}}
    for measure in (loss.L1(), loss.MSE(), loss.SmoothError(), loss.UnivariateLikelihood()):
        assert float(measure(beliefs, everything)) == pytest.approx(0, abs=1e-15)


def test_likelihood_of_impossible_answers_is_finite_and_still_pulls() -> None:
    states = torch.tensor([0.0, 1.0, 0.3, 0.7], dtype=torch.float64, requires_grad=True)
    value = loss.UnivariateLikelihood(normalise=False)(beliefs_of(lw.chain(2), states), [0, 0])
    assert value.item() == pytest.approx(-math.log(1e-12) - math.log(0.3))
    value.backward()
    torch.testing.assert_close(states.grad, torch.tensor([-1e12, 0, -1 / 0.3, 0], dtype=torch.float64))


def test_examples_without_targets_do_not_count() -> None:
    beliefs = random_beliefs(MIXED, (3,))
    values = torch.tensor([[0, 2, 0, 1], [-1, -1, -1, -1], [1, 0, -1, -1]])
    for measure in (loss.MSE(), loss.F1(), loss.UnivariateLikelihood()):
        kept = loss.Targets.of(MIXED, values)[[0, 2]]
        expected = measure(beliefs_of(MIXED, beliefs.states[[0, 2]]), kept)
        torch.testing.assert_close(measure(beliefs, values), expected)
        assert float(measure.per_example(beliefs, values)[1]) == 0


def test_bad_options() -> None:
    beliefs = random_beliefs(MIXED)
    with pytest.raises(ValueError, match="sharpness must be a positive number, not 0"):
        loss.SmoothError(0)
    with pytest.raises(ValueError, match=r"weights of shape \(3,\) do not fit the graph: .* 4 variables, .* 8 states"):
        loss.Hamming(weights=[1, 2, 3])(beliefs, [0, 0, 0, 0])
    with pytest.raises(ValueError, match="zero or positive"):
        loss.Hamming(weights=[1, 2, -3, 1])(beliefs, [0, 0, 0, 0])
