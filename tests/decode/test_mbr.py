"""Minimum Bayes risk by samples, against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import loopwise as lw
from loopwise import decode
from oracles.enumeration import enumerate_model
from oracles.made_beliefs import random_beliefs, wrong_at_all


def hamming(predictions: Tensor, truths: Tensor) -> Tensor:
    return (predictions != truths).double().mean(-1)


def far_apart(predictions: Tensor, truths: Tensor) -> Tensor:
    """Squared distance of the sums: a loss that no variable has alone."""
    return (predictions.sum(-1) - truths.sum(-1)).double().square()


@pytest.fixture(scope="module")
def model() -> tuple[lw.FactorGraph, dict[str, Tensor]]:
    graph = lw.grid(2, 2, states=3)
    return graph, {name: table.detach() for name, table in lw.TablePotentials.random(graph, seed=2)().items()}


def exact_risks(model: tuple[lw.FactorGraph, dict[str, Tensor]], loss: object) -> tuple[np.ndarray, np.ndarray]:
    """All assignments and their expected losses under the model."""
    truth = enumerate_model(*model)
    everything = torch.tensor(truth.configurations)
    probabilities = torch.tensor(truth.probabilities)
    risks = [float((loss(row.expand_as(everything), everything) * probabilities).sum()) for row in everything]
    return truth.configurations, np.array(risks)


@pytest.mark.parametrize("loss", [hamming, wrong_at_all, far_apart])
def test_risk_is_near_the_least_of_all_assignments(
    model: tuple[lw.FactorGraph, dict[str, Tensor]], loss: object
) -> None:
    configurations, risks = exact_risks(model, loss)
    beliefs = lw.Exact()(*model)
    guess = decode.MBR(loss, count=1000, candidates=100, seed=1)(beliefs).assignment.numpy()
    risk = risks[(configurations == guess).all(-1)].item()
    assert risk <= risks.min() + 0.05 * (risks.max() - risks.min())


def test_the_choice_is_the_best_candidate_of_the_samples(model: tuple[lw.FactorGraph, dict[str, Tensor]]) -> None:
    beliefs = lw.Exact()(*model)
    samples = beliefs.sample(30, seed=5)
    candidates = [beliefs.assignment, *samples[:10]]
    risks = [float(far_apart(c.expand_as(samples), samples).mean()) for c in candidates]
    guess = decode.MBR(far_apart, count=30, candidates=10, seed=5)(beliefs)
    assert guess.hard
    assert float(far_apart(guess.assignment.expand_as(samples), samples).mean()) == pytest.approx(min(risks))
    assert torch.equal(guess.factor("pair").flatten(-2).sum(-1), torch.ones(4, dtype=torch.float64))
    first = beliefs.graph.group("pair").scopes[0]
    cell = guess.factor("pair")[0].nonzero()[0]
    assert cell.tolist() == [int(guess.assignment[variable]) for variable in first]


def test_hamming_is_the_maximum(model: tuple[lw.FactorGraph, dict[str, Tensor]]) -> None:
    """By enumeration: no assignment has less expected Hamming loss than that of Max."""
    configurations, risks = exact_risks(model, hamming)
    best = decode.Max()(lw.Exact()(*model)).assignment.numpy()
    assert best.tolist() == configurations[risks.argmin()].tolist()


def test_scalar_losses_batches_and_outputs() -> None:
    graph = lw.chain(3, states=3)
    beliefs = random_beliefs(graph, (2, 3))
    calls = []

    def one(prediction: Tensor, truth: Tensor) -> float:
        calls.append((prediction, truth))
        return float((prediction != truth).double().mean())

    outputs = [True, False, True]
    slow = decode.MBR(decode.one_by_one(one), decode.Independent(), count=20)(beliefs, outputs)
    fast = decode.MBR(hamming, decode.Independent(), count=20)(beliefs, outputs)
    assert torch.equal(slow.assignment, fast.assignment) and slow.assignment.shape == (2, 3, 3)
    assert all(p[1] == t[1] == lw.graph.FREE for p, t in calls)  # what is not an output is nobody's error


def test_bad_input() -> None:
    beliefs = random_beliefs(lw.chain(2))
    with pytest.raises(ValueError, match=r"beliefs of made up cannot be sampled jointly; use lw.Exact\(\)"):
        decode.MBR(hamming)(beliefs)
    with pytest.raises(ValueError, match="one number a pair"):
        decode.MBR(lambda p, t: torch.tensor(0.0), decode.Independent())(beliefs)
    with pytest.raises(ValueError, match="count must be a whole number of at least 1"):
        decode.MBR(hamming, count=0)
    with pytest.raises(ValueError, match="candidates must be from 0 to count"):
        decode.MBR(hamming, count=3, candidates=4)
    assert isinstance(decode.MBR(hamming).soft(), decode.SoftArgmax)


def test_other_parts_of_a_system_are_no_functions_of_samples() -> None:
    def wrong(prediction: Tensor, truth: Tensor) -> Tensor:
        return (prediction != truth).sum(-1)

    with pytest.raises(ValueError, match="samples must be a function of beliefs, count, seed, not Exact"):
        decode.MBR(wrong, samples=lw.Exact())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="loss must be a function of prediction, truth, not Each"):
        decode.MBR(lw.loss.Each())  # type: ignore[arg-type]
