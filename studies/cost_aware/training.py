r"""The runs of the cost-aware study: one curve of one truth each, kept in a file of its own.

In: a :class:`CurveJob`. Out: its points as JSON, written whole or not at all, so that a study that was stopped goes on
with the next one. Everything runs on one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from loopwise.budget.cost import Cost, FactorCost, MessageCost, SweepCost
from loopwise.budget.gates import Gate
from loopwise.budget.gating.methods import LearnedGates, ResidualSweeps
from loopwise.budget.measure import seconds_each, spend
from loopwise.budget.methods import (
    BudgetCurve,
    FixedSweeps,
    FixedTolerance,
    GroupLasso,
    Lasso,
    Learned,
    Magnitude,
    PricedTask,
    RandomFactors,
)
from loopwise.budget.policy_fit import PolicyFit
from loopwise.budget.pruning import on_graph
from loopwise.budget.strength import Raw
from loopwise.demo.workers import one_thread
from loopwise.inference.loss_of_beliefs import ignored_convergence
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.features import STANDARD
from loopwise.inference.messages.message_passing import BP
from loopwise.learn.data.examples import Examples
from loopwise.learn.evaluate import Goal, evaluate, score_examples
from loopwise.learn.fit import fit
from loopwise.learn.optim.adagrad_comid import AdaGradCOMID
from loopwise.learn.start import SCALE
from loopwise.learn.system import System
from loopwise.loss import MSE, SurrogateLikelihood
from loopwise.potentials.tables import TablePotentials
from studies.cost_aware.models import Channel, CostAwareData, mixed, patterned, synthetic
from studies.cost_aware.protocol import (
    ALL_FOUR,
    BOTH,
    DENSE,
    ERM,
    EVIDENCE,
    FIGURE1,
    FIXED,
    GATES,
    GROUP,
    L1_NAME,
    LEARNED,
    MAGNITUDE,
    MESSAGES,
    OURS,
    RANDOM,
    REFITS,
    RESIDUAL,
    SPARSE,
    STOPPING,
    STRONG,
    SWEEPS,
    TOGETHER,
    TOLERANCE,
    UNSCALED,
    CostAwareProtocol,
    CurveJob,
)
from studies.harness.runs import load_arrays, read_run, save_arrays, write_run

Points = list[dict[str, Any]]


def read_points(job: CurveJob, folder: Path) -> Points | None:
    """The points of a finished job."""
    found = read_run(job.path(folder))
    return None if found is None else found["points"]


def run_job(job: CurveJob, protocol: CostAwareProtocol, folder: Path, seed: int) -> None:
    """Runs and saves. The job's own file is written last: where it is, all others are."""
    began = time.perf_counter()
    makers: dict[str, Callable[[CurveJob, CostAwareProtocol, Path, int], dict[str, Points]]] = {
        FIGURE1: _figure1, STRONG: _figure1, SWEEPS: _sweeps, STOPPING: _stopping, BOTH: _stopping,
        GATES: _gates,
    }  # fmt: skip
    with one_thread(), ignored_convergence():
        made = makers[job.study](job, protocol, folder, seed)
    seconds = time.perf_counter() - began
    for curve, points in sorted(made.items(), key=lambda pair: pair[0] == job.curve):
        write_run(replace(job, curve=curve).path(folder), {"points": points, "seconds": round(seconds, 1)})


# --- Figure 1 --------------------------------------------------------------------------------------------------------


def _figure1(job: CurveJob, protocol: CostAwareProtocol, folder: Path, seed: int) -> dict[str, Points]:
    size = protocol.strong if job.study == STRONG else protocol.synthetic
    curves = protocol.strong_curves if job.study == STRONG else protocol.curves
    data = synthetic(size, seed, job.truth, folder)
    dense = _dense(job, protocol, folder, seed, data)
    if job.curve == DENSE:
        return {DENSE: [_measured(0.0, dense, data)]}
    task = _task(protocol, dense, data, FactorCost(sliced=False), protocol.prices, seed)
    refitted = REFITS.get(job.curve) if REFITS.get(job.curve) in curves else None
    made: dict[str, Points] = {job.curve: [], **({refitted: []} if refitted else {})}
    for setting, system in _method(job.curve, protocol).systems(task):
        made[job.curve].append(_measured(setting, system, data))
        if refitted:
            made[refitted].append(_measured(setting, task.refit(system, protocol.refit), data))
    return made


