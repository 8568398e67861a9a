"""Methods of a frontier."""

from __future__ import annotations

import pytest
import torch

import loopwise as lw
from loopwise import budget
from loopwise.budget.methods import PricedTask


def test_each_price_starts_from_the_dense_system(study: tuple[lw.System, lw.Examples, lw.Examples]) -> None:
    system, train, _ = study
    task = PricedTask(system, train, lw.loss.MSE(), budget.MessageCost(), (0.05, 0.3), 2, 32, 0.3, 0.1, None, 0)
    method = budget.Learned()
    alone = dict(method.systems(PricedTask(**{**vars(task), "prices": (0.3,)})))[0.3]
    together = dict(method.systems(task))[0.3]
    for one, other in zip(alone.parameters(), together.parameters(), strict=True):
        assert torch.equal(one, other)
    followed = dict(budget.Learned(continued=True).systems(task))[0.3]
    assert followed.graph != alone.graph or any(
        not torch.equal(one, other) for one, other in zip(followed.parameters(), alone.parameters(), strict=True)
    )


def test_mistakes(study: tuple[lw.System, lw.Examples, lw.Examples]) -> None:
    system, train, _ = study
    with pytest.raises(ValueError, match="at least 0, not -1"):
        budget.pareto(system, train, lw.loss.MSE(), (0.1, -1.0))
    with pytest.raises(ValueError, match="no price to try"):
        budget.pareto(system, train, lw.loss.MSE(), ())
    with pytest.raises(ValueError, match="nothing to learn"):
        budget.Learned(gate=None)
    exact = lw.System(system.potentials, lw.Exact())
    with pytest.raises(ValueError, match=r"must be lw\.BP or lw\.TRW"):
        budget.pareto(exact, train, lw.loss.MSE(), (0.1,))
