"""One cell of the study: a model trained in one way under one condition, and how well it then does.

In: a :class:`ErmaJob`. Out: a :class:`ErmaRun` in a file of its own, written whole or not at all, so that a study that
was stopped goes on with the next one. Everything runs on one thread: jobs, not examples, are spread over cores.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from loopwise.decode import Identity
from loopwise.demo.workers import one_thread
from loopwise.inference.loss_of_beliefs import ignored_convergence
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.message_passing import BP
from loopwise.learn.data.examples import Examples
from loopwise.learn.evaluate import Goal, risk, score_examples
from loopwise.learn.fit import fit
from loopwise.learn.history import History
from loopwise.learn.optim.smd import SMD
from loopwise.learn.optim.steps import inverse_square_root
from loopwise.learn.stages import Goals, epochs_of
from loopwise.learn.start import SCALE
from loopwise.learn.system import CHUNK, System
from loopwise.learn.training import TrainingError
from loopwise.potentials.tables import TablePotentials
from studies.erma.models import (
    PAIR,
    ErmaModel,
    as_tables,
    load_model,
    on_graph,
)
from studies.erma.protocol import (
    GAINS,
    LOGL_TEST,
    TESTS,
    TRAINS,
    TRUE,
    TRUTH,
    Condition,
    ErmaJob,
    ErmaProtocol,
    Gains,
    Train,
    stages_of,
)
from studies.harness.runs import load_arrays, save_arrays
from studies.harness.statistics import Floats

TOLERANCE = 1e-5  # of training and testing (the authors' software: 1e-5 to 1e-6)
LIMIT = 500  # sweeps, where it is counted how many a model needs
TIGHT = 1e-6


@dataclass(frozen=True, eq=False)
class ErmaRun:
    """A finished cell."""

    tables: Floats  # [edges, 2, 2], the trained log-potentials
    losses: dict[str, Floats]  # by test, of each test example
    objective: float  # the soft loss of the training examples, at the end
    sweeps: float  # to convergence, mean over the test examples, at most LIMIT
    converged: float  # the share that had converged by then
    seconds: float
    ended: str = ""

    def loss(self, test: str) -> float:
        """The mean over test examples."""
        return float(self.losses[test].mean())

    def save(self, path: Path) -> None:
        numbers = {name: getattr(self, name) for name in ("objective", "sweeps", "converged", "seconds", "ended")}
        losses = {f"loss-{test}": values for test, values in self.losses.items()}
        save_arrays(path, {"tables": self.tables, "facts": np.array(json.dumps(numbers)), **losses})

    @staticmethod
    def load(path: Path) -> ErmaRun:
        stored = load_arrays(path)
        losses = {name.removeprefix("loss-"): rows for name, rows in stored.items() if name.startswith("loss-")}
        return ErmaRun(stored["tables"], losses, **json.loads(str(stored["facts"])))


def finished(job: ErmaJob, folder: Path) -> ErmaRun | None:
    """The run of a job, if there is one."""
    path = job.path(folder)
    return ErmaRun.load(path) if path.exists() else None


def run_job(job: ErmaJob, protocol: ErmaProtocol, folder: Path, seed: int) -> None:
    """Trains, tests and saves."""
    began = time.perf_counter()
    model = load_model(folder, job.size, seed, protocol.sampling, threads=1)
    with one_thread(), ignored_convergence():
        if job.train == TRUTH:
            system, ended = System(TablePotentials(model.graph, as_tables(model.tables.numpy())), truth_inference()), ""
            train, test = model.train, model.test
        else:
            graph = model.structure(job.condition.mismatch)
            train, test = on_graph(model.train, graph), on_graph(model.test, graph)
            system, ended = trained(TRAINS[job.train], job.condition, train, protocol, seed)
        run = judged(system, job.train, train, test, began, ended)
    run.save(job.path(folder))


def inference(condition: Condition) -> BP:
    """BP as a condition has it, in training and in testing."""
    return BP(iterations=condition.iterations, tolerance=TOLERANCE, engine=Compiled(1))


def truth_inference() -> BP:
    """BP as the true parameters are judged with: to convergence."""
    return BP(iterations=TRUE.iterations, tolerance=TIGHT, engine=Compiled(1))


def trained(
    setting: Train, condition: Condition, examples: Examples, protocol: ErmaProtocol, seed: int
) -> tuple[System, str]:
    """A system trained as the setting says, and why its training ended."""
    system = System(TablePotentials(examples.graph), inference(condition), setting.target.decoder())
    left, batch, start = setting.epochs or protocol.epochs, protocol.batch, SCALE
    restarts: dict[str, Any] = {"start": SCALE, "restarts": setting.restarts(protocol.restarts)}
    ended = ""
    try:
        if setting.staged:
            first, nll = System(system.potentials, system.inference, Identity()), LOGL_TEST.goal()
            minimise(first, examples, nll, GAINS["LOGL"], epochs=protocol.warm_up, batch=batch, seed=seed, start=start)
            left, restarts = max(1, left - protocol.warm_up), {}
        stages = stages_of(setting)
        for number, (stage, gains) in enumerate(stages):
            epochs = epochs_of([stage for stage, _ in stages], number, left)
            common: dict[str, Any] = {"epochs": epochs, "batch": batch, "seed": seed, **restarts}
            history = minimise(system, examples, stage, gains, descent=setting.gain_only, **common)
            # Of several starts the one that did best in the first stage goes on.
            left, restarts, ended = left - history[-1].number, {}, history.ended
    except TrainingError as problem:  # the weights are those of the last whole epoch
        ended = str(problem)
    return system, ended


def minimise(
    system: System,
    examples: Examples,
    goal: Goals,
    gains: Gains,
    *,
    epochs: int,
    batch: int,
    seed: int = 0,
    restarts: int = 1,
    start: float | None = None,
    descent: bool = False,
) -> History:
    """Training by SMD, or by plain gradient ``descent`` with a gain that falls as the root of the epoch."""
    meta = partial(SMD, gain=gains.gain, meta=gains.meta, memory=gains.memory)
    return fit(
        system,
        examples,
        goal,
        optimizer=partial(torch.optim.SGD, lr=gains.gain) if descent else meta,
        schedule=inverse_square_root if descent else None,
        clip=gains.clip,
        epochs=epochs,
        batch=batch,
        seed=seed,
        restarts=restarts,
        start=start,
        progress=False,
    )


def judged(system: System, name: str, train: Examples, test: Examples, began: float, ended: str) -> ErmaRun:
    """How well a system does in every test, by the decoder of each."""
    losses = {}
    for title, setting in TESTS.items():
        tested = System(system.potentials, system.inference, setting.decoder())
        tested.refresh(train)
        losses[title] = score_examples(tested, test, setting.goal()).numpy()
    sweeps, converged = sweeps_needed(system, test)
    objective = soft_risk(system, train, TRAINS[name].target.goal()) if name in TRAINS else float("nan")
    tables = next(system.potentials.parameters()).detach().numpy().copy()
    return ErmaRun(tables, losses, objective, sweeps, converged, time.perf_counter() - began, ended)


def soft_risk(system: System, examples: Examples, goal: Goal) -> float:
    """What training minimises, on all examples."""
    with torch.no_grad():
        parts = [(len(part), float(risk(system, part, goal))) for part in examples.batches(CHUNK)]
    return sum(count * value for count, value in parts) / len(examples)


def sweeps_needed(system: System, examples: Examples) -> tuple[float, float]:
    """The mean number of sweeps to convergence, counting :data:`LIMIT` where it fails; and the share that converged."""
    patient = System(system.potentials, BP(iterations=LIMIT, tolerance=TOLERANCE, engine=Compiled(1)))
    sweeps, arrived = [], []
    with torch.no_grad():
        for part in examples.batches(CHUNK):
            status = patient.beliefs(part).status
            sweeps.append(status.sweeps.double())
            arrived.append((status.residual <= TOLERANCE).double())
    return float(torch.cat(sweeps).mean()), float(torch.cat(arrived).mean())


def random_start(model: ErmaModel, seed: int) -> Tensor:
    """Weights as training begins with, ``[edges, 2, 2]``."""
    tables: dict[str, Tensor] = TablePotentials.random(model.graph, seed=seed, scale=SCALE)()
    return tables[PAIR].detach()
