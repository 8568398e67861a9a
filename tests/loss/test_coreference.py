"""Metrics of coreference by hand-worked cases and by their definitions over sets."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import loopwise as lw
from loopwise.loss.reduction import Pooled

M = lw.metric


def call(metric: Any, mine: Any, gold: Any) -> float:
    return float(metric(torch.tensor(mine), torch.tensor(gold)))


def sets(labels: list[int]) -> list[set[int]]:
    return [{place for place, label in enumerate(labels) if label == name} for name in sorted(set(labels))]


def f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def plain_muc(mine: list[int], gold: list[int]) -> float:
    def recall(key: list[set[int]], response: list[set[int]]) -> float:
        links = sum(len(entity) - 1 for entity in key)
        return sum(len(e) - sum(bool(e & r) for r in response) for e in key) / links if links else 0.0

    return f1(recall(sets(mine), sets(gold)), recall(sets(gold), sets(mine)))


def plain_ceaf(mine: list[int], gold: list[int], entities: bool) -> float:
    """The best one-to-one alignment by trying all."""
    short, long = sorted((sets(mine), sets(gold)), key=len)

    def alike(one: set[int], other: set[int]) -> float:
        return 2 * len(one & other) / (len(one) + len(other)) if entities else len(one & other)

    best = max(sum(map(alike, short, chosen)) for chosen in permutations(long, len(short)))
    if entities:
        return f1(best / len(sets(mine)), best / len(sets(gold)))
    return best / len(mine)


def plain_blanc(mine: list[int], gold: list[int]) -> float:
    pairs = list(combinations(range(len(mine)), 2))
    found = []
    for wanted in (True, False):
        here = {(i, j) for i, j in pairs if (mine[i] == mine[j]) is wanted}
        there = {(i, j) for i, j in pairs if (gold[i] == gold[j]) is wanted}
        if here or there:
            found.append(2 * len(here & there) / (len(here) + len(there)))
    return sum(found) / len(found) if found else 1.0


def test_hand_worked() -> None:
    """Entities {a b c} {d e f g} against {a b} {c d e} {f g}, worked on paper."""
    gold, mine = [0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 1, 2, 2]
    # MUC: abc is in 2 parts, defg in 2: (3 - 2 + 4 - 2) / (2 + 3) = 3/5; the other way 1 + 1 + 1 of 1 + 2 + 1: 3/4.
    assert call(M.MUC(), mine, gold) == pytest.approx(f1(3 / 4, 3 / 5))
    # CEAF: {a b} with {a b c}, and {c d e} or {f g} with {d e f g}: 2 + 2 mentions of 7.
    assert call(M.CEAFMentions(), mine, gold) == pytest.approx(4 / 7)
    # Entities: 4/5 + max(4/7, 4/6) over 3 clusters and 2 entities.
    assert call(M.CEAFEntities(), mine, gold) == pytest.approx(f1((4 / 5 + 4 / 6) / 3, (4 / 5 + 4 / 6) / 2))
    # Pairs: 3 of 5 and 9 rightly together, 10 of 16 and 12 rightly apart.
    assert call(M.BLANC(), mine, gold) == pytest.approx((2 * 3 / 14 + 2 * 10 / 28) / 2)
    average = sum(call(metric, mine, gold) for metric in (M.MUC(), M.BCubed(), M.CEAFEntities())) / 3
    assert call(M.CoNLL(), mine, gold) == pytest.approx(average)


def test_the_published_example_of_luo() -> None:
    """Luo (2005), Figure 1 and Table 1: entities of 5, 2 and 5 mentions."""
    gold = [0] * 5 + [1] * 2 + [2] * 5
    joined, worse, one = [0] * 5 + [1] * 7, [0] * 5 + [1] * 2 + [0] * 5, [0] * 12
    assert [round(call(M.MUC(), answer, gold), 3) for answer in (joined, worse, one)] == [0.947, 0.947, 0.9]
    assert [round(call(M.BCubed(), answer, gold), 3) for answer in (joined, worse, one)] == [0.865, 0.737, 0.545]
    assert [round(call(M.CEAFMentions(), answer, gold), 3) for answer in (joined, worse, one)] == [0.833, 0.583, 0.417]
    assert [round(call(M.CEAFEntities(), answer, gold), 3) for answer in (joined, worse, one)] == [0.733, 0.667, 0.294]


def test_documents_without_links_and_pooling() -> None:
    alone, together = [0, 1, 2], [0, 0, 0]
    assert call(M.MUC(), alone, alone) == 0.0 and call(M.MUC(), together, together) == 1.0
    assert call(M.BLANC(), alone, alone) == call(M.BLANC(), together, together) == call(M.BLANC(), [0], [0]) == 1.0
    assert call(M.BLANC(), alone, together) == 0.0
    mine, gold = torch.tensor([[0, 0, 1], [0, 1, 2]]), torch.tensor([[0, 0, 0], [0, 1, 2]])
    assert float(M.MUC(reduction=Pooled())(mine, gold)) == pytest.approx(f1(1.0, 1 / 2))
    assert call(M.CEAFMentions(), [0, 0, 3], [1, 1, -1]) == 1.0


labels = st.integers(1, 6).flatmap(
    lambda size: st.tuples(*(st.lists(st.integers(0, 3), min_size=size, max_size=size) for _ in range(2)))
)


@given(labels)
def test_definitions(sides: tuple[list[int], list[int]]) -> None:
    mine, gold = sides
    assert call(M.MUC(), mine, gold) == pytest.approx(plain_muc(mine, gold))
    assert call(M.CEAFMentions(), mine, gold) == pytest.approx(plain_ceaf(mine, gold, entities=False))
    assert call(M.CEAFEntities(), mine, gold) == pytest.approx(plain_ceaf(mine, gold, entities=True))
    assert call(M.BLANC(), mine, gold) == pytest.approx(plain_blanc(mine, gold))
