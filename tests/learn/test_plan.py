"""Options of a run of training are checked before anything is run."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import loopwise as lw
from loopwise.learn.plan import FitPlan

USUAL: dict[str, Any] = {
    "goal": lw.loss.MSE(), "optimizer": None, "epochs": 3, "batch": None, "dev": None, "measure": None,
    "patience": None, "seed": 0,
}  # fmt: skip
REST: dict[str, Any] = {
    "clip": None, "prior": None, "schedule": None, "restarts": 1, "start": None, "by_pattern": None
}  # fmt: skip


def made(**changes: Any) -> FitPlan:
    given, rest = {**USUAL}, {**REST}
    for name, value in changes.items():
        (given if name in given else rest)[name] = value
    return FitPlan.of(*given.values(), *rest.values())


def test_what_follows_from_the_options() -> None:
    plan = made()
    assert plan.finds_rate and plan.sign == 1.0 and isinstance(plan.measure, lw.loss.MSE)
    named = made(optimizer=torch.optim.Adam, dev=object(), measure=lw.metric.Accuracy())
    assert not named.finds_rate and named.sign == -1.0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch": 0}, "batch must be a whole number of at least 1, not 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0, not -1"),
        ({"clip": 0.0}, "clip must be a positive number or None, not 0.0"),
        ({"prior": 0.1}, r"prior must be a penalty such as lw\.prior\.L2"),
        ({"optimizer": "adam"}, "optimizer must be a class such as"),
        ({"patience": 2}, r"patience is about development data: give dev \(--dev\)"),
        ({"optimizer": torch.optim.SGD([torch.zeros(1)], lr=1.0), "restarts": 2}, "restarts need an optimiser each"),
    ],
)
def test_what_makes_no_sense(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        made(**changes)