def _method(curve: str, protocol: CostAwareProtocol) -> BudgetCurve:
    raw = Gate(strength=Raw())
    methods: dict[str, BudgetCurve] = {
        OURS: Learned(raw, continued=True),
        UNSCALED: Learned(raw, median=None, continued=True),
        L1_NAME: Lasso(protocol.strengths, continued=True),
        GROUP: GroupLasso(protocol.group_strengths, continued=True),
        MAGNITUDE: Magnitude(protocol.counts, protocol.pruned_epochs, raw),
        RANDOM: RandomFactors(protocol.counts, protocol.pruned_epochs, raw),
    }
    return methods[curve]


def _dense(job: CurveJob, protocol: CostAwareProtocol, folder: Path, seed: int, data: CostAwareData) -> System:
    """Trained once for each truth and kept."""
    path = folder / f"dense-{job.study}-{job.truth}.npz"
    graph = data.train.graph
    system = System(TablePotentials(graph), _bp(protocol.iterations))
    if path.exists():
        tables = {graph.groups[0].name: load_arrays(path)["tables"]}
        return System(TablePotentials(graph, tables), system.inference)
    _train(system, data.train, MSE(), protocol.dense_epochs, protocol.rate, protocol.batch, seed, SCALE)
    save_arrays(path, {"tables": next(system.parameters()).detach().numpy()})
    return system


# --- How many sweeps suffice -----------------------------------------------------------------------------------------


def _sweeps(job: CurveJob, protocol: CostAwareProtocol, folder: Path, seed: int) -> dict[str, Points]:
    """A model for each limit of sweeps, trained and tested with it."""
    data = synthetic(protocol.synthetic, seed, job.truth, folder)
    points = []
    for count in protocol.sweeps:
        system = System(TablePotentials(data.train.graph), _bp(count))
        goal: Goal = MSE() if job.curve == ERM else SurrogateLikelihood()
        rate = protocol.rate if job.curve == ERM else protocol.likelihood_rate
        _train(system, data.train, goal, protocol.dense_epochs, rate, protocol.batch, seed, SCALE)
        points.append(_measured(float(count), system, data))
    return {job.curve: points}


# --- Stopping, and both together -------------------------------------------------------------------------------------


def _stopping(job: CurveJob, protocol: CostAwareProtocol, folder: Path, seed: int) -> dict[str, Points]:
    """On examples of mixed difficulty; with both, on a graph that has twice the edges it needs."""
    together = job.study == BOTH
    data = mixed(protocol.mixed, seed, job.truth, folder, neighbours=8 if together else 4)
    dense = _dense_grid(job, protocol, folder, seed, data)
    cost: Cost = MessageCost() if together else SweepCost()
    prices = protocol.both_prices if together else protocol.stopping_prices
    task = _task(protocol, dense, data, cost, prices, seed)
    some = data.train[: min(protocol.dev, len(data.train))]
    rate = protocol.both_rate if together else protocol.rate
    task = replace(task, epochs=protocol.stopping_epochs, rate=rate, policy_rate=protocol.policy_rate, dev=some)
    how = PolicyFit(protocol.policy_steps)
    methods: dict[str, BudgetCurve] = {
        FIXED: FixedSweeps(protocol.fixed, protocol.stopping_epochs),
        TOLERANCE: FixedTolerance(protocol.tolerances, protocol.stopping_epochs),
        LEARNED: Learned(None, STANDARD, policy_fit=how, detach_features=True),
        SPARSE: Learned(Gate(), median=protocol.median, whole=True),
        TOGETHER: Learned(Gate(), STANDARD, protocol.median, policy_fit=how, detach_features=True, whole=True),
    }
    return {job.curve: [_measured(setting, system, data) for setting, system in methods[job.curve].systems(task)]}


def _dense_grid(job: CurveJob, protocol: CostAwareProtocol, folder: Path, seed: int, data: CostAwareData) -> System:
    path = folder / f"dense-{job.study}-{job.truth}.npz"
    potentials = Channel(data.train.graph, protocol.mixed.coupling / (4 if job.study == BOTH else 2))
    system = System(potentials, _bp(protocol.limit))
    if path.exists():
        stored = load_arrays(path)
        potentials.load_state_dict({name: torch.from_numpy(stored[name]) for name in ("trust", "pair")})
        return system
    _train(system, data.train, MSE(), protocol.stopping_epochs, protocol.rate, protocol.batch, seed)
    save_arrays(path, {name: value.detach().numpy() for name, value in potentials.state_dict().items()})
    return system


