"""Rules that end sweeps: engine against engine, example by example; what the status says of them; bad input."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.notices import ConvergenceWarning

HAMMING = [[0, 1, 2, 4], [0, 1, 3, 5], [0, 2, 3, 6]]
GRAPH = lw.FactorGraph(
    [2] * 7, {"bit": [[v] for v in range(7)]}, {"check": [(lw.Parity(4, odd=None), c) for c in HAMMING]}
)
RULES = lw.inference.AnyOf(lw.inference.Satisfied(), lw.inference.Tolerance(1e-4))


def received(examples: int = 40, noise: float = 0.15) -> dict[str, object]:
    """Syndromes of random errors, and the prior of each bit."""
    rng = np.random.default_rng(0)
    errors = rng.random((examples, 7)) < noise * np.linspace(0.5, 1.5, 7)
    parity = np.stack([errors[:, check].sum(1) % 2 for check in HAMMING], 1)
    odds = torch.log(torch.tensor(noise / (1 - noise))).double() * torch.linspace(0.7, 1.3, 7).double()
    bit = torch.stack([torch.zeros(7).double(), odds], -1).requires_grad_()
    return {"bit": bit, "check": [lw.Parity.signs(parity[:, k], torch.float64) for k in range(3)]}


def broken(values: torch.Tensor, given: dict[str, object]) -> torch.Tensor:
    want = torch.stack([torch.isneginf(sign[:, 0]) for sign in given["check"]], -1)  # type: ignore[attr-defined]
    have = torch.stack([values[:, check].sum(-1) % 2 == 1 for check in HAMMING], -1)
    return (want != have).any(-1)


@pytest.mark.parametrize("stop", [lw.inference.Satisfied(), RULES], ids=["alone", "or a tolerance"])
@pytest.mark.parametrize(
    "options", [{}, {"trace": True, "weights": lw.MessageWeights(messages=0.9, memory=-0.1)}], ids=["plain", "weighted"]
)
def test_engines_agree_and_decisions_satisfy(stop: lw.inference.Stop, options: dict[str, object]) -> None:
    given, found, gradients = received(), [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for engine in (None, lw.inference.Reference()):
            beliefs = lw.BP(12, stop=stop, engine=engine, **options)(GRAPH, given)  # type: ignore[arg-type]
            loss = (beliefs.variables[..., 1] * torch.linspace(-1, 1, 7).double()).sum() + beliefs.log_partition.sum()
            gradients.append(torch.autograd.grad(loss, [given["bit"]])[0])  # type: ignore[list-item]
            found.append(beliefs)
    mine, theirs = found
    assert (mine.status.engine, theirs.status.engine) == ("compiled", "reference")
    assert torch.equal(mine.status.sweeps, theirs.status.sweeps) and len(mine.status.sweeps.unique()) > 1
    assert torch.equal(mine.status.stopped, theirs.status.stopped)  # type: ignore[arg-type]
    torch.testing.assert_close(mine.states, theirs.states, atol=1e-10, rtol=0)
    torch.testing.assert_close(mine.status.residual, theirs.status.residual, atol=1e-10, rtol=1e-6)
    torch.testing.assert_close(*gradients, atol=1e-10, rtol=1e-10)
    assert mine.status.stop_rules == tuple(rule.name for rule in stop.each)
    satisfied = mine.status.stopped == 0
    wrong = broken(mine.assignment, given)
    assert not wrong[satisfied].any() and bool(satisfied.any())
    assert bool(wrong[mine.status.stopped < 0].all())  # those that ran to the limit have nothing to show
    assert not mine.status.converged and not mine.status.exact and "stopped by Satisfied" in str(mine.status)


@pytest.mark.parametrize("engine", [None, lw.inference.Reference()])
def test_zeros_of_tables_are_constraints(engine: object) -> None:
    """Neighbours that must differ; own tables for each example, and one shared by all."""
    graph = lw.FactorGraph([2, 3, 2], {"unary3": [[1]], "unary": [[0], [2]], "differ": [[0, 1]], "same": [[0, 2]]})
    differ = torch.zeros(3, 1, 2, 3)
    differ[1, 0, [0, 1], [0, 1]] = -torch.inf  # in example 1 only
    same = torch.tensor([[[0.0, -torch.inf], [-torch.inf, 0.0]]])
    unary = torch.tensor([[0.0, 1.0], [0.4, 0.0]])
    given = {"unary3": torch.tensor([[0.0, 1.0, -1.0]]), "unary": unary, "differ": differ, "same": same}
    found = lw.BP(8, stop=lw.inference.Satisfied(), engine=engine)(graph, given)  # type: ignore[arg-type]
    values = found.assignment
    assert bool((found.status.stopped == 0).all()) and bool((values[:, 0] == values[:, 2]).all())
    assert int(values[1, 0]) != int(values[1, 1])


def test_a_run_that_satisfies_is_no_failure_to_converge() -> None:
    method = lw.BP(12, stop=lw.inference.AnyOf(lw.inference.Satisfied(), lw.inference.Tolerance(1e-12)))
    fine, stuck = ([lw.Parity.signs([bit], torch.float64) for bit in bits] for bits in ((0, 0, 0), (1, 0, 0)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        status = method(GRAPH, {**received(1), "check": fine}).status
    assert int(status.stopped) == 0 and not status.converged  # type: ignore[arg-type]
    with pytest.warns(ConvergenceWarning):
        status = method(GRAPH, {**received(1), "check": stuck}).status
    assert int(status.stopped) == -1 and "NOT CONVERGED" in str(status)  # type: ignore[arg-type]


def test_tolerance_as_a_rule_is_the_option() -> None:
    graph = lw.grid(3, 3)
    potentials = lw.TablePotentials.random(graph, seed=0)
    rule, option = lw.BP(stop=lw.inference.Tolerance(1e-3)), lw.BP(tolerance=1e-3)
    one, two = rule(graph, potentials).status, option(graph, potentials).status
    assert rule.tolerance == option.tolerance and int(one.sweeps) == int(two.sweeps) and one.converged
    assert (one.stop_rules, int(one.stopped)) == (two.stop_rules, int(two.stopped)) == (("Tolerance",), 0)  # type: ignore[arg-type]
    assert one.engine == "compiled" and int(lw.BP(3, 0)(graph, potentials).status.stopped) == -1  # type: ignore[arg-type]


def test_rules_are_saved(tmp_path: Path) -> None:
    graph = lw.grid(2, 2)
    system = lw.System(lw.TablePotentials.random(graph, seed=0), lw.BP(5, stop=RULES))
    system.save(tmp_path / "system.lw")
    assert lw.System.load(tmp_path / "system.lw").inference.stop == RULES  # type: ignore[attr-defined]


def test_a_policy_beside_others_on_structured_factors() -> None:
    policy = lw.budget.Policy([lw.budget.Bias(), lw.budget.SweepShare(), lw.budget.Slowing()])
    policy.weights.data.copy_(torch.tensor([-1.0, 2.4, 0.0]))
    method = lw.BP(10, stop=lw.inference.AnyOf(lw.inference.Satisfied(), lw.budget.StopByPolicy(policy)))
    mine, theirs = (
        replace(method, engine=engine)(GRAPH, received()).status for engine in (None, lw.inference.Reference())
    )
    assert torch.equal(mine.stopped, theirs.stopped) and torch.equal(mine.sweeps, theirs.sweeps)  # type: ignore[arg-type]
    assert set(mine.stopped.tolist()) == {0, 1} and int(mine.sweeps.max()) == 5  # type: ignore[union-attr]


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="stop must be a rule"):
        lw.BP(stop=1e-6)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="above 0, got 0"):
        lw.inference.Tolerance(0)
    with pytest.raises(ValueError, match="needs at least one rule"):
        lw.inference.AnyOf()
    with pytest.raises(ValueError, match="3 is no rule to stop by"):
        lw.inference.AnyOf(lw.inference.Satisfied(), 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="residual schedule has no sweeps"):
        lw.BP(schedule=lw.Residual(), stop=lw.inference.Satisfied())
    with pytest.raises(ValueError, match="LinearSolve needs runs to a fixed point"):
        lw.BP(gradient=lw.gradient.LinearSolve(), stop=lw.inference.Satisfied())
    with pytest.raises(ValueError, match=r"must be a lw.budget.Policy, not float"):
        lw.budget.StopByPolicy(0.5)  # type: ignore[arg-type]


def test_factors_without_any_numbers_are_satisfied() -> None:
    """A chain over one variable has potentials of no step."""
    graph = lw.FactorGraph([3, 3], {"unary": [[0], [1]], "pair": [[0, 1]]}, {"one": (lw.Chain(1, 3), [0])})
    tables = lw.TablePotentials.random(lw.chain(2, 3), seed=0)()
    given = {**tables, "one": torch.zeros(2, 0, 3, 3, dtype=torch.float64)}
    found = lw.BP(5, stop=lw.inference.Satisfied())(graph, given)
    assert found.status.sweeps.tolist() == [1, 1]
