"""``fit``: it minimises what it says, the same way each time, and keeps what it should keep."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

import loopwise as lw
from loopwise.learn import Epoch, Examples, History, Stage, System, TrainingError, evaluate, fit, hybrid, risk, staged
from loopwise.learn.sweep import sweep
from loopwise.potentials.features import Features
from loopwise.potentials.sparse import SparsePotentials

INPUT, OUTPUT, HIDDEN, MISSING = lw.Role
GRAPH = lw.random_mrf(8, 14, seed=3, unary=True)
ROLES = [INPUT, OUTPUT, HIDDEN, INPUT, OUTPUT, HIDDEN, OUTPUT, OUTPUT]
FEW = lw.BP(iterations=3, tolerance=0)
MSE, NLL = lw.loss.MSE(), lw.loss.SurrogateLikelihood()


def data(count: int = 48, seed: int = 0) -> Examples:
    """Examples that have something to learn: all outputs copy an input, with noise."""
    rng = np.random.default_rng(seed)
    values = np.repeat(rng.integers(0, 2, (count, 1)), 8, axis=1) ^ (rng.random((count, 8)) < 0.1)
    return Examples.of(GRAPH, values, ROLES)


def fresh(decoder: lw.decode.Decoder | None = None, seed: int = 5) -> System:
    return System(lw.TablePotentials.random(GRAPH, seed=seed, scale=0.1), FEW, decoder)


def weights(system: System) -> Tensor:
    return torch.cat([param.detach().reshape(-1) for param in system.parameters()])


def sgd(rate: float = 0.5):  # type: ignore[no-untyped-def]
    return lambda params: torch.optim.SGD(params, lr=rate)


def test_an_epoch_is_a_step_on_each_batch() -> None:
    """By hand: the same batches, one gradient step each."""
    train, system, twin = data(40), fresh(), fresh()
    history = fit(system, train, MSE, optimizer=sgd(), epochs=2, batch=16, seed=7)
    seen: list[list[int]] = []

    class Watched(lw.loss.MSE):
        def __call__(self, prediction, targets):  # type: ignore[no-untyped-def]
            seen.append(targets.values.tolist())
            return super().__call__(prediction, targets)

    again = fresh()
    fit(again, train, Watched(), optimizer=sgd(), epochs=2, batch=16, seed=7)
    assert torch.equal(weights(again), weights(system))
    assert sorted(map(len, seen[:3])) == [8, 16, 16] and seen[:3] != seen[3:]
    for epoch in (seen[:3], seen[3:]):  # each example once an epoch
        rows = sorted(row for batch in epoch for row in batch)
        assert rows == sorted(np.where(train.outputs.numpy(), train.values, -1).tolist())
    order = lw.learn.batching.batch_indices(40, 16, lw.learn.start.generator(7, 0, 0))
    losses = []
    for rows in order:
        loss = risk(twin, train[rows], MSE)
        twin.zero_grad()
        loss.backward()
        with torch.no_grad():
            for param in twin.parameters():
                param.sub_(0.5 * param.grad)  # type: ignore[operator]
        losses.append(float(loss.detach()) * len(rows))
    assert history.losses[0] == pytest.approx(sum(losses) / 40, rel=1e-12)
    once = fresh()
    fit(once, train, MSE, optimizer=sgd(), epochs=1, batch=16, seed=7)
    assert torch.allclose(weights(once), weights(twin), atol=1e-14)


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


def test_a_start_at_zero_with_hidden_variables_is_left() -> None:
    train = data(16)
    system = System(lw.TablePotentials(GRAPH), FEW)
    fit(system, train, MSE, optimizer=sgd(1e-12), epochs=1, batch=16)
    assert 0.05 < float(weights(system).std()) < 0.2
    seen = Examples.of(GRAPH, train.values, [INPUT, *[OUTPUT] * 7])
    system = System(lw.TablePotentials(GRAPH), FEW)
    fit(system, seen, MSE, optimizer=sgd(1e-12), epochs=1, batch=16)
    assert float(weights(system).abs().max()) < 1e-9  # nothing hidden: it stays where it was


def test_clipping_and_priors() -> None:
    train, system, twin = data(32), fresh(), fresh()
    before = weights(system)
    fit(system, train, MSE, optimizer=sgd(1.0), epochs=1, batch=32, clip=1e-3)
    assert float((weights(system) - before).norm()) == pytest.approx(1e-3, rel=1e-9)
    fit(twin, train, MSE, optimizer=lambda p: lw.optim.SMD(p, gain=1.0), epochs=1, batch=32, clip=1e-3)
    assert torch.allclose(weights(twin), weights(system), atol=1e-12)
    prior = lw.prior.L2(2.0)
    plain, pulled, closed = fresh(), fresh(), fresh()
    fit(plain, train, MSE, optimizer=sgd(0.1), epochs=1, batch=32)
    history = fit(pulled, train, MSE, optimizer=sgd(0.1), epochs=1, batch=32, prior=prior)
    assert torch.allclose(weights(pulled), weights(plain) - 0.1 * 2.0 * before, atol=1e-12)
    start = fresh()
    penalty = float(prior.value(start.parameters()).detach())
    assert history.losses[0] == pytest.approx(float(risk(start, train, MSE).detach()) + penalty, rel=1e-12)
    fit(closed, train, MSE, optimizer=lambda p: lw.optim.AdaGradCOMID(p, 0.1), epochs=1, batch=32, prior=prior)
    assert float(weights(closed).norm()) < float(before.norm())


def test_a_schedule_of_the_rate() -> None:
    history = fit(fresh(), data(16), MSE, optimizer=sgd(0.6), epochs=4, batch=16, schedule=lw.optim.inverse_square_root)
    rates = [epoch.gains[0] for epoch in history if epoch.gains is not None]
    assert rates == pytest.approx([0.6 / np.sqrt(epoch + 2) for epoch in range(4)])  # as they are after each epoch
    with pytest.raises(ValueError, match="SMD has no learning rate"):
        fit(fresh(), data(16), MSE, optimizer=lw.optim.SMD, schedule=lw.optim.inverse_square_root)


def test_without_an_optimiser_the_rate_is_found_and_falls_to_zero() -> None:
    history = fit(fresh(), data(), MSE, epochs=4, batch=16, progress=False)
    rates = [epoch.gains[0] for epoch in history if epoch.gains is not None]
    assert np.array(rates) / rates[0] == pytest.approx([0.5 * (1 + np.cos(np.pi * epoch / 4)) for epoch in range(4)])
    assert np.log(2 * rates[0] / 0.1) / np.log(3) == pytest.approx(round(np.log(2 * rates[0] / 0.1) / np.log(3)))
    assert history.losses[-1] < history.losses[0]
    steady = fit(
        fresh(), data(), MSE, epochs=2, batch=16, schedule=lambda optimizer: LambdaLR(optimizer, lambda _: 1.0)
    )
    assert [epoch.gains[0] for epoch in steady if epoch.gains is not None] == [rates[0]] * 2
    stages = fit(fresh(), data(), staged(MSE, epochs=2), epochs=4, batch=16)
    starts = [epoch.gains[0] for epoch in stages if epoch.gains is not None]
    assert starts[1] == starts[0] / 2 and starts[3] == starts[2] / 2  # a cosine for each stage


@pytest.mark.parametrize(
    "inference",
    [
        lw.Exact(),
        lw.BP(schedule=lw.inference.schedules.Residual()),
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


def test_histories() -> None:
    history = fit(fresh(), data(16), staged(MSE, epochs=1), epochs=2, batch=16, dev=data(16, seed=2))
    again = History.from_json(json.loads(json.dumps(history.to_json(), allow_nan=False)))
    assert again == history and history.seconds > 0 and len(history.dev) == 2
    assert all(epoch.gains is not None and epoch.gains[0] <= epoch.gains[1] <= epoch.gains[2] for epoch in history)
    axes = history.plot()
    drawn = [line.get_ydata() for line in axes.get_lines()]
    assert any(np.allclose(line, history.dev) for line in drawn if len(line) == 2)
    assert history.plot(axes) is axes
    from loopwise import plot

    lines = plot.history({"one": history, "two": again}).get_lines()
    assert any(np.allclose(line.get_ydata(), history.losses) for line in lines)


def _loss_at(rate: float) -> float:
    return fit(fresh(), data(16), MSE, optimizer=sgd(rate), epochs=1, batch=16).losses[0] + rate


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


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="there are no pseudo-terminals here")
def test_a_bar_where_somebody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    control, terminal = os.openpty()
    shown: list[bytes] = []

    def watch() -> None:
        with contextlib.suppress(OSError):  # the terminal is closed
            while piece := os.read(control, 1 << 16):
                shown.append(piece)

    reader = threading.Thread(target=watch, daemon=True)
    reader.start()
    monkeypatch.setenv("TERM", "xterm-256color")
    with os.fdopen(terminal, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        fit(fresh(), data(32), MSE, epochs=3, batch=32)
    reader.join(timeout=10)
    os.close(control)
    text = b"".join(shown).decode()
    assert "epoch 3" in text and "\x1b[" in text


def test_sweeps() -> None:
    rates = [{"rate": 0.1}, {"rate": 0.2}]
    assert sweep(_loss_at, rates, jobs=1) == [_loss_at(0.1), _loss_at(0.2)]
    assert sweep(pow, [{"base": 2, "exp": 5}, {"base": 3, "exp": 2}], jobs=2) == [32, 9]
    with pytest.raises(ValueError, match=r"rate.*in the run with \{'rate': -1.0\}"):
        sweep(_loss_at, [{"rate": -1.0}], jobs=1)
    with pytest.raises(ValueError, match="jobs must be at least 1"):
        sweep(pow, [], jobs=0)


def test_bad_options() -> None:
    train = data(16)
    for message, options in {
        "batch must be at least 1, not 0": {"batch": 0},
        "epochs must be at least 1": {"epochs": 0},
        "seed must be at least 0, not -1": {"seed": -1},
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
