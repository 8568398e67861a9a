"""Interpolations are what they say, stage by stage."""

from __future__ import annotations

import pytest
import torch

import loopwise as lw
from loopwise import decode, loss
from oracles.made_beliefs import random_beliefs, random_values

GRAPH = lw.chain(5)


def test_stages_of_the_hybrid() -> None:
    beliefs, values = random_beliefs(GRAPH, (4,)), random_values(GRAPH, (4,), hidden=0.3)
    decision = decode.SoftArgmax(0.3)(beliefs)
    hybrid = loss.Interpolated(loss.F1(reduction=loss.Pooled()))
    target, smooth = hybrid.target(decision, values), loss.MSE()(beliefs, values)  # the MSE is of the beliefs
    assert hybrid.schedule == (0.0, 0.5, 1.0) and hybrid.stages == 3
    for stage, weight in enumerate((0.0, 0.5, 1.0, 1.0)):
        torch.testing.assert_close(hybrid.at(stage)(decision, values), weight * target + (1 - weight) * smooth)
        statistics = hybrid.at(stage).statistics(decision, values)
        assert statistics.shape == (4, hybrid.columns)
        torch.testing.assert_close(hybrid.at(stage).combine(statistics), hybrid.at(stage)(decision, values))
    each = loss.Interpolated(loss.L1(), loss.MSE(), weight=0.25).per_example(decision, values)
    parts = loss.L1().per_example(decision, values), loss.MSE().per_example(decision, values)
    torch.testing.assert_close(each, 0.25 * parts[0] + 0.75 * parts[1])


def test_a_loss_of_weight_zero_is_not_computed() -> None:
    class Refusing(loss.MSE):
        def statistics(self, prediction: object, targets: object) -> torch.Tensor:
            raise AssertionError("asked")

    beliefs, values = random_beliefs(GRAPH), random_values(GRAPH)
    torch.testing.assert_close(loss.Interpolated(Refusing(), weight=0.0)(beliefs, values), loss.MSE()(beliefs, values))
    torch.testing.assert_close(
        loss.Interpolated(loss.L1(), Refusing(), weight=1.0)(beliefs, values), loss.L1()(beliefs, values)
    )


def test_on_beliefs() -> None:
    beliefs, values = random_beliefs(GRAPH, (2,)), random_values(GRAPH, (2,))
    measure = loss.OnBeliefs(loss.MSE(reduction=loss.Sum()))
    expected = loss.MSE(reduction=loss.Sum())(beliefs, values)
    torch.testing.assert_close(measure(decode.Max()(beliefs), values), expected)
    torch.testing.assert_close(measure(beliefs, values), expected)
    assert not torch.isclose(loss.MSE(reduction=loss.Sum())(decode.Max()(beliefs), values), expected)


def test_bad_weights() -> None:
    with pytest.raises(ValueError, match="from 0 to 1, not 2"):
        loss.Interpolated(loss.L1(), weight=2.0)
    with pytest.raises(ValueError, match="from 0 to 1, not -1"):
        loss.Interpolated(loss.L1(), schedule=(0.0, -1.0))
    with pytest.raises(ValueError, match="at least one weight"):
        loss.Interpolated(loss.L1(), schedule=())
