"""``fit``: it minimises what it says, the same way each time, and keeps what it should keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import loopwise as lw
from loopwise.learn import Epoch, Examples, Stage, System, TrainingError, evaluate, fit, hybrid, risk, staged
from loopwise.potentials.features import Features
from loopwise.potentials.sparse import SparsePotentials
from oracles.fit_cases import FEW, GRAPH, OUTPUT, ROLES, data, fresh, sgd, weights

MSE, NLL = lw.loss.MSE(), lw.loss.SurrogateLikelihood()


@pytest.mark.parametrize(
    "optimizer",
    [lw.optim.SMD, torch.optim.Adam, lambda params: lw.optim.AdaGradCOMID(params, 0.1), lw.optim.LBFGS],
    ids=["smd", "adam", "adagrad", "lbfgs"],
)
@pytest.mark.parametrize("goal", [MSE, NLL], ids=["mse", "nll"])
def test_every_optimiser_through_the_same_call(optimizer, goal) -> None:  # type: ignore[no-untyped-def]
    train, system = data(32), fresh()
    before = evaluate(system, train, goal)
    history = fit(system, train, goal, optimizer=optimizer, epochs=2, batch=16)
    assert evaluate(system, train, goal) < before
    assert len(history) == 2 and history.ended == "all 2 epochs done"
    if optimizer is lw.optim.LBFGS:  # the first loss is that of all examples at the start
        assert history.losses[0] == pytest.approx(before, rel=1e-10)


def test_the_same_seed_gives_the_same_weights() -> None:
    train = data(32)
    runs = []
    for seed in (1, 1, 2):
        system = fresh()
        state = torch.get_rng_state()
        fit(system, train, MSE, epochs=2, batch=16, seed=seed)
        assert torch.equal(state, torch.get_rng_state())  # nobody else's random numbers are used up
        runs.append(weights(system))
    assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])


def test_stages_go_on_from_each_other_and_gains_start_anew() -> None:
    train, system, twin = data(32), fresh(), fresh()
    adam = torch.optim.Adam(system.parameters(), lr=0.05)
    history = fit(system, train, staged(MSE, epochs=1), optimizer=adam, epochs=2, batch=32)
    assert [epoch.stage for epoch in history] == [0, 1]
    fit(twin, train, NLL, optimizer=lambda params: torch.optim.Adam(params, lr=0.05), epochs=1, batch=32)
    fit(twin, train, MSE, optimizer=lambda params: torch.optim.Adam(params, lr=0.05), epochs=1, batch=32)
    assert torch.allclose(weights(system), weights(twin), atol=1e-12)
    kept = fresh()
    stages = (Stage(NLL, 1), Stage(MSE, keep_gains=True))
    fit(kept, train, stages, optimizer=lambda params: torch.optim.Adam(params, lr=0.05), epochs=2, batch=32)
    assert not torch.allclose(weights(kept), weights(twin), atol=1e-6)


def test_hybrid_with_temperatures_that_fall() -> None:
    seen: list[tuple[float, float]] = []

    class Noted(lw.decode.SoftArgmax):
        def at(self, step: int) -> lw.decode.SoftArgmax:
            found = super().at(step)
            seen.append((step, found.temperature))  # type: ignore[arg-type]
            return found

    cooling = lw.decode.Listed((1.0, 0.5, 0.25, 0.1))
    history = fit(
        fresh(Noted(cooling)), data(32), staged(hybrid(lw.loss.L1()), epochs=1), optimizer=sgd(), epochs=4, batch=32
    )
    assert [epoch.stage for epoch in history] == [0, 1, 2, 3]
    assert seen == [(0, 1.0), (1, 0.5), (2, 0.25)]  # epochs of likelihood do not count: nothing is decided in them


def test_corpus_thresholds_are_those_of_the_final_weights() -> None:
    train, system = data(32), fresh(lw.decode.ApproximateF())
    fit(system, train, lw.loss.F1(), optimizer=sgd(), epochs=2, batch=16)
    beliefs = system.predict_marginals(train)[..., 1][train.outputs]
    decoder = system.decoder
    assert isinstance(decoder, lw.decode.ApproximateF) and isinstance(decoder.threshold, lw.decode.PerCorpus)
    assert torch.allclose(decoder.threshold.kappa, beliefs.quantile(0.5), atol=1e-12)


def test_the_best_weights_on_dev_are_kept() -> None:
    train, dev = data(16), data(32, seed=1)
    system, seen = fresh(), []

    def note(epoch: Epoch) -> None:
        seen.append((epoch.dev, weights(system).clone()))

    history = fit(system, train, MSE, optimizer=sgd(30.0), epochs=8, batch=8, dev=dev, callback=note)
    best = min(range(8), key=lambda place: seen[place][0])
    assert best < 7  # a rate this large overshoots, or the test shows nothing
    assert history.best == best + 1 and torch.equal(weights(system), seen[best][1])
    assert history.dev == [value for value, _ in seen]
    assert evaluate(system, dev, MSE) == pytest.approx(min(history.dev), rel=1e-12)


def test_patience_and_measures_of_which_more_is_better() -> None:
    train, dev = data(16), data(32, seed=1)
    options = {"optimizer": sgd(1e-9), "batch": 16, "dev": dev, "measure": lw.metric.Accuracy(), "patience": 2}
    history = fit(fresh(), train, MSE, epochs=9, **options)  # type: ignore[arg-type]
    assert len(history) == 3 and "no better on the development data for 2 epochs" in history.ended
    history = fit(fresh(), train, staged(MSE), epochs=9, **options)  # type: ignore[arg-type]
    assert [epoch.stage for epoch in history] == [0, 0, 0, 1, 1]  # a stage that no longer helps makes way
    system = fresh()
    accuracy = evaluate(system, dev, lw.metric.Accuracy())
    history = fit(system, train, NLL, optimizer=sgd(0.3), batch=16, epochs=4, dev=dev, measure=lw.metric.Accuracy())
    assert max(history.dev) == evaluate(system, dev, lw.metric.Accuracy()) > accuracy


def test_restarts_keep_the_best_training_objective() -> None:
    train, system, ends = data(32), fresh(), []

    def note(epoch: Epoch) -> None:
        if epoch.number == 2:
            ends.append((float(risk(system, train, MSE).detach()), weights(system).clone()))

    history = fit(system, train, MSE, optimizer=sgd(), epochs=2, batch=16, restarts=4, start=1.0, callback=note)
    assert len(ends) == 4 and len(history.epochs) == 8 and len(history) == 2
    best = min(range(4), key=lambda place: ends[place][0])
    assert history.restart == best and torch.equal(weights(system), ends[best][1])
    assert len({round(value, 9) for value, _ in ends}) == 4


@pytest.mark.parametrize(
    "inference",
    [
        lw.Exact(),
        lw.BP(schedule=lw.Residual()),
        lw.BP(iterations=100, gradient=lw.gradient.fixed_point.FixedPoint()),
        lw.BP(iterations=100, gradient=lw.gradient.perturbation.Perturbation()),
    ],
    ids=["exact", "residual", "fixed point", "perturbation"],
)
def test_whatever_has_first_derivatives_trains_without_more_ado(inference: Any) -> None:
    train, system = data(), System(lw.TablePotentials.random(GRAPH, seed=5, scale=0.1), inference)
    history = fit(system, train, MSE, epochs=2, batch=48)
    assert history.losses[-1] < history.losses[0]
    with pytest.raises(TrainingError, match=r"the optimizer SMD differentiates twice: leave optimizer out"):
        fit(system, train, MSE, optimizer=lw.optim.SMD, epochs=2, batch=16)


def test_inference_without_a_gradient_is_refused_by_name() -> None:
    for optimizer in (None, sgd(), lw.optim.SMD):
        system = System(lw.TablePotentials.random(GRAPH, seed=5), lw.Gibbs(samples=20, burn_in=0))
        before = weights(system)
        with pytest.raises(TrainingError, match=r"no gradient .* inference by Gibbs gives none.*train with lw\.BP\(\)"):
            fit(system, data(16), MSE, optimizer=optimizer, epochs=2, batch=16)
        assert torch.equal(weights(system), before)


def test_sparse_gradients_need_no_optimiser_of_their_own() -> None:
    graph, index = lw.FactorGraph([2], {"unary": [[0]]}), np.arange(12).reshape(12, 1) % 3
    given = {"features": {"unary": Features.of_table(index, batch=(12,))}}
    examples = Examples.of(graph, index // 2, [OUTPUT], **given)
    system = System(SparsePotentials.of(graph, {"unary": 3}), lw.Exact(), graph=graph)
    history = fit(system, examples, MSE, epochs=8, batch=4)
    assert history.losses[-1] < history.losses[0] < 0.25  # the loss of weights that are 0


def test_what_is_no_examples() -> None:
    for given in (torch.zeros(2, 8), iter([1, 2]), [data(16)], (data(16).values, ROLES), None, "train.csv"):
        with pytest.raises(ValueError, match=r"examples are wanted, not \w+: lw.Examples.of\(system.graph"):
            fit(fresh(), given, MSE)  # type: ignore[arg-type]


class Bomb(nn.Module):
    """Potentials whose gradient is NaN at the given call."""

    def __init__(self, call: int) -> None:
        super().__init__()
        self.graph, self.inner = GRAPH, lw.TablePotentials.random(GRAPH, seed=5, scale=0.1)
        self.calls, self.call = 0, call

    def forward(self) -> dict[str, Tensor]:
        self.calls += 1
        tables = self.inner()
        if self.calls != self.call:
            return tables
        return {name: table + 0 * (table - table.detach()).sqrt().sum() for name, table in tables.items()}


@pytest.mark.parametrize("optimizer", [lw.optim.SMD, torch.optim.Adam], ids=["smd", "adam"])
@pytest.mark.parametrize("place", ["loss", "gradient"])
def test_what_is_not_finite_stops_training_at_the_last_good_weights(optimizer, place: str) -> None:  # type: ignore[no-untyped-def]
    train, kept, calls = data(48), [], 0
    system = System(Bomb(8 if place == "gradient" else 0), FEW)

    def note(epoch: Epoch) -> None:
        kept.append(weights(system).clone())

    class Failing(lw.loss.MSE):
        def __call__(self, prediction, targets):  # type: ignore[no-untyped-def]
            nonlocal calls
            calls += 1
            value = super().__call__(prediction, targets)
            return value * torch.nan if calls == 8 and place == "loss" else value

    with pytest.raises(TrainingError, match=r"(nan|NaN|not finite).*epoch 3, batch 2 of 3.*those after epoch 2"):
        fit(system, train, Failing(), optimizer=optimizer, epochs=5, batch=16, callback=note)
    assert len(kept) == 2 and torch.equal(weights(system), kept[-1])


def test_examples_without_answers_are_left_out() -> None:
    train = data(32)
    blank = np.where((np.arange(32) % 2 == 0)[:, None] & (np.array(ROLES) == OUTPUT), -1, train.values)
    half = Examples.of(GRAPH, blank, ROLES)
    for goal in (MSE, NLL):
        system, twin = fresh(), fresh()
        fit(system, half, goal, optimizer=sgd(), epochs=1, batch=16)
        fit(twin, train[1::2], goal, optimizer=sgd(), epochs=1, batch=16)
        assert torch.allclose(weights(system), weights(twin), atol=1e-12)
    nothing = Examples.of(GRAPH, np.where(np.array(ROLES) == OUTPUT, -1, train.values), ROLES)
    with pytest.raises(ValueError, match="nothing to train on"):
        fit(fresh(), nothing, MSE)


class Dense(nn.Module):
    """What sparse potentials are, by a matrix that holds every feature of every factor."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(features, 2, dtype=torch.float64))

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:
        return {"unary": inputs @ self.weight}


