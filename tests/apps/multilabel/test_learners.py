"""Learners against independent forms of themselves, and all of them on a problem that can be learnt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwise as lw
from loopwise import walk
from loopwise.apps.multilabel import (
    CD,
    ERM,
    PCD,
    Enumeration,
    Exactly,
    Hybrid,
    Likelihood,
    LinearProgram,
    Pegasos,
    Perceptron,
    SampleRank,
    SampleRankSVM,
    SampleRankSVM1,
)
from loopwise.learn.history import History
from loopwise.learn.label_sets.maximise import all_sets
from loopwise.learn.label_sets.problem import LabelProblem
from loopwise.learn.label_sets.weights import LabelWeights
from loopwise.learn.trainer import train as run
from loopwise.walk.label_sets import label_documents, label_model
from oracles.label_cases import make_problem

LEARNERS: dict[str, Any] = {
    "samplerank": SampleRank(epochs=3, sweeps=5),
    "samplerank, adagrad": SampleRank(epochs=2, sweeps=5, step=walk.AdaGrad()),
    "samplerank, F1": SampleRank(epochs=2, sweeps=5, metric=lw.metric.VariableF1(variables=4), step=walk.MIRA(0.01)),
    "all values": SampleRank(epochs=3, sweeps=5, proposal=walk.AllValues()),
    "forced flip": SampleRank(epochs=3, sweeps=5, proposal=walk.ForcedFlip()),
    "svm": SampleRankSVM(epochs=3, sweeps=5),
    "svm-1": SampleRankSVM1(epochs=3, sweeps=5),
    "hybrid": Hybrid(epochs=3, sweeps=5),
    "cd": CD(epochs=5, sweeps=5, step=walk.Decaying(0.1)),
    "pcd": PCD(epochs=5, sweeps=5, step=walk.Decaying(0.1)),
    "perceptron": Perceptron(epochs=3),
    "pegasos": Pegasos(0.01, epochs=3, batch=10),
    "likelihood": Likelihood(1.0, iterations=15),
    "erm": ERM(iterations=5, begin=Likelihood(1.0, iterations=10)),
    "erm, F1": ERM(lw.loss.F1(), iterations=5, begin=Likelihood(1.0, iterations=10)),
}


def learnt(learner: Any, problem: LabelProblem, seed: int = 0) -> tuple[LabelWeights, History]:
    start = problem.start()
    objective = learner.objective(problem, start, seed)
    history = run(objective, learner.limits)
    return start.like(objective.answer), history


def learn(learner: Any, problem: LabelProblem, seed: int = 0) -> LabelWeights:
    return learnt(learner, problem, seed)[0]


def error(weights: LabelWeights, problem: LabelProblem) -> float:
    return float((Enumeration().decide(weights, problem.inputs) != problem.gold).mean())


@pytest.mark.parametrize("name", LEARNERS)
def test_each_learns(name: str) -> None:
    train, test = make_problem(150, labels=4, seed=1), make_problem(200, labels=4, seed=2)
    weights, history = learnt(LEARNERS[name], train)
    most = min(test.gold.mean(), 1 - test.gold.mean())
    assert error(weights, test) < 0.5 * most
    assert history.losses and len(history) <= LEARNERS[name].limits.epochs
    again = learn(LEARNERS[name], train)
    np.testing.assert_array_equal(weights.vector, again.vector)


@pytest.mark.parametrize("name", ["hybrid", "pegasos", "perceptron", "likelihood", "erm"])
def test_a_single_label_has_no_pairs(name: str) -> None:
    problem = make_problem(60, labels=1)
    weights = learn(LEARNERS[name], problem)
    assert weights.pair.size == 0 and error(weights, problem) < 0.25


@pytest.mark.parametrize("name", ["svm", "pegasos", "perceptron", "likelihood"])
def test_sparse_inputs_give_what_dense_ones_do(name: str) -> None:
    scant = make_problem(40, labels=4, scant=True)
    dense = LabelProblem(np.ascontiguousarray(scant.inputs.toarray()), scant.gold)
    one, other = (learn(LEARNERS[name], problem).vector for problem in (scant, dense))
    np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)


def test_the_perceptron_is_that_of_walks() -> None:
    problem = make_problem(12, labels=3, features=2)

    def decoder(model: walk.Model, document: Any, weights: Any) -> list[int]:
        number = next(place for place, known in enumerate(documents) if known is document)
        inputs = problem.inputs[[number]]
        best: list[int] = Enumeration().decide(problem.start().like(weights), inputs)[0].tolist()
        return best

    documents = label_documents(problem)
    plain = walk.AveragedPerceptron(label_model(problem), decoder, seed=5).fit(documents, epochs=3)
    np.testing.assert_allclose(learn(Perceptron(epochs=3), problem, seed=5).vector, plain.weights, atol=1e-12)


def features(problem: LabelProblem, number: int, chosen: Any) -> Any:
    """All features of a set, from the definition."""
    made = problem.start()
    for label, share in enumerate(chosen):
        made.unary[label, :, 1] += share * problem.inputs[number]
        made.unary[label, :, 0] += (1 - share) * problem.inputs[number]
    pair = 0
    for one in range(problem.labels):
        for other in range(one + 1, problem.labels):
            made.pair[pair] += np.outer([1 - chosen[one], chosen[one]], [1 - chosen[other], chosen[other]])
            pair += 1
    return made.vector


def test_pegasos_is_its_definition() -> None:
    """The mean of the last epoch's iterates, each step written out with dense vectors."""
    problem, strength = make_problem(8, labels=3, features=2), 0.05
    found = learn(Pegasos(strength, epochs=3, maximiser=Exactly()), problem, seed=4)
    generator, theta, kept = np.random.default_rng(4), problem.start().vector, []
    sets = [tuple(map(int, row)) for row in all_sets(3)]
    for time in range(1, 3 * len(problem) + 1):
        number = int(generator.integers(0, len(problem), 1)[0])
        gold = problem.gold[number]
        scores = [theta @ features(problem, number, one) + (np.array(one) != gold).sum() for one in sets]
        answer = sets[int(np.argmax(scores))]
        step = features(problem, number, gold) - features(problem, number, answer)
        theta = (1 - 1 / time) * theta + step / (strength * time)
        kept.append(theta)
    np.testing.assert_allclose(found.vector, np.mean(kept[-len(problem) :], axis=0), rtol=1e-9, atol=1e-9)
    last = learn(Pegasos(strength, epochs=3, maximiser=Exactly(), average=False), problem, seed=4)
    np.testing.assert_allclose(last.vector, theta, rtol=1e-9, atol=1e-9)


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


