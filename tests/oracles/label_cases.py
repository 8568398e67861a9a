"""Small problems with label sets that depend on inputs and on each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

import loopwise as lw
from loopwise import walk
from loopwise.apps.multilabel import (
    LabelCD,
    LabelERM,
    LabelHybrid,
    LabelLikelihood,
    LabelPCD,
    LabelPegasos,
    LabelPerceptron,
    LabelSampleRank,
    LabelSampleRankSVM,
    LabelSampleRankSVM1,
)
from loopwise.learn.history import History
from loopwise.learn.label_sets.maximise import all_sets
from loopwise.learn.label_sets.problem import LabelProblem
from loopwise.learn.label_sets.weights import LabelWeights
from loopwise.learn.trainer import train as run


def make_data(examples: int, labels: int = 3, features: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels: each label a noisy threshold, and every second one like the one before it."""
    generator = np.random.default_rng(seed)
    inputs = generator.normal(size=(examples, features))
    slopes = np.random.default_rng(1).normal(size=(features, labels))
    scores = inputs @ slopes + 0.3 * generator.normal(size=(examples, labels))
    scores[:, 1::2] = scores[:, 0 : 2 * (labels // 2) : 2] + 0.5 * generator.normal(size=(examples, labels // 2))
    return inputs, (scores > 0).astype(np.int64)


def make_problem(
    examples: int, labels: int = 3, features: int = 4, seed: int = 0, *, scant: bool = False
) -> LabelProblem:
    """The same with the constant feature; ``scant``: sparse inputs, one of them empty."""
    inputs, gold = make_data(examples, labels, features, seed)
    full = np.column_stack([inputs, np.ones(examples)])
    if scant:
        full[np.abs(full) < 0.8] = 0.0
        full[0] = 0.0
        return LabelProblem(sparse.csr_array(full), gold)
    return LabelProblem(full, gold)


def random_weights(labels: int, features: int, seed: int = 0, scale: float = 1.0) -> LabelWeights:
    empty = LabelWeights.zeros(labels, features)
    return empty.like(np.random.default_rng(seed).normal(scale=scale, size=len(empty.vector)))


def learnt(learner: Any, problem: LabelProblem, seed: int = 0) -> tuple[LabelWeights, History]:
    start = problem.start()
    objective = learner.objective(problem, start, seed)
    history = run(objective, learner.limits)
    return start.like(objective.answer), history


def learn(learner: Any, problem: LabelProblem, seed: int = 0) -> LabelWeights:
    return learnt(learner, problem, seed)[0]


def objective(weights: LabelWeights, problem: LabelProblem, strength: float) -> float:
    """The structured SVM's, by enumeration."""
    total = 0.5 * strength * float(weights.vector @ weights.vector)
    sets = all_sets(problem.labels).astype(np.int64)
    own = weights.score(problem.inputs, problem.gold)
    for number in range(len(problem)):
        rows = np.repeat(problem.inputs[[number]], len(sets), axis=0)
        slack = (sets != problem.gold[number]).sum(axis=1) + weights.score(rows, sets) - own[number]
        total += float(slack.max()) / len(problem)
    return total


LEARNERS: dict[str, Any] = {
    "samplerank": LabelSampleRank(epochs=3, sweeps=5),
    "samplerank, adagrad": LabelSampleRank(epochs=2, sweeps=5, step=walk.AdaGrad()),
    "samplerank, F1": LabelSampleRank(
        epochs=2, sweeps=5, metric=lw.metric.VariableF1(variables=4), step=walk.MIRA(0.01)
    ),
    "all values": LabelSampleRank(epochs=3, sweeps=5, proposal=walk.AllValues()),
    "forced flip": LabelSampleRank(epochs=3, sweeps=5, proposal=walk.ForcedFlip()),
    "svm": LabelSampleRankSVM(epochs=3, sweeps=5),
    "svm-1": LabelSampleRankSVM1(epochs=3, sweeps=5),
    "hybrid": LabelHybrid(epochs=3, sweeps=5),
    "cd": LabelCD(epochs=5, sweeps=5, step=walk.Decaying(0.1)),
    "pcd": LabelPCD(epochs=5, sweeps=5, step=walk.Decaying(0.1)),
    "perceptron": LabelPerceptron(epochs=3),
    "pegasos": LabelPegasos(0.01, epochs=3, batch=10),
    "likelihood": LabelLikelihood(1.0, iterations=15),
    "erm": LabelERM(iterations=5, begin=LabelLikelihood(1.0, iterations=10)),
    "erm, F1": LabelERM(lw.loss.F1(), iterations=5, begin=LabelLikelihood(1.0, iterations=10)),
}


FAST = LabelSampleRankSVM(epochs=3, sweeps=5)
