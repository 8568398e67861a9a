"""Metrics of clusterings against counts over all pairs and mentions, by hand-worked cases and through changes."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import loopwise as lw

METRICS = (lw.metric.PairwiseAccuracy(), lw.metric.PairwiseF1(), lw.metric.BCubed())


def call(metric: Any, mine: Any, gold: Any) -> float:
    return float(metric(torch.tensor(mine), torch.tensor(gold)))


def brute_force(mine: list[int], gold: list[int]) -> tuple[float, float, float]:
    """Accuracy and F1 of pairs, and B-cubed F1, by their definitions."""
    pairs = list(combinations(range(len(mine)), 2))
    here = [mine[i] == mine[j] for i, j in pairs]
    there = [gold[i] == gold[j] for i, j in pairs]
    right = sum(one == other for one, other in zip(here, there, strict=True))
    both = sum(one and other for one, other in zip(here, there, strict=True))
    accuracy = right / len(pairs) if pairs else 1.0
    f = 2 * both / (sum(here) + sum(there)) if any(here) or any(there) else 1.0
    precision = recall = 0.0
    for mention in range(len(mine)):
        cluster = {other for other in range(len(mine)) if mine[other] == mine[mention]}
        true = {other for other in range(len(gold)) if gold[other] == gold[mention]}
        precision += len(cluster & true) / len(cluster) / len(mine)
        recall += len(cluster & true) / len(true) / len(mine)
    return accuracy, f, 2 * precision * recall / (precision + recall)


def test_hand_worked() -> None:
    """Entities {a b c} {d e f g} against {a b} {c d e} {f g}, worked on paper."""
    gold, mine = [0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 1, 2, 2]
    # Pairs together: 5 here, 9 in the truth, 3 (ab, de, fg) in both; 21 in all.
    assert call(METRICS[0], mine, gold) == pytest.approx((21 - 5 - 9 + 2 * 3) / 21)
    assert call(METRICS[1], mine, gold) == pytest.approx(2 * 3 / (5 + 9))
    # Precision: a, b 1; c 1/3; d, e 2/3; f, g 1. Recall: a, b 2/3; c 1/3; d, e, f, g 1/2.
    precision, recall = (2 + 1 / 3 + 4 / 3 + 2) / 7, (4 / 3 + 1 / 3 + 2) / 7
    assert call(METRICS[2], mine, gold) == pytest.approx(2 * precision * recall / (precision + recall))
    statistics = METRICS[2].statistics(torch.tensor(mine), torch.tensor(gold))
    assert float(METRICS[2].precision(statistics)) == pytest.approx(precision)
    assert float(METRICS[2].recall(statistics)) == pytest.approx(recall)


labels = st.integers(1, 7).flatmap(
    lambda size: st.tuples(*(st.lists(st.integers(0, 3), min_size=size, max_size=size) for _ in range(2)))
)


@given(labels)
def test_definitions(sides: tuple[list[int], list[int]]) -> None:
    mine, gold = sides
    for metric, expected in zip(METRICS, brute_force(mine, gold), strict=True):
        assert call(metric, mine, gold) == pytest.approx(expected)
        renamed = [7 - label for label in mine]
        assert call(metric, renamed, gold) == pytest.approx(expected)


@given(labels, st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=20))
def test_changes(sides: tuple[list[int], list[int]], moves: list[tuple[int, int]]) -> None:
    """Gains and values after every change against full evaluations; several changes at once too."""
    state, gold = list(sides[0]), sides[1]
    trackers = [metric.track(gold, list(state)) for metric in METRICS]
    for place, new in moves:
        mention = place % len(state)
        change = (mention, state[mention], new)
        after = [*state[:mention], new, *state[mention + 1 :]]
        second = (mention + 1) % len(state)
        block = [change, (second, after[second], 3)]
        far = [*after[:second], 3, *after[second + 1 :]]
        for metric, tracker in zip(METRICS, trackers, strict=True):
            now = call(metric, state, gold)
            assert tracker.value() == pytest.approx(now)
            assert tracker.gap() == pytest.approx(1 - now)
            assert tracker.gain([change]) == pytest.approx(call(metric, after, gold) - now)
            assert tracker.gain(block) == pytest.approx(call(metric, far, gold) - now)
            assert tracker.value() == pytest.approx(now)
            if change[1] != new:
                tracker.change(*change)
        state = after


def test_one_if_and_only_if_the_same() -> None:
    gold = [0, 0, 1, 2]
    for mine in product(range(4), repeat=4):
        same = all((mine[i] == mine[j]) == (gold[i] == gold[j]) for i, j in combinations(range(4), 2))
        for metric in METRICS:
            assert (call(metric, list(mine), gold) == 1.0) == same


def test_documents_averages_and_mentions_that_are_not_scored() -> None:
    mine, gold = [[0, 0, 1, 1], [0, 1, 2, 9]], [[0, 0, 0, 1], [0, 0, 0, -1]]
    first, second = call(METRICS[2], mine[0], gold[0]), brute_force([0, 1, 2], [0, 0, 0])[2]
    assert call(METRICS[2], mine[1], gold[1]) == pytest.approx(second)
    assert call(METRICS[2], mine, gold) == pytest.approx((first + second) / 2)
    pooled = lw.metric.BCubed(reduction=lw.loss.Pooled())
    rows = pooled.statistics(torch.tensor(mine), torch.tensor(gold)).sum(0)
    precision, recall = float(rows[1] / rows[0]), float(rows[2] / rows[0])
    assert call(pooled, mine, gold) == pytest.approx(2 * precision * recall / (precision + recall))
