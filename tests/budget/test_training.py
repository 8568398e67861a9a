"""Training for loss and run time together: what it reduces to, what it learns, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise import budget
from loopwise.budget.smoothing import first_stop
from loopwise.inference.loss_of_beliefs import ignored_convergence


def grids(count: int, seed: int, side: int = 4) -> lw.Examples:
    """Easy examples see every pixel, hard ones only a corner: from there it takes sweeps to the other end."""
    graph = lw.grid(side, side)
    tables = {"unary": torch.zeros(2).double(), "pair": 1.2 * torch.eye(2).double()}
    values = lw.inference.gibbs_sample(graph, tables, count, seed=seed, burn_in=200).numpy()
    seen = np.zeros(values.shape, dtype=bool)
    seen[: count // 2], seen[count // 2 :, 0] = True, True
    signal = torch.from_numpy(np.where(seen, 4.0 * (2 * values - 1), 0.0))
    return lw.Examples.of(graph, values, [lw.Role.OUTPUT] * graph.variables, signal=signal)


class Channel(torch.nn.Module):
    def __init__(self, graph: lw.FactorGraph) -> None:
        super().__init__()
        self.graph = graph
        self.pair = torch.nn.Parameter(1.2 * torch.eye(2).double().repeat(graph.group("pair").count, 1, 1))

    def forward(self, signal: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"unary": torch.stack([torch.zeros_like(signal), signal], -1), "pair": self.pair}


def synthetic(seed: int = 0) -> tuple[lw.System, lw.Examples]:
    graph = lw.graph.complete(8)
    truth = lw.TablePotentials.random(graph, seed=seed)
    (examples,) = lw.sample_examples(truth, (64,), roles=lw.learn.thirds(graph, seed=1), seed=2, burn_in=50)
    return lw.System(lw.TablePotentials.random(graph, seed=3, scale=1.2), lw.BP(iterations=2, tolerance=0)), examples


# --- What the objective reduces to -----------------------------------------------------------------------------------


@pytest.mark.parametrize("price", [0.0, 0.25])
def test_one_sweep_is_plain_training_plus_the_price(price: float) -> None:
    _, examples = synthetic()
    potentials = lw.TablePotentials.random(examples.graph, seed=0)
    method = lw.BP(iterations=1, tolerance=0)
    plain = lw.System(potentials, method)
    stopping = lw.System(potentials, budget.Stopping(method, budget.Policy()))
    budgeted = budget.Budgeted(stopping, budget.Sweeps(), budget.Smoothing(decay=0.0))
    wanted = lw.learn.risk(plain, examples, lw.loss.MSE())
    found = lw.learn.risk(budgeted, examples, budget.SpeedAugmented(loss=lw.loss.MSE(), price=price))
    assert float(found.detach()) == pytest.approx(float(wanted.detach()) + price, abs=1e-12)
    slopes = [torch.autograd.grad(each, list(potentials.parameters())) for each in (wanted, found)]
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_the_expected_loss_is_the_weighted_sum() -> None:
    """c_t = loss_t + price * t * R with everything worked out apart."""
    _, examples = synthetic()
    gated = budget.Gated(lw.TablePotentials.random(examples.graph, seed=0, scale=0.5))
    policy = budget.Policy(stops=0.3)
    system = lw.System(gated, budget.Stopping(lw.BP(iterations=4), policy))
    budgeted = budget.Budgeted(system, budget.Messages(), budget.Smoothing(decay=0.2))
    with torch.no_grad():
        found = budget.SpeedAugmented(loss=lw.loss.MSE(), price=0.6).per_example(budgeted(examples), examples.targets)
        tables, present = gated.fade()
        run = system.inference.every_sweep(examples.graph, tables, examples.evidence)  # type: ignore[union-attr]
        weights = budget.Independent().weights(run.scores, 1.0)
        roles = examples.roles[0]
        free = (roles[examples.graph.group("pair").scopes] != lw.Role.INPUT).all(1)
        share = float(present["pair"][torch.from_numpy(free)].sum() / free.sum())
        wanted = 0.1 * float(policy.weights.square().sum())
        total = torch.full((len(examples),), wanted, dtype=torch.float64)
        for t in range(4):
            loss = lw.loss.MSE().per_example(lw.BP(iterations=t + 1, tolerance=0)(examples.graph, tables,
                                             examples.evidence), examples.targets)  # fmt: skip
            total += weights[t] * (loss + 0.6 * (t + 1) * share / 4)
    torch.testing.assert_close(found, total, rtol=0, atol=1e-12)


def test_hard_decisions_cost_what_they_took() -> None:
    examples = grids(20, 0)
    policy = budget.Policy((budget.Bias(), budget.LargestChange()))
    with torch.no_grad():
        policy.weights.copy_(torch.tensor([-2.0, -1.0]))
    system = lw.System(Channel(examples.graph), budget.Stopping(lw.BP(iterations=10), policy))
    budgeted = budget.Budgeted(system, budget.Sweeps())
    decision = budgeted.decide(examples)
    with torch.no_grad():
        scores = system.inference.every_sweep(examples.graph, system.tables(examples), examples.evidence).scores  # type: ignore[union-attr]
    torch.testing.assert_close(decision.cost, (first_stop(scores) + 1).double() / 10)
    measured = lw.evaluate(budgeted, examples, budget.SpeedAugmented(loss=lw.loss.MSE(), price=2.0))
    assert measured == pytest.approx(lw.evaluate(system, examples, lw.loss.MSE()) + 2.0 * float(decision.cost.mean()))
    assert budget.spend(system, examples, budget.Sweeps()).sweeps == pytest.approx(10 * float(decision.cost.mean()))


# --- What is learnt --------------------------------------------------------------------------------------------------


def test_easy_examples_stop_earlier() -> None:
    train, test = grids(200, 1), grids(100, 2)
    system = lw.System(Channel(train.graph), budget.Stopping(lw.BP(iterations=8), budget.Policy(stops=0.2)))
    whole = lw.evaluate(lw.System(system.potentials, lw.BP(iterations=8, tolerance=0)), test, lw.loss.MSE())
    budget.fit(system, train, lw.loss.MSE(), 0.02, cost=budget.Sweeps(), epochs=12, policy_rate=0.5, progress=False)
    with torch.no_grad():
        sweeps = system.beliefs(test).status.sweeps.double()
    easy, hard = float(sweeps[:50].mean()), float(sweeps[50:].mean())
    assert easy < 0.6 * hard and float(sweeps.mean()) < 6
    assert lw.evaluate(system, test, lw.loss.MSE()) < whole + 0.01


def test_dearer_runs_have_fewer_factors() -> None:
    dense, examples = synthetic()
    kept = []
    for price in (0.0, 0.1, 3.0):
        potentials = lw.TablePotentials(dense.graph, {k: v.detach() for k, v in dense.potentials().items()})
        gate = budget.Gate().scaled_to(dense.graph, potentials())
        system = lw.System(budget.Gated(potentials, gate), dense.inference)
        history = budget.fit(system, examples, lw.loss.MSE(), price, epochs=6, progress=False)
        assert len(history) == 6
        kept.append(int(budget.kept_factors(system.potentials)["pair"].sum()))  # type: ignore[arg-type]
    assert kept[0] > kept[1] > kept[2]


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


def test_a_policy_for_a_model_as_it_is() -> None:
    """Fitted on runs that are there: no worse than any fixed number of sweeps or threshold of the largest change."""
    train = grids(120, 1)
    system = lw.System(Channel(train.graph), budget.Stopping(lw.BP(iterations=8), budget.Policy()))
    before = system.potentials.pair.detach().clone()
    found = budget.fit_policy(system, train, lw.loss.MSE(), 0.1, cost=budget.Sweeps())
    assert torch.equal(before, system.potentials.pair)
    goal = budget.SpeedAugmented(loss=lw.loss.MSE(), price=0.1)
    assert lw.evaluate(budget.Budgeted(system, budget.Sweeps()), train, goal) == pytest.approx(found, abs=1e-9)
    rivals = [lw.BP(iterations=count, tolerance=0) for count in range(1, 9)]
    rivals += [lw.BP(iterations=8, tolerance=level) for level in (0.3, 0.1, 0.03, 0.01)]
    with ignored_convergence():
        for method in rivals:
            other = lw.System(system.potentials, method)
            share = budget.spend(other, train, budget.Sweeps()).sweeps / 8
            assert found <= lw.evaluate(other, train, lw.loss.MSE()) + 0.1 * share + 1e-3, method
    again = budget.fit_policy(system, train, lw.loss.MSE(), 0.1, cost=budget.Sweeps(), fresh=False)
    assert again <= found + 1e-12
    with pytest.raises(ValueError, match="has no policy"):
        budget.fit_policy(other, train, lw.loss.MSE(), 0.1)


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
