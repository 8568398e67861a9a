"""Curves of gates and of residual BP: names, costs, what they refuse."""

from __future__ import annotations

import pytest

import loopwise as lw
from loopwise import budget
from loopwise.inference.loss_of_beliefs import ignored_convergence


def test_curves_have_points_that_cost_what_is_sent(study: tuple[lw.System, lw.Examples, lw.Examples]) -> None:
    dense, train, test = study
    methods = [
        budget.LearnedGates(gate=None, messages=True),
        budget.LearnedGates(gate=None, evidence=True),
        budget.ResidualSweeps((1, 3)),
    ]
    frontier = budget.pareto(
        dense, train, lw.loss.MSE(), lambdas=[0.001, 1.0], test=test, epochs=6, methods=methods, rate=0.03,
        progress=False,
    )  # fmt: skip
    assert frontier.methods == ["dense", "message gates", "evidence gates", "residual BP"]
    whole = frontier.of("dense")[0].cost
    for name in ("message gates", "evidence gates"):
        cheap, dear = sorted(frontier.of(name), key=lambda point: point.cost)
        assert 0 <= cheap.cost < 0.5 * whole and cheap.cost < dear.cost <= whole
    few, many = frontier.of("residual BP")
    system = few.system
    assert system is not None
    with ignored_convergence():
        sent = system.beliefs(test).status.messages
    assert few.cost == pytest.approx(sent / len(test))
    assert few.cost <= whole / 3 + 1e-9 and few.cost <= many.cost <= whole + 1e-9


def test_gates_with_nothing_to_learn_are_refused() -> None:
    with pytest.raises(ValueError, match="nothing to learn"):
        budget.LearnedGates(gate=None)
    assert budget.LearnedGates(messages=True, evidence=True, features=budget.STANDARD).name == (
        "learned sparsity and learned stopping and message gates and evidence gates"
    )
