"""Grafting finds the factors that data were made with, on any graph, and stops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwise as lw
from loopwise.budget.graft import expected_gain, graft_on


def rows(count: int, seed: int) -> np.ndarray:
    """Column 1 mostly equals 0, column 3 is whether 0 equals 2; 4 is noise."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2, (count, 5))
    values[:, 1] = np.where(rng.random(count) < 0.9, values[:, 0], values[:, 1])
    values[:, 3] = np.where(rng.random(count) < 0.9, values[:, 0] ^ values[:, 2], values[:, 3])
    return values


def grown(price: float = 0.0) -> lw.budget.Grafted:
    graph = lw.FactorGraph.from_scopes([2] * 5, [(place,) for place in range(5)])
    system = lw.System(lw.TablePotentials(graph), lw.BP(iterations=3, tolerance=0), lw.decode.Max())
    roles = [lw.Role.INPUT, lw.Role.OUTPUT, lw.Role.INPUT, lw.Role.OUTPUT, lw.Role.INPUT]
    examples, dev = (lw.Examples.of(graph, rows(count, seed), roles) for count, seed in ((200, 0), (100, 1)))
    candidates = [(0, 1), (1, 4), (3, 4), (0, 2, 3), (1, 2, 4)]
    return lw.budget.graft(system, examples, lw.loss.SurrogateLikelihood(), candidates, dev=dev, price=price, rounds=4)


def test_the_factors_of_the_truth_are_found() -> None:
    found = grown()
    kept = {scope for step in found.steps if step.kept for scope in step.added}
    assert {(0, 1), (0, 2, 3)} <= kept
    losses = [step.loss for step in found.steps if step.kept]
    assert losses == sorted(losses, reverse=True) and found.loss == pytest.approx(losses[-1])
    assert found.system.graph.factors == 5 + len(kept)
    costs = [step.cost for step in found.steps if step.kept]
    assert costs == sorted(costs) and costs[-1] > 0


def test_a_price_that_nothing_is_worth_leaves_the_system() -> None:
    found = grown(price=10.0)
    assert not found.steps and found.system.graph.factors == 5


class Host:
    """Losses by what was added, without any model."""

    def __init__(self, noise: float = 0.0) -> None:
        self.chance = noise
        self.added: list[tuple[int, ...]] = []
        self.last: list[tuple[int, ...]] = []

    def gains(self, candidates: list[tuple[int, ...]]) -> np.ndarray:
        return np.array([float(scope[0]) for scope in candidates])

    def cost(self, scope: tuple[int, ...]) -> float:
        return 1.0

    def grow(self, added: list[tuple[int, ...]]) -> float:
        self.last, self.added = self.added, [*self.added, *added]
        return 1.0 - 0.1 * sum(scope[0] for scope in self.added if scope[0] < 3) + sum(s[0] >= 3 for s in self.added)

    def noise(self) -> float:
        return self.chance

    def undo(self) -> None:
        self.added = self.last


def test_a_handful_that_does_not_pay_is_taken_back_and_halved() -> None:
    host = Host()
    steps = graft_on(host, [(1,), (2,), (5,)], 1.0, at_once=2, rounds=5)
    assert [(step.added, step.kept) for step in steps] == [(((5,), (2,)), False), (((5,),), False)]
    assert host.added == []


def test_what_may_be_chance_is_taken_back() -> None:
    assert [step.kept for step in graft_on(Host(), [(1,)], 1.0)] == [True]
    sceptic = Host(noise=0.2)
    assert [step.kept for step in graft_on(sceptic, [(1,)], 1.0)] == [False] and sceptic.added == []


def test_what_chance_gives_is_no_gain() -> None:
    rng = np.random.default_rng(0)
    noise = [expected_gain(rng.normal(size=(16, 6)) / 20, np.full(16, 25.0), 400).sum() for _ in range(300)]
    assert abs(np.mean(noise)) < 0.004


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"price": float("nan")}, "price must be a finite number, at least 0, not nan"),
        ({"at_once": 0}, "at_once must be a whole number of at least 1, not 0"),
        ({"candidates": [1]}, "a candidate is the variables of a factor, such as \\(0, 1\\), not 1"),
        ({"candidates": [()]}, "a candidate is the variables of a factor"),
        ({"none": True}, "there are no examples to take gradients of"),
    ],
)
def test_options_of_grafting_are_checked(options: dict[str, Any], words: str) -> None:
    graph = lw.FactorGraph.from_scopes([2] * 5, [(place,) for place in range(5)])
    system = lw.System(lw.TablePotentials(graph), lw.BP(iterations=3, tolerance=0), lw.decode.Max())
    examples = lw.Examples.of(graph, rows(8, 0), [lw.Role.OUTPUT] * 5)
    given = examples[8:] if options.pop("none", False) else examples
    with pytest.raises(ValueError, match=words):
        lw.budget.graft(system, given, lw.loss.SurrogateLikelihood(), dev=examples, **options)


def test_bad_wishes_are_named() -> None:
    graph = lw.chain(3)
    system = lw.System(lw.TablePotentials(graph), lw.BP(iterations=3, tolerance=0))
    examples = lw.Examples.of(graph, [[0, 1, 0]], [lw.Role.OUTPUT] * 3)
    with pytest.raises(ValueError, match=r"\(0, 0\) names a variable twice"):
        lw.budget.graft(system, examples, lw.loss.MSE(), [(0, 0)], dev=examples)
