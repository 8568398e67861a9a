"""Metrics: hard scores by hand."""

from __future__ import annotations

import pytest
import torch

import loopwise as lw
from loopwise import decode, loss
from loopwise.loss import metric
from oracles.made_beliefs import by_hand


def test_other_metrics() -> None:
    answers, gold = torch.tensor([[0, 1, 2], [1, 1, 1]]), torch.tensor([[0, 2, 2], [-1, 0, 0]])
    assert metric.HammingError().per_example(answers, gold).tolist() == pytest.approx([1 / 3, 1])
    assert float(metric.Accuracy()(answers, gold)) == pytest.approx(1 / 3)
    assert float(metric.Accuracy(reduction=loss.Pooled())(answers, gold)) == pytest.approx(2 / 5)
    assert metric.Accuracy.higher_is_better and not metric.HammingError.higher_is_better
    sets = loss.Targets.from_sets(lw.chain(3, states=3), {0: {0, 2}, 1: {0, 2}})
    assert metric.HammingError().per_example(answers, sets).tolist() == [0.5, 1]


def test_a_metric_serves_as_a_loss_of_a_decoder() -> None:
    score = metric.F1Score()
    beliefs = by_hand(lw.chain(3), [[0.6, 0.4], [0.6, 0.4], [0.6, 0.4]])
    decoder = decode.MBR(lambda guess, truth: 1 - score.per_example(guess, truth), decode.Independent(), count=200)
    assert decoder(beliefs).assignment.sum() > decode.Max()(beliefs).assignment.sum() == 0  # F prefers recall
