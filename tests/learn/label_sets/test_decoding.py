"""Scores, best sets and marginals against enumeration of the definition."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import loopwise as lw
from loopwise.apps.multilabel import Annealed, Automatic, ByBeliefs, Enumeration
from loopwise.learn.label_sets.maximise import Exactly, LinearProgram
from loopwise.learn.label_sets.weights import Floats, LabelWeights
from oracles.label_cases import make_problem, random_weights


def by_definition(weights: LabelWeights, x: Floats) -> tuple[list[tuple[int, ...]], Floats]:
    """Every set and its score, from the sums of the model's formula."""
    sets = list(product((0, 1), repeat=weights.labels))
    scores = []
    for chosen in sets:
        total = sum(float(weights.unary[label, :, value] @ x) for label, value in enumerate(chosen))
        number = 0
        for one in range(weights.labels):
            for other in range(one + 1, weights.labels):
                total += float(weights.pair[number, chosen[one], chosen[other]])
                number += 1
        scores.append(total)
    return sets, np.array(scores)


@pytest.mark.parametrize("labels", [1, 2, 5])
@pytest.mark.parametrize("scant", [False, True])
def test_exact_answers(labels: int, scant: bool) -> None:
    problem = make_problem(6, labels=labels, features=3, scant=scant)
    weights = random_weights(labels, 4)
    best, marginals = Enumeration().decide(weights, problem.inputs), Enumeration().marginals(weights, problem.inputs)
    dense = problem.inputs.toarray() if scant else problem.inputs
    for example in range(len(problem)):
        sets, scores = by_definition(weights, dense[example])
        assert tuple(best[example]) == sets[int(np.argmax(scores))]
        shares = np.exp(scores - scores.max())
        np.testing.assert_allclose(marginals[example], shares / shares.sum() @ np.array(sets), atol=1e-12)
        numbers = [sets.index(tuple(best[example]))]
        own = weights.score(problem.inputs[[example]], best[[example]])
        np.testing.assert_allclose(own, scores[numbers], atol=1e-12)


def test_every_way_agrees() -> None:
    problem, weights = make_problem(20, labels=6, features=3), random_weights(6, 4, seed=3, scale=0.7)
    exact = Enumeration().decide(weights, problem.inputs)
    np.testing.assert_array_equal(Annealed(sweeps=300).decide(weights, problem.inputs), exact)
    np.testing.assert_array_equal(Automatic().decide(weights, problem.inputs), exact)
    marginals = Enumeration().marginals(weights, problem.inputs)
    by_tree = ByBeliefs(lw.Exact())
    np.testing.assert_allclose(by_tree.marginals(weights, problem.inputs), marginals, atol=1e-9)
    np.testing.assert_array_equal(by_tree.decide(weights, problem.inputs), marginals > 0.5)
    assert np.abs(ByBeliefs().marginals(weights, problem.inputs) - marginals).mean() < 0.1


def test_too_many_labels_to_enumerate() -> None:
    problem, weights = make_problem(3, labels=23, features=2), random_weights(23, 3, scale=0.2)
    with pytest.raises(ValueError, match="23 labels would take too long"):
        Enumeration().decide(weights, problem.inputs)
    chosen = Automatic().decide(weights, problem.inputs)
    fields, couplings = weights.fields(problem.inputs), weights.couplings
    pull = np.where(chosen == 1, -1, 1) * (fields + chosen @ couplings)
    assert (pull <= 1e-9).all()  # no single change improves it
    assert Automatic().marginals(weights, problem.inputs).shape == (3, 23)


def test_the_relaxation_bounds_the_exact_maximum() -> None:
    generator = np.random.default_rng(0)
    for number in range(9):
        labels = 2 + number % 4
        couplings = np.triu(generator.normal(scale=2.0, size=(labels, labels)), 1)
        couplings = couplings + couplings.T
        fields = generator.normal(size=(3, labels)) * (number % 3)
        first, second = np.triu_indices(labels, 1)
        values = []
        for maximiser in (Exactly(), LinearProgram()):
            single, both = maximiser.maximise(fields, couplings)
            values.append((single * fields).sum(axis=1) + both @ couplings[first, second])
            assert (both <= np.minimum(single[:, first], single[:, second]) + 1e-9).all()
            assert (both >= single[:, first] + single[:, second] - 1 - 1e-9).all() and (both >= 0).all()
        assert (values[1] >= values[0] - 1e-7).all()
        tight = np.abs(single - single.round()).max(axis=1) < 1e-7
        np.testing.assert_allclose(values[1][tight], values[0][tight], atol=1e-6)
        alone = [LinearProgram().maximise(row[None], couplings) for row in fields]
        for place, (one, pairs) in enumerate(alone):  # together they are solved as apart
            value = one[0] @ fields[place] + pairs[0] @ couplings[first, second]
            np.testing.assert_allclose(value, values[1][place], atol=1e-6)

    # Three labels, no two of which go together: each is half on, worth 2.25, where the best set is worth 1.5.
    apart = -2.0 * (1 - np.eye(3))
    single, both = LinearProgram().maximise(np.full((1, 3), 1.5), apart)
    np.testing.assert_allclose(single, 0.5, atol=1e-7)
    np.testing.assert_allclose(both, 0.0, atol=1e-7)
    assert Exactly().maximise(np.full((1, 3), 1.5), apart)[0].sum() == 1


def test_bad_options() -> None:
    with pytest.raises(ValueError, match="threshold"):
        ByBeliefs(threshold=2)
    with pytest.raises(ValueError, match="sweeps"):
        Annealed(sweeps=0)
    with pytest.raises(ValueError, match="temperatures"):
        Annealed(first=0.1, last=1.0)
