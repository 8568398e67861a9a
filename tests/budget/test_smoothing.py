"""Smoothed stopping against its definitions, recursions, finite differences and simulation."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from loopwise.budget import Doubling, Falling, IndependentThresholds, Shared
from loopwise.budget.smoothing import RandomThreshold, first_stop

BOTH = [IndependentThresholds(), Shared()]


def draw(seed: int, sweeps: int, examples: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(sweeps, examples, generator=generator, dtype=torch.float64)
    return scores, torch.rand(sweeps, examples, generator=generator, dtype=torch.float64)


def recursion(scores: Tensor, costs: Tensor, width: float) -> tuple[Tensor, Tensor, Tensor]:
    """The cost-to-go of the spec, section 2.3, backwards: V_1, and its derivatives by scores and by costs."""
    sweeps = len(scores)
    p = [torch.sigmoid(scores[t] / width) for t in range(sweeps)]
    p[-1] = torch.ones_like(p[-1])
    value = [costs[-1]] * sweeps
    for t in reversed(range(sweeps - 1)):
        value[t] = p[t] * costs[t] + (1 - p[t]) * value[t + 1]
    alive, by_score, by_cost = torch.ones_like(p[0]), [], []
    for t in range(sweeps):
        by_cost.append(alive * p[t])
        last = t == sweeps - 1
        by_score.append(
            torch.zeros_like(alive) if last else alive * (costs[t] - value[t + 1]) * p[t] * (1 - p[t]) / width
        )
        alive = alive * (1 - p[t])
    return value[0], torch.stack(by_score), torch.stack(by_cost)


@pytest.mark.parametrize("threshold", BOTH)
@given(seed=st.integers(0, 999), sweeps=st.integers(1, 6), width=st.sampled_from([0.05, 1.0, 20.0]))
def test_weights_are_a_distribution_and_the_expectation_lies_between(
    threshold: RandomThreshold, seed: int, sweeps: int, width: float
) -> None:
    scores, costs = draw(seed, sweeps)
    weights = threshold.weights(scores, width)
    assert bool((weights >= 0).all())
    torch.testing.assert_close(weights.sum(0), torch.ones(4, dtype=torch.float64), rtol=0, atol=1e-12)
    expected = (weights * costs).sum(0)
    assert bool((expected >= costs.amin(0) - 1e-12).all()) and bool((expected <= costs.amax(0) + 1e-12).all())


@given(seed=st.integers(0, 999), sweeps=st.integers(1, 6), width=st.sampled_from([0.3, 1.0, 5.0]))
def test_the_expected_cost_is_the_cost_to_go(seed: int, sweeps: int, width: float) -> None:
    scores, costs = draw(seed, sweeps)
    scores.requires_grad_()
    costs.requires_grad_()
    total = (IndependentThresholds().weights(scores, width) * costs).sum(0)
    first, by_score, by_cost = recursion(scores.detach(), costs.detach(), width)
    torch.testing.assert_close(total.detach(), first, rtol=0, atol=1e-12)
    found = torch.autograd.grad(total.sum(), [scores, costs])
    torch.testing.assert_close(found[0], by_score, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(found[1], by_cost, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("threshold", BOTH)
@pytest.mark.parametrize("sweeps", [1, 2, 5])
def test_gradients_by_differences(threshold: RandomThreshold, sweeps: int) -> None:
    scores, costs = draw(sweeps, sweeps)
    assert torch.autograd.gradcheck(
        lambda s, c: (threshold.weights(s, 0.7) * c).sum(), (scores.requires_grad_(), costs.requires_grad_())
    )


def test_descent_stops_earlier_where_that_is_cheaper() -> None:
    scores = torch.zeros(2, 1, dtype=torch.float64, requires_grad=True)
    for costs, sign in (([0.0, 1.0], -1), ([1.0, 0.0], 1)):
        total = (IndependentThresholds().weights(scores, 1.0) * torch.tensor(costs)[:, None]).sum()
        (slope,) = torch.autograd.grad(total, scores)
        assert sign * float(slope[0]) > 0


@pytest.mark.parametrize("threshold", BOTH)
def test_simulated_thresholds_stop_as_often(threshold: RandomThreshold) -> None:
    scores, costs = draw(3, 5, 1)
    draws = 200_000
    drawn = threshold.draw(5, (draws,), 1.3, torch.Generator().manual_seed(0))
    stops = first_stop(scores.expand(5, draws).clone(), drawn)
    share = torch.bincount(stops, minlength=5).double() / draws
    exact = threshold.weights(scores, 1.3)[:, 0]
    error = (exact * (1 - exact) / draws).sqrt()
    assert bool(((share - exact).abs() <= 5 * error + 1e-12).all())
    assert float((share * costs[:, 0]).sum()) == pytest.approx(float((exact * costs[:, 0]).sum()), abs=0.01)


def test_the_two_ways_of_drawing_differ() -> None:
    scores, _ = draw(0, 4)
    assert float((IndependentThresholds().weights(scores, 1.0) - Shared().weights(scores, 1.0)).abs().max()) > 0.01


@pytest.mark.parametrize("threshold", BOTH)
@given(seed=st.integers(0, 999), sweeps=st.integers(1, 6))
def test_narrow_thresholds_are_the_hard_rule(threshold: RandomThreshold, seed: int, sweeps: int) -> None:
    scores, _ = draw(seed, sweeps)
    scores = torch.where(scores.abs() < 0.05, 0.05, scores)  # no ties
    hard = torch.nn.functional.one_hot(first_stop(scores), sweeps).T.double()
    torch.testing.assert_close(threshold.weights(scores, 1e-3), hard, rtol=0, atol=1e-9)


@pytest.mark.parametrize("threshold", BOTH)
def test_a_large_bias_decides(threshold: RandomThreshold) -> None:
    scores, _ = draw(1, 4)
    always, never = threshold.weights(scores + 1e3, 1.0), threshold.weights(scores - 1e3, 1.0)
    torch.testing.assert_close(always[0], torch.ones(4, dtype=torch.float64))
    torch.testing.assert_close(never[-1], torch.ones(4, dtype=torch.float64))


def test_one_sweep_leaves_nothing_to_decide() -> None:
    scores, _ = draw(0, 1)
    for threshold in BOTH:
        assert torch.equal(threshold.weights(scores, 1.0), torch.ones(1, 4, dtype=torch.float64))


def test_extreme_scores_stay_finite() -> None:
    scores = torch.tensor([[-1e5], [1e5], [0.0]], dtype=torch.float64, requires_grad=True)
    for threshold in BOTH:
        weights = threshold.weights(scores, 0.02)
        (slope,) = torch.autograd.grad((weights * torch.tensor([[1.0], [2.0], [3.0]])).sum(), scores)
        assert bool(torch.isfinite(weights).all()) and bool(torch.isfinite(slope).all())


def test_schedules_and_their_mistakes() -> None:
    assert Falling()(0) == 1.0 and Falling()(1000) == Falling().least
    assert Doubling(1.0, (3, 7, 10))(10) == 8.0
    with pytest.raises(ValueError, match="factor must be positive"):
        Falling(factor=1.5)
    with pytest.raises(ValueError, match="width of thresholds"):
        IndependentThresholds().weights(torch.zeros(2, 1), 0.0)
    with pytest.raises(ValueError, match="no sweep to stop after"):
        Shared().weights(torch.zeros(0, 1), 1.0)