def test_lazy_sparse_weights_are_trained_as_dense_ones() -> None:
    """Many features, each in few examples: what an untouched one owes to the penalty is paid in the end."""
    graph, features, count = lw.FactorGraph([2, 2], {"unary": [[0], [1]]}), 30, 40
    rng = np.random.default_rng(0)
    index = rng.integers(0, features, (2 * count, 2))
    rows = torch.zeros(2 * count, features, dtype=torch.float64)
    rows.scatter_add_(1, torch.from_numpy(index), torch.ones(2 * count, 2, dtype=torch.float64))
    values = (index.sum(1) % 2).reshape(count, 2)
    ways: list[System] = []
    for sparse in (True, False):
        given: dict[str, Any] = {"inputs": rows.reshape(count, 2, features)}
        potentials: nn.Module = Dense(features)
        if sparse:
            potentials = SparsePotentials.of(graph, {"unary": features})
            given = {"features": {"unary": Features.of_table(index, batch=(count,))}}
        examples = Examples.of(graph, values, [lw.Role.OUTPUT] * 2, **given)
        ways.append(System(potentials, lw.Exact(), graph=graph))
        options: dict[str, Any] = {"epochs": 3, "batch": 8, "prior": lw.prior.L2(0.05), "progress": False}
        fit(ways[-1], examples, MSE, optimizer=lambda p: lw.optim.AdaGradCOMID(p, 0.2), **options)
    mine, theirs = (next(system.parameters()).detach().reshape(features, 2) for system in ways)
    assert mine.abs().max() > 0.1
    torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


def test_bad_options() -> None:
    train = data(16)
    for message, options in {
        "batch must be a whole number of at least 1, not 0": {"batch": 0},
        "epochs must be a whole number of at least 1": {"epochs": 0},
        "seed must be a whole number of at least 0, not -1": {"seed": -1},
        "clip must be a positive number": {"clip": 0.0},
        "patience is about development data": {"patience": 3},
        "measure is about development data": {"measure": MSE},
        "prior must be a penalty": {"prior": 0.1},
        "restarts begin at random weights": {"restarts": 2},
        "L-BFGS cannot clip": {"optimizer": lw.optim.LBFGS, "clip": 1.0},
        "not the system's": {"optimizer": torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)},
        "must be a torch optimiser": {"optimizer": lambda params: 3},
        "optimizer must be a class such as torch.optim.Adam.*not 'adam'; leave it out": {"optimizer": "adam"},
    }.items():
        with pytest.raises(ValueError, match=message):
            fit(fresh(), train, MSE, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="goal must be a loss"):
        fit(fresh(), train, "mse")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no parameter to train"):
        fit(fresh().requires_grad_(False), train, MSE)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no single number"):
        fit(fresh(), train, lw.loss.MSE(reduction=lw.loss.Each()))
