"""Training for loss and run time together: what it reduces to, what it learns, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import loopwise as lw
from loopwise import budget
from oracles.budget_cases import Channel, grids, synthetic

# --- What is learnt --------------------------------------------------------------------------------------------------


def test_easy_examples_stop_earlier() -> None:
    train, test = grids(200, 1), grids(100, 2)
    system = lw.System(Channel(train.graph), budget.Stopping(lw.BP(iterations=8), budget.Policy(stops=0.2)))
    whole = lw.evaluate(lw.System(system.potentials, lw.BP(iterations=8, tolerance=0)), test, lw.loss.MSE())
    budget.fit(system, train, lw.loss.MSE(), 0.02, cost=budget.SweepCost(), epochs=12, policy_rate=0.5, progress=False)
    with torch.no_grad():
        sweeps = system.beliefs(test).status.sweeps.double()
    easy, hard = float(sweeps[:50].mean()), float(sweeps[50:].mean())
    assert easy < 0.6 * hard and float(sweeps.mean()) < 6
    assert lw.evaluate(system, test, lw.loss.MSE()) < whole + 0.01


def test_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
    dense, examples = synthetic()

    def fresh() -> lw.System:
        potentials = lw.TablePotentials(dense.graph, {k: v.detach() for k, v in dense.potentials().items()})
        stopping = budget.Stopping(lw.BP(iterations=3), budget.Policy(stops=0.3))
        return lw.System(budget.Gated(potentials), stopping)

    smoothing = budget.Smoothing(sharpness=budget.Doubling(1.0, (1, 2)))

    def train(system: lw.System, **options: object) -> None:
        budget.fit(system, examples, lw.loss.MSE(), 0.1, smoothing=smoothing, epochs=3, progress=False, **options)  # type: ignore[arg-type]

    path = tmp_path / "run.ckpt"
    cut, again, whole = fresh(), fresh(), fresh()
    train(cut, checkpoint=path, callback=lambda epoch: epoch.number == 1)
    train(again, checkpoint=path)
    train(whole)
    for (name, one), other in zip(again.state_dict().items(), whole.state_dict().values(), strict=True):
        assert torch.equal(one, other), name
    assert float(whole.potentials.sharpness) == 4.0  # type: ignore[arg-type]


def test_smd_trains_it_too() -> None:
    dense, examples = synthetic()
    potentials = lw.TablePotentials(dense.graph, {k: v.detach() for k, v in dense.potentials().items()})
    method = lw.BP(
        iterations=2, engine=lw.inference.Reference()
    )  # Hessian-vector products of traces, without compiling any
    system = lw.System(budget.Gated(potentials), budget.Stopping(method, budget.Policy(stops=0.4)))
    history = budget.fit(
        system, examples, lw.loss.MSE(), 0.1, optimizer=lambda groups: lw.optim.SMD(groups, gain=0.3), epochs=3,
        progress=False,
    )  # fmt: skip
    assert history.losses[-1] < history.losses[0]


# --- Mistakes --------------------------------------------------------------------------------------------------------


def test_mistakes() -> None:
    dense, examples = synthetic()
    gated = lw.System(budget.Gated(dense.potentials), dense.inference)
    with pytest.raises(ValueError, match="price of run time"):
        budget.fit(gated, examples, lw.loss.MSE(), -0.1)
    with pytest.raises(ValueError, match="can become faster"):
        budget.fit(dense, examples, lw.loss.MSE(), 0.1)
    with pytest.raises(ValueError, match="reduction must be the mean"):
        budget.fit(gated, examples, lw.loss.MSE(reduction=lw.loss.Pooled()), 0.1)
    with pytest.raises(ValueError, match="has no sweeps to pay for"):
        budget.Budgeted(lw.System(dense.potentials, lw.Exact()))
    with pytest.raises(ValueError, match="does not say what it cost"):
        lw.learn.risk(dense, examples, budget.SpeedAugmented(loss=lw.loss.MSE(), price=0.1))
    with pytest.raises(ValueError, match="has no policy"):
        budget.standardise_policy(dense, examples)
    with pytest.raises(ValueError, match="decay must be at least 0"):
        budget.Smoothing(decay=-1.0)
