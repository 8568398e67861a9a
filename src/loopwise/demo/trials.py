"""What the demo measures: the same small system trained by likelihood and for its loss, under ever fewer sweeps of BP.

In: how much to run (:class:`DemoAmounts`) and a seed. Out: an :class:`DemoOutcome` for each :class:`DemoTrial`. The
comparison is that of Stoyanov et al. 2011, the problem another one: a grid of variables that like to agree, few of them
given, so that messages have far to go and the number of sweeps matters. (In the published random MRFs a third is given,
and three sweeps bring nearly all there is to know.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from loopwise.compiled.arithmetic import LANES
from loopwise.decode import Max
from loopwise.graph.builders import grid
from loopwise.graph.evidence import Role
from loopwise.graph.factor_graph import FactorGraph, Integers
from loopwise.inference.loss_of_beliefs import ignored_convergence
from loopwise.inference.messages.compiled import Compiled
from loopwise.inference.messages.message_passing import BP
from loopwise.learn.data.examples import Examples
from loopwise.learn.data.sampling import sample_examples
from loopwise.learn.evaluate import evaluate
from loopwise.learn.fit import fit
from loopwise.learn.stages import Goals, staged
from loopwise.learn.start import SCALE
from loopwise.learn.system import System
from loopwise.loss import MSE, SurrogateLikelihood
from loopwise.loss.calibration import Reliability, reliability
from loopwise.loss.metric import HammingError
from loopwise.potentials.tables import TablePotentials

Floats = NDArray[np.float64]

TOLERANCE = 1e-5  # of BP in training and in use
PATIENT = BP(iterations=1000, tolerance=1e-6, engine=Compiled(1))  # to convergence: how the truth is judged

LIKELIHOOD, LOSS, TRUTH = "likelihood", "loss", "truth"  # what a system is trained for; the truth is not trained


@dataclass(frozen=True)
class DemoAmounts:
    """How much is run.

    The truth has log-potentials w s s' for spins s, s' of neighbours, with w uniform between ``weakest`` and
    ``strongest``; 0.44 is where an endless grid of equal ones orders itself.
    """

    side: int = 10
    weakest: float = 0.3
    strongest: float = 0.7
    given: float = 0.1  # the share of variables observed in use
    hidden: float = 0.45  # the share never observed; the rest is predicted
    models: int = 3
    train: int = 512
    test: int = 512
    burn_in: int = 1000
    epochs: int = 20
    batch: int = 64
    rate: float = 0.03  # of Adam
    budgets: tuple[int, ...] = (100, 30, 10, 3)  # sweeps of BP, in training and in use
    watched: int = 3  # the budget whose beliefs are looked at sweep by sweep
    horizon: int = 30  # and for how many sweeps


@dataclass(frozen=True)
class DemoTrial:
    """One training of one model, or (``goal`` TRUTH) the true parameters with BP run to its end."""

    model: int
    goal: str
    budget: int


@dataclass(frozen=True, eq=False)
class DemoOutcome:
    """How well a trial does on test examples."""

    trial: DemoTrial
    loss: float  # mean squared error of the beliefs
    wrong: float  # the share of outputs whose most probable value is not the right one
    reliability: Reliability
    after: Mapping[int, float]  # sweeps: the loss of the beliefs that the same parameters have after so many
    paths: Floats  # [sweeps, outputs], the belief in the right value, of one example; empty where nobody looks
    course: Sequence[float]  # the loss after each epoch of training; empty where nobody looks
    seconds: float


def trials(amounts: DemoAmounts) -> list[DemoTrial]:
    """All of them, the truth first."""
    truths = [DemoTrial(model, TRUTH, 0) for model in range(amounts.models)]
    return truths + [
        DemoTrial(model, goal, budget)
        for budget in amounts.budgets
        for model in range(amounts.models)
        for goal in (LIKELIHOOD, LOSS)
    ]


@dataclass(frozen=True, eq=False)
class DemoModel:
    """A true model and samples of it."""

    truth: TablePotentials
    train: Examples
    test: Examples


def draw_problem(amounts: DemoAmounts, seed: int, model: int) -> DemoModel:
    """Couplings, roles and samples."""
    generator = np.random.default_rng([seed, model])
    scopes = grid(amounts.side, amounts.side).group("pair").scopes
    graph = FactorGraph(np.full(amounts.side**2, 2), {"pair": scopes})
    weights = generator.uniform(amounts.weakest, amounts.strongest, len(scopes))
    spins = np.array([-1.0, 1.0])
    truth = TablePotentials(graph, {"pair": torch.from_numpy(weights[:, None, None] * np.outer(spins, spins))})
    roles = draw_roles(graph.variables, amounts, generator)
    count, draws = (amounts.train, amounts.test), int(generator.integers(2**31))
    train, test = sample_examples(truth, count, roles=roles, seed=draws, burn_in=amounts.burn_in, threads=1)
    return DemoModel(truth, train, test)


def draw_roles(variables: int, amounts: DemoAmounts, generator: np.random.Generator) -> Integers:
    """Which variables are input, hidden and output, ``[variables]``."""
    roles = np.full(variables, Role.OUTPUT, dtype=np.int64)
    order = generator.permutation(variables)
    given, hidden = round(amounts.given * variables), round(amounts.hidden * variables)
    roles[order[:given]] = Role.INPUT
    roles[order[given : given + hidden]] = Role.HIDDEN
    return roles


def run_trial(trial: DemoTrial, problem: DemoModel, amounts: DemoAmounts, seed: int) -> DemoOutcome:
    """Trains, unless the trial is of the truth, and tests."""
    began = time.perf_counter()
    course: list[float] = []
    with ignored_convergence():
        if trial.goal == TRUTH:
            system = System(problem.truth, PATIENT)
        elif trial.budget == amounts.watched:
            system = trained(
                trial, problem.train, amounts, seed, lambda now: course.append(evaluate(now, problem.test, MSE()))
            )
        else:
            system = trained(trial, problem.train, amounts, seed)
        seconds = time.perf_counter() - began
        return _judged(trial, system, problem.test, amounts, course, seconds)


def trained(
    trial: DemoTrial,
    examples: Examples,
    amounts: DemoAmounts,
    seed: int,
    look: Callable[[System], None] = lambda system: None,
) -> System:
    """The same model, sweeps, optimiser, rate, epochs and start for both goals.

    The loss is not convex: its training begins with a few epochs of likelihood, as published (``-in``), within the
    same number of epochs. ``look`` is shown the system after each.
    """
    inference = BP(iterations=trial.budget, tolerance=TOLERANCE, engine=Compiled(1))
    system = System(TablePotentials(examples.graph), inference)
    goal: Goals = SurrogateLikelihood() if trial.goal == LIKELIHOOD else staged(MSE())
    fit(
        system,
        examples,
        goal,
        optimizer=partial(torch.optim.Adam, lr=amounts.rate),
        epochs=amounts.epochs,
        batch=amounts.batch,
        start=SCALE,
        seed=seed,
        callback=lambda epoch: look(system),
        progress=False,
    )
    return system


def _judged(
    trial: DemoTrial, system: System, test: Examples, amounts: DemoAmounts, course: Sequence[float], seconds: float
) -> DemoOutcome:
    decided = System(system.potentials, system.inference, Max())
    path = range(amounts.horizon + 1 if trial.budget == amounts.watched else 0)
    cuts = sorted({*path, *amounts.budgets})
    return DemoOutcome(
        trial,
        evaluate(system, test, MSE()),
        evaluate(decided, test, HammingError()),
        beliefs_reliability(system, test),
        {cut: evaluate(cut_short(system, cut), test, MSE()) for cut in cuts},
        np.array([_beliefs_in_the_right(cut_short(system, cut), test) for cut in path]),
        course,
        seconds,
    )


def beliefs_reliability(system: System, examples: Examples) -> Reliability:
    """Of the beliefs that output variables have value 1."""
    said, was = [], []
    with torch.no_grad():
        for part in examples.batches(512):
            outputs = part.outputs.numpy()
            said.append(system.beliefs(part).variables[..., 1].numpy()[outputs])
            was.append(part.values[outputs] == 1)
    return reliability(np.concatenate(said), np.concatenate(was))


def cut_short(system: System, sweeps: int) -> System:
    """The same parameters with so many sweeps of BP, converged or not."""
    inference = system.inference
    assert isinstance(inference, BP)
    return System(system.potentials, replace(inference, iterations=sweeps, tolerance=0))


def _beliefs_in_the_right(system: System, examples: Examples) -> Floats:
    """Of each output of the first example, how probable its right value is believed to be, ``[outputs]``."""
    some = examples[:LANES]  # a full lane: one example alone would want kernels of its own compiled
    outputs = some.outputs[0]
    with torch.no_grad():
        beliefs: Tensor = system.beliefs(some).variables[0, outputs]
    right = torch.from_numpy(some.values[0])[outputs]
    return np.asarray(beliefs.gather(1, right[:, None])[:, 0], dtype=np.float64)
