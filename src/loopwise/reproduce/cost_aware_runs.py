r"""The runs of the cost-aware study: one curve of one truth each, kept in a file of its own.

In: a :class:`Job`. Out: its points as JSON, written whole or not at all, so that a study that was stopped goes on with
the next one. Everything runs on one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from loopwise.budget.cost import Cost, Factors, Messages, Sweeps
from loopwise.budget.features import STANDARD
from loopwise.budget.gates import Gate
from loopwise.budget.measure import seconds_each, spend
from loopwise.budget.methods import (
    FixedSweeps,
    FixedTolerance,
    GroupLasso,
    Lasso,
    Learned,
    Magnitude,
    Method,
    RandomFactors,
    Task,
)
from loopwise.budget.policy_fit import PolicyFit
from loopwise.budget.pruning import on_graph
from loopwise.budget.strength import Raw
from loopwise.inference.compiled import Compiled
from loopwise.inference.loss_of_beliefs import ignored_convergence
from loopwise.inference.message_passing import BP
from loopwise.learn.evaluate import Goal, evaluate, score_examples
from loopwise.learn.examples import Examples
from loopwise.learn.fit import fit
from loopwise.learn.optim.adagrad_comid import AdaGradCOMID
from loopwise.learn.start import SCALE
from loopwise.learn.system import System
from loopwise.loss import MSE, SurrogateLikelihood
from loopwise.potentials.tables import TablePotentials
from loopwise.reproduce.cost_aware_models import Channel, Data, Mixed, Synthetic, mixed, synthetic
from loopwise.reproduce.erma_models import load_arrays, save_arrays
from loopwise.reproduce.erma_runs import one_thread
from loopwise.reproduce.runs import read_run, write_run

FIGURE1, STRONG, SWEEPS, STOPPING, BOTH = "figure1", "strong", "sweeps", "stopping", "both"
DENSE, OURS, UNSCALED, REFITTED = "dense", "ours", "ours, unit 1", "ours, refitted"
L1_NAME, L1_REFITTED, GROUP, MAGNITUDE, RANDOM = "L1", "L1, refitted", "group lasso", "magnitude", "random"
REFITS = {OURS: REFITTED, L1_NAME: L1_REFITTED}  # curves whose systems, trained on without a price, are another
ERM, LIKELIHOOD = "ERM", "likelihood"
FIXED, TOLERANCE, LEARNED = "fixed sweeps", "fixed tolerance", "learned stopping"
SPARSE, TOGETHER = "learned sparsity", "both"


@dataclass(frozen=True)
class Protocol:
    """How much of the study to run.

    ``synthetic``: the models of Figure 1 and of the study of sweeps. Log-potentials of standard deviation 1, as the
    paper may be read, make nearly deterministic outputs (``strong``); with 1/2 the dense MSE is where it is printed.
    """

    truths: int
    others: int | None = None  # truths of all studies but Figure 1, the first ones; None: as many
    synthetic: Synthetic = field(default_factory=partial(Synthetic, scale=0.5))
    strong: Synthetic = field(default_factory=Synthetic)
    mixed: Mixed = field(default_factory=Mixed)
    prices: tuple[float, ...] = tuple(0.01 * 10 ** (k / 3) for k in range(12))
    strengths: tuple[float, ...] = tuple(1e-4 * 10 ** (k / 4) for k in range(10))
    group_strengths: tuple[float, ...] = tuple(1e-4 * 10 ** (k / 4) for k in range(10))
    counts: tuple[int, ...] = (25, 50, 100, 200, 400, 800)
    curves: tuple[str, ...] = (OURS, UNSCALED, REFITTED, L1_NAME, L1_REFITTED, GROUP, MAGNITUDE, RANDOM)
    strong_curves: tuple[str, ...] = (OURS, L1_NAME, GROUP, MAGNITUDE)
    iterations: int = 2  # of Figure 1
    dense_epochs: int = 30
    epochs: int = 20  # a setting, each from the weights of the one before
    pruned_epochs: int = 20  # of what magnitude or chance leaves, from the dense model
    refit: int = 10
    batch: int = 64
    rate: float = 0.03
    sweeps: tuple[int, ...] = tuple(range(1, 11))
    likelihood_rate: float = 0.03
    limit: int = 20  # sweeps of the stopping study
    stopping_prices: tuple[float, ...] = (0.02, 0.05, 0.08, 0.13, 0.2, 0.3)
    both_prices: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5)  # of few sweeps factors cost little each
    stopping_epochs: int = 15
    fixed: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 12, 16, 20)
    tolerances: tuple[float, ...] = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
    policy_rate: float = 0.03
    median: float = 1.5  # strength of the median factor, where stopping and sparsity go together
    both_rate: float = 0.03
    policy_steps: int = 300  # of the fit of a policy to a model as it is
    dev: int = 512  # training examples on which the hard system is looked at after each epoch


@dataclass(frozen=True)
class Job:
    """One curve of one truth."""

    study: str
    truth: int
    curve: str

    @property
    def name(self) -> str:
        return f"{self.study}, truth {self.truth + 1}: {self.curve}"

    def path(self, folder: Path) -> Path:
        """Where its points are kept."""
        return folder / f"{self.study}-{self.truth}-{self.curve.replace(', ', '-').replace(' ', '-')}.json"


Points = list[dict[str, Any]]


def jobs(protocol: Protocol) -> list[Job]:
    """All of them, truth by truth, so that a study that is cut short has something of everything."""
    found = []
    for truth in range(protocol.truths):
        found += [Job(FIGURE1, truth, curve) for curve in _own_runs(protocol.curves)]
        if protocol.others is not None and truth >= protocol.others:
            continue
        found += [Job(STRONG, truth, curve) for curve in _own_runs(protocol.strong_curves)]
        found += [Job(SWEEPS, truth, curve) for curve in (ERM, LIKELIHOOD)]
        found += [Job(STOPPING, truth, curve) for curve in (FIXED, TOLERANCE, LEARNED)]
        found += [Job(BOTH, truth, curve) for curve in (FIXED, SPARSE, LEARNED, TOGETHER)]
    return found


def _own_runs(curves: tuple[str, ...]) -> list[str]:
    """All but those that another run makes on the way."""
    made = [REFITS[curve] for curve in curves if curve in REFITS]
    return [curve for curve in (DENSE, *curves) if curve not in made]


def read_points(job: Job, folder: Path) -> Points | None:
    """The points of a finished job."""
    found = read_run(job.path(folder))
    return None if found is None else found["points"]


def run_job(job: Job, protocol: Protocol, folder: Path, seed: int) -> None:
    """Runs and saves. The job's own file is written last: where it is, all others are."""
    began = time.perf_counter()
    makers: dict[str, Callable[[Job, Protocol, Path, int], dict[str, Points]]] = {
        FIGURE1: _figure1, STRONG: _figure1, SWEEPS: _sweeps, STOPPING: _stopping, BOTH: _stopping,
    }  # fmt: skip
    with one_thread(), ignored_convergence():
        made = makers[job.study](job, protocol, folder, seed)
    seconds = time.perf_counter() - began
    for curve, points in sorted(made.items(), key=lambda pair: pair[0] == job.curve):
        write_run(replace(job, curve=curve).path(folder), {"points": points, "seconds": round(seconds, 1)})


