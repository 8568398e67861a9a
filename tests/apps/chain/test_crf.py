"""The chain model of feature vectors against enumeration of all label sequences, SciPy and finite differences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import check_grad, minimize

import loopwise as lw
from loopwise.apps import ChainCRF, Tagger
from loopwise.apps.chain import (
    ChainPerceptron,
    ChainSVM,
    EntityF1,
    Posterior,
    SoftmaxMargin,
    Viterbi,
    WeightedLikelihood,
)
from loopwise.learn.chain.likelihood import NegativeLogLikelihood
from loopwise.learn.chain.risk import ExactRisk
from oracles.crf_cases import Oracle, fitted, problem_of, small


def test_likelihood_is_maximised() -> None:
    crf, oracle = fitted(l2=0.8)
    best = minimize(oracle.objective, np.zeros(len(crf.weights_.vector)), args=(0.8,), method="BFGS", tol=1e-9)
    np.testing.assert_allclose(crf.weights_.vector, best.x, atol=1e-5)
    assert oracle.objective(crf.weights_.vector, 0.8) == pytest.approx(best.fun, abs=1e-9)
    assert crf.history_[-1].loss == pytest.approx(best.fun, abs=1e-8)
    theta = np.random.default_rng(1).normal(size=len(best.x))
    value, gradient = NegativeLogLikelihood(problem_of(*small()))(crf.weights_.like(theta))
    assert value == pytest.approx(oracle.objective(theta, 0.0), abs=1e-9)
    assert check_grad(lambda point: oracle.objective(point, 0.0), lambda point: gradient, theta) < 1e-5


def test_margins_are_those_of_enumeration() -> None:
    weights = {0: 1.0, 1: 0.5, 2: 3.0}
    crf, oracle = fitted(l2=0.8, loss=SoftmaxMargin(cost=0.7), class_weight=weights)

    def cost(number: int) -> np.ndarray:
        gold = oracle.y[number]
        return 0.7 * ((oracle.paths[number] != gold) * np.vectorize(weights.get)(gold)).sum(1)

    best = minimize(oracle.objective, np.zeros(len(crf.weights_.vector)), args=(0.8, cost), method="BFGS", tol=1e-9)
    np.testing.assert_allclose(crf.weights_.vector, best.x, atol=1e-5)


def test_weighted_likelihood_by_enumeration() -> None:
    x, y = small()
    oracle, problem = Oracle(x, y), problem_of(x, y)
    theta = np.random.default_rng(2).normal(size=len(problem.start().vector))
    weights, own = problem.start().like(theta), np.array([0.3, 2.0, 1.1])
    total = 0.0
    for number, gold in enumerate(y):
        shares, paths = oracle.distribution(theta, number), oracle.paths[number]
        before = 1.0
        for place, label in enumerate(gold):  # p(y_t | y_{t-1}), from sums over all paths
            last = np.ones(len(paths), bool) if place == 0 else paths[:, place - 1] == gold[place - 1]
            both = shares[last & (paths[:, place] == label)].sum()
            before = shares[last].sum()
            total -= own[label] * np.log(both / before)
    value, gradient = ExactRisk(problem, WeightedLikelihood(own))(weights)
    assert value == pytest.approx(total, abs=1e-9)
    risk = ExactRisk(problem, WeightedLikelihood(own))
    assert check_grad(lambda point: risk(weights.like(point))[0], lambda point: gradient, theta) < 1e-5
    plain = NegativeLogLikelihood(problem)(weights)
    ones = ExactRisk(problem, WeightedLikelihood(np.ones(3)))(weights)
    assert ones[0] == pytest.approx(plain[0], abs=1e-9)
    np.testing.assert_allclose(ones[1], plain[1], atol=1e-9)


def bursts(count: int, seed: int, noise: float = 1.6) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Rare runs of 1 in long sequences of 0, under noise."""
    rng = np.random.default_rng(seed)
    labels = []
    for _ in range(count):
        row = np.zeros(40, dtype=int)
        for begin in rng.integers(0, 36, rng.integers(0, 3)):
            row[begin : begin + rng.integers(2, 5)] = 1
        labels.append(row)
    return [np.stack([row, row], 1) + rng.normal(0, noise, (40, 2)) for row in labels], labels


def counted(crf: ChainCRF, x: list[np.ndarray], y: list[np.ndarray], beta: float) -> tuple[float, float]:
    """F beta of label 1, and the share of it in the answers."""
    said, right = np.concatenate(crf.predict(x)), np.concatenate(y)
    agreed = (said & right).sum()
    return (1 + beta**2) * agreed / (beta**2 * right.sum() + said.sum()), said.mean()


def test_f_beta_and_class_weights_change_the_answers() -> None:
    x, y = bursts(40, seed=0, noise=1.0)
    held = bursts(40, seed=1, noise=1.0)
    plain = ChainCRF(l2=0.1).fit(x, y)
    tuned = ChainCRF(l2=0.1, loss=lw.loss.FBeta(beta=2.0), positive=1).fit(x, y)
    for data in ((x, y), held):
        assert counted(tuned, *data, 2.0)[0] > counted(plain, *data, 2.0)[0] + 0.1
    for options in ({}, {"loss": lw.loss.MSE()}, {"loss": SoftmaxMargin(0.5)}):
        alike, heavy = (ChainCRF(l2=0.1, class_weight=own, **options).fit(x, y) for own in (None, {1: 6.0}))
        assert counted(heavy, *held, 2.0)[1] > counted(alike, *held, 2.0)[1] * 1.5


