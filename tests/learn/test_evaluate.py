"""Evaluation: hand-counted measures, chunks that do not matter, objectives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.learn import Examples, System, evaluate, score_examples
from oracles.enumeration import enumerate_model

INPUT, OUTPUT, HIDDEN, MISSING = lw.Role


def unary_system(probabilities: list[float], decoder: lw.decode.BeliefDecoder) -> System:
    """Independent binary variables with these probabilities of 1."""
    graph = lw.FactorGraph([2] * len(probabilities), {"unary": np.arange(len(probabilities))[:, None]})
    share = np.array(probabilities)
    return System(lw.TablePotentials(graph, {"unary": np.log(np.stack([1 - share, share], 1))}), lw.Exact(), decoder)


# Decided: 1, 0, 1, 0. Three examples; in the last only one output is known.
PROBABILITIES = [0.9, 0.2, 0.6, 0.4]
VALUES = [[1, 0, 0, 0], [0, 1, 1, 1], [1, -1, 0, 0]]
ROLES = [[OUTPUT, OUTPUT, OUTPUT, HIDDEN], [OUTPUT, OUTPUT, OUTPUT, OUTPUT], [OUTPUT, OUTPUT, INPUT, HIDDEN]]


def hand_counted() -> tuple[System, Examples]:
    system = unary_system(PROBABILITIES, lw.decode.Max())
    return system, Examples.of(system.graph, VALUES, ROLES)


@pytest.mark.parametrize("batch", [1, 2, 100])
@pytest.mark.parametrize("by_pattern", [True, False])
def test_hand_counted_measures(batch: int, by_pattern: bool) -> None:
    system, examples = hand_counted()
    pooled = lw.loss.Pooled()
    measures = {
        "errors": lw.metric.HammingError(),
        "errors of all": lw.metric.HammingError(reduction=pooled),
        "accuracy": lw.metric.Accuracy(),
        "F1": lw.metric.F1Score(),
        "F1 of all": lw.metric.F1Score(reduction=pooled),
        "hard MSE": lw.loss.MSE(),
        "soft MSE": lw.loss.OnBeliefs(lw.loss.MSE()),
        "lost F": lw.loss.F1(reduction=pooled),
    }
    # Wrong outputs: 1 of 3, 3 of 4, 0 of 1. Positives agreed, decided, gold: (1, 2, 1), (1, 2, 3), (1, 1, 1).
    squares = [[0.01, 0.04, 0.36], [0.81, 0.64, 0.16, 0.36], [0.01]]
    expected = {
        "errors": (1 / 3 + 3 / 4 + 0) / 3,
        "errors of all": 4 / 8,
        "accuracy": (2 / 3 + 1 / 4 + 1) / 3,
        "F1": (2 / 3 + 2 / 5 + 1) / 3,
        "F1 of all": 2 * 3 / (5 + 5),
        "hard MSE": (1 / 3 + 3 / 4 + 0) / 3,
        "soft MSE": sum(np.mean(row) for row in squares) / 3,
        "lost F": 1 - 2 * 3 / (5 + 5),
    }
    found = evaluate(system, examples, measures, batch=batch, by_pattern=by_pattern)
    assert found == pytest.approx(expected, abs=1e-12)
    assert evaluate(system, examples, list(measures.values()), batch=batch) == pytest.approx(list(expected.values()))
    assert evaluate(system, examples, lw.metric.F1Score(), batch=batch) == pytest.approx(expected["F1"])


def test_scores_of_each_example_keep_their_order() -> None:
    system, examples = hand_counted()
    for batch in (1, 2, 5):
        scores = score_examples(system, examples, lw.metric.HammingError(), batch=batch)
        assert scores.tolist() == pytest.approx([1 / 3, 3 / 4, 0])
    with pytest.raises(ValueError, match="score_examples"):
        evaluate(system, examples, lw.metric.HammingError(reduction=lw.loss.Each()))


def test_examples_without_answers_do_not_count() -> None:
    system, examples = hand_counted()
    blank = Examples.of(system.graph, [[-1, -1, -1, -1], *VALUES], [[OUTPUT] * 4, *ROLES])
    for batch in (1, 10):
        values = evaluate(system, blank, [lw.loss.MSE(), lw.metric.F1Score()], batch=batch)
        assert values == pytest.approx(evaluate(system, examples, [lw.loss.MSE(), lw.metric.F1Score()]))
    with pytest.raises(ValueError, match="nothing is scored"):
        evaluate(system, blank[:1], lw.loss.MSE())
    with pytest.raises(ValueError, match="no OUTPUT"):
        evaluate(system, blank[:1], lw.loss.SurrogateLikelihood())


def test_the_hard_decoder_is_tested() -> None:
    system = unary_system(PROBABILITIES, lw.decode.SoftArgmax(1.0))
    examples = Examples.of(system.graph, VALUES, ROLES)
    assert evaluate(system, examples, lw.loss.L1()) == pytest.approx((1 / 3 + 3 / 4) / 3)
    soft = float(lw.loss.L1()(system(examples), examples.targets).detach())
    assert soft == pytest.approx(((0.1 + 0.2 + 0.6) / 3 + (0.9 + 0.8 + 0.4 + 0.6) / 4 + 0.1) / 3)


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_likelihoods_are_those_of_enumeration(batch: int) -> None:
    graph = lw.random_mrf(5, 7, seed=2)
    potentials = lw.TablePotentials.random(graph, seed=2)
    rng = np.random.default_rng(0)
    roles = rng.integers(0, 4, (8, 5))
    roles[:, 0] = [OUTPUT] * 7 + [HIDDEN]
    roles[7] = HIDDEN  # without an output there is no likelihood: 0
    examples = Examples.of(graph, rng.integers(0, 2, (8, 5)), roles)
    known = enumerate_model(graph, {name: table.detach().numpy() for name, table in potentials().items()})

    def log_probability(values: np.ndarray) -> float:
        match = ((known.configurations == values) | (values < 0)).all(1)
        return float(np.log(known.probabilities[match].sum()))

    expected = [
        log_probability(inputs) - log_probability(both)
        for inputs, both in zip(examples.evidence.clamp(), examples.clamped, strict=True)
    ]
    system = System(potentials, lw.Exact(), lw.decode.Max())
    scores = score_examples(system, examples, lw.loss.SurrogateLikelihood(), batch=batch)
    assert np.allclose(scores, expected, atol=1e-10)
    both = evaluate(system, examples, {"nll": lw.loss.SurrogateLikelihood(), "L1": lw.loss.L1()}, batch=batch)
    assert both["nll"] == pytest.approx(np.mean(expected))
    joint = [-log_probability(values) for values in examples.clamped]
    found = score_examples(system, examples, lw.loss.SurrogateLikelihood(joint=True), batch=batch, by_pattern=False)
    assert np.allclose(found, joint, atol=1e-10)


def test_chunks_do_not_change_truncated_inference() -> None:
    graph = lw.random_mrf(8, 14, seed=1)
    rng = np.random.default_rng(1)
    roles = rng.integers(0, 3, (3, 8))[rng.integers(0, 3, 40)]
    roles[:, 0] = OUTPUT
    examples = Examples.of(graph, rng.integers(0, 2, (40, 8)), roles)
    system = System(lw.TablePotentials.random(graph, seed=1), lw.BP(iterations=2, tolerance=0))
    values = [evaluate(system, examples, lw.loss.MSE(), batch=batch) for batch in (1, 7, 40)]
    assert values == pytest.approx([values[0]] * 3, abs=1e-13)
    assert values[0] != pytest.approx(evaluate(system, examples, lw.loss.MSE(), by_pattern=False), abs=1e-6)


def test_nothing_is_left_behind() -> None:
    system, examples = hand_counted()
    evaluate(system, examples, lw.loss.MSE())
    assert system.training and torch.is_grad_enabled()
    with pytest.raises(ValueError, match="is no measure"):
        evaluate(system, examples, "mse")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="no examples"):
        evaluate(system, examples[:0], lw.loss.MSE())
