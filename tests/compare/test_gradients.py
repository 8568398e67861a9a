"""``compare_gradients``: rows that say what is true of each estimator."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

import loopwise as lw
from loopwise.compare.gradients import compare_gradients
from loopwise.gradient.solvers import Minres
from loopwise.inference.base import Inference, Problem
from oracles.compare_cases import loss, model

REFERENCE = lw.inference.Reference()


def test_rows_of_a_converged_run() -> None:
    graph, potentials = model(2, 2)
    method = lw.BP(iterations=200, tolerance=1e-10, engine=REFERENCE)
    estimators = [
        lw.Unroll(),
        lw.Perturbation(),
        lw.gradient.LinearSolve(),
        lw.gradient.LinearSolve(solver=Minres(tolerance=1e-8)),
    ]
    found = compare_gradients(graph, potentials, loss, method, estimators=estimators, repeats=1)
    names = ["Unroll", "Perturbation", "LinearSolve", "LinearSolve(solver=Minres(tolerance=1e-08))"]
    assert [row.estimator for row in found.rows] == names
    assert all(row.valid and row.error < 1e-5 and row.seconds > 0 for row in found.rows)
    assert found.row("Perturbation").iterations == 2  # inference calls
    assert found.row(names[3]).iterations > 1
    assert "converged" in found.status and "the gradient by differences" in found.reference
    for name in names:
        assert name in str(found)


def test_a_run_cut_short_leaves_only_the_gradient_of_the_run() -> None:
    graph, potentials = model(4, 4)
    method = lw.TRW(rho=0.5, iterations=2, tolerance=0, engine=REFERENCE)
    estimators = [lw.Unroll(), lw.Perturbation(), lw.gradient.LinearSolve()]
    found = compare_gradients(graph, potentials, loss, method, estimators=estimators, repeats=1, directions=4)
    assert found.row("Unroll").error < 1e-9
    assert found.row("Perturbation").error > 1e-4 and "not converged" in " ".join(found.row("Perturbation").notes)
    refused = found.row("LinearSolve")
    assert not refused.valid and refused.reason is not None and "not converged" in refused.reason
    assert "not valid" in str(found) and refused.reason in str(found)
    assert "4 random directions" in found.reference


def test_estimators_that_a_method_does_not_have() -> None:
    graph, potentials = model()
    found = compare_gradients(graph, potentials, loss, lw.Exact(), repeats=1)
    assert found.rows[0].valid and found.rows[0].error < 1e-9  # its own comes first
    reason = found.row("Unroll").reason
    assert reason is not None and "Exact cannot be differentiated by Unroll" in reason


@dataclass(frozen=True)
class Doubled(Inference):
    """A user's own method, whose backward is twice what it should be."""

    def run(self, problem: Problem) -> lw.Beliefs:
        right = lw.Exact().run(problem)
        states = 2 * right.states - right.states.detach()
        return lw.Beliefs(problem.graph, states, right.factor, lambda: right.log_partition, right.status)


def test_a_wrong_gradient_shows() -> None:
    graph, potentials = model()
    found = compare_gradients(graph, potentials, loss, Doubled(), repeats=1)
    assert len(found.rows) == 1 and found.rows[0].valid
    assert found.rows[0].error == pytest.approx(1, abs=1e-9)  # off by all of it
    refused = compare_gradients(graph, potentials, loss, Doubled(), estimators=[lw.Unroll()], repeats=1)
    assert not refused.rows[0].valid


def test_hard_zeros_evidence_and_float32() -> None:
    graph = lw.chain(4, 3)
    tables = {name: table.detach().float() for name, table in lw.TablePotentials.random(graph, seed=0)().items()}
    tables["pair"][1, 0, 2] = -torch.inf
    found = compare_gradients(graph, tables, loss, lw.Exact(), {0: 1}, repeats=1)
    assert found.rows[0].error < 1e-5  # of a gradient rounded to float32, against float64


@pytest.mark.parametrize(
    "bad, words",
    [
        (lambda beliefs: beliefs.states, r"shape \(18,\).*mean"),
        (lambda beliefs: 1.0, "float"),
        (lambda beliefs: beliefs.states.sum() / 0, "inf"),
    ],
)
def test_losses_that_are_no_number(bad: object, words: str) -> None:
    graph, potentials = model()
    with pytest.raises(lw.notices.GradientError, match=words):
        compare_gradients(graph, potentials, bad, lw.Exact(), repeats=1)  # type: ignore[arg-type]