def test_learners_that_go_sequence_by_sequence() -> None:
    x, y = bursts(30, seed=2, noise=0.5)
    flags = [sparse.csr_matrix((part > 0.5).astype(float)) for part in x]
    for learner in (ChainPerceptron(5), ChainSVM(c=1.0)):
        crf = ChainCRF(learner=learner, standardize=False).fit(flags, y)
        assert crf.score(flags, y) > 0.93 and len(crf.history_) == learner.epochs
    with pytest.raises(ValueError, match="features that are 0 or 1"):
        ChainCRF(learner=ChainPerceptron(1)).fit(x, y)
    with pytest.raises(ValueError, match="objective of its own"):
        ChainCRF(learner=ChainPerceptron(1), class_weight="balanced").fit(x, y)


def test_losses_of_entities() -> None:
    x, y = bursts(20, seed=3)
    names = [np.where(row == 1, "I-X", "O") for row in y]
    crf = ChainCRF(loss=EntityF1(), decoder=Viterbi(), l2=0.1).fit(x, names)
    assert set(np.unique(np.concatenate(crf.predict(x)))) <= {"O", "I-X"} and crf.history_.losses[0] > 0


def test_one_file(tmp_path: Path) -> None:
    x, y = small()
    words = [np.array(["no", "so", "yes"])[row] for row in y]
    crf = ChainCRF(loss=lw.loss.MSE(), class_weight="balanced").fit(x, words)
    crf.save(tmp_path / "crf.loopwise")
    again = ChainCRF.load(tmp_path / "crf.loopwise")
    for mine, theirs in zip(crf.predict_marginals(x), again.predict_marginals(x), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert again.predict(x)[0].tolist() == crf.predict(x)[0].tolist() and again.decoder == Posterior(valid=False)
    again.save(tmp_path / "again.loopwise")
    with pytest.raises(ValueError, match="single sequence give"):
        again.predict(x[0])
    lw.System(lw.TablePotentials(lw.chain(2)), lw.BP()).save(tmp_path / "system.loopwise")
    with pytest.raises(ValueError, match="not a ChainCRF"):
        ChainCRF.load(tmp_path / "system.loopwise")

    class Own:
        def decide(self, *arguments: Any) -> Any:
            raise NotImplementedError

    with pytest.raises(ValueError, match="class Own cannot be saved"):
        crf.set_params(decoder=Own()).save(tmp_path / "own.loopwise")
    assert not (tmp_path / "own.loopwise").exists()


def test_going_on() -> None:
    x, y = small()
    crf = ChainCRF(iterations=2, warm_start=True).fit(x, y)
    first = crf.weights_.vector.copy()
    crf.set_params(iterations=300, tolerance=1e-12).fit(x, y)
    whole = ChainCRF(iterations=300, tolerance=1e-12).fit(x, y)
    assert np.abs(first - whole.weights_.vector).max() > 1e-3
    np.testing.assert_allclose(crf.weights_.vector, whole.weights_.vector, atol=1e-4)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"l2": -1.0}, "l2 must be"),
        ({"loss": "f1"}, "not trained for 'f1'"),
        ({"loss": lw.loss.PseudoLikelihood()}, "not trained for"),
        ({"loss": lw.loss.MSE(), "positive": 1}, "positive is about F measures"),
        ({"loss": lw.loss.F1(), "positive": 8}, "8, which is no class"),
        ({"loss": lw.loss.F1(), "class_weight": "balanced"}, "means nothing to F1"),
        ({"loss": EntityF1(), "class_weight": "balanced"}, "means nothing to EntityF1"),
        ({"loss": SoftmaxMargin(), "positive": 1}, "positive is about F measures"),
    ],
)
def test_options_without_meaning(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ChainCRF(**options).fit(*small())
    with pytest.raises(ValueError, match="cost must be"):
        SoftmaxMargin(-1.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threads": 0}, "threads must be a whole number of at least 1, not 0"),
        ({"learner": "svm"}, r"learner must be an object such as ChainSVM\(\), not 'svm'"),
        ({"learner": ChainSVM}, "not the class ChainSVM itself"),
        ({"decoder": 3}, r"decoder must be an object such as Viterbi\(\), not 3"),
        ({"constraints": 3}, r"constraints must be a Forbid\(...\) or None, not 3"),
        ({"l2": "a"}, "l2 must be a number of at least 0, not 'a'"),
        ({"iterations": 2.5}, "iterations must be a whole number of at least 1, not 2.5"),
    ],
)
def test_options_of_the_wrong_kind_are_named(options: dict[str, Any], words: str) -> None:
    x, y = small()
    with pytest.raises(ValueError, match=words):
        ChainCRF(**options).fit(x, y)
    if "l2" not in options and "iterations" not in options:
        with pytest.raises(ValueError, match=words):
            Tagger(**options).fit([["a", "b"]], [["X", "Y"]])


def test_labels_and_seeds_of_the_wrong_kind_are_named() -> None:
    x, y = small()
    mixed = [[1, "a", *["b"] * (len(row) - 2)][: len(row)] for row in y]
    with pytest.raises(ValueError, match="labels such as 'a' and 1 are not of one kind"):
        ChainCRF().fit(x, mixed)
    with pytest.raises(ValueError, match="Input X must hold numbers: could not convert string to float: 'p'"):
        ChainCRF().fit([np.full(part.shape, "p", dtype=object) for part in x], y)
    with pytest.raises(ValueError, match="seed must be a whole number of at least 0, not -1"):
        ChainCRF(iterations=1).fit(x, y).sample(x, seed=-1)
