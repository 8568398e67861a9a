"""How losses of examples are averaged."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import loopwise as lw
from loopwise import loss
from loopwise.graph import FactorGraph
from oracles.made_beliefs import random_beliefs, random_values, split
from oracles.strategies import graphs


def formula(measure: loss.Loss, p: Tensor, y: int) -> Tensor:
    """The published formula for one variable with beliefs ``[K]`` and one right value."""
    one_hot = torch.nn.functional.one_hot(torch.tensor(y), len(p)).to(p)
    if isinstance(measure, loss.MSE):
        return ((p - one_hot) ** 2).sum() / 2
    if isinstance(measure, loss.L1):
        return 1 - p[y]
    if isinstance(measure, loss.UnivariateLikelihood):
        return -torch.log(p[y])
    if isinstance(measure, loss.UnivariateQuadratic):
        return (p**2).sum() - 2 * p[y]
    assert isinstance(measure, loss.SmoothError)
    others = [p[x] for x in range(len(p)) if x != y]
    return 1 / (1 + torch.exp(-measure.sharpness * (max(others) - p[y]))) if others else torch.tensor(0.0).to(p)


@pytest.mark.parametrize(
    "measure",
    [loss.MSE(), loss.L1(), loss.UnivariateLikelihood(), loss.SmoothError(7.0), loss.UnivariateQuadratic()],
)
@given(graph=graphs(variables=(1, 5)), seed=st.integers(0, 99))
def test_formulas_averaged_over_the_scored(measure: loss.Loss, graph: FactorGraph, seed: int) -> None:
    beliefs = random_beliefs(graph, (3,), seed)
    values = random_values(graph, (3,), seed, hidden=0.4)
    total = type(measure)(normalise=False, reduction=loss.Each(), **_options(measure))
    for example in range(3):
        pieces = split(graph, beliefs.states[example])
        each = [formula(measure, p, int(y)) for p, y in zip(pieces, values[example], strict=True) if y != lw.graph.FREE]
        expected = torch.stack(each)
        torch.testing.assert_close(measure.per_example(beliefs, values)[example], expected.mean())
        torch.testing.assert_close(total(beliefs, values)[example], expected.sum())
    torch.testing.assert_close(measure(beliefs, values), measure.per_example(beliefs, values).mean())


def _options(measure: loss.Loss) -> dict[str, float]:
    return {"sharpness": measure.sharpness} if isinstance(measure, loss.SmoothError) else {}
