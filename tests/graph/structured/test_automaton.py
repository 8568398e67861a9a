"""Parity, counts and logic against their tables, by enumeration."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise.graph.structured.automaton import Automaton
from loopwise.testing import check_factor
from oracles.automaton_cases import assignments, check_max_messages, hard, on


def output(values: np.ndarray) -> np.ndarray:
    return values[:, -1]


FIVE, FOUR = assignments(5), assignments(4)
FLIPPED = FOUR ^ np.array([False, True, False, True])
CASES: list[tuple[Automaton, np.ndarray]] = [
    (lw.Parity(1), on(1) == 0),
    (lw.Parity(5), on(5) % 2 == 0),
    (lw.Parity(4, odd=True), on(4) % 2 == 1),
    (lw.Count.at_least(5, 2), on(5) >= 2),
    (lw.Count.at_most(5, 2), on(5) <= 2),
    (lw.Count.exactly(5, 3), on(5) == 3),
    (lw.Count(4, 1, 3), (on(4) >= 1) & (on(4) <= 3)),
    (lw.Count(3), on(3) >= 0),
    (lw.Or(4), FOUR.any(1)),
    (lw.Or(4, (1, 3)), FLIPPED.any(1)),
    (lw.Or(4, output=True), FOUR[:, :-1].any(1) == output(FOUR)),
    (lw.Or(4, (1, 3), output=True), FLIPPED[:, :-1].any(1) == output(FLIPPED)),
    (lw.And(4, (1, 3)), FLIPPED.all(1)),
    (lw.And(5, output=True), FIVE[:, :-1].all(1) == output(FIVE)),
    (lw.And(4, (1, 3), output=True), FLIPPED[:, :-1].all(1) == output(FLIPPED)),
    (lw.Implies(4), ~FOUR[:, :-1].all(1) | output(FOUR)),
    (lw.Implies(4, (1, 3)), ~FLIPPED[:, :-1].all(1) | output(FLIPPED)),
    (lw.Implies(1), assignments(1)[:, 0]),
]


@pytest.mark.parametrize(("factor", "allowed"), CASES, ids=lambda case: repr(case) if hasattr(case, "arity") else "")
def test_the_shipped_contract(factor: Automaton, allowed: np.ndarray) -> None:
    check_factor(factor, table=hard(allowed))


@pytest.mark.parametrize(("factor", "allowed"), CASES, ids=lambda case: repr(case) if hasattr(case, "arity") else "")
def test_max_product_messages(factor: Automaton, allowed: np.ndarray) -> None:
    check_max_messages(factor, hard(allowed))


def test_max_product_messages_of_a_chain() -> None:
    steps = torch.randn(2, 2, 2, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    values = assignments(3).astype(int)
    table = steps[0][values[:, 0], values[:, 1]] + steps[1][values[:, 1], values[:, 2]]
    check_max_messages(lw.Chain(3, 2), table, steps)