def test_pegasos_approaches_the_best_objective() -> None:
    problem, strength = make_problem(30, labels=3, features=2), 0.1
    found = learn(Pegasos(strength, 80, maximiser=Exactly()), problem)
    long = objective(found, problem, strength)
    assert long < objective(learn(Pegasos(strength, 3, maximiser=Exactly()), problem), problem, strength)
    for seed in range(5):  # no point near by is better
        moved = found.like(found.vector + 0.1 * np.random.default_rng(seed).normal(size=len(found.vector)))
        assert objective(moved, problem, strength) > long - 1e-3


def test_the_relaxed_svm_bounds_the_exact_one() -> None:
    """On labels whose relaxations are tight both learn the same."""
    problem = make_problem(15, labels=2, features=2)
    exact = learn(Pegasos(0.5, 4, maximiser=Exactly()), problem)
    relaxed = learn(Pegasos(0.5, 4, maximiser=LinearProgram()), problem)
    np.testing.assert_allclose(exact.vector, relaxed.vector, atol=0.05)


def test_likelihood_is_the_enumerated_one() -> None:
    """The gradient vanishes where exact expected features plus the penalty are the observed ones."""
    problem = make_problem(25, labels=3, features=2)
    l2 = 2.0
    found = learn(Likelihood(l2, 200, lw.Exact()), problem)
    sets = all_sets(3).astype(np.int64)
    gradient = l2 * found.vector
    for number in range(len(problem)):
        rows = np.repeat(problem.inputs[[number]], len(sets), axis=0)
        scores = found.score(rows, sets)
        shares = np.exp(scores - scores.max())
        shares /= shares.sum()
        gradient = gradient - features(problem, number, problem.gold[number])
        gradient += sum(share * features(problem, number, one) for share, one in zip(shares, sets, strict=True))
    assert np.abs(gradient).max() < 1e-2


def test_bad_options() -> None:
    for make in (lambda: SampleRank(epochs=0), lambda: Pegasos(0.0), lambda: Perceptron(0), lambda: Likelihood(-1.0)):
        with pytest.raises(ValueError, match=r"positive|at least 0"):
            make()
    with pytest.raises(ValueError, match="20 labels, not 21"):
        learn(Perceptron(), make_problem(3, labels=21))
    with pytest.raises(ValueError, match="begins at the truth"):
        learn(CD(start=walk.Start.RANDOM), make_problem(3))