# --- Messages and evidence -------------------------------------------------------------------------------------------


def _gates(job: CurveJob, protocol: CostAwareProtocol, folder: Path, seed: int) -> dict[str, Points]:
    """Grids of which different parts are seen, on a graph that has twice the edges it needs."""
    data = patterned(protocol.patterned, seed, job.truth, folder)
    dense = _dense_patterned(job, protocol, folder, seed, data)
    task = _task(protocol, dense, data, MessageCost(), protocol.gate_prices, seed)
    some = data.train[: min(protocol.dev, len(data.train))]
    task = replace(task, epochs=protocol.gate_epochs, policy_rate=protocol.policy_rate, dev=some)
    how, epochs = PolicyFit(protocol.policy_steps), protocol.gate_epochs
    methods: dict[str, BudgetCurve] = {
        FIXED: FixedSweeps(protocol.gate_fixed, epochs),
        RESIDUAL: ResidualSweeps(protocol.gate_fixed, epochs),
        SPARSE: Learned(Gate(), median=protocol.median, whole=True),
        LEARNED: Learned(None, STANDARD, policy_fit=how, detach_features=True),
        MESSAGES: LearnedGates(None, messages=True),
        EVIDENCE: LearnedGates(None, evidence=True),
        ALL_FOUR: LearnedGates(
            Gate(), STANDARD, protocol.median, policy_fit=how, detach_features=True, whole=True, messages=True,
            evidence=True,
        ),
    }  # fmt: skip
    return {job.curve: [_measured(setting, system, data) for setting, system in methods[job.curve].systems(task)]}


def _dense_patterned(
    job: CurveJob, protocol: CostAwareProtocol, folder: Path, seed: int, data: CostAwareData
) -> System:
    path, graph = folder / f"dense-{job.study}-{job.truth}.npz", data.train.graph
    if not path.exists():
        system = System(TablePotentials(graph), _bp(protocol.gate_limit))
        _train(system, data.train, MSE(), protocol.dense_epochs, protocol.rate, protocol.batch, seed, SCALE)
        save_arrays(path, {name: table.detach().numpy() for name, table in system.potentials().items()})
    return System(TablePotentials(graph, load_arrays(path)), _bp(protocol.gate_limit))


# --- What all share --------------------------------------------------------------------------------------------------


def _bp(iterations: int) -> BP:
    return BP(iterations=iterations, tolerance=0.0, engine=Compiled(1))


def _task(
    protocol: CostAwareProtocol, dense: System, data: CostAwareData, cost: Cost, prices: tuple[float, ...], seed: int
) -> PricedTask:
    return PricedTask(
        dense,
        data.train,
        MSE(),
        cost,
        prices,
        epochs=protocol.epochs,
        batch=protocol.batch,
        rate=protocol.rate,
        policy_rate=protocol.rate,
        clip=None,
        seed=seed,
    )


def _train(
    system: System, examples: Examples, goal: Goal, epochs: int, rate: float, batch: int, seed: int,
    start: float | None = None,
) -> None:  # fmt: skip
    optimizer = partial(AdaGradCOMID, rate=rate)
    fit(system, examples, goal, optimizer=optimizer, epochs=epochs, batch=batch, seed=seed, start=start, progress=False)


def _measured(setting: float, system: System, data: CostAwareData) -> dict[str, Any]:
    """Everything that is reported of a system."""
    test = on_graph(data.test, system.graph)
    losses = score_examples(system, test, MSE())
    sent = spend(system, test, MessageCost())
    sweeps = spend(system, test, SweepCost())
    factors = sum(group.count for group in system.graph.groups if group.arity >= 2)
    found = {
        "setting": setting,
        "loss": float(losses.mean()),
        "train": evaluate(system, on_graph(data.train, system.graph), MSE()),
        "messages": float(MessageCost(sliced=False).sweep(system.graph)),
        "sent": sent.cost,
        "sweeps": sent.sweeps,
        "factors": factors,
        "microseconds": 1e6 * seconds_each(system, test, repeats=5, clock=time.process_time),
    }
    for kind in range(int(data.kinds.max(initial=0)) + 1):
        mine = torch.from_numpy(data.kinds == kind)
        found[f"loss {kind}"] = float(losses[mine].mean())
        found[f"sweeps {kind}"] = float(sweeps.costs[mine].mean())
    return {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in found.items()}
