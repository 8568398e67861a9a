"""The chain model of feature vectors against enumeration of all label sequences, SciPy and finite differences."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import check_grad, minimize
from scipy.special import logsumexp

import loopwise as lw
from loopwise.apps import ChainCRF
from loopwise.apps.chain import SVM, EntityF1, Perceptron, Posterior, Viterbi
from loopwise.apps.chain.features.sequences import Sequences
from loopwise.apps.chain.features.text import Known
from loopwise.apps.chain.model import objective_of
from loopwise.apps.chain_crf import SoftmaxMargin, WeightedLikelihood
from loopwise.learn.chain.likelihood import NegativeLogLikelihood
from loopwise.learn.chain.problem import ChainProblem, ChainWeights
from loopwise.learn.chain.risk import ExactRisk

LENGTHS = (4, 1, 3, 2)
FEATURES, STATES = 2, 3


def small(seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    labels = [rng.integers(0, STATES, length) for length in LENGTHS]
    labels[0][:3] = [0, 1, 2]
    return [np.stack([row, row**2], 1) + rng.normal(0, 1.5, (len(row), FEATURES)) for row in labels], labels


class Oracle:
    """Scores of every label sequence of every sequence, by plain loops; the weights are those of ChainCRF."""

    def __init__(self, x: list[np.ndarray], y: list[np.ndarray]) -> None:
        self.x = [np.column_stack([part, np.ones(len(part))]) for part in x]
        self.y = y
        self.paths = [np.array(list(product(range(STATES), repeat=len(part)))) for part in x]

    def scores(self, theta: np.ndarray, number: int) -> np.ndarray:
        cut = (FEATURES + 1) * STATES
        unary, pair = theta[:cut].reshape(FEATURES + 1, STATES), theta[cut:].reshape(STATES, STATES)
        own = self.x[number] @ unary
        paths = self.paths[number]
        return own[np.arange(len(own)), paths].sum(1) + pair[paths[:, :-1], paths[:, 1:]].sum(1)

    def objective(self, theta: np.ndarray, l2: float, cost: Callable[[int], np.ndarray] = lambda number: 0.0) -> float:
        """Negative log-likelihood with the penalty; ``cost``: added to the scores in the sum over all paths."""
        total = 0.5 * l2 * float(theta @ theta)
        for number, gold in enumerate(self.y):
            scores = self.scores(theta, number)
            right = int(np.flatnonzero((self.paths[number] == gold).all(1))[0])
            total += float(logsumexp(scores + cost(number)) - scores[right])
        return total

    def distribution(self, theta: np.ndarray, number: int) -> np.ndarray:
        scores = self.scores(theta, number)
        return np.exp(scores - logsumexp(scores))


def fitted(**options: Any) -> tuple[ChainCRF, Oracle]:
    x, y = small()
    crf = ChainCRF(standardize=False, tolerance=1e-14, iterations=500, **options).fit(x, y)
    return crf, Oracle(x, y)


def problem_of(x: Any, y: list[np.ndarray]) -> ChainProblem:
    crf = ChainCRF(standardize=False, iterations=1).fit(x, y)
    return crf._problem(Sequences.of(x), Known(np.concatenate(y)))


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


def test_answers_are_those_of_enumeration() -> None:
    crf, oracle = fitted(l2=0.1)
    x, y = small()
    marginals, said, logs = crf.predict_marginals(x), crf.predict(x), crf.log_likelihood(x, y)
    by_element = crf.set_params(decoder=Posterior(valid=False)).predict(x)
    for number in range(len(x)):
        shares, paths = oracle.distribution(crf.weights_.vector, number), oracle.paths[number]
        right = np.stack([(shares[:, None] * (paths == state)).sum(0) for state in range(STATES)], axis=1)
        np.testing.assert_allclose(marginals[number], right, atol=1e-10)
        np.testing.assert_array_equal(said[number], paths[shares.argmax()])
        np.testing.assert_array_equal(by_element[number], right.argmax(1))
        assert logs[number] == pytest.approx(np.log(shares[(paths == y[number]).all(1)][0]), abs=1e-9)
    np.testing.assert_array_equal(crf.predict_proba(x)[0], marginals[0])
    assert crf.score(x, y) == np.mean(np.concatenate(by_element) == np.concatenate(y))


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


@pytest.mark.parametrize(
    "loss, weights",
    [
        (lw.loss.FBeta(beta=2.0), None),
        (lw.loss.MSE(), np.array([0.3, 2.0, 1.1])),
        (lw.loss.UnivariateLikelihood(), np.array([0.3, 2.0, 1.1])),
        (lw.loss.SmoothError(sharpness=3.0), None),
    ],
)
def test_losses_of_elements_by_enumeration(loss: lw.loss.Loss, weights: np.ndarray | None) -> None:
    x, y = small()
    oracle, problem = Oracle(x, y), problem_of(x, y)
    theta = np.random.default_rng(3).normal(size=len(problem.start().vector))
    positive = 1 if isinstance(loss, lw.loss.FBeta) else None
    risk, first = objective_of(loss, problem, np.arange(3), positive, weights)
    assert isinstance(first, NegativeLogLikelihood)
    like: ChainWeights = problem.start()
    value, gradient = risk(like.like(theta))
    right = []
    for number in range(len(x)):
        shares, paths = oracle.distribution(theta, number), oracle.paths[number]
        right.append(np.stack([(shares[:, None] * (paths == state)).sum(0) for state in range(STATES)], axis=1))
    single, gold = np.concatenate(right), np.concatenate(y)
    chosen = single[np.arange(len(gold)), gold]
    if isinstance(loss, lw.loss.FBeta):
        agreed, decided, there = chosen[gold == 1].sum(), single[:, 1].sum(), (gold == 1).sum()
        hand = 1 - 5 * agreed / (4 * there + decided)
    elif isinstance(loss, lw.loss.SmoothError):
        others = np.where(np.arange(STATES) == gold[:, None], -1.0, single).max(1)
        hand = (1 / (1 + np.exp(-3.0 * (others - chosen)))).mean()
    else:
        squares = ((single - np.eye(STATES)[gold]) ** 2).sum(1) / 2
        each = squares if isinstance(loss, lw.loss.MSE) else -np.log(chosen)
        hand = (weights[gold] * each).sum() / weights[gold].sum()
    assert value == pytest.approx(hand * len(gold), abs=1e-9)
    assert check_grad(lambda point: risk(like.like(point))[0], lambda point: gradient, theta) < 1e-5


def test_sparse_dense_and_other_forms() -> None:
    x, y = small()
    x = [np.round(part) for part in x]  # with zeros
    dense = ChainCRF(standardize=False).fit(x, y)
    thin = ChainCRF(standardize=False).fit([sparse.csr_matrix(part) for part in x], y)
    np.testing.assert_allclose(dense.weights_.vector, thin.weights_.vector, atol=1e-9)
    lists = ChainCRF(standardize=False).fit([part.tolist() for part in x], [row.tolist() for row in y])
    np.testing.assert_array_equal(lists.weights_.vector, dense.weights_.vector)
    block = np.stack([x[0], x[0] + 1])
    assert [row.shape for row in dense.predict(block)] == [(4,), (4,)]
    assert [row.shape for row in dense.predict([x[0], np.zeros((0, 2))])] == [(4,), (0,)]
    words = np.array(["no", "so", "yes"])
    named = ChainCRF(standardize=False).fit(x, [words[row] for row in y])
    for mine, theirs in zip(named.predict(x), dense.predict(x), strict=True):
        np.testing.assert_array_equal(mine, words[theirs])
    holes = [part.copy() for part in x]
    holes[0][1, 0] = np.nan
    assert np.isfinite(ChainCRF().fit(holes, y).weights_.vector).all()
    scaled = ChainCRF().fit([1000 * part + 5 for part in x], y)
    np.testing.assert_allclose(scaled.weights_.vector, ChainCRF().fit(x, y).weights_.vector, atol=1e-8)
    rows = ChainCRF().fit(np.concatenate(x), np.concatenate(y))
    assert rows.predict(np.concatenate(x)).shape == (10,) and not rows.weights_.pair.any()


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
    for learner in (Perceptron(5), SVM(c=1.0)):
        crf = ChainCRF(learner=learner, standardize=False).fit(flags, y)
        assert crf.score(flags, y) > 0.93 and len(crf.history_) == learner.epochs
    with pytest.raises(ValueError, match="features that are 0 or 1"):
        ChainCRF(learner=Perceptron(1)).fit(x, y)
    with pytest.raises(ValueError, match="objective of its own"):
        ChainCRF(learner=Perceptron(1), class_weight="balanced").fit(x, y)


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


def test_sequences_without_meaning() -> None:
    x, y = small()
    for sequences, labels, words in (
        ([], [], "no sequences"),
        ([x[0], x[1][:, :1]], y[:2], "sequence 1 has 1 features"),
        ([x[0], x[1][0]], y[:2], r"must be an array \[length, features\]"),
        (x, y[:2], "inconsistent numbers of samples"),
        (x, [y[0][:2], *y[1:]], "sequence 0 has 4 elements"),
        (x, None, "the target y is None"),
        (x, [row + 0.5 for row in y], "continuous"),
        (x, [row * np.nan for row in y], "NaN, None or -1 only: no label is known"),
        (x, [np.full(len(row), np.inf) for row in y], "infinity"),
        ([np.zeros((0, 2))], [[]], "all sequences are empty"),
        (np.concatenate(x), y, "1d array"),
    ):
        with pytest.raises(ValueError, match=words):
            ChainCRF(iterations=1).fit(sequences, labels)
    crf = ChainCRF(iterations=1).fit(x, y)
    with pytest.raises(ValueError, match="label 7, which was not seen"):
        crf.log_likelihood(x, [row + 7 for row in y])
    with pytest.raises(ValueError, match="3 features"):
        crf.predict([np.zeros((2, 3))])