# --- Figure 1 --------------------------------------------------------------------------------------------------------


def _figure1(job: Job, protocol: Protocol, folder: Path, seed: int) -> dict[str, Points]:
    size = protocol.strong if job.study == STRONG else protocol.synthetic
    curves = protocol.strong_curves if job.study == STRONG else protocol.curves
    data = synthetic(size, seed, job.truth, folder)
    dense = _dense(job, protocol, folder, seed, data)
    if job.curve == DENSE:
        return {DENSE: [_measured(0.0, dense, data)]}
    task = _task(protocol, dense, data, Factors(sliced=False), protocol.prices, seed)
    refitted = REFITS.get(job.curve) if REFITS.get(job.curve) in curves else None
    made: dict[str, Points] = {job.curve: [], **({refitted: []} if refitted else {})}
    for setting, system in _method(job.curve, protocol).systems(task):
        made[job.curve].append(_measured(setting, system, data))
        if refitted:
            made[refitted].append(_measured(setting, task.refit(system, protocol.refit), data))
    return made


def _method(curve: str, protocol: Protocol) -> Method:
    raw = Gate(strength=Raw())
    methods: dict[str, Method] = {
        OURS: Learned(raw, continued=True),
        UNSCALED: Learned(raw, median=None, continued=True),
        L1_NAME: Lasso(protocol.strengths, continued=True),
        GROUP: GroupLasso(protocol.group_strengths, continued=True),
        MAGNITUDE: Magnitude(protocol.counts, protocol.pruned_epochs, raw),
        RANDOM: RandomFactors(protocol.counts, protocol.pruned_epochs, raw),
    }
    return methods[curve]


