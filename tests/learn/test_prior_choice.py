"""The strength of a prior that held-out examples choose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.learn.prior_choice import ROW_STRENGTHS, choose_l2
from loopwise.learn.trainer import TrainingError
from loopwise.potentials.priors import L2

GOAL = lw.loss.SurrogateLikelihood()


def system_of(columns: int) -> lw.System:
    graph = lw.FactorGraph.from_scopes([2] * columns, [(0,), *((0, place) for place in range(1, columns))])
    return lw.System(lw.TablePotentials(graph), lw.BP(iterations=3, tolerance=0))


def table(follows: bool, rows: int = 48, columns: int = 5, seed: int = 0) -> lw.Examples:
    """The first column is to be predicted: a copy of the second, or of nothing."""
    values = np.random.default_rng(seed).integers(0, 2, (rows, columns))
    if follows:
        values[:, 0] = values[:, 1]
    return lw.Examples.of(system_of(columns).graph, values, [lw.Role.OUTPUT] + [lw.Role.INPUT] * (columns - 1))


def options() -> dict[str, Any]:
    return {"optimizer": lambda params: torch.optim.Adam(params, lr=0.1), "epochs": 10}


@pytest.mark.parametrize("follows", [True, False])
def test_the_strength_is_that_of_the_least_held_out_loss(follows: bool) -> None:
    """Next to it no strength is better, as folds that are made here say, too; rules need none, noise a firm one."""
    examples, system = table(follows), system_of(5)
    before = [param.clone() for param in system.parameters()]
    chosen = choose_l2(system, examples, GOAL, seed=3, **options())
    assert all(torch.equal(old, new) for old, new in zip(before, system.parameters(), strict=True))
    place = ROW_STRENGTHS.index(round(chosen * len(examples), 9))
    order, losses = np.random.default_rng([3, 1]).permutation(48), []
    for strength in ROW_STRENGTHS:
        total = 0.0
        for fold in (order[number::5] for number in range(5)):
            rest = np.sort([row for row in range(48) if row not in fold])
            fitted = system_of(5)
            lw.fit(fitted, examples[rest], GOAL, prior=L2(strength / len(rest)), seed=3, progress=False, **options())
            total += len(fold) * lw.evaluate(fitted, examples[fold], GOAL)
        losses.append(total)
    assert losses[place] == min(losses[max(place - 1, 0) : place + 2])
    assert ROW_STRENGTHS[place] <= 0.3 if follows else ROW_STRENGTHS[place] >= 3
    test, losses = table(follows, rows=500, seed=9), []
    for strength in (chosen, 0.0):
        fitted = system_of(5)
        lw.fit(fitted, examples, GOAL, prior=L2(strength), progress=False, **options())
        losses.append(lw.evaluate(fitted, test, GOAL))
    assert losses[0] < losses[1] + 0.01 and (follows or losses[0] < losses[1] - 0.02)


def test_folds_that_say_nothing_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one row, or without answers, there is nothing to choose by; a training that fails is the worst."""
    one = table(True, rows=1)
    assert choose_l2(system_of(5), one, GOAL, **options()) == 1.0
    failing = lw.learn.prior_choice.fit

    def fit(system: Any, examples: Any, goal: Any, *, prior: Any, **rest: Any) -> Any:
        if prior is None or prior.strength < 0.02:
            raise TrainingError("no finite loss")
        return failing(system, examples, goal, prior=prior, **rest)

    monkeypatch.setattr(lw.learn.prior_choice, "fit", fit)
    assert choose_l2(system_of(5), table(True), GOAL, **options()) >= 1 / 48
