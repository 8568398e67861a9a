"""Thresholds of beliefs: soft, hard, found from samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import loopwise as lw
from loopwise import decode
from loopwise.graph import FactorGraph
from oracles.made_beliefs import beliefs_of, binary, by_hand, on_simplex, random_beliefs, random_logits


def test_only_outputs_count() -> None:
    beliefs = binary([[0.0, 0.1, 0.2, 1.0], [1.0, 0.6, 1.0, 0.8]])
    outputs = [[False, True, True, False], [False, True, False, True]]
    decoder = decode.ApproximateF(decode.PerExample())
    assert decoder(beliefs, outputs).assignment.tolist() == [[0, 0, 1, 1], [1, 0, 1, 1]]
    corpus = decode.ApproximateF()
    corpus.refresh([(beliefs, outputs)])
    assert float(corpus.threshold.kappa) == pytest.approx((0.2 + 0.6) / 2)
    evidence = lw.Evidence.of([[0, 0, 0, 1], [1, 0, 1, 0]], [[0, 1, 1, 0], [0, 1, 0, 1]])
    assert torch.equal(decoder(beliefs, evidence).states, decoder(beliefs, outputs).states)


@given(st.integers(1, 9), st.integers(0, 1000))
def test_as_many_above_as_below(size: int, seed: int) -> None:
    beliefs = binary(np.random.default_rng(seed).random((3, size)).tolist())
    above = decode.ApproximateF(decode.PerExample())(beliefs).assignment.sum(-1)
    assert above.tolist() == [size // 2] * 3


def test_soft_form_is_the_formula_and_tends_to_the_hard_one() -> None:
    ones = torch.tensor([[0.1, 0.25, 0.6, 0.95]], dtype=torch.float64)
    beliefs = binary(ones.tolist())
    for temperature in (0.5, 1.0, 1e-3):
        decoder = decode.ApproximateF(decode.Fixed(0.3), temperature)
        decision = decoder.soft()(beliefs)
        kappa = torch.tensor(0.3, dtype=torch.float64)
        expected = torch.sigmoid((ones.logit() - kappa.logit()) / temperature)
        torch.testing.assert_close(decision.states[..., 1::2], expected)
        torch.testing.assert_close(decision.states[..., ::2], 1 - expected)
    torch.testing.assert_close(decision.states, decoder.hard()(beliefs).states)
    half = decode.SoftApproximateF(decode.Fixed(0.5), 1.0)(beliefs)
    torch.testing.assert_close(half.states, beliefs.states)  # threshold 1/2 at temperature 1 changes nothing


class Held(decode.Threshold):
    """A threshold that was computed before, in log-odds ``edge``."""

    def __init__(self, edge: torch.Tensor) -> None:
        super().__init__()
        self.edge = edge

    def forward(self, scores: object) -> torch.Tensor:
        return self.edge.sigmoid()


def weighed(graph: FactorGraph, decoder: decode.BeliefDecoder, weights: torch.Tensor) -> object:
    return on_simplex(graph, lambda beliefs: (decoder(beliefs).states * weights).sum(-1))


def test_gradients_with_a_fixed_threshold() -> None:
    graph = FactorGraph([2, 3, 1, 2], {})
    logits = random_logits(graph, (2,), scale=1.0).requires_grad_()
    value = weighed(graph, decode.SoftApproximateF(decode.Fixed(0.3), 0.7, positive=(1, 2)), random_logits(graph, (2,)))
    assert torch.autograd.gradcheck(value, logits)
    assert torch.autograd.gradgradcheck(value, logits)


def solved(odds: torch.Tensor, level: torch.Tensor, temperature: float) -> torch.Tensor:
    """The edge with ``sum sigmoid((odds - edge) / t) = level``, by bisection, example by example."""
    low, high = odds.new_full((len(odds), 1), -50.0), odds.new_full((len(odds), 1), 50.0)
    for _ in range(80):
        middle = (low + high) / 2
        over = torch.sigmoid((odds - middle) / temperature).sum(-1, keepdim=True) > level
        low, high = torch.where(over, middle, low), torch.where(over, high, middle)
    return (low + high) / 2


def test_gradients_move_a_median_with_the_beliefs() -> None:
    """Against differences of a threshold that really is moved so that as many outputs (softly) are positive."""
    graph, temperature = lw.chain(5), 0.7
    logits = random_logits(graph, (3,), scale=1.0)
    weights, direction = random_logits(graph, (3,), seed=5), random_logits(graph, (3,), seed=6)
    soft = decode.SoftApproximateF(decode.PerExample(), temperature)

    def odds(at: torch.Tensor) -> torch.Tensor:
        return at.reshape(3, 5, 2).diff(dim=-1)[..., 0]

    kappa = decode.threshold.median_of(odds(logits).sigmoid(), torch.ones(3, 5, dtype=torch.bool))
    edge = torch.logit(kappa)
    level = torch.sigmoid((odds(logits) - edge) / temperature).sum(-1, keepdim=True)

    def moved(step: float) -> torch.Tensor:
        at = logits + step * direction
        held = decode.SoftApproximateF(Held(solved(odds(at), level, temperature)), temperature)
        return weighed(graph, held, weights)(at).sum()

    leaf = logits.clone().requires_grad_()
    (first,) = torch.autograd.grad(weighed(graph, soft, weights)(leaf).sum(), leaf, create_graph=True)
    (second,) = torch.autograd.grad((first * direction).sum(), leaf)
    h = 1e-3
    one, two = moved(h) - moved(-h), moved(h) - 2 * moved(0.0) + moved(-h)
    torch.testing.assert_close((first.detach() * direction).sum(), one / (2 * h), rtol=1e-5, atol=1e-7)
    torch.testing.assert_close((second * direction).sum(), two / h**2, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rule", [decode.PerExample(), decode.PerCorpus()])
def test_nothing_is_gained_by_raising_all_beliefs_alike(rule: decode.Threshold) -> None:
    graph = lw.chain(6)
    logits = random_logits(graph, (4,), scale=1.0).requires_grad_()
    decoder = decode.SoftApproximateF(rule, 0.5)
    on_simplex(graph, lambda beliefs: decoder.refresh([(beliefs, None)]) or beliefs.states.sum(-1))(logits)
    (slope,) = torch.autograd.grad(weighed(graph, decoder, random_logits(graph, (4,), seed=5))(logits).sum(), logits)
    assert slope.abs().max() > 1e-3
    assert slope[..., 1::2].sum().abs() < 1e-12


def test_several_labels() -> None:
    graph = lw.chain(3, states=3)
    beliefs = by_hand(graph, [[0.6, 0.3, 0.1], [0.8, 0.05, 0.15], [0.2, 0.7, 0.1]])
    decoder = decode.ApproximateF(decode.Fixed(0.3), 1e-3, positive=(1, 2))
    assert decoder(beliefs).assignment.tolist() == [1, 0, 1]  # positive mass .4, .2, .8
    torch.testing.assert_close(decoder.soft()(beliefs).states, decoder(beliefs).states)
    warm = decode.ApproximateF(decode.Fixed(0.3), 0.8, positive=(1, 2)).soft()(beliefs)
    torch.testing.assert_close(warm.states.reshape(3, 3).sum(-1), torch.ones(3, dtype=torch.float64))


def test_certain_beliefs_and_one_sided_variables_stay_finite() -> None:
    graph = FactorGraph([2, 1, 2], {})
    states = torch.tensor([0.0, 1.0, 1.0, 1.0, 0.0], dtype=torch.float64, requires_grad=True)
    for kappa in (0.0, 0.5, 1.0):
        decision = decode.SoftApproximateF(decode.Fixed(kappa), 0.5)(beliefs_of(graph, states))
        assert bool(decision.states.isfinite().all())
        assert decision.states[2] == 1  # a variable of one value, which is negative
        (slope,) = torch.autograd.grad(decision.states.square().sum(), states)
        assert bool(slope.isfinite().all())


def expected_f(prediction: tuple[int, ...], samples: np.ndarray) -> float:
    total = 0.0
    for sample in samples:
        size = sum(prediction) + sample.sum()
        total += 1.0 if size == 0 else 2 * float(np.dot(prediction, sample)) / size
    return total / len(samples)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("own", [False, True])
def test_sampled_threshold_is_the_best_of_all_thresholds(seed: int, own: bool) -> None:
    graph = lw.grid(2, 3)
    beliefs = lw.Exact()(graph, lw.TablePotentials.random(graph, seed=seed, scale=1.5)())
    samples = beliefs.sample(50, seed=3)

    def loss(predictions: torch.Tensor, truths: torch.Tensor) -> torch.Tensor:
        return torch.tensor(
            [1 - expected_f(tuple(p.tolist()), t.numpy()[None]) for p, t in zip(predictions, truths, strict=True)]
        )

    rule = decode.LeastExpectedLoss(count=50, seed=3, loss=loss if own else None)
    guess = tuple(decode.ApproximateF(rule)(beliefs).assignment.tolist())
    ones = beliefs.states.detach()[1::2]
    answers = [tuple((ones > cut).long().tolist()) for cut in [-1.0, *ones.tolist()]]
    best = max(expected_f(answer, samples.numpy()) for answer in answers)
    assert guess in answers
    assert expected_f(guess, samples.numpy()) == pytest.approx(best)


def test_sampled_threshold_with_outputs_in_batches() -> None:
    beliefs = random_beliefs(FactorGraph([2, 2, 2, 2], {}), (3,))
    outputs = torch.tensor([[True, True, True, False]] * 2 + [[False, True, True, True]])
    rule = decode.LeastExpectedLoss(decode.Independent(), count=40, seed=1)
    samples = decode.Independent()(beliefs, 40, 1).numpy()
    guesses = decode.ApproximateF(rule)(beliefs, outputs).assignment.numpy()
    for example in range(3):
        mask = outputs[example].numpy()
        chosen = samples[:, example][:, mask]
        ones = beliefs.states[example, 1::2].numpy()[mask]
        answers = [tuple((ones > cut).astype(int)) for cut in [-1.0, *ones]]
        best = max(expected_f(answer, chosen) for answer in answers)
        assert expected_f(tuple(guesses[example][mask]), chosen) == pytest.approx(best)