def _dense(job: Job, protocol: Protocol, folder: Path, seed: int, data: Data) -> System:
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


def _sweeps(job: Job, protocol: Protocol, folder: Path, seed: int) -> dict[str, Points]:
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


def _stopping(job: Job, protocol: Protocol, folder: Path, seed: int) -> dict[str, Points]:
    """On examples of mixed difficulty; with both, on a graph that has twice the edges it needs."""
    together = job.study == BOTH
    data = mixed(protocol.mixed, seed, job.truth, folder, neighbours=8 if together else 4)
    dense = _dense_grid(job, protocol, folder, seed, data)
    cost: Cost = Messages() if together else Sweeps()
    prices = protocol.both_prices if together else protocol.stopping_prices
    task = _task(protocol, dense, data, cost, prices, seed)
    some = data.train[: min(protocol.dev, len(data.train))]
    rate = protocol.both_rate if together else protocol.rate
    task = replace(task, epochs=protocol.stopping_epochs, rate=rate, policy_rate=protocol.policy_rate, dev=some)
    how = PolicyFit(protocol.policy_steps)
    methods: dict[str, Method] = {
        FIXED: FixedSweeps(protocol.fixed, protocol.stopping_epochs),
        TOLERANCE: FixedTolerance(protocol.tolerances, protocol.stopping_epochs),
        LEARNED: Learned(None, STANDARD, policy_fit=how, detach_features=True),
        SPARSE: Learned(Gate(), median=protocol.median, whole=True),
        TOGETHER: Learned(Gate(), STANDARD, protocol.median, policy_fit=how, detach_features=True, whole=True),
    }
    return {job.curve: [_measured(setting, system, data) for setting, system in methods[job.curve].systems(task)]}


def _dense_grid(job: Job, protocol: Protocol, folder: Path, seed: int, data: Data) -> System:
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


# --- What all share --------------------------------------------------------------------------------------------------


def _bp(iterations: int) -> BP:
    return BP(iterations=iterations, tolerance=0.0, engine=Compiled(1))


def _task(protocol: Protocol, dense: System, data: Data, cost: Cost, prices: tuple[float, ...], seed: int) -> Task:
    return Task(
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


def _measured(setting: float, system: System, data: Data) -> dict[str, Any]:
    """Everything that is reported of a system."""
    test = on_graph(data.test, system.graph)
    losses = score_examples(system, test, MSE())
    sent = spend(system, test, Messages())
    sweeps = spend(system, test, Sweeps())
    factors = sum(group.count for group in system.graph.groups if group.arity >= 2)
    found = {
        "setting": setting,
        "loss": float(losses.mean()),
        "train": evaluate(system, on_graph(data.train, system.graph), MSE()),
        "messages": float(Messages(sliced=False).sweep(system.graph)),
        "sent": sent.cost,
        "sweeps": sent.sweeps,
        "factors": factors,
        "microseconds": 1e6 * seconds_each(system, test, repeats=5),
    }
    for kind in range(int(data.kinds.max(initial=0)) + 1):
        mine = torch.from_numpy(data.kinds == kind)
        found[f"loss {kind}"] = float(losses[mine].mean())
        found[f"sweeps {kind}"] = float(sweeps.costs[mine].mean())
    return {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in found.items()}
